//! Reports of a deployment.

use super::*;
use crate::{conditions::Requeue, deployment::status::is_interim};

/// Type, status, reason and message of a condition after a report.
fn text_of(snapshot: &Snapshot<'_>, type_: &str) -> String {
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
    for (traits, progressing, available) in [
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
        let snapshot = chain(traits);
        assert_eq!(text_of(&snapshot, PROGRESSING), progressing, "{traits:?}");
        assert_eq!(text_of(&snapshot, AVAILABLE), available, "{traits:?}");
    }
    let mut outdated = chain(&["available +a"]);
    outdated.newest_fits = false;
    assert_eq!(
        text_of(&outdated, PROGRESSING),
        "True Progressing: Progressing to a new ObjectSet."
    );
    assert_eq!(text_of(&outdated, AVAILABLE), previous);
}

#[test]
fn an_older_revision_is_not_available_by_objects_of_newer_ones() {
    let none = "False ObjectSetUnready: No ObjectSet is available.";
    assert_eq!(
        text_of(
            &chain(&["available succeeded transition a", "failing +a"]),
            AVAILABLE
        ),
        none
    );
    // The oldest revision that controls all of its objects is named first; one that handed a part
    // over is reported with that.
    let chosen = text_of(
        &chain(&["available transition +a", "available +b", "failing c"]),
        AVAILABLE,
    );
    assert_eq!(
        chosen,
        "True Available: Previous Revision 'web-2' is still Available."
    );
    let partial = text_of(
        &chain(&["available transition +a", "failing +b"]),
        AVAILABLE,
    );
    assert_eq!(
        partial,
        "True Available: Previous Revision 'web-1' is still Available. \
         Some of its objects have been taken over already."
    );
}

#[test]
fn pause_and_revision_are_reported_in_every_state() {
    let mut snapshot = chain(&["archived", "failing paused"]);
    let paused = "True Paused: Latest revision is paused: Lifecycle state set to paused.";
    assert_eq!(text_of(&snapshot, PAUSED), paused);
    snapshot.newest_fits = false;
    assert_eq!(text_of(&snapshot, PAUSED), paused);
    assert_eq!(report(&snapshot, &Creation::None).0.revision, Some(2));
    assert_eq!(text_of(&chain(&["failing"]), PAUSED), "");
}

#[test]
fn a_revision_after_its_deadline_is_reported_and_may_still_succeed() {
    let mut snapshot = chain(&["failing +a"]);
    snapshot.deployment.progress_deadline_seconds = Some(200);
    let progressing = condition(PROGRESSING, "True", "");
    snapshot.deployment.status.conditions.push(progressing);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Requeue::After(std::time::Duration::from_secs(102)));
    let pending = Reason::LatestRevisionPendingSuccess;
    assert!(status.conditions.iter().any(|c| c.reason == pending));

    snapshot.now = at(NOW + 102);
    let late = "False ProgressDeadlineExceeded: ObjectSet web-1 was not available within 200 seconds: probe a: no";
    assert_eq!(text_of(&snapshot, PROGRESSING), late);
    // The revision stays late in later passes.
    snapshot.deployment.status = report(&snapshot, &Creation::None).0;
    assert_eq!(text_of(&snapshot, PROGRESSING), late);

    // If the deadline is raised beyond the revision's age, the revision is within it again.
    snapshot.deployment.progress_deadline_seconds = Some(500);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Requeue::After(std::time::Duration::from_secs(501)));
    assert!(status.conditions.iter().any(|c| c.reason == pending));
    snapshot.deployment.progress_deadline_seconds = Some(150);
    assert_eq!(
        text_of(&snapshot, PROGRESSING),
        late.replace("200", "150"),
        "it is older than that"
    );
    snapshot.deployment.progress_deadline_seconds = Some(200);

    // The time of a pause does not count.
    snapshot.deployment.paused = true;
    assert_eq!(
        text_of(&snapshot, PROGRESSING),
        "Unknown DeploymentPaused: Deployment is paused."
    );
    snapshot.deployment.status = report(&snapshot, &Creation::None).0;
    snapshot.deployment.paused = false;
    snapshot.now = at(NOW + 5000);
    // The start is stored in whole seconds, so the deadline may end a second later.
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Requeue::After(std::time::Duration::from_secs(201)));
    let progressing = status.conditions.iter().find(|c| c.type_ == PROGRESSING);
    assert_eq!(progressing.unwrap().status, "True");

    let mut done = chain(&["failing succeeded +a"]);
    done.deployment.progress_deadline_seconds = Some(1);
    assert_eq!(text_of(&done, PROGRESSING), "False Idle: Update concluded.");
}

#[test]
fn a_status_has_revision_hash_count_and_mapped_conditions() {
    let mut snapshot = chain(&["archived", "deleting", "available succeeded +a"]);
    let mapped = condition("example.com/Ready", "True", "mapped");
    snapshot.members[2].status.conditions.push(mapped);
    let (status, again) = report(&snapshot, &Creation::None);
    assert_eq!(again, Requeue::OnEvent);
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
    assert_eq!(
        text_of(&snapshot, "example.com/Ready"),
        "True Reason: mapped"
    );
    // A report of the same needs no write, however much later.
    snapshot.deployment.status = status.clone();
    snapshot.now = at(NOW + 77);
    assert_eq!(report(&snapshot, &Creation::None).0, status);
    // The mapped condition is removed with its source.
    snapshot.members[2].status.conditions.pop();
    assert_eq!(text_of(&snapshot, "example.com/Ready"), "");
}

#[test]
fn a_created_or_refused_revision_is_reported_in_the_same_pass() {
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

    // The new revision is in the snapshot already: the same report, except that it is the current
    // one.
    let mut observed = chain(&["available succeeded +a", ""]);
    observed.members[1].name = "web-h1".to_owned();
    let (current, _) = report(&observed, &made);
    assert_eq!(current.controller_of, status.controller_of);
    assert_eq!(current.collision_count, Some(1));
    let unknown = |c: &Condition| c.message == "Latest Revision Status Unknown";
    assert!(current.conditions.iter().any(unknown));

    let refused = Creation::Refused("ObjectSet web-h1 was refused: quota".to_owned());
    let (status, again) = report(&snapshot, &refused);
    let progressing = status
        .conditions
        .iter()
        .find(|c| c.type_ == PROGRESSING)
        .unwrap();
    assert_eq!(progressing.status, "False");
    assert_eq!(progressing.reason, Reason::ObjectSetCreateError);
    assert!(matches!(again, Requeue::After(_)));
    assert_eq!(status.collision_count, None);
}

/// A new revision reports soon, so the status may wait for that. News that no later report brings
/// does not wait.
#[test]
fn a_status_is_interim_until_the_current_revision_has_reported() {
    let interim = |snapshot: &Snapshot<'_>, creation: &Creation| {
        let (status, _) = report(snapshot, creation);
        is_interim(snapshot, &status)
    };
    for (traits, expected) in [
        ("", true),
        ("available", false),
        ("failing", false),
        ("archiving", false),
        ("deleting", false),
    ] {
        let snapshot = chain(&["available succeeded", traits]);
        assert_eq!(interim(&snapshot, &Creation::None), expected, "{traits}");
    }
    assert!(interim(&chain(&[""]), &Creation::None), "the first one");
    assert!(!interim(&chain(&[]), &Creation::None));
    let mut paused = chain(&[""]);
    paused.deployment.paused = true;
    assert!(!interim(&paused, &Creation::None));
    let mut outdated = chain(&[""]);
    outdated.newest_fits = false;
    let refused = Creation::Refused("no".to_owned());
    assert!(!interim(&outdated, &refused));
    let renamed = Creation::Done(NewRevision {
        name: "web-h1".to_owned(),
        hash: "h1".to_owned(),
        collision_count: Some(1),
        number: 1,
        previous: Vec::new(),
    });
    assert!(
        !interim(&chain(&[""]), &renamed),
        "the count is part of hashes"
    );
}
