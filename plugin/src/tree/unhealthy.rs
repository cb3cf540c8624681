//! The picture without what is fine.

use super::{ChainPicture, Health, ObjectPicture, OwnerPicture, RevisionPicture};

/// Leaves out objects that are healthy and where they belong, and then phases and revisions that have nothing left to
/// show. What is healthy depends on whether a newer revision exists, so this needs all revisions of a chain.
pub(crate) fn retain(chain: &mut ChainPicture) {
    let mut is_newest = true;
    chain
        .revisions
        .retain_mut(|revision| trim(revision, std::mem::replace(&mut is_newest, false)));
}

/// Whether there is anything to show of a chain whose healthy parts are left out.
pub(crate) fn has_any(chain: &ChainPicture) -> bool {
    let is_fine = chain.deployment.as_ref().is_none_or(|deployment| {
        deployment.available == Health::True
            && !deployment.deleting
            && deployment.message.is_empty()
    });
    !is_fine || !chain.revisions.is_empty()
}

/// Whether anything of a revision is left to show.
fn trim(revision: &mut RevisionPicture, is_newest: bool) -> bool {
    let is_leaving = revision.state == "Archiving";
    for phase in revision.phases.iter_mut().flatten() {
        let before = phase.objects.len();
        phase
            .objects
            .retain(|object| !is_fine(object, is_newest, is_leaving));
        phase.hidden += before - phase.objects.len();
    }
    if let Some(phases) = &mut revision.phases {
        phases.retain(|phase| !phase.objects.is_empty() || !phase.message.is_empty());
    }
    let has_phases = revision.phases.as_ref().is_some_and(|it| !it.is_empty());
    has_phases || !revision.message.is_empty() || matches!(revision.state, "NotReady" | "Pending")
}

/// Whether nothing is to be done about an object. What a newer revision has taken over is the older one's no more; the
/// newest one still has to get it.
fn is_fine(object: &ObjectPicture, is_newest: bool, is_leaving: bool) -> bool {
    match object.owner {
        OwnerPicture::OtherRevision { .. } => !is_newest,
        OwnerPicture::Missing => is_leaving,
        _ => object.is_ready(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        output::Output,
        tree::{
            DeploymentPicture, PhasePicture,
            render::{Style, render},
        },
    };

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

    fn revision(number: i64, state: &'static str, phases: Vec<PhasePicture>) -> RevisionPicture {
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
    fn only_what_is_not_healthy_stays() {
        let fine = || {
            let objects = vec![object("a", Health::True, "own")];
            revision(2, "Available", vec![phase("p", objects)])
        };
        let failing = revision(
            2,
            "NotReady",
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
            "Available",
            vec![phase("p", vec![object("a", Health::True, "other")])],
        );
        let leaving = revision(
            1,
            "Archiving",
            vec![phase("p", vec![object("gone", Health::False, "missing")])],
        );
        let mut archived = revision(1, "Archived", Vec::new());
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
}
