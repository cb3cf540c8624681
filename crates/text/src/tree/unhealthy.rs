//! The picture of chains without their healthy parts.

use baton_view::{
    chain::member::State,
    tree::{
        ChainPicture, DeploymentPicture, Health, ObjectPicture, OwnerPicture, PhasePicture,
        RevisionPicture,
        unhealthy::{has_any, retain},
    },
};

use super::{Style, render};
use crate::output::Output;

fn object(name: &str, healthy: Health, owner: &str) -> ObjectPicture {
    let revision = |number| (Some(number), format!("web-{number}"));
    ObjectPicture {
        kind: "ConfigMap".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        healthy,
        owner: match owner {
            "own" => {
                let (revision, name) = revision(2);
                OwnerPicture::ThisRevision { revision, name }
            }
            "other" => {
                let (revision, name) = revision(1);
                OwnerPicture::OtherRevision { revision, name }
            }
            "missing" => OwnerPicture::Missing,
            _ => OwnerPicture::Nobody,
        },
        ..ObjectPicture::default()
    }
}

fn phase(name: &str, objects: Vec<ObjectPicture>) -> PhasePicture {
    PhasePicture {
        name: name.to_owned(),
        healthy: objects.iter().filter(|object| object.is_ready()).count(),
        objects,
        ..PhasePicture::default()
    }
}

fn revision(number: i64, state: State, phases: Vec<PhasePicture>) -> RevisionPicture {
    RevisionPicture {
        name: format!("web-{number}"),
        revision: Some(number),
        state,
        healthy: phases.iter().map(|phase| phase.healthy).sum(),
        objects: phases.iter().map(|phase| phase.objects.len()).sum(),
        phases: Some(phases),
        ..RevisionPicture::default()
    }
}

fn chain(target: &str, available: Health, revisions: Vec<RevisionPicture>) -> ChainPicture {
    ChainPicture {
        deployment: Some(DeploymentPicture {
            available,
            target: target.to_owned(),
            ..DeploymentPicture::default()
        }),
        namespace: Some("shop".to_owned()),
        revisions,
    }
}

#[test]
fn only_unhealthy_objects_are_shown() {
    let fine = || {
        let objects = vec![object("a", Health::True, "own")];
        revision(2, State::Available, vec![phase("p", objects)])
    };
    let failing = revision(
        2,
        State::NotReady,
        vec![
            phase("fine", vec![object("a", Health::True, "own")]),
            phase(
                "app",
                vec![
                    object("b", Health::True, "own"),
                    object("c", Health::False, "own"),
                    object("d", Health::True, "other"),
                    object("e", Health::True, "nobody"),
                    object("f", Health::False, "missing"),
                ],
            ),
        ],
    );
    let superseded = revision(
        1,
        State::Available,
        vec![phase("p", vec![object("a", Health::True, "other")])],
    );
    let leaving = revision(
        1,
        State::Archiving,
        vec![phase("p", vec![object("gone", Health::False, "missing")])],
    );
    let mut archived = revision(1, State::Archived, Vec::new());
    archived.phases = None;
    let mut chains = vec![
        chain("od/fine", Health::True, vec![fine(), archived]),
        chain(
            "od/failing",
            Health::True,
            vec![failing, superseded, leaving],
        ),
        chain("od/down", Health::False, vec![fine()]),
    ];
    chains.iter_mut().for_each(retain);
    chains.retain(has_any);
    insta::assert_snapshot!(render(&chains, Style::default(), Output::plain()));
}
