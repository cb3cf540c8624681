//! Tables for the decisions about a deployment.

use baton_apis::{ControlledObjectReference, LifecycleState, conditions::*};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    status::{Creation, report},
    *,
};
use crate::engine::conditions::Again;

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

/// A revision in words: `available`, `failing`, `succeeded`, `transition`, `paused`, `archived`,
/// `archiving`, `deleting`, `parent`; `+a` controls object a, `a` is in its manifests.
fn member(number: i64, words: &str) -> (Member, Objects) {
    let mut objects = Objects::new();
    let mut member = Member {
        name: format!("web-{number}"),
        number: Some(number),
        generation: 1,
        created: Some(at(NOW - 100 + number)),
        hash: Some(number.to_string()),
        digest: Some("d".to_owned()),
        ..Member::default()
    };
    member.status.content_hash = Some("x".to_owned());
    for word in words.split_whitespace() {
        let conditions = &mut member.status.conditions;
        match word {
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

fn chain(words: &[&str]) -> Snapshot<'static> {
    let mut contents = BTreeMap::new();
    let mut members = Vec::new();
    for (number, words) in (1..).zip(words) {
        let (member, objects) = member(number, words);
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
        hash: Box::new(|count| format!("h{count}")),
        now: at(NOW),
    }
}

fn told(actions: &[Action]) -> String {
    let words: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Create(new) => format!(
                "create {} #{} after {:?} collisions {:?}",
                new.name, new.number, new.previous, new.collision_count
            ),
            Action::Pause { name, by_parent } if *by_parent => format!("hold {name}"),
            Action::Pause { name, .. } => format!("pause {name}"),
            Action::Resume(name) => format!("resume {name}"),
            Action::Archive(name) => format!("archive {name}"),
            Action::Annotate(name) => format!("annotate {name}"),
            Action::Delete(name) => format!("delete {name}"),
        })
        .collect();
    words.join(", ")
}

#[track_caller]
fn check(words: &[&str], expected: &str) {
    assert_eq!(told(&chain(words).actions()), expected, "{words:?}");
}

#[test]
fn rule_a_archives_all_older_ones_in_two_steps() {
    check(
        &["available succeeded +a", "available succeeded +a"],
        "pause web-1",
    );
    check(
        &[
            "paused",
            "failing pausing",
            "archived",
            "available succeeded +a",
        ],
        "archive web-1",
    );
    check(&["paused stale", "available +a"], "");
    check(&["archiving", "available +a"], "");
}

#[test]
fn improvement_9_availability_counts_when_it_is_current_and_in_control() {
    check(&["available +b", "available stale +a"], "");
    check(&["available +b", "available transition a"], "");
    check(
        &["available +b", "available transition succeeded +a c"],
        "pause web-1",
    );
    check(&["available +b", "available transition succeeded a"], "");
}

/// What the second one had worked, and is in the hands of one that fails: only the first one is sure.
#[test]
fn improvement_9_one_that_has_handed_over_everything_supersedes_nobody() {
    let second = "available succeeded transition d";
    check(&["available succeeded paused +c", second, "failing +d"], "");
    // It does as long as it has something left, or never had anything.
    let some = "available succeeded transition +d e";
    let first = "available succeeded paused +c";
    check(&[first, some, "failing +e"], "archive web-1");
    check(
        &[first, "available succeeded", "failing +e"],
        "archive web-1",
    );
}

#[test]
fn rule_b_archives_failed_intermediates_with_nothing_in_common() {
    // The failed intermediate of the three pictures: the configuration was handed on, the workload
    // is in no newer revision.
    check(
        &[
            "available succeeded transition c +w1",
            "failing transition c +w2",
            "failing +c +w3",
        ],
        "pause web-2",
    );
    // Something is still to be handed over.
    check(
        &["available succeeded +w1", "failing +c +w2", "failing c +w3"],
        "",
    );
    // An available intermediate stays until the newest one is available.
    check(
        &[
            "available succeeded +w1",
            "available succeeded +w2",
            "failing +w3",
        ],
        "pause web-1",
    );
}

#[test]
fn improvement_2_all_newer_live_revisions_count() {
    // What 1 controls is not in 2 but in 3, which has not come to it yet.
    check(&["failing +a", "failing +b", "failing a b +c"], "");
    // Archived ones say nothing.
    check(&["failing +a", "archived a", "failing +c"], "pause web-1");
    // A slice is missing: what the newest one contains is not known.
    let mut snapshot = chain(&["failing +a", "failing +c"]);
    snapshot.contents.clear();
    assert_eq!(told(&snapshot.actions()), "");
}

#[test]
fn improvement_3_nothing_controlled_is_not_the_same_as_not_reported() {
    check(&["failing succeeded a", "failing +a"], "pause web-1");
    check(&["failing a", "failing +a"], "pause web-1");
    check(&["a", "failing +a"], "");
    check(&["failing stale a", "failing +a"], "");
    check(&["failing foreign a", "failing +a"], "");
}

#[test]
fn the_last_one_that_succeeded_is_kept_while_it_has_something() {
    check(&["failing succeeded +a", "failing +b"], "");
    check(
        &["failing succeeded +a", "failing succeeded +b", "failing +c"],
        "pause web-1",
    );
}

#[test]
fn contents_are_asked_for_only_where_they_decide() {
    let wanted = |words: &[&str]| archival::wanted_contents(&chain(words)).join(" ");
    assert_eq!(wanted(&["available succeeded", "available succeeded"]), "");
    assert_eq!(wanted(&["archived", "failing"]), "");
    assert_eq!(wanted(&["available", "failing"]), "");
    assert_eq!(wanted(&["failing", "failing", "failing"]), "web-3 web-2");
    assert_eq!(
        wanted(&["available", "failing", "archived", "failing"]),
        "web-4"
    );
}

#[test]
fn pauses_come_from_the_parent_and_go_with_it() {
    let mut snapshot = chain(&["archived", "available +a", "paused", "parent paused"]);
    assert_eq!(told(&snapshot.actions()), "resume web-4");
    snapshot.deployment.paused = true;
    // The one paused by hand is left alone only until now (contract 5.5).
    assert_eq!(told(&snapshot.actions()), "hold web-2, hold web-3");
    snapshot.newest_fits = false;
    assert_eq!(told(&snapshot.actions()), "hold web-2, hold web-3");
}

#[test]
fn a_new_content_makes_a_new_revision() {
    let mut snapshot = chain(&["archived", "available +a"]);
    snapshot.newest_fits = false;
    let first = "create web-h0 #3 after [\"web-1\", \"web-2\"] collisions None";
    assert_eq!(told(&snapshot.actions()), first);
    // The name is taken by the revision that had this content before.
    snapshot.is_taken = Box::new(|name| name == "web-h0" || name == "web-h1");
    let third = "create web-h2 #3 after [\"web-1\", \"web-2\"] collisions Some(2)";
    assert_eq!(told(&snapshot.actions()), third);
    snapshot.deployment.status.collision_count = Some(2);
    assert_eq!(told(&snapshot.actions()), third);
    // Nothing is archived while there is no current one.
    let mut snapshot = chain(&["failing", "failing"]);
    snapshot.newest_fits = false;
    assert!(told(&snapshot.actions()).starts_with("create"));
    snapshot.deployment.has_phases = false;
    assert_eq!(told(&snapshot.actions()), "");
    let mut empty = chain(&[]);
    empty.newest_fits = false;
    assert_eq!(
        told(&empty.actions()),
        "create web-h0 #1 after [] collisions None"
    );
}

#[test]
fn a_deleted_revision_is_replaced() {
    let snapshot = chain(&["available deleting +a"]);
    assert!(told(&snapshot.actions()).starts_with("create web-h0 #2"));
}

#[test]
fn improvement_14_a_missing_number_is_waited_for_and_told() {
    let mut snapshot = chain(&["available +a", "unnumbered"]);
    snapshot.newest_fits = false;
    assert_eq!(snapshot.actions(), []);
    let (status, _) = report(&snapshot, &Creation::None);
    let progressing = &status.conditions[0];
    assert_eq!(
        progressing.message,
        "Waiting for the revision number of ObjectSet web-2."
    );
    // It will never have one.
    let mut closed = chain(&["available +a", "unnumbered archived"]);
    closed.newest_fits = false;
    assert!(told(&closed.actions()).starts_with("create"));
}

#[test]
fn improvement_22_history_holds_archived_revisions_only() {
    let mut snapshot = chain(&["archived", "archived", "paused", "archived", "failing +a"]);
    snapshot.deployment.history_limit = 1;
    assert_eq!(told(&snapshot.actions()), "delete web-1, delete web-2");
    snapshot.deployment.history_limit = 0;
    assert_eq!(
        told(&snapshot.actions()),
        "delete web-1, delete web-2, delete web-4"
    );
    snapshot.deployment.history_limit = 3;
    assert_eq!(told(&snapshot.actions()), "");
    // An archived current revision is not history.
    let mut alone = chain(&["archived"]);
    alone.deployment.history_limit = 0;
    assert_eq!(told(&alone.actions()), "");
}

#[test]
fn annotations_of_the_current_revision_follow() {
    check(&["unmarked available +a"], "annotate web-1");
    let mut snapshot = chain(&["available +a", "available +a"]);
    snapshot.deployment.change_cause = Some("because".to_owned());
    assert_eq!(told(&snapshot.actions()), "annotate web-2, pause web-1");
    snapshot.members[1].change_cause = Some("because".to_owned());
    assert_eq!(told(&snapshot.actions()), "pause web-1");
}

/// Type, status, reason and message of a condition after a report.
fn said(snapshot: &Snapshot<'_>, type_: &str) -> String {
    let (status, _) = report(snapshot, &Creation::None);
    let found = status.conditions.into_iter().find(|c| c.type_ == type_);
    found.map_or_else(String::new, |c| {
        format!("{} {}: {}", c.status, c.reason, c.message)
    })
}

#[test]
fn the_status_of_each_situation() {
    let none = "False ObjectSetUnready: No ObjectSet is available.";
    let latest = "True Available: Latest Revision is Available.";
    let previous = "True Available: Previous Revision 'web-1' is still Available.";
    let pending = "True LatestRevisionPendingSuccess: ";
    for (words, progressing, available) in [
        (
            &["a"][..],
            format!("{pending}Latest Revision Status Unknown"),
            none,
        ),
        (
            &["available +a", "stale"],
            format!("{pending}Latest Revision Status Unknown"),
            previous,
        ),
        (
            &["available +a", "failing"],
            format!("{pending}Latest Revision is Unavailable: probe a: no"),
            previous,
        ),
        (
            &["failing"],
            format!("{pending}Latest Revision is Unavailable: probe a: no"),
            none,
        ),
        (
            &["available +a"],
            format!("{pending}Latest Revision is Available: pending success delay period"),
            latest,
        ),
        (
            &["available succeeded +a"],
            "False Idle: Update concluded.".to_owned(),
            latest,
        ),
        (
            &["failing succeeded +a"],
            "False Idle: Update concluded.".to_owned(),
            none,
        ),
        (
            &["available +a", "failing succeeded"],
            "False Idle: Update concluded.".to_owned(),
            previous,
        ),
    ] {
        let snapshot = chain(words);
        assert_eq!(said(&snapshot, PROGRESSING), progressing, "{words:?}");
        assert_eq!(said(&snapshot, AVAILABLE), available, "{words:?}");
    }
    let mut outdated = chain(&["available +a"]);
    outdated.newest_fits = false;
    assert_eq!(
        said(&outdated, PROGRESSING),
        "True Progressing: Progressing to a new ObjectSet."
    );
    assert_eq!(said(&outdated, AVAILABLE), previous);
}

#[test]
fn improvement_10_what_newer_ones_own_makes_nobody_available() {
    let none = "False ObjectSetUnready: No ObjectSet is available.";
    assert_eq!(
        said(
            &chain(&["available succeeded transition a", "failing +a"]),
            AVAILABLE
        ),
        none
    );
    // The oldest one in full control comes first; one that handed a part over is told as such.
    let chosen = said(
        &chain(&["available transition +a", "available +b", "failing c"]),
        AVAILABLE,
    );
    assert_eq!(
        chosen,
        "True Available: Previous Revision 'web-2' is still Available."
    );
    let partial = said(
        &chain(&["available transition +a", "failing +b"]),
        AVAILABLE,
    );
    assert_eq!(
        partial,
        "True Available: Previous Revision 'web-1' is still Available. Some of its objects have been taken over already."
    );
}

#[test]
fn improvement_26_pause_and_revision_are_told_in_every_state() {
    let mut snapshot = chain(&["archived", "failing paused"]);
    let paused = "True Paused: Latest revision is paused: Lifecycle state set to paused.";
    assert_eq!(said(&snapshot, PAUSED), paused);
    snapshot.newest_fits = false;
    assert_eq!(said(&snapshot, PAUSED), paused);
    assert_eq!(report(&snapshot, &Creation::None).0.revision, Some(2));
    assert_eq!(said(&chain(&["failing"]), PAUSED), "");
}

#[test]
fn improvement_27_a_late_revision_is_told_and_not_given_up() {
    let mut snapshot = chain(&["failing +a"]);
    snapshot.deployment.progress_deadline_seconds = Some(200);
    let progressing = condition(PROGRESSING, "True", "");
    snapshot.deployment.status.conditions.push(progressing);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Again::After(std::time::Duration::from_secs(101)));
    let pending = reasons::LATEST_REVISION_PENDING_SUCCESS;
    assert!(status.conditions.iter().any(|c| c.reason == pending));

    snapshot.now = at(NOW + 101);
    let late = "False ProgressDeadlineExceeded: ObjectSet web-1 was not available within 200 seconds: probe a: no";
    assert_eq!(said(&snapshot, PROGRESSING), late);
    // It stays late, also in later passes.
    snapshot.deployment.status = report(&snapshot, &Creation::None).0;
    assert_eq!(said(&snapshot, PROGRESSING), late);

    // A deadline that is raised beyond its age counts anew.
    snapshot.deployment.progress_deadline_seconds = Some(500);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Again::After(std::time::Duration::from_secs(500)));
    assert!(status.conditions.iter().any(|c| c.reason == pending));
    snapshot.deployment.progress_deadline_seconds = Some(150);
    assert_eq!(
        said(&snapshot, PROGRESSING),
        late.replace("200", "150"),
        "it is older than that"
    );
    snapshot.deployment.progress_deadline_seconds = Some(200);

    // The time of a pause does not count.
    snapshot.deployment.paused = true;
    assert_eq!(
        said(&snapshot, PROGRESSING),
        "Unknown DeploymentPaused: Deployment is paused."
    );
    snapshot.deployment.status = report(&snapshot, &Creation::None).0;
    snapshot.deployment.paused = false;
    snapshot.now = at(NOW + 5000);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Again::After(std::time::Duration::from_secs(200)));
    let progressing = status.conditions.iter().find(|c| c.type_ == PROGRESSING);
    assert_eq!(progressing.unwrap().status, "True");

    let mut done = chain(&["failing succeeded +a"]);
    done.deployment.progress_deadline_seconds = Some(1);
    assert_eq!(said(&done, PROGRESSING), "False Idle: Update concluded.");
}

#[test]
fn the_rest_of_the_status() {
    let mut snapshot = chain(&["archived", "deleting", "available succeeded +a"]);
    let mapped = condition("example.com/Ready", "True", "mapped");
    snapshot.members[2].status.conditions.push(mapped);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Again::OnEvent);
    assert_eq!(status.revision, Some(3));
    assert_eq!(status.template_hash.as_deref(), Some("3"));
    assert_eq!(status.collision_count, None);
    let names: Vec<_> = status
        .controller_of
        .iter()
        .map(|r| r.name.as_str())
        .collect();
    assert_eq!(names, ["web-1", "web-3"]);
    assert_eq!(status.controller_of[0].namespace.as_deref(), Some("shop"));
    assert_eq!(said(&snapshot, "example.com/Ready"), "True Reason: mapped");
    // A report that says the same needs no write, however much later.
    snapshot.deployment.status = status.clone();
    snapshot.now = at(NOW + 77);
    assert_eq!(report(&snapshot, &Creation::None).0, status);
    // The condition goes with its source.
    snapshot.members[2].status.conditions.pop();
    assert_eq!(said(&snapshot, "example.com/Ready"), "");
}

#[test]
fn a_new_revision_is_told_at_once_and_so_is_a_refused_one() {
    let mut snapshot = chain(&["available succeeded +a"]);
    snapshot.newest_fits = false;
    snapshot.is_taken = Box::new(|name| name == "web-h0");
    let Some(Action::Create(new)) = snapshot.actions().pop() else {
        panic!("no new revision");
    };
    let made = Creation::Done(new);
    let (status, _) = report(&snapshot, &made);
    assert_eq!(status.revision, Some(2));
    assert_eq!(status.template_hash.as_deref(), Some("h1"));
    assert_eq!(status.collision_count, Some(1));
    assert_eq!(status.controller_of[1].name, "web-h1");

    // It is known already: the same, but that it is the current one.
    let mut known = chain(&["available succeeded +a", ""]);
    known.members[1].name = "web-h1".to_owned();
    let (known, _) = report(&known, &made);
    assert_eq!(known.controller_of, status.controller_of);
    assert_eq!(known.collision_count, Some(1));
    let unknown = |c: &Condition| c.message == "Latest Revision Status Unknown";
    assert!(known.conditions.iter().any(unknown));

    let refused = Creation::Refused("ObjectSet web-h1 was refused: quota".to_owned());
    let (status, again) = report(&snapshot, &refused);
    let progressing = status
        .conditions
        .iter()
        .find(|c| c.type_ == PROGRESSING)
        .unwrap();
    assert_eq!(progressing.status, "False");
    assert_eq!(progressing.reason, reasons::OBJECT_SET_CREATE_ERROR);
    assert!(matches!(again, Again::After(_)));
    assert_eq!(status.collision_count, None);
}
