//! The requests of a pass about phase objects, and the effect of their reports on the revision.

use baton_apis::{ControlledObjectReference, ObjectSetStatus, conditions::AVAILABLE};
use jiff::Timestamp;

use super::*;
use crate::{
    conditions::{Requeue, report_pass},
    delegated::{DelegationAnswer, PhaseState},
    tests::fixtures::delegation::{condition, done, pass, phases, reports, unexpected_request},
};

/// A new phase object is no failed pass: its report is an event, so there is no requeue.
#[test]
fn a_phase_object_is_created_when_its_phase_is_reached() {
    let answer = |_: &Delegation| {
        DelegationAnswer::Object(PhaseState {
            uid: "new".to_owned(),
            is_ours: true,
            ..PhaseState::default()
        })
    };
    let (requests, outcome) = pass(&revision(), None, answer);
    assert_eq!(
        requests,
        "near Create(Object {\"the\": String(\"manifest\")})"
    );
    assert_eq!(
        outcome.result,
        PassResult::Delegated {
            phase: "p-far".to_owned(),
            status: "False".to_owned(),
            reason: Reason::ProbeFailure,
            message: "no status reported".to_owned(),
            is_silent: true,
        }
    );
    assert_eq!(outcome.waiting_for[0].reason, Reason::NotReported);
    let status = ObjectSetStatus::default();
    let report = report_pass(
        &status,
        &revision(),
        outcome.clone(),
        0,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(report.requeue, Requeue::OnEvent);
    assert!(!outcome.controls_all);
    assert_eq!(outcome.remote_phases[0].name, "v1-p-far");
    assert_eq!(outcome.remote_phases[0].uid, "new");
    assert_eq!(outcome.waiting_for[0].kind, "ObjectSetPhase");
}

/// Runs a pass over two delegated phases with these states, which are created ahead.
fn ahead(states: [Option<PhaseState>; 2], answers: &[DelegationAnswer]) -> (Vec<usize>, Outcome) {
    let revision = Revision {
        delegates_ahead: true,
        ..revision()
    };
    let mut phases = phases(&revision, None);
    let delegated = phases[1].delegated.clone();
    for (phase, state) in phases[1..].iter_mut().zip(states) {
        let mut delegated = delegated.clone().unwrap();
        delegated.state = state;
        delegated.name = format!("v1-{}", phase.name);
        phase.delegated = Some(delegated);
    }
    let (probes, kinds) = (no_probes(), kinds());
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases[1..],
        probes: &probes,
        kinds: &kinds,
        siblings: &Family,
    };
    let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
    let mut phases = Vec::new();
    while let Step::Delegate(phase, delegation) = pass.step() {
        assert!(
            matches!(delegation, Delegation::Create(_)),
            "{delegation:?}"
        );
        pass.answer_delegation(phase, answers[phases.len()].clone());
        phases.push(phase);
    }
    (phases, pass.outcome())
}

#[test]
fn all_phase_objects_of_a_site_are_created_in_one_pass() {
    let new = || {
        DelegationAnswer::Object(PhaseState {
            is_ours: true,
            ..PhaseState::default()
        })
    };
    let (phases, outcome) = ahead([None, None], &[new(), new()]);
    assert_eq!(phases, [0, 1]);
    let PassResult::Delegated { phase, .. } = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(phase, "p-far", "they are judged in order");
    assert_eq!(outcome.remote_phases.len(), 2);
    assert_eq!(ahead([Some(done()), None], &[new()]).0, [1]);
    // A phase object that cannot be created is reported, even if it is not the first, so that the
    // request is retried.
    let failed = DelegationAnswer::Failed("no answer".to_owned());
    let (phases, outcome) = ahead([None, None], &[new(), failed]);
    assert_eq!(phases, [0, 1]);
    let PassResult::Failed(texts) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert!(texts[0].contains("\"p-last\""), "{texts:?}");
}

#[test]
fn a_revision_starts_with_its_first_phase_and_stops_with_its_last() {
    use baton_apis::conditions::{STARTED, STOPPED};
    let with = |types: &[&str], generation| {
        let mut state = done();
        for type_ in types {
            let mut condition = condition(type_, "True", "x", "");
            condition.observed_generation = Some(generation);
            state.conditions.push(condition);
        }
        Some(state)
    };
    for (one, other, expected) in [
        (with(&[STARTED], 2), with(&[], 2), STARTED),
        // `Started` does not depend on the generation.
        (with(&[STARTED], 1), with(&[], 2), STARTED),
        (with(&[STOPPED], 2), with(&[], 2), ""),
        (with(&[], 2), with(&[STOPPED], 2), ""),
        (with(&[STOPPED], 2), with(&[STOPPED], 1), ""),
        (with(&[STOPPED], 2), with(&[STOPPED], 2), STOPPED),
    ] {
        let (_, outcome) = ahead([one, other], &[]);
        let mut mapped: Vec<_> = outcome.mapped.iter().map(|it| &*it.type_).collect();
        mapped.dedup();
        assert_eq!(mapped.join(" "), expected);
    }
}

#[test]
fn later_phases_follow_a_completed_delegated_phase() {
    let mut state = done();
    let mapped = condition("example.com/Ready", "True", "Ready", "");
    let mut outdated = condition("example.com/Old", "True", "Old", "");
    outdated.observed_generation = Some(1);
    state.conditions.extend([mapped, outdated]);
    let (requests, outcome) = pass(&revision(), Some(state), unexpected_request);
    assert_eq!(requests, "near last");
    assert_eq!(outcome.result, PassResult::Passed);
    let names: Vec<_> = outcome.controller_of.iter().map(|o| &*o.name).collect();
    assert_eq!(names, ["near", "far", "last"]);
    assert!(outcome.controls_all && outcome.pause_agreed);
    let mapped: Vec<_> = outcome.mapped.iter().map(|c| &*c.type_).collect();
    assert_eq!(mapped, ["example.com/Ready"]);
    // The phase object reports the objects that it controls; objects of others are missing there.
    let mut less = done();
    less.controller_of.clear();
    assert!(
        !pass(&revision(), Some(less), unexpected_request)
            .1
            .controls_all
    );
}

/// `Available` of the revision, by the state of the phase object.
#[test]
fn availability_follows_the_phase_object() {
    let outdated = PhaseState {
        generation: 3,
        ..done()
    };
    let going = PhaseState {
        is_deleting: true,
        ..done()
    };
    let foreign = PhaseState {
        is_ours: false,
        ..done()
    };
    let prefix = "Phase \"p-far\" failed: ";
    let unreachable = reports("Unknown", "ClusterUnreachable", "gone");
    for (state, expected) in [
        (
            reports("False", "ProbeFailure", "x"),
            format!("False ProbeFailure {prefix}x"),
        ),
        (
            reports("False", "PreflightError", "x"),
            format!("False PreflightError {prefix}x"),
        ),
        (
            reports("False", "CollisionDetected", "x"),
            format!("False CollisionDetected {prefix}x"),
        ),
        // Unknown reasons of other controllers are replaced by ours.
        (
            reports("False", "Whatever", "x"),
            format!("False ProbeFailure {prefix}x"),
        ),
        (
            unreachable,
            format!("Unknown ClusterUnreachable {prefix}gone"),
        ),
        (
            outdated,
            format!("False ProbeFailure {prefix}no status reported"),
        ),
        (going, format!("False ProbeFailure {prefix}being deleted")),
        (
            foreign,
            "False CollisionDetected Phase \"p-far\", ObjectSetPhase v1-p-far: \
            refusing adoption, it belongs to another owner, or to none"
                .to_owned(),
        ),
    ] {
        let (_, outcome) = pass(&revision(), Some(state), unexpected_request);
        let status = ObjectSetStatus::default();
        let report = report_pass(&status, &revision(), outcome, 0, Timestamp::UNIX_EPOCH);
        let available = report
            .status
            .conditions
            .iter()
            .find(|c| c.type_ == AVAILABLE)
            .unwrap();
        assert_eq!(
            format!(
                "{} {} {}",
                available.status, available.reason, available.message
            ),
            expected
        );
        assert!(
            report
                .status
                .conditions
                .iter()
                .all(|c| c.type_ != "Succeeded")
        );
    }
}

#[test]
fn refused_requests_are_reported_and_failed_ones_retried() {
    let refused = |_: &Delegation| DelegationAnswer::Refused("quota".to_owned());
    let (_, outcome) = pass(&revision(), None, refused);
    let text = "Phase \"p-far\", ObjectSetPhase v1-p-far: quota".to_owned();
    assert_eq!(outcome.result, PassResult::Preflight(vec![text]));
    for answer in [
        DelegationAnswer::Failed("no route".to_owned()),
        DelegationAnswer::Changed,
    ] {
        let (_, outcome) = pass(&revision(), None, |_| answer.clone());
        assert!(matches!(outcome.result, PassResult::Failed(_)));
    }
}

/// The result of a pass by the phase object: every status, reported for the present generation or
/// an older one, ours or not, being deleted or not.
#[test]
fn a_pass_ends_according_to_the_state_of_the_phase_object() {
    let ready = "passed, 3 objects";
    let silent = "silent, False: no status reported";
    let deleted = "False: being deleted";
    let foreign = "collision";
    for (status, generation, by_ours_and_deletion) in [
        //             ours, not ours; ours and being deleted, not ours and being deleted
        ("True", 2, [ready, foreign, deleted, foreign]),
        ("False", 2, ["False: x", foreign, deleted, foreign]),
        ("Unknown", 2, ["Unknown: x", foreign, deleted, foreign]),
        ("True", 3, [silent, foreign, deleted, foreign]),
        ("False", 3, [silent, foreign, deleted, foreign]),
        ("Unknown", 3, [silent, foreign, deleted, foreign]),
    ] {
        let cases = [(true, false), (false, false), (true, true), (false, true)];
        for ((is_ours, is_deleting), expected) in cases.into_iter().zip(by_ours_and_deletion) {
            let state = PhaseState {
                generation,
                is_ours,
                is_deleting,
                controller_of: done().controller_of,
                ..reports(status, "ProbeFailure", "x")
            };
            let (requests, outcome) = pass(&revision(), Some(state), unexpected_request);
            let is_passed = outcome.result == PassResult::Passed;
            assert_eq!(requests, if is_passed { "near last" } else { "near" });
            assert_eq!(outcome.remote_phases.len(), usize::from(is_ours));
            assert_eq!(outcome.waiting_for.len(), usize::from(!is_passed));
            let result = match outcome.result {
                PassResult::Passed => format!("passed, {} objects", outcome.controller_of.len()),
                PassResult::Collision(_) => "collision".to_owned(),
                PassResult::Delegated {
                    status,
                    message,
                    is_silent,
                    ..
                } => {
                    let silent = if is_silent { "silent, " } else { "" };
                    format!("{silent}{status}: {message}")
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(
                result, expected,
                "{status} {generation} {is_ours} {is_deleting}"
            );
        }
    }
}

/// The phase object reports the objects that it controls; objects of others are missing there. Other
/// objects do not count: the controller of the class may be in another cluster, and may report any.
#[test]
fn all_objects_are_controlled_when_the_phase_object_reports_them() {
    let reference = |name: &str| ControlledObjectReference {
        name: name.to_owned(),
        version: "v1".to_owned(),
        ..done().controller_of[0].clone()
    };
    let first = done().controller_of[0].name.clone();
    for (reported, names, expected) in [
        (vec![], vec![], false),
        (vec![&*first], vec![&*first], false),
        (vec![&first, &first], vec![&first], false),
        (vec![&first, "stranger"], vec![&first], false),
        (vec!["second", &first], vec!["second", &first], true),
        (
            vec!["second", "stranger", &first],
            vec!["second", &first],
            true,
        ),
    ] {
        let state = PhaseState {
            controller_of: reported.iter().map(|name| reference(name)).collect(),
            ..done()
        };
        let revision = revision();
        let mut phases = phases(&revision, Some(state));
        let mut second = phases[1].objects[0].clone();
        second.key.name = "second".to_owned();
        phases[1].objects.push(second);
        let (probes, kinds) = (no_probes(), kinds());
        let snapshot = Snapshot {
            revision: &revision,
            phases: &phases[1..2],
            probes: &probes,
            kinds: &kinds,
            siblings: &Family,
        };
        let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
        assert_eq!(pass.step(), Step::Done);
        let outcome = pass.outcome();
        assert_eq!(outcome.controls_all, expected, "{reported:?}");
        let controlled = outcome.controller_of.iter();
        let controlled: Vec<_> = controlled.map(|it| (&*it.name, &*it.version)).collect();
        let names: Vec<_> = names.into_iter().map(|name| (name, "")).collect();
        assert_eq!(controlled, names);
    }
}

/// Each answer to each request about the phase object, with all requests, the result, and the
/// reason and message of the entry in `waitingFor`.
#[test]
fn every_answer_to_every_request_about_a_phase_object() {
    let unreported = || PhaseState {
        conditions: Vec::new(),
        ..done()
    };
    let stays_paused = || PhaseState {
        paused: true,
        ..done()
    };
    let at = "Phase \"p-far\", ObjectSetPhase v1-p-far:";
    let adoption = format!("{at} refusing adoption, it belongs to another owner, or to none");
    let changed = format!("{at} it has changed meanwhile");
    let is = DelegationAnswer::Object;
    for (answer, result, reason, message) in [
        (is(done()), "Passed", "", ""),
        (
            is(unreported()),
            "silent",
            "NotReported",
            "no status reported",
        ),
        (
            is(reports("False", "WriteError", "x")),
            "Delegated",
            "WriteError",
            "x",
        ),
        (
            is(reports("Unknown", "Else", "x")),
            "Delegated",
            "ProbeFailure",
            "x",
        ),
        (
            is(PhaseState {
                is_ours: false,
                ..done()
            }),
            "Collision",
            "CollisionDetected",
            &adoption,
        ),
        (
            is(PhaseState {
                is_deleting: true,
                ..done()
            }),
            "Delegated",
            "ProbeFailure",
            "being deleted",
        ),
        // The pause is requested once.
        (is(stays_paused()), "Passed", "", ""),
        (DelegationAnswer::Gone, "Failed", "WriteError", &changed),
        (DelegationAnswer::Changed, "Failed", "WriteError", &changed),
        (
            DelegationAnswer::Refused("no".to_owned()),
            "Preflight",
            "PreflightError",
            &format!("{at} no"),
        ),
        (
            DelegationAnswer::Failed("cut".to_owned()),
            "Failed",
            "WriteError",
            &format!("{at} cut"),
        ),
    ] {
        for (state, expected) in [
            (None, "near Create"),
            (Some(stays_paused()), "Pause(false) near"),
        ] {
            let is_created = state.is_none();
            let (requests, outcome) = pass(&revision(), state, |_| answer.clone());
            let requests = requests.replace("(Object {\"the\": String(\"manifest\")})", "");
            let then = match &answer {
                // A phase object that was created with another pause than its manifest has is
                // edited at once.
                DelegationAnswer::Object(PhaseState { paused: true, .. }) if is_created => {
                    " Pause(false) last"
                }
                _ if result == "Passed" => " last",
                _ => "",
            };
            assert_eq!(requests, format!("{expected}{then}"), "{answer:?}");
            assert_eq!(kind(&outcome.result, message), result, "{answer:?}");
            let waiting = outcome.waiting_for.first();
            let waiting = waiting.map_or(("", ""), |w| (&*w.reason, &*w.message));
            assert_eq!(waiting, (reason, message), "{answer:?}");
        }
    }
}

/// The revision reports every reason of `Available` that is ours, and no other.
#[test]
fn the_revision_reports_known_reasons_of_its_phase_objects() {
    for (reason, expected) in [
        ("Available", "Available"),
        ("ProbeFailure", "ProbeFailure"),
        ("PreflightError", "PreflightError"),
        ("WriteError", "WriteError"),
        ("CollisionDetected", "CollisionDetected"),
        ("ClusterUnreachable", "ClusterUnreachable"),
        ("", "ProbeFailure"),
        ("availableagain", "ProbeFailure"),
        ("ArchivalInProgress", "ProbeFailure"),
    ] {
        for status in ["False", "Unknown"] {
            let (_, outcome) = pass(
                &revision(),
                Some(reports(status, reason, "x")),
                unexpected_request,
            );
            let PassResult::Delegated { reason: shown, .. } = outcome.result else {
                panic!("{:?}", outcome.result)
            };
            assert_eq!(shown.as_str(), expected, "{status} {reason}");
            assert_eq!(outcome.waiting_for[0].reason, expected, "{status} {reason}");
        }
    }
}

/// A phase object with an impossible name is not requested; the phase before it is written.
#[test]
fn a_phase_object_with_an_impossible_name_is_a_violation() {
    let revision = revision();
    let mut phases = phases(&revision, None);
    phases[1].delegated.as_mut().expect("delegated").name = "V1".to_owned();
    let kinds = kinds();
    let probes = no_probes();
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases[1..],
        probes: &probes,
        kinds: &kinds,
        siblings: &Family,
    };
    let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
    assert_eq!(pass.step(), Step::Done);
    let outcome = pass.outcome();
    let text = "Phase \"p-far\", ObjectSetPhase \"V1\": the name must be a DNS label of at most 63 characters that \
        starts with a letter; shorten the name of the revision or of the phase.";
    assert_eq!(outcome.result, PassResult::Preflight(vec![text.to_owned()]));
    let waiting = &outcome.waiting_for[0];
    assert_eq!(
        (&*waiting.reason, &*waiting.message),
        ("PreflightError", text)
    );
}

/// The kind of a result; checks its text.
fn kind(result: &PassResult, message: &str) -> &'static str {
    match result {
        PassResult::Passed => "Passed",
        PassResult::Delegated {
            is_silent: true, ..
        } => "silent",
        PassResult::Delegated { .. } => "Delegated",
        PassResult::Collision(text) => {
            assert_eq!(text, message);
            "Collision"
        }
        PassResult::Preflight(texts) => {
            assert_eq!(*texts, [message]);
            "Preflight"
        }
        PassResult::Failed(texts) => {
            assert_eq!(*texts, [message]);
            "Failed"
        }
        other => panic!("{other:?}"),
    }
}
