//! The requests of a teardown about phase objects.

use super::*;
use crate::delegated::Delegated;
use crate::tests::fixtures::delegation::{done, phases, reports};

/// A request as a word. The precondition of a deletion is always the state that shows that the
/// phase object is ours.
fn word(delegation: &Delegation) -> String {
    match delegation {
        Delegation::Delete {
            uid,
            resource_version,
        } => {
            assert_eq!((uid.as_str(), *resource_version), ("phase", 7));
            "Delete".to_owned()
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_teardown_waits_for_the_phase_object() {
    let tear_down = |state: Option<PhaseState>, answers: Vec<DelegationAnswer>| {
        let revision = revision();
        let phases = phases(&revision, state);
        let kinds = kinds();
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
        let mut answers = answers.into_iter();
        let mut words = Vec::new();
        while let Step::Delegate(phase, delegation) = teardown.step() {
            words.push(word(&delegation));
            teardown.answer_delegation(phase, answers.next().unwrap());
        }
        let outcome = match teardown.outcome() {
            TeardownOutcome::Done => "done".to_owned(),
            TeardownOutcome::Waiting(objects) => format!("waits: {}", objects[0].message),
            TeardownOutcome::Failed(objects) => format!("failed: {}", objects[0].message),
        };
        (words.join(" "), outcome)
    };
    let is = |state| DelegationAnswer::Object(state);
    let going = || PhaseState {
        is_deleting: true,
        ..done()
    };
    let foreign = || PhaseState {
        is_ours: false,
        ..done()
    };
    let lost = PhaseState {
        is_deleting: true,
        ..reports("Unknown", "ClusterUnreachable", "the site is gone")
    };
    let table = [
        (
            Some(done()),
            vec![is(going())],
            "Delete",
            "waits: being deleted",
        ),
        (Some(going()), vec![], "", "waits: being deleted"),
        (Some(lost), vec![], "", "waits: the site is gone"),
        // An orphaned phase object, or that of another owner, is not ours to delete.
        (Some(foreign()), vec![], "", "done"),
        // The watch may lag: only the server can report that the phase object does not exist.
        (None, vec![DelegationAnswer::Gone], "Get", "done"),
        (
            None,
            vec![is(done()), is(going())],
            "Get Delete",
            "waits: being deleted",
        ),
        (
            Some(done()),
            vec![DelegationAnswer::Changed, DelegationAnswer::Gone],
            "Delete Get",
            "done",
        ),
        (
            Some(done()),
            vec![DelegationAnswer::Refused("no".to_owned())],
            "Delete",
            "failed: no",
        ),
    ];
    for (state, answers, words, outcome) in table {
        let text = format!("{state:?}");
        let expected = (words.to_owned(), outcome.to_owned());
        assert_eq!(tear_down(state, answers), expected, "{text}");
    }
}

/// The effect of each answer to each request of a teardown: `done`, waiting, a failure or the next
/// request.
#[test]
fn every_answer_about_a_phase_object_that_is_torn_down() {
    let state = |is_ours, is_deleting| PhaseState {
        is_ours,
        is_deleting,
        ..done()
    };
    let answers = || {
        [
            DelegationAnswer::Object(state(true, false)),
            DelegationAnswer::Object(state(true, true)),
            DelegationAnswer::Object(state(false, false)),
            DelegationAnswer::Object(state(false, true)),
            DelegationAnswer::Gone,
            DelegationAnswer::Changed,
            DelegationAnswer::Refused("denied".to_owned()),
            DelegationAnswer::Failed("no route".to_owned()),
        ]
    };
    let revision = revision();
    let kinds = kinds();
    let next = |teardown: &mut Teardown<'_>| match teardown.step() {
        Step::Delegate(1, delegation) => Some(word(&delegation)),
        Step::Done => None,
        other => panic!("{other:?}"),
    };
    for (initial, request, row) in [
        // Columns: ours, leaving, foreign, foreign and leaving; gone, changed, refused, failed.
        (
            None,
            "Get",
            [
                "Delete", "waits", "done", "done", "done", "Get", "denied", "no route",
            ],
        ),
        (
            Some(state(true, false)),
            "Delete",
            [
                "Delete", "waits", "done", "done", "done", "Get", "denied", "no route",
            ],
        ),
    ] {
        for (answer, expected) in answers().into_iter().zip(row) {
            let phases = phases(&revision, initial.clone());
            let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
            assert_eq!(next(&mut teardown).as_deref(), Some(request));
            teardown.answer_delegation(1, answer.clone());
            let result = next(&mut teardown).unwrap_or_else(|| match teardown.outcome() {
                TeardownOutcome::Done => "done".to_owned(),
                TeardownOutcome::Waiting(_) => "waits".to_owned(),
                TeardownOutcome::Failed(objects) => objects[0].message.clone(),
            });
            assert_eq!(result, expected, "{request} {answer:?}");
        }
    }
}

/// The phase object changes before each deletion, or the deletion has no effect.
#[test]
fn a_teardown_fails_if_a_phase_object_keeps_changing() {
    let is_there = || DelegationAnswer::Object(done());
    for (to_delete, expected) in [(DelegationAnswer::Changed, 15), (is_there(), 8)] {
        let revision = revision();
        let phases = phases(&revision, Some(done()));
        let kinds = kinds();
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
        let mut requests = 0;
        while let Step::Delegate(phase, delegation) = teardown.step() {
            requests += 1;
            assert!(requests < 100, "it is asked for ever");
            let answer = match delegation {
                Delegation::Get => is_there(),
                _ => to_delete.clone(),
            };
            teardown.answer_delegation(phase, answer);
        }
        let TeardownOutcome::Failed(objects) = teardown.outcome() else {
            panic!("not given up")
        };
        assert_eq!(
            objects[0].message,
            "the object keeps changing while it is removed"
        );
        assert_eq!(requests, expected);
    }
}

/// The precondition of a deletion is the state in the last answer, not that of the watch.
#[test]
fn a_phase_object_is_deleted_in_the_state_that_was_read_last() {
    let revision = revision();
    let phases = phases(&revision, Some(done()));
    let kinds = kinds();
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
    let delete = |resource_version| {
        let uid = "phase".to_owned();
        Step::Delegate(
            1,
            Delegation::Delete {
                uid,
                resource_version,
            },
        )
    };
    assert_eq!(teardown.step(), delete(7));
    teardown.answer_delegation(1, DelegationAnswer::Changed);
    assert_eq!(teardown.step(), Step::Delegate(1, Delegation::Get));
    let changed = PhaseState {
        resource_version: 9,
        ..done()
    };
    teardown.answer_delegation(1, DelegationAnswer::Object(changed));
    assert_eq!(teardown.step(), delete(9));
    // The phase object was orphaned in between, so it is not ours to delete any more.
    teardown.answer_delegation(1, DelegationAnswer::Changed);
    assert_eq!(teardown.step(), Step::Delegate(1, Delegation::Get));
    let orphaned = PhaseState {
        is_ours: false,
        resource_version: 11,
        ..done()
    };
    teardown.answer_delegation(1, DelegationAnswer::Object(orphaned));
    assert_ne!(teardown.step(), delete(11));
    assert_eq!(teardown.outcome(), TeardownOutcome::Done);
}

/// A delegated phase has its position in the order: the following phase ends before it, and the
/// preceding one after it, when the phase object is gone or not ours.
#[test]
fn a_phase_object_has_its_place_in_the_reverse_order() {
    let going = || PhaseState {
        is_deleting: true,
        ..done()
    };
    let foreign = PhaseState {
        is_ours: false,
        ..done()
    };
    for (state, answer, expected) in [
        (
            Some(done()),
            DelegationAnswer::Gone,
            "xlast Delete xnear, done",
        ),
        (
            Some(done()),
            DelegationAnswer::Object(going()),
            "xlast Delete, waits: being deleted",
        ),
        (
            Some(done()),
            DelegationAnswer::Refused("no".to_owned()),
            "xlast Delete, failed: no",
        ),
        (
            Some(done()),
            DelegationAnswer::Failed("cut".to_owned()),
            "xlast Delete, failed: cut",
        ),
        (
            Some(going()),
            DelegationAnswer::Gone,
            "xlast, waits: being deleted",
        ),
        (Some(foreign), DelegationAnswer::Gone, "xlast xnear, done"),
        (None, DelegationAnswer::Gone, "xlast Get xnear, done"),
        (
            None,
            DelegationAnswer::Failed("cut".to_owned()),
            "xlast Get, failed: cut",
        ),
    ] {
        let revision = revision();
        let phases = phases(&revision, state);
        let kinds = kinds();
        let ours = |at: Position| {
            // This controller does not own the objects of a delegated phase.
            assert_ne!(at.phase, 1);
            Live::Present(live("2", "me*"))
        };
        let mut teardown = Teardown::new(&revision, &phases, &kinds, ours);
        let mut words = Vec::new();
        loop {
            match teardown.step() {
                Step::Send(requests) => {
                    for (at, request) in requests {
                        let name = &phases[at.phase].objects[at.object].key.name;
                        words.push(format!("{}{name}", letter(&request)));
                        teardown.answer(at, &request, Answer::NotFound);
                    }
                }
                Step::Delegate(phase, delegation) => {
                    words.push(word(&delegation));
                    teardown.answer_delegation(phase, answer.clone());
                }
                Step::Done => break,
            }
        }
        let entry = |what: &str, objects: Vec<WaitingForObject>| {
            let [object] = &objects[..] else {
                panic!("{objects:?}")
            };
            assert_eq!((&*object.phase, &*object.kind), ("p-far", "ObjectSetPhase"));
            assert_eq!(
                (&*object.name, &*object.reason),
                ("v1-p-far", "ArchivalInProgress")
            );
            assert_eq!(object.namespace.as_deref(), Some("ns"));
            format!("{what}: {}", object.message)
        };
        let outcome = match teardown.outcome() {
            TeardownOutcome::Done => "done".to_owned(),
            TeardownOutcome::Waiting(objects) => entry("waits", objects),
            TeardownOutcome::Failed(objects) => entry("failed", objects),
        };
        assert_eq!(format!("{}, {outcome}", words.join(" ")), expected);
    }
}

/// An answer about a phase that is run in-process has no effect.
#[test]
fn an_answer_about_no_phase_object_is_ignored() {
    let revision = revision();
    let phases = phases(&revision, Some(done()));
    let kinds = kinds();
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
    for phase in [0, 2, 3] {
        teardown.answer_delegation(phase, DelegationAnswer::Refused("no".to_owned()));
    }
    let Step::Delegate(1, delegation) = teardown.step() else {
        panic!("nothing is asked")
    };
    assert_eq!(word(&delegation), "Delete");
}

/// A phase object that no server accepts needs no request.
#[test]
fn a_phase_object_with_an_invalid_name_does_not_block_a_teardown() {
    let phase = |name: &str, class: &str| Phase {
        delegated: Some(Delegated {
            kind: "ObjectSetPhase",
            name: name.to_owned(),
            class: class.to_owned(),
            ..Delegated::default()
        }),
        ..Phase::default()
    };
    let (revision, kinds) = (Revision::default(), Kinds::new());
    for (name, class, expected) in [
        ("v1-a", "default", Step::Delegate(0, Delegation::Get)),
        ("v1-deploy web", "default", Step::Done),
        ("v1-a", "50%", Step::Done),
    ] {
        let phases = [phase(name, class)];
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Uncached);
        assert_eq!(teardown.step(), expected, "{name} {class}");
    }
}
