//! Pauses of a revision and its phase objects.

use baton_apis::{
    LifecycleState, ObjectSetStatus,
    conditions::{PAUSED, messages},
};
use jiff::Timestamp;

use super::*;
use crate::{
    conditions::report_pass,
    delegated::{DelegationAnswer, PhaseState},
    tests::fixtures::delegation::{condition, done, pass, phases, unexpected_request},
};

#[test]
fn phase_objects_of_unreached_phases_are_paused_too() {
    let mut paused = revision();
    paused.lifecycle = LifecycleState::Paused;
    let follow = |delegation: &Delegation| {
        let Delegation::Pause(paused) = *delegation else {
            panic!("{delegation:?}")
        };
        DelegationAnswer::Object(PhaseState {
            paused,
            generation: 3,
            ..done()
        })
    };
    // `near` is missing and not created while paused, so the phase is not reached.
    let (requests, outcome) = pass(&paused, Some(done()), follow);
    assert_eq!(requests, "Pause(true)");
    assert!(!outcome.pause_agreed);
    let pause_of = |revision: &Revision, outcome| {
        let report = report_pass(
            &ObjectSetStatus::default(),
            revision,
            outcome,
            0,
            Timestamp::UNIX_EPOCH,
        );
        let conditions = report.status.conditions.into_iter();
        let paused = conditions.into_iter().find(|c| c.type_ == PAUSED);
        paused.map(|c| format!("{} {} {}", c.status, c.reason, c.message))
    };
    assert_eq!(
        pause_of(&paused, outcome).as_deref(),
        Some("Unknown PartiallyPaused Waiting for ObjectSetPhases.")
    );
    let mut state = PhaseState {
        paused: true,
        ..done()
    };
    let reported = condition(PAUSED, "True", "Paused", messages::PAUSED);
    state.conditions.push(reported);
    let (requests, outcome) = pass(&paused, Some(state.clone()), unexpected_request);
    assert_eq!(requests, "");
    assert_eq!(
        pause_of(&paused, outcome).as_deref(),
        Some("True Paused Lifecycle state set to paused.")
    );
    // The revision is resumed.
    let (requests, outcome) = pass(&revision(), Some(state.clone()), |_| {
        DelegationAnswer::Object(PhaseState {
            paused: false,
            ..state.clone()
        })
    });
    assert_eq!(requests, "Pause(false) near last");
    assert_eq!(
        pause_of(&revision(), outcome).as_deref(),
        Some("Unknown PartiallyPaused Waiting for ObjectSetPhases.")
    );
}

/// The requested pause, and if the pause is reported as agreed, by the revision, the phase object,
/// and the report for its generation.
#[test]
fn pauses_by_revision_phase_object_and_report() {
    let follow = |delegation: &Delegation| {
        let Delegation::Pause(paused) = *delegation else {
            panic!("{delegation:?}")
        };
        // An edit makes a new generation, for which there is no report yet.
        DelegationAnswer::Object(PhaseState {
            paused,
            generation: 3,
            ..done()
        })
    };
    for (wanted, paused, reported, expected, agreed) in [
        (false, false, false, "", true),
        (false, false, true, "", false),
        (false, true, false, "Pause(false)", true),
        (false, true, true, "Pause(false)", true),
        (true, false, false, "Pause(true)", false),
        (true, false, true, "Pause(true)", false),
        (true, true, false, "", false),
        (true, true, true, "", true),
    ] {
        for (is_ours, is_deleting) in [(true, false), (true, true), (false, false), (false, true)] {
            let revision = Revision {
                lifecycle: if wanted {
                    LifecycleState::Paused
                } else {
                    LifecycleState::Active
                },
                ..revision()
            };
            let status = if reported { "True" } else { "False" };
            let mut state = PhaseState {
                is_ours,
                is_deleting,
                paused,
                ..done()
            };
            state
                .conditions
                .push(condition(PAUSED, status, "Paused", ""));
            let (requests, outcome) = pass(&revision, Some(state), follow);
            let case = format!("{wanted} {paused} {reported} {is_ours} {is_deleting}");
            let requests = requests
                .split(' ')
                .find(|requests| requests.starts_with("Pause"));
            let may_edit = is_ours && !is_deleting;
            assert_eq!(
                requests.unwrap_or(""),
                if may_edit { expected } else { "" },
                "{case}"
            );
            // A phase object of another owner does not count, and one that is being deleted is not
            // edited.
            let unedited = !is_ours || reported == wanted;
            let agreed = if may_edit { agreed } else { unedited };
            assert_eq!(outcome.pause_agreed, agreed, "{case}");
        }
    }
}

/// A webhook that reverts every edit must not keep a pass running forever.
#[test]
fn a_pause_is_requested_once_per_pass() {
    let paused = PhaseState {
        paused: true,
        ..done()
    };
    let undo = |_: &Delegation| DelegationAnswer::Object(paused.clone());
    let (requests, outcome) = pass(&revision(), Some(paused.clone()), undo);
    assert_eq!(requests, "Pause(false) near last");
    assert_eq!(outcome.result, PassResult::Passed);
}

/// All phase objects follow the revision, in the order of the phases and before any other request,
/// unless they are gone, of other owners, or being deleted. The pause is agreed if all of ours
/// report it.
#[test]
fn every_phase_object_is_paused_before_anything_else() {
    let state = |is_ours, is_deleting, paused| {
        let mut state = PhaseState {
            is_ours,
            is_deleting,
            paused,
            ..done()
        };
        state.conditions.push(condition(
            PAUSED,
            if paused { "True" } else { "False" },
            "Paused",
            "",
        ));
        Some(state)
    };
    let active = || state(true, false, false);
    let paused = || state(true, false, true);
    for (first, second, expected, agreed) in [
        (None, None, "", true),
        (active(), active(), "0 1", true),
        (active(), paused(), "0", true),
        (paused(), active(), "1", true),
        (paused(), paused(), "", true),
        (paused(), None, "", true),
        (None, active(), "1", true),
        (state(false, false, false), active(), "1", true),
        // A phase object that is being deleted is not edited, but counts.
        (state(true, true, false), paused(), "", false),
        (paused(), state(true, true, false), "", false),
        (state(true, true, false), active(), "1", false),
    ] {
        let revision = Revision {
            lifecycle: LifecycleState::Paused,
            ..revision()
        };
        let case = format!("{first:?} {second:?}");
        let of = |state| phases(&revision, state).swap_remove(1);
        let phases = [of(first), of(second)];
        let (probes, kinds) = (no_probes(), kinds());
        let snapshot = Snapshot {
            revision: &revision,
            phases: &phases,
            probes: &probes,
            kinds: &kinds,
            siblings: &Family,
        };
        let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
        let mut requests = Vec::new();
        while let Step::Delegate(phase, delegation) = pass.step() {
            if delegation == Delegation::Pause(true) {
                requests.push(phase.to_string());
                let state = paused().expect("a state");
                pass.answer_delegation(phase, DelegationAnswer::Object(state));
            } else {
                assert!(matches!(delegation, Delegation::Create(_)), "{case}");
                pass.answer_delegation(phase, DelegationAnswer::Changed);
            }
        }
        assert_eq!(requests.join(" "), expected, "{case}");
        assert_eq!(pass.outcome().pause_agreed, agreed, "{case}");
    }
}

/// A failed pause is not requested again, and ends the pass at its phase.
#[test]
fn a_pause_that_fails_ends_the_pass_at_its_phase() {
    let at = "Phase \"p-far\", ObjectSetPhase v1-p-far:";
    for (answer, expected) in [
        (
            DelegationAnswer::Gone,
            PassResult::Failed(vec![format!("{at} it has changed meanwhile")]),
        ),
        (
            DelegationAnswer::Failed("cut".to_owned()),
            PassResult::Failed(vec![format!("{at} cut")]),
        ),
        (
            DelegationAnswer::Refused("no".to_owned()),
            PassResult::Preflight(vec![format!("{at} no")]),
        ),
    ] {
        let paused = PhaseState {
            paused: true,
            ..done()
        };
        let (requests, outcome) = pass(&revision(), Some(paused), |_| answer.clone());
        assert_eq!(
            (&*requests, outcome.result),
            ("Pause(false) near", expected)
        );
    }
}
