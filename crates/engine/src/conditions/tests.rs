mod delegation;

use std::time::Duration;

use baton_apis::{WaitingForObject, conditions::GENERAL};

use super::*;
use crate::tests::fixtures::{conditions, revision};

fn outcome(result: PassResult, controls_all: bool) -> Outcome {
    Outcome {
        result,
        controller_of: Vec::new(),
        controls_all,
        away: Vec::new(),
        ended: Vec::new(),
        waiting_for: Vec::new(),
        remote_phases: Vec::new(),
        pause_agreed: true,
        mapped: Vec::new(),
        stopped_for: None,
        writes: Vec::new(),
        learned: Vec::new(),
        blockers: Vec::new(),
        failing_for: Duration::ZERO,
        delayed_for: None,
    }
}

fn types(status: &ObjectSetStatus) -> Vec<String> {
    let special = status.conditions.iter();
    special
        .filter(|condition| !GENERAL.contains(&&*condition.type_))
        .map(|c| format!("{}={}", c.type_, c.status))
        .collect()
}

#[test]
fn conditions_of_each_result() {
    let fresh = ObjectSetStatus::default();
    let now = Timestamp::UNIX_EPOCH;
    let report = |previous: &ObjectSetStatus, result, controls_all| {
        report_pass(previous, &revision(), outcome(result, controls_all), 0, now)
    };
    let failing = || PassResult::ProbeFailure {
        phase: "p".into(),
        failures: "x".into(),
    };

    let available = report(&fresh, PassResult::Passed, true);
    assert_eq!(
        types(&available.status),
        ["Available=True", "Succeeded=True"]
    );
    assert_eq!(available.status.phase, ObjectSetStatusPhase::Available);
    assert_eq!(available.status.revision, Some(2));
    assert!(
        available
            .status
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(7))
    );
    assert_eq!(available.requeue, Requeue::OnEvent);

    let rolling = report(&fresh, failing(), false);
    assert_eq!(
        types(&rolling.status),
        ["Available=False", "InTransition=True"]
    );
    assert_eq!(
        rolling.status.conditions[0].message,
        "Phase \"p\" failed: x"
    );
    assert_eq!(rolling.status.phase, ObjectSetStatusPhase::NotReady);

    // A new revision that is refused reports only the refusal.
    let refused = report(
        &fresh,
        PassResult::Preflight(vec!["a".into(), "b".into()]),
        false,
    );
    assert_eq!(
        conditions(&refused.status),
        ["Available False PreflightError: a, b"]
    );
    assert_eq!(refused.requeue, Requeue::After(MISCONFIGURATION_RETRY));

    // Conditions from objects that the pass did not reach stay as they were reported.
    let collided = report(&rolling.status, PassResult::Collision("c".into()), false);
    assert_eq!(
        types(&collided.status),
        ["Available=False", "InTransition=True"]
    );

    // After a handover the revision is still available, but no longer in control.
    let handed_over = report(&available.status, PassResult::Passed, false);
    assert_eq!(
        types(&handed_over.status),
        ["Available=True", "Succeeded=True", "InTransition=True"]
    );

    // A failure is reported only if it lasts.
    let failed = || outcome(PassResult::Failed(vec!["no route".into()]), true);
    let once = report_pass(&available.status, &revision(), failed(), 0, now);
    assert_eq!(
        (types(&once.status), once.requeue),
        (types(&available.status), Requeue::Backoff)
    );
    let lasting = report_pass(&available.status, &revision(), failed(), 3, now);
    assert_eq!(lasting.status.conditions[0].reason, "WriteError");
}

/// `phase` distinguishes a revision that controls no object from one without a report.
#[test]
fn a_revision_that_never_was_available_and_controls_nothing_is_not_ready() {
    let report = report_pass(
        &ObjectSetStatus::default(),
        &revision(),
        outcome(PassResult::Passed, false),
        0,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(report.status.phase, ObjectSetStatusPhase::NotReady);
    assert_ne!(report.status.phase, ObjectSetStatusPhase::default());
    assert_eq!(report.status.conditions[0].reason, "NotInControl");
}

#[test]
fn an_unchanged_report_equals_the_previous_one() {
    let now = Timestamp::UNIX_EPOCH;
    let report = |previous: &ObjectSetStatus, now| {
        report_pass(
            previous,
            &revision(),
            outcome(PassResult::Passed, true),
            0,
            now,
        )
        .status
    };
    let first = report(&ObjectSetStatus::default(), now);
    assert_eq!(report(&first, now + SignedDuration::from_hours(1)), first);
}

#[test]
fn a_revision_succeeds_after_it_was_available_for_the_whole_delay() {
    let delayed = Revision {
        success_delay_seconds: 3,
        ..revision()
    };
    let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let report = |previous: &ObjectSetStatus, result, seconds| {
        report_pass(previous, &delayed, outcome(result, true), 0, at(seconds))
    };
    let first = report(&ObjectSetStatus::default(), PassResult::Passed, 0);
    assert_eq!(types(&first.status), ["Available=True"]);
    // The API stores whole seconds, so the delay is one second longer than requested.
    assert_eq!(first.requeue, Requeue::After(Duration::from_secs(4)));
    let early = report(&first.status, PassResult::Passed, 2);
    assert_eq!(early.requeue, Requeue::After(Duration::from_secs(2)));
    let failing = PassResult::ProbeFailure {
        phase: "p".into(),
        failures: "x".into(),
    };
    let broken = report(&early.status, failing, 3);
    let anew = report(&broken.status, PassResult::Passed, 5);
    assert_eq!(anew.requeue, Requeue::After(Duration::from_secs(4)));
    let done = report(&anew.status, PassResult::Passed, 9);
    assert_eq!(types(&done.status), ["Available=True", "Succeeded=True"]);
}

#[test]
fn the_condition_paused_is_set_and_removed() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..revision()
    };
    let now = Timestamp::UNIX_EPOCH;
    let status = report_pass(
        &ObjectSetStatus::default(),
        &paused,
        outcome(PassResult::Passed, true),
        0,
        now,
    )
    .status;
    assert!(types(&status).contains(&"Paused=True".to_owned()));
    let status = report_pass(
        &status,
        &revision(),
        outcome(PassResult::Passed, true),
        0,
        now,
    )
    .status;
    assert!(!types(&status).contains(&"Paused=True".to_owned()));
}

#[test]
fn archival_and_deletion_are_reported() {
    let now = Timestamp::UNIX_EPOCH;
    let before = report_pass(
        &ObjectSetStatus::default(),
        &revision(),
        outcome(PassResult::Passed, true),
        0,
        now,
    )
    .status;
    let waiting = TeardownOutcome::Waiting(Vec::new());
    let report = report_archival(&before, &revision(), waiting.clone(), now);
    assert!(report.is_interim && report_deletion(&before, waiting).is_interim);
    let going = report.status;
    assert_eq!(types(&going), ["Succeeded=True", "Archived=False"]);
    let report = report_archival(&going, &revision(), TeardownOutcome::Done, now);
    assert!(!report.is_interim);
    let done = report.status;
    assert_eq!(
        conditions(&done)[1..],
        ["Archived True Archived: ".to_owned()],
        "and what was true of it stays: {:?}",
        types(&done)
    );
    assert_eq!(done.phase, ObjectSetStatusPhase::Archived);
    let object = WaitingForObject {
        kind: "Secret".to_owned(),
        message: "listing is forbidden".to_owned(),
        ..WaitingForObject::default()
    };
    let blocked = TeardownOutcome::Failed(vec![object]);
    let report = report_archival(&before, &revision(), blocked.clone(), now);
    assert_eq!(
        (report.requeue, report.is_interim),
        (Requeue::Backoff, false)
    );
    assert!(
        report.status.conditions[1]
            .message
            .ends_with("listing is forbidden")
    );
    // The conditions of a revision that is being deleted do not change.
    let report = report_deletion(&before, blocked);
    assert_eq!(report.status.conditions, before.conditions);
    assert_eq!(report.status.waiting_for[0].message, "listing is forbidden");
}

#[test]
fn messages_are_cut_to_the_length_that_the_schema_allows() {
    let text = "ä".repeat(40_000);
    let report = report_refusal(
        &ObjectSetStatus::default(),
        &revision(),
        Reason::PreflightError,
        &[text],
        Timestamp::UNIX_EPOCH,
    );
    let length = report.status.conditions[0].message.len();
    assert!((32_000..=32_768).contains(&length), "{length}");
}

/// A refusal lasts until something changes, and not every change triggers a reconcile.
#[test]
fn a_repeated_refusal_is_requeued_with_growing_delays() {
    let now = Timestamp::UNIX_EPOCH;
    let refusal = |text: &str| PassResult::Preflight(vec![text.to_owned()]);
    let pass = |previous: &ObjectSetStatus, result| {
        report_pass(previous, &revision(), outcome(result, true), 0, now)
    };
    let fresh = ObjectSetStatus::default();
    let first = Requeue::After(MISCONFIGURATION_RETRY);
    let refused = pass(&fresh, refusal("a")).status;
    let unwritable = pass(&fresh, PassResult::WriteError(vec!["a".to_owned()])).status;
    let failing = PassResult::ProbeFailure {
        phase: "p".to_owned(),
        failures: "x".to_owned(),
    };
    let failing = pass(&fresh, failing).status;
    let mut edited = refused.clone();
    edited.conditions[0].observed_generation = Some(revision().generation - 1);
    let write_error = || PassResult::WriteError(vec!["b".to_owned()]);
    for (name, previous, result, expected) in [
        ("first", &fresh, refusal("a"), first),
        ("again", &refused, refusal("a"), Requeue::Refused),
        // The texts of a webhook may differ each time.
        ("other text", &refused, refusal("b"), Requeue::Refused),
        ("other reason", &refused, write_error(), first),
        (
            "unwritable again",
            &unwritable,
            write_error(),
            Requeue::Refused,
        ),
        ("was failing", &failing, refusal("a"), first),
        ("edited since", &edited, refusal("a"), first),
        // The object in the way is watched, so the delay need not grow.
        (
            "collision",
            &refused,
            PassResult::Collision("c".to_owned()),
            first,
        ),
        (
            "failed",
            &refused,
            PassResult::Failed(vec!["f".to_owned()]),
            Requeue::Backoff,
        ),
        ("passed", &refused, PassResult::Passed, Requeue::OnEvent),
    ] {
        assert_eq!(pass(previous, result).requeue, expected, "{name}");
    }
    let whole = |previous: &ObjectSetStatus| {
        let texts = ["slice missing".to_owned()];
        report_refusal(previous, &revision(), Reason::PreflightError, &texts, now)
    };
    assert_eq!(whole(&fresh).requeue, first);
    assert_eq!(whole(&refused).requeue, Requeue::Refused);

    let collided = pass(&fresh, PassResult::Collision("c".to_owned())).status;
    let passed = pass(&refused, PassResult::Passed).status;
    for (status, expected) in [
        (&fresh, false),
        (&refused, true),
        (&edited, true),
        (&unwritable, true),
        (&collided, true),
        (&failing, false),
        (&passed, false),
    ] {
        assert_eq!(was_refused(&status.conditions), expected, "{status:?}");
    }
}

/// The last condition counts, and a pass that finds the same again writes nothing.
#[test]
fn of_conditions_mapped_to_the_same_type_the_last_one_counts() {
    let mapped = |statuses: [&str; 2]| {
        let condition = |status: &str| crate::mapping::MappedCondition {
            type_: "example.com/Ready".to_owned(),
            status: status.to_owned(),
            reason: "Of".to_owned() + status,
            message: status.to_owned(),
        };
        statuses.map(condition).to_vec()
    };
    let report = |previous: &ObjectSetStatus, statuses, seconds| {
        let outcome = Outcome {
            mapped: mapped(statuses),
            ..outcome(PassResult::Passed, true)
        };
        let now = Timestamp::from_second(seconds).unwrap();
        report_pass(previous, &revision(), outcome, 0, now).status
    };
    let fresh = ObjectSetStatus::default();
    for (statuses, expected) in [
        (["False", "True"], "example.com/Ready=True"),
        (["True", "False"], "example.com/Ready=False"),
        (["True", "True"], "example.com/Ready=True"),
    ] {
        let first = report(&fresh, statuses, 1);
        assert_eq!(types(&first)[1], expected);
        assert_eq!(report(&first, statuses, 2), first, "{statuses:?}");
    }
}

/// Sixteen objects fail with long texts, and as many conditions are mapped: the server still
/// accepts the status.
#[test]
fn a_status_with_very_long_texts_is_within_the_limits() {
    let long = "ä\"\\".repeat(50_000);
    let object = WaitingForObject {
        phase: long.clone(),
        name: long.clone(),
        message: long.clone(),
        ..WaitingForObject::default()
    };
    let mapped = |i: usize| crate::mapping::MappedCondition {
        type_: format!("example.com/{i}"),
        status: "True".to_owned(),
        reason: "x".to_owned(),
        message: long.clone(),
    };
    let mut outcome = outcome(
        PassResult::ProbeFailure {
            phase: long.clone(),
            failures: long.repeat(16),
        },
        true,
    );
    outcome.waiting_for = vec![object; 200];
    outcome.mapped = (0..200).map(mapped).collect();
    let previous = ObjectSetStatus::default();
    let report = report_pass(&previous, &revision(), outcome, 0, Timestamp::UNIX_EPOCH);
    assert_eq!(report.status.waiting_for.len(), 16);
    let size = serde_json::to_vec(&report.status).unwrap().len();
    // Quotes and backslashes take two bytes each.
    assert!(size < 128 * 1024, "{size}");
    assert!(
        report.status.conditions[0]
            .message
            .ends_with(" bytes left out)")
    );
}

/// No watch on the objects reports the state of their pods, or that a storage class exists.
#[test]
fn failures_without_events_are_requeued_with_growing_delays() {
    let report = |kind: (&str, &str), seconds| {
        let result = PassResult::ProbeFailure {
            phase: "a".to_owned(),
            failures: "x".to_owned(),
        };
        let mut outcome = outcome(result, true);
        outcome.failing_for = Duration::from_secs(seconds);
        outcome.waiting_for.push(WaitingForObject {
            group: kind.0.to_owned(),
            kind: kind.1.to_owned(),
            ..WaitingForObject::default()
        });
        let (fresh, now) = (ObjectSetStatus::default(), Timestamp::UNIX_EPOCH);
        report_pass(&fresh, &revision(), outcome, 0, now)
    };
    for kind in [("apps", "Deployment"), ("", "PersistentVolumeClaim")] {
        for (seconds, expected) in [(0, 10), (5, 10), (20, 20), (100, 100), (5000, 600)] {
            let expected = Requeue::After(Duration::from_secs(expected));
            assert_eq!(
                report(kind, seconds).requeue,
                expected,
                "{kind:?} {seconds}"
            );
        }
    }
    let other = report(("", "ConfigMap"), 0);
    assert_eq!(other.requeue, Requeue::OnEvent);
    let fresh = ObjectSetStatus::default();
    assert_eq!(failing_since(&fresh.conditions), None);
    let since = failing_since(&other.status.conditions);
    assert_eq!(since, Some(Timestamp::UNIX_EPOCH));
}

/// No event follows the end of a delay.
#[test]
fn a_delayed_repair_is_requeued() {
    let fresh = ObjectSetStatus::default();
    let now = Timestamp::UNIX_EPOCH;
    for (delayed_for, expected) in [
        (None, Requeue::OnEvent),
        (Some(7), Requeue::After(Duration::from_secs(7))),
    ] {
        let mut outcome = outcome(PassResult::Passed, true);
        outcome.delayed_for = delayed_for.map(Duration::from_secs);
        let report = report_pass(&fresh, &revision(), outcome.clone(), 0, now);
        assert_eq!(report.requeue, expected);
        let (_, requeue) = report_phase(
            &ObjectSetPhaseStatus::default(),
            &revision(),
            outcome,
            0,
            now,
        );
        assert_eq!(requeue, expected);
    }
}

/// The last report about objects of a kind that is away stays.
#[test]
fn objects_of_a_kind_that_is_away_stay_reported() {
    let reference = |name: &str| ControlledObjectReference {
        kind: "Thing".to_owned(),
        name: name.to_owned(),
        ..ControlledObjectReference::default()
    };
    let now = Timestamp::UNIX_EPOCH;
    for (reported, result, in_transition) in [
        (vec![reference("away")], PassResult::Passed, None),
        (vec![], PassResult::Passed, Some("True")),
        (
            vec![reference("away")],
            PassResult::Away(vec!["down".to_owned()]),
            None,
        ),
        (vec![], PassResult::Away(vec!["down".to_owned()]), None),
    ] {
        let previous = ObjectSetStatus {
            controller_of: reported.clone(),
            ..ObjectSetStatus::default()
        };
        let outcome = Outcome {
            controller_of: vec![reference("near")],
            away: vec![reference("away")],
            ..outcome(result.clone(), true)
        };
        let report = report_pass(&previous, &revision(), outcome, 3, now);
        let expected: Vec<_> = [reference("near")].into_iter().chain(reported).collect();
        assert_eq!(report.status.controller_of, expected);
        let find = |type_| find(&report.status.conditions, type_);
        assert_eq!(find(IN_TRANSITION).map(|it| &*it.status), in_transition);
        if let PassResult::Away(_) = result {
            let available = find(AVAILABLE).unwrap();
            assert_eq!(
                (&*available.status, &*available.reason),
                ("Unknown", "ListFailed")
            );
            assert_eq!(report.requeue, Requeue::Backoff);
        }
    }
}
