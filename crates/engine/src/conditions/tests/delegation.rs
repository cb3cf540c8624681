//! The reports of a revision with a delegated phase, and of the phase object.

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{READY, RECONCILING},
};

use super::*;
use crate::{
    ObjectKey,
    delegated::{Delegation, DelegationAnswer, PhaseState},
    mapping::MappedCondition,
    object::controlled_reference,
    revision::Delivery,
    tests::fixtures::delegation::{done, pass, reports, unexpected_request},
};

fn report(previous: &ObjectSetStatus, revision: &Revision, outcome: &Outcome) -> Report {
    report_pass(
        previous,
        revision,
        outcome.clone(),
        0,
        Timestamp::UNIX_EPOCH,
    )
}

/// The outcome of a pass in which all is well, and the revision controls these objects.
fn controls(names: &[&str]) -> Outcome {
    let key = |name: &&str| ObjectKey {
        kind: "ConfigMap".into(),
        namespace: "ns".into(),
        name: (*name).to_owned(),
        ..ObjectKey::default()
    };
    let keys = names.iter().map(key);
    Outcome {
        controller_of: keys.map(|key| controlled_reference(&key)).collect(),
        controls_all: names.len() == 3,
        writes: Vec::new(),
        ..pass(&revision(), Some(done()), unexpected_request).1
    }
}

/// The outcome of a pass that created only the phase object, or found it without a report.
fn silent() -> Outcome {
    let made = |_: &Delegation| {
        DelegationAnswer::Object(PhaseState {
            uid: "new".to_owned(),
            is_ours: true,
            ..PhaseState::default()
        })
    };
    Outcome {
        writes: Vec::new(),
        ..pass(&revision(), None, made).1
    }
}

fn edited() -> Revision {
    Revision {
        generation: 8,
        ..revision()
    }
}

/// A status whose only news is that a phase object has not reported yet may be debounced.
#[test]
fn a_missing_report_may_be_debounced() {
    let reported = |status, reason| Outcome {
        writes: Vec::new(),
        ..pass(
            &revision(),
            Some(reports(status, reason, "x")),
            unexpected_request,
        )
        .1
    };
    let has_written = Outcome {
        writes: pass(&revision(), Some(done()), unexpected_request).1.writes,
        ..silent()
    };
    let new = ObjectSetStatus::default();
    let available = report(&new, &revision(), &controls(&["near", "far", "last"])).status;
    for (case, previous, revision, outcome, expected) in [
        ("just made", &new, revision(), silent(), true),
        ("objects were written", &new, revision(), has_written, false),
        (
            "probes",
            &new,
            revision(),
            reported("False", "ProbeFailure"),
            false,
        ),
        (
            "a lost site",
            &new,
            revision(),
            reported("Unknown", "ClusterUnreachable"),
            false,
        ),
        (
            "available till now",
            &available,
            revision(),
            silent(),
            false,
        ),
        // The conditions show by their generation that they are outdated.
        ("edited since", &available, edited(), silent(), true),
    ] {
        let report = report(previous, &revision, &outcome);
        assert_eq!(report.is_interim, expected, "{case}: {report:?}");
    }
}

/// A site that waits in the queue has not failed, so its message does not call it a failure.
#[test]
fn only_a_failed_phase_is_reported_as_failed() {
    for (reason, expected) in [
        ("ProbeFailure", "Phase \"p-far\" failed: x"),
        ("Queued", "x"),
        ("Stopping", "x"),
        ("Skipped", "x"),
    ] {
        let outcome = pass(
            &revision(),
            Some(reports("False", reason, "x")),
            unexpected_request,
        )
        .1;
        let status = report(&ObjectSetStatus::default(), &revision(), &outcome).status;
        let available = status.conditions.iter().find(|it| it.type_ == AVAILABLE);
        assert_eq!(available.unwrap().message, expected);
    }
}

/// A status that only loses objects to another revision may be debounced while more of them follow.
#[test]
fn a_partial_handover_may_be_debounced() {
    let new = ObjectSetStatus::default();
    let all = report(&new, &revision(), &controls(&["near", "far", "last"])).status;
    let left = report(&all, &revision(), &controls(&["last"])).status;
    for (case, previous, revision, names, expected) in [
        ("none before", &new, revision(), &["last"][..], false),
        ("some go", &all, revision(), &["last"], true),
        ("fewer go", &all, revision(), &["far", "last"], true),
        ("the last one goes", &left, revision(), &[], false),
        ("one comes back", &left, revision(), &["far", "last"], false),
        ("others than before", &all, revision(), &["other"], false),
        ("an edit as well", &all, edited(), &["last"], false),
    ] {
        let report = report(previous, &revision, &controls(names));
        assert_eq!(report.is_interim, expected, "{case}: {report:?}");
    }
}

#[test]
fn phase_objects_report_less_than_revisions() {
    let mut own = revision();
    own.delivery = Delivery::Delegated;
    let now = Timestamp::UNIX_EPOCH;
    let outcome = Outcome {
        result: PassResult::ProbeFailure {
            phase: "a".to_owned(),
            failures: "x".to_owned(),
        },
        ..pass(&revision(), Some(done()), unexpected_request).1
    };
    let fresh = ObjectSetPhaseStatus::default();
    let (status, requeue) = report_phase(&fresh, &own, outcome, 0, now);
    let types: Vec<_> = status.conditions.iter().map(|c| &*c.type_).collect();
    let expected = vec![AVAILABLE, READY, RECONCILING];
    assert_eq!((types, requeue), (expected, Requeue::OnEvent));
    // The revision adds the name of the phase.
    assert_eq!(status.conditions[0].message, "x");
    assert_eq!(status.controller_of.len(), 3);
    // The state of the objects is unknown: the list of controlled objects stays.
    let cause = ("Unknown", Reason::ClusterUnreachable);
    let lost = report_phase_unknown(&status, &own, cause, "gone", now);
    assert_eq!(lost.controller_of, status.controller_of);
    assert_eq!(lost.conditions[0].status, "Unknown");
}

#[test]
fn a_phase_that_only_loses_objects_is_in_a_handover() {
    let object = |name: &str| ControlledObjectReference {
        name: name.to_owned(),
        ..ControlledObjectReference::default()
    };
    let status = |names: &[&str], reason: &str| ObjectSetPhaseStatus {
        controller_of: names.iter().map(|name| object(name)).collect(),
        stopped_for: Some(reason.to_owned()),
        ..ObjectSetPhaseStatus::default()
    };
    let before = status(&["a", "b"], "x");
    for (case, names, reason, expected) in [
        ("some", &["b"][..], "x", true),
        ("all", &[], "x", true),
        ("none", &["a", "b"], "x", false),
        ("one for another", &["c"], "x", false),
        ("with another change", &["a"], "y", false),
    ] {
        let after = status(names, reason);
        let is_handover = phase_only_loses_objects(&before, &after);
        assert_eq!(is_handover, expected, "{case}");
    }
}

/// A phase that stops for a newer one may have been refused before it wrote anything.
#[test]
fn a_phase_that_was_refused_reports_that_it_has_stopped() {
    use baton_apis::conditions::{STARTED, STOPPED};
    let condition = |type_: &str, reason: &str| MappedCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: "for the next one".to_owned(),
    };
    let refused = |text: &str| vec![text.to_owned()];
    for (result, reason) in [
        (PassResult::Preflight(refused("x")), Reason::PreflightError),
        (PassResult::WriteError(refused("x")), Reason::WriteError),
        (
            PassResult::Collision("x".to_owned()),
            Reason::CollisionDetected,
        ),
    ] {
        let outcome = Outcome {
            result,
            mapped: vec![
                condition(STARTED, Reason::Started.as_str()),
                condition(STOPPED, Reason::Stopped.as_str()),
                condition("example.com/Other", "Other"),
            ],
            ..pass(&revision(), Some(done()), unexpected_request).1
        };
        let fresh = ObjectSetPhaseStatus::default();
        let (status, _) = report_phase(&fresh, &revision(), outcome, 0, Timestamp::UNIX_EPOCH);
        let find = |type_: &str| status.conditions.iter().find(|it| it.type_ == type_);
        assert_eq!(find(AVAILABLE).unwrap().reason, reason);
        assert_eq!(find(STOPPED).unwrap().message, "for the next one");
        assert!(find(STARTED).is_some());
        // Conditions mapped from objects stay as they were: the pass did not reach all objects.
        assert_eq!(find("example.com/Other"), None);
    }
}
