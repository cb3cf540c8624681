//! Applications and Releases for people and for programs. This file renders their picture; the
//! files beside it render states, tables and sentences.

#[cfg(test)]
pub(crate) mod fixtures;
pub mod history;
pub mod refusal;
pub mod status;
pub mod verdict;

use std::fmt::Write as _;

use crate::time::age;
use baton_view::{
    applications::{
        clusters::{Capacity, ClusterPicture, Traffic},
        picture::{AppPicture, AppState, ReleasePicture, Role},
    },
    tree::Health,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use self::verdict::{notes, reason, troubles};
use crate::{
    output::{Output, Paint, table::Cell},
    tree::{Node, Style, draw, revision},
};

const HEADINGS: [&str; 7] = [
    "NAME", "CAPACITY", "TRAFFIC", "SERVICE", "HEALTHY", "OWNER", "MESSAGE",
];

/// Number of columns that are filled for clusters only: capacity, traffic, service.
const OF_CLUSTERS: usize = 3;

/// The parts of an Application to draw.
#[derive(Clone, Copy, Debug)]
pub struct AppStyle {
    /// The style of the revisions below the clusters.
    pub tree: Style,
    /// True if the clusters of idle Releases are shown.
    pub idle: bool,
    /// The present time.
    pub now: Timestamp,
}

/// Renders the tree; every line ends with a newline.
pub fn render(picture: &AppPicture, style: AppStyle, output: Output) -> String {
    let name = Cell::painted(Paint::Strong, format!("app/{}", picture.name));
    let (paint, state) = state_word(picture.state);
    let releases = picture.releases.iter();
    let root = Node {
        name: name.and(paint, format!(" {state}")),
        cells: vec![Cell::default(); HEADINGS.len() - 2],
        message: message(picture),
        children: releases
            .map(|drawn| release(drawn, &picture.namespace, style))
            .collect(),
    };
    draw(&HEADINGS, [root], output)
}

/// The picture as a value for programs.
pub fn value(picture: &AppPicture) -> Value {
    let mut value = json!(picture);
    value["message"] = notes(&picture.notes).into();
    for (at, release) in picture.releases.iter().enumerate() {
        let value = &mut value["releases"][at];
        value["message"] = release
            .reason
            .as_ref()
            .map_or_else(String::new, reason)
            .into();
        value["clusters"] = cluster_values(&release.clusters);
    }
    value
}

/// The clusters of a Release as values for programs.
fn cluster_values(clusters: &[ClusterPicture]) -> Value {
    let values = clusters.iter().map(|cluster| {
        let mut value = json!(cluster);
        value["message"] = troubles(&cluster.troubles).into();
        value
    });
    values.collect()
}

/// Remarks about the Application, and the clusters where no Release gets traffic of the Service.
fn message(picture: &AppPicture) -> String {
    let without = picture.service.iter().filter(|it| it.releases.is_empty());
    let without: Vec<&str> = without.map(|service| service.cluster.as_str()).collect();
    let without = (!without.is_empty()).then(|| {
        format!(
            "no release gets traffic of the Service in {}",
            without.join(", ")
        )
    });
    let notes = Some(notes(&picture.notes)).filter(|notes| !notes.is_empty());
    notes
        .into_iter()
        .chain(without)
        .collect::<Vec<_>>()
        .join("; ")
}

/// The state in one word, with its meaning.
pub fn state_word(state: AppState) -> (Paint, &'static str) {
    match state {
        AppState::Complete => (Paint::Good, "Complete"),
        AppState::Failed => (Paint::Bad, "Failed"),
        AppState::RollingOut => (Paint::Warn, "RollingOut"),
        AppState::Waiting => (Paint::Warn, "Waiting"),
        AppState::Deleting => (Paint::Warn, "Deleting"),
        AppState::Gone => (Paint::Warn, "Gone"),
        AppState::Unknown => (Paint::Dim, "Unknown"),
    }
}

fn release(drawn: &ReleasePicture, namespace: &str, style: AppStyle) -> Node {
    let (paint, state) = state_word(drawn.state);
    let name = Cell::from("release ")
        .and(Paint::Strong, &drawn.name)
        .and(paint, format!(" {state}"));
    let name = match drawn.role {
        Some(Role::Contender) => name.and(Paint::Dim, " (contender)"),
        Some(Role::Incumbent) => name.and(Paint::Dim, " (incumbent)"),
        None => name,
    };
    let is_open = style.idle || drawn.role.is_some() || !drawn.is_idle();
    let clusters = drawn.clusters.iter().filter(|_| is_open);
    Node {
        name,
        cells: vec![Cell::default(); HEADINGS.len() - 2],
        message: about(drawn, style.now),
        children: clusters
            .map(|drawn| cluster(drawn, namespace, style))
            .collect(),
    }
}

/// The steps, the age, and the reason of the wait, as in `step 1 (50/50), 0 (staging) achieved, 5m
/// old; REASON`.
fn about(drawn: &ReleasePicture, now: Timestamp) -> String {
    let wanted = &drawn.wanted_step;
    let mut text = format!("step {}", wanted.label);
    match &drawn.achieved_step {
        Some(achieved) if achieved.index == wanted.index => text.push_str(" achieved"),
        Some(achieved) => {
            text.push_str(" wanted, ");
            text.push_str(&achieved.label);
            text.push_str(" achieved");
        }
        None => text.push_str(" wanted, none achieved"),
    }
    if drawn.complete && drawn.state != AppState::Complete {
        text.push_str(", complete before");
    }
    // Writing into a string cannot fail.
    let _ = write!(text, ", {} old", age(drawn.created, now));
    if let Some(why) = &drawn.reason {
        let _ = write!(text, "; {}", reason(why));
    }
    text
}

fn cluster(drawn: &ClusterPicture, namespace: &str, style: AppStyle) -> Node {
    let name = match drawn.name.as_str() {
        "" => Cell::painted(Paint::Dim, "this cluster"),
        name => Cell::from(format!("cluster {name}")),
    };
    let capacity = drawn.capacity.map_or_else(Cell::default, |capacity| {
        Cell::painted(good(capacity.is_there()), pods(capacity))
    });
    let traffic = drawn.traffic.map_or_else(Cell::default, |traffic| {
        Cell::painted(good(traffic.is_there()), weights(traffic))
    });
    let percent = drawn.traffic.and_then(|traffic| traffic.service_percent);
    let service = percent.map_or_else(Cell::default, |percent| match percent {
        0 => Cell::painted(Paint::Dim, "-"),
        percent => Cell::painted(Paint::Accent, format!("{percent}%")),
    });
    let installed = match drawn.installed {
        Health::True => Cell::default(),
        Health::False => Cell::painted(Paint::Bad, "not installed"),
        Health::Unknown => Cell::painted(Paint::Warn, "unknown"),
    };
    let children = drawn.revision.iter();
    Node {
        name,
        cells: vec![capacity, traffic, service, installed, Cell::default()],
        message: troubles(&drawn.troubles),
        children: children
            .map(|drawn| widened(revision(drawn, Some(namespace), style.tree)))
            .collect(),
    }
}

/// The available and the wanted pods, with the wanted percentage, as in `2/3 pods (50%)`.
pub fn pods(capacity: Capacity) -> String {
    let Capacity {
        wanted_percent,
        wanted_pods,
        available_pods,
        ..
    } = capacity;
    let available = or_unknown(available_pods);
    format!("{available}/{wanted_pods} pods ({wanted_percent}%)")
}

/// The weights, as in `10 of 50`, as far as they are reported.
pub fn weights(traffic: Traffic) -> String {
    format!(
        "{} of {}",
        or_unknown(traffic.achieved_weight),
        traffic.wanted_weight
    )
}

fn or_unknown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

fn good(is_so: bool) -> Paint {
    if is_so { Paint::Good } else { Paint::Warn }
}

/// Moves the cells of a revision behind the columns of clusters.
fn widened(node: Node) -> Node {
    let mut cells = vec![Cell::default(); OF_CLUSTERS];
    cells.extend(node.cells);
    Node {
        cells,
        children: node.children.into_iter().map(widened).collect(),
        ..node
    }
}

#[cfg(test)]
mod tests {
    use baton_view::{
        applications::picture::picture,
        chain::member::State,
        tree::{ChainPicture, ObjectPicture, OwnerPicture, PhasePicture, RevisionPicture},
    };

    use super::*;
    use crate::application::fixtures::{
        NOW, application, environment, mid_rollout, observed, release,
    };

    const STYLE: AppStyle = AppStyle {
        tree: Style {
            with_namespaces: false,
            collapsed: false,
        },
        idle: false,
        now: NOW,
    };

    fn revision(name: &str, release: &str, class: &str) -> RevisionPicture {
        let object = ObjectPicture {
            kind: "Deployment".to_owned(),
            namespace: "ns".to_owned(),
            name: format!("{release}-nginx"),
            healthy: Health::True,
            owner: OwnerPicture::ThisRevision {
                revision: Some(2),
                name: name.to_owned(),
            },
            ..ObjectPicture::default()
        };
        RevisionPicture {
            name: name.to_owned(),
            revision: Some(2),
            state: State::Available,
            healthy: 1,
            objects: 1,
            release: Some(release.to_owned()),
            phases: Some(vec![PhasePicture {
                name: "all".to_owned(),
                class: class.to_owned(),
                healthy: 1,
                objects: vec![object],
                ..PhasePicture::default()
            }]),
            ..RevisionPicture::default()
        }
    }

    fn chains() -> Vec<ChainPicture> {
        let chain = |revisions| ChainPicture {
            revisions,
            ..ChainPicture::default()
        };
        vec![
            chain(vec![revision(
                "shop-new-0-n",
                "shop-new-0",
                "cluster.north",
            )]),
            // The revision is in the cluster of the Application.
            chain(vec![revision("shop-new-0-s", "shop-new-0", "")]),
            chain(vec![revision("shop-old-0-x", "shop-old-0", "cluster.lost")]),
        ]
    }

    fn drawn(objects: &[Value], chains: Result<&[ChainPicture], &str>) -> String {
        let picture = picture(&observed(objects), chains);
        render(&picture, STYLE, Output::plain())
    }

    #[test]
    fn a_rollout_in_its_middle() {
        let chains = chains();
        insta::assert_snapshot!(drawn(&mid_rollout(), Ok(&chains)));
    }

    #[test]
    fn a_narrow_terminal() {
        let picture = picture(&observed(&mid_rollout()), Ok(&chains()));
        let narrow = Output {
            width: Some(80),
            ..Output::plain()
        };
        insta::assert_snapshot!(render(&picture, STYLE, narrow));
    }

    #[test]
    fn missing_and_malformed_releases_are_drawn() {
        let environment = environment("1.1.0", 6);
        let mut objects = vec![
            application(&environment),
            release("x\u{1b}[2J", 1, 7, &environment, &json!({ "strategy": {} })),
            release("y", 1, 0, &environment, &Value::Null),
            release("z", 0, 0, &environment, &json!({})),
        ];
        objects[3]["metadata"]["annotations"] =
            json!({ "shipper.booking.com/release.generation": "many" });
        objects[0]["status"] = Value::Null;
        insta::assert_snapshot!(drawn(&objects, Err("objectsets is forbidden")));
        insta::assert_snapshot!(drawn(&objects[..1], Ok(&[])));
    }

    #[test]
    fn a_service_without_traffic_is_reported() {
        let mut objects = mid_rollout();
        for object in &mut objects {
            if object["kind"] == "TrafficTarget" {
                object["status"]["clusters"][0]["achievedTraffic"] = 0.into();
            }
        }
        let text = drawn(&objects, Ok(&[]));
        assert!(
            text.contains("no release gets traffic of the Service in north"),
            "{text}"
        );
    }

    #[test]
    fn releases_without_pods_are_one_line() {
        let mut objects = mid_rollout();
        let environment = environment("0.9.0", 6);
        let status = fixtures::complete();
        objects.push(release("first", -1, 2, &environment, &status));
        objects.extend(fixtures::targets(
            "first",
            &[("north", 0, 0, 0, 0), ("south", 0, 0, 0, 0)],
        ));
        let picture = picture(&observed(&objects), Ok(&[]));
        let lines = |style: AppStyle| {
            let text = render(&picture, style, Output::plain());
            text.matches("cluster ").count()
        };
        assert_eq!(lines(STYLE), 4);
        let idle = AppStyle {
            idle: true,
            ..STYLE
        };
        assert_eq!(lines(idle), 6);
    }
}
