//! Tables for the decisions about a deployment.

mod archival;
mod obstacles;
mod status;

use baton_apis::{ControlledObjectReference, LifecycleState, conditions::*};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;
use crate::{
    condition_list::find,
    conditions::Requeue,
    deployment::status::{Creation, report},
};

const NOW: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn condition(type_: &str, status: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: "Reason".to_owned(),
        message: message.to_owned(),
        observed_generation: Some(1),
        last_transition_time: Time(at(NOW - 1000)),
    }
}

fn object(name: &str) -> ControlledObjectReference {
    ControlledObjectReference {
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        ..ControlledObjectReference::default()
    }
}

/// Makes a revision from its traits: `available`, `failing`, `succeeded`, `transition`, `paused`,
/// `archived`, `archiving`, `deleting`, `parent`; `+a`: it controls object a; `a`: its manifests
/// contain a.
fn member(number: i64, traits: &str) -> (DeploymentRevision, Objects) {
    let mut objects = Objects::new();
    let mut member = DeploymentRevision {
        name: format!("web-{number}"),
        number: Some(number),
        generation: 1,
        created: Some(at(NOW - 100 + number)),
        hash: Some(number.to_string()),
        digest: Some("d".to_owned()),
        ..DeploymentRevision::default()
    };
    member.status.content_hash = Some("x".to_owned());
    for found in traits.split_whitespace() {
        let conditions = &mut member.status.conditions;
        match found {
            "available" => conditions.push(condition(AVAILABLE, "True", "fine")),
            "failing" => conditions.push(condition(AVAILABLE, "False", "probe a: no")),
            "succeeded" => conditions.push(condition(SUCCEEDED, "True", "")),
            "transition" => conditions.push(condition(IN_TRANSITION, "True", "")),
            "stale" => conditions
                .iter_mut()
                .for_each(|c| c.observed_generation = Some(0)),
            "foreign" => member.status.content_hash = None,
            "pausing" => member.lifecycle = LifecycleState::Paused,
            "paused" => {
                member.lifecycle = LifecycleState::Paused;
                conditions.push(condition(PAUSED, "True", "Lifecycle state set to paused."));
            }
            "parent" => member.paused_by_parent = true,
            "archiving" => member.lifecycle = LifecycleState::Archived,
            "archived" => {
                member.lifecycle = LifecycleState::Archived;
                member.is_archived = true;
            }
            "deleting" => member.is_deleting = true,
            "unnumbered" => member.number = None,
            "unmarked" => member.digest = None,
            name => {
                if let Some(name) = name.strip_prefix('+') {
                    member.status.controller_of.push(object(name));
                }
                objects.insert(object(name.trim_start_matches('+')));
            }
        }
    }
    (member, objects)
}

fn chain(traits: &[&str]) -> Snapshot<'static> {
    let mut contents = BTreeMap::new();
    let mut members = Vec::new();
    for (number, traits) in (1..).zip(traits) {
        let (member, objects) = member(number, traits);
        contents.insert(member.name.clone(), objects);
        members.push(member);
    }
    sort(&mut members);
    Snapshot {
        deployment: Deployment {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            revision_kind: "ObjectSet",
            generation: 7,
            history_limit: 10,
            has_phases: true,
            ..Deployment::default()
        },
        members,
        newest_fits: true,
        contents,
        is_taken: Box::new(|_| false),
        unlisted: None,
        hash: Box::new(|count| format!("h{count}")),
        now: at(NOW),
    }
}

fn list(actions: &[Action]) -> String {
    let listed: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Create(new) => format!(
                "create {} #{} after {:?} collisions {:?}",
                new.name, new.number, new.previous, new.collision_count
            ),
            Action::Pause { name, by_parent } if *by_parent => format!("pause-by-parent {name}"),
            Action::Pause { name, .. } => format!("pause {name}"),
            Action::Resume(name) => format!("resume {name}"),
            Action::Archive(name) => format!("archive {name}"),
            Action::Annotate(name) => format!("annotate {name}"),
            Action::Delete(name) => format!("delete {name}"),
        })
        .collect();
    listed.join(", ")
}

#[track_caller]
fn check(traits: &[&str], expected: &str) {
    assert_eq!(list(&chain(traits).actions()), expected, "{traits:?}");
}

#[test]
fn revisions_are_paused_and_resumed_with_their_deployment() {
    let mut snapshot = chain(&["archived", "available +a", "paused", "parent paused"]);
    assert_eq!(list(&snapshot.actions()), "resume web-4");
    snapshot.deployment.paused = true;
    // A revision that was paused by hand is left alone only until the deployment is paused.
    assert_eq!(
        list(&snapshot.actions()),
        "pause-by-parent web-2, pause-by-parent web-3"
    );
    snapshot.newest_fits = false;
    assert_eq!(
        list(&snapshot.actions()),
        "pause-by-parent web-2, pause-by-parent web-3"
    );
}

#[test]
fn a_new_content_makes_a_new_revision() {
    let mut snapshot = chain(&["archived", "available +a"]);
    snapshot.newest_fits = false;
    let first = "create web-h0 #3 after [\"web-1\", \"web-2\"] collisions None";
    assert_eq!(list(&snapshot.actions()), first);
    // The name is taken by the revision that had this content before.
    snapshot.is_taken = Box::new(|name| name == "web-h0" || name == "web-h1");
    let third = "create web-h2 #3 after [\"web-1\", \"web-2\"] collisions Some(2)";
    assert_eq!(list(&snapshot.actions()), third);
    snapshot.deployment.status.collision_count = Some(2);
    assert_eq!(list(&snapshot.actions()), third);
    // The new name is that of a member that is gone since the snapshot: no revision takes over from
    // itself.
    let mut snapshot = chain(&["archived", "deleting +a"]);
    snapshot.newest_fits = false;
    snapshot.hash = Box::new(|count| ["2", "h1"][usize::try_from(count).unwrap()].to_owned());
    let other = "create web-h1 #3 after [\"web-1\", \"web-2\"] collisions Some(1)";
    assert_eq!(list(&snapshot.actions()), other);
    // Without a current revision none is archived.
    let mut snapshot = chain(&["failing", "failing"]);
    snapshot.newest_fits = false;
    assert!(list(&snapshot.actions()).starts_with("create"));
    snapshot.deployment.has_phases = false;
    assert_eq!(list(&snapshot.actions()), "");
    let mut empty = chain(&[]);
    empty.newest_fits = false;
    assert_eq!(
        list(&empty.actions()),
        "create web-h0 #1 after [] collisions None"
    );
}

#[test]
fn a_deployment_without_phases_is_idle() {
    for (has_phases, expected) in [
        (true, "True Progressing: Progressing to a new ObjectSet."),
        (
            false,
            "False Idle: The template has no phases: there is nothing to roll out.",
        ),
    ] {
        let mut snapshot = chain(&[]);
        snapshot.newest_fits = false;
        snapshot.deployment.has_phases = has_phases;
        let (status, requeue) = report(&snapshot, &Creation::None);
        let conditions = status.conditions.iter();
        let progressing = conditions.filter(|it| it.type_ == "Progressing");
        let progressing =
            progressing.map(|it| format!("{} {}: {}", it.status, it.reason, it.message));
        assert_eq!(progressing.collect::<Vec<_>>(), [expected]);
        assert_eq!(requeue, Requeue::OnEvent);
    }
}

#[test]
fn availability_is_unknown_if_that_of_the_newest_revision_is() {
    for (older, expected) in [
        ("failing +a", "Unknown ObjectSetUnready: cut off"),
        (
            "available +a",
            "True Available: Previous Revision 'web-1' is still Available.",
        ),
    ] {
        let mut snapshot = chain(&[older, "succeeded +b"]);
        let newest = &mut snapshot.members[1].status.conditions;
        newest.push(condition(AVAILABLE, "Unknown", "cut off"));
        let (status, _) = report(&snapshot, &Creation::None);
        let mut conditions = status.conditions.iter();
        let it = conditions.find(|it| it.type_ == "Available").unwrap();
        assert_eq!(
            format!("{} {}: {}", it.status, it.reason, it.message),
            expected
        );
    }
}

#[test]
fn a_deleted_revision_is_replaced() {
    let snapshot = chain(&["available deleting +a"]);
    assert!(list(&snapshot.actions()).starts_with("create web-h0 #2"));
}

#[test]
fn a_missing_number_is_waited_for_and_reported() {
    let mut snapshot = chain(&["available +a", "unnumbered"]);
    snapshot.newest_fits = false;
    assert_eq!(snapshot.actions(), []);
    let (status, _) = report(&snapshot, &Creation::None);
    let progressing = &status.conditions[0];
    assert_eq!(
        progressing.message,
        "Waiting for the revision number of ObjectSet web-2."
    );
    // An archived revision without a number never gets one.
    let mut closed = chain(&["available +a", "unnumbered archived"]);
    closed.newest_fits = false;
    assert!(list(&closed.actions()).starts_with("create"));
}

#[test]
fn only_archived_revisions_count_as_history() {
    let mut snapshot = chain(&["archived", "archived", "paused", "archived", "failing +a"]);
    snapshot.deployment.history_limit = 1;
    assert_eq!(list(&snapshot.actions()), "delete web-1, delete web-2");
    snapshot.deployment.history_limit = 0;
    assert_eq!(
        list(&snapshot.actions()),
        "delete web-1, delete web-2, delete web-4"
    );
    snapshot.deployment.history_limit = 3;
    assert_eq!(list(&snapshot.actions()), "");
    // An archived current revision does not count as history.
    let mut alone = chain(&["archived"]);
    alone.deployment.history_limit = 0;
    assert_eq!(list(&alone.actions()), "");
}

#[test]
fn annotations_of_the_current_revision_follow_the_deployment() {
    check(&["unmarked available +a"], "annotate web-1");
    let mut snapshot = chain(&["available +a", "available +a"]);
    snapshot.deployment.change_cause = Some("because".to_owned());
    assert_eq!(list(&snapshot.actions()), "annotate web-2, pause web-1");
    snapshot.members[1].change_cause = Some("because".to_owned());
    assert_eq!(list(&snapshot.actions()), "pause web-1");
}

#[test]
fn the_lost_hubs_of_the_current_revision_are_those_of_the_deployment() {
    for (own, current, expected) in [
        (None, None, ""),
        (Some("a"), Some("a"), ""),
        (Some("a"), None, "annotate web-1"),
        (Some("a"), Some("b"), "annotate web-1"),
        // The permission is taken back.
        (None, Some("a"), "annotate web-1"),
    ] {
        let mut snapshot = chain(&["available +a"]);
        snapshot.deployment.lost_hubs = own.map(str::to_owned);
        snapshot.members[0].lost_hubs = current.map(str::to_owned);
        assert_eq!(list(&snapshot.actions()), expected, "{own:?} {current:?}");
    }
}

/// A revision that is complete as far as it is known stays complete.
#[test]
fn a_rollout_is_unknown_while_the_revisions_cannot_be_listed() {
    let cause = "ObjectSets cannot be listed: no right";
    for (traits, status, reason) in [
        ("failing", "Unknown", Reason::ListFailed),
        ("", "Unknown", Reason::ListFailed),
        ("available succeeded", "False", Reason::Idle),
    ] {
        let mut snapshot = chain(&[traits]);
        snapshot.unlisted = Some(cause.to_owned());
        let (reported, _) = report(&snapshot, &Creation::None);
        let progressing = find(&reported.conditions, PROGRESSING).unwrap();
        let found = (&*progressing.status, &*progressing.reason);
        assert_eq!(found, (status, reason.as_str()), "{traits}");
        assert_eq!(progressing.message == cause, reason == Reason::ListFailed);
    }
}
