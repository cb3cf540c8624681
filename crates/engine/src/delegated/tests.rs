//! Names and reports of phase objects.

use super::*;
use crate::tests::fixtures::delegation::{condition, done, reports};

#[test]
fn names_of_phase_objects() {
    let [plain, other] = names("a-b", "c");
    assert_eq!(plain, "a-b-c");
    assert_eq!(plain, names("a", "b-c")[0]);
    assert_ne!(other, names("a", "b-c")[1]);
    assert!(other.starts_with("a-b-c-") && other.len() == "a-b-c-".len() + 8);
    let long = "x".repeat(80);
    assert_eq!(names(&long, "y")[1].len(), 63);
    for length in 0..70 {
        let name = format!("{}ä€", "x".repeat(length));
        assert!(names("v1", &name)[1].len() <= 63);
    }
    let found = |name: &str, class: &str| {
        let delegated = Delegated {
            kind: "ObjectSetPhase",
            name: name.to_owned(),
            class: class.to_owned(),
            ..Delegated::default()
        };
        (delegated.violation().is_some(), delegated.is_impossible())
    };
    // Name, class, expected: refused, impossible on every server.
    for (name, class, expected) in [
        ("web-v1-deploy", "default", (false, false)),
        (&*"x".repeat(63), "default", (false, false)),
        (&*"x".repeat(64), "default", (true, false)),
        ("web.v1-deploy", "default", (true, false)),
        ("1-a", "default", (true, false)),
        ("a-", "default", (true, true)),
        ("a-B", "default", (true, true)),
        ("v1-deploy web", "default", (true, true)),
        ("v1-50%", "default", (true, true)),
        ("v1-a", "deploy web", (true, true)),
        ("v1-a", "50%", (true, true)),
        ("v1-a", "cluster.eu-1", (false, false)),
        ("v1-a", &*"x".repeat(64), (true, true)),
    ] {
        assert_eq!(found(name, class), expected, "{name} {class}");
    }
}

/// Revision, phase, and the name of the phase object: the plain one, unless its length is all that
/// is wrong with it.
#[test]
fn names_that_are_too_long_are_made_short() {
    let long = "x".repeat(60);
    for (revision, phase, is_free, is_short) in [
        ("v1", "a", true, false),
        ("v1", "a", false, true),
        (&*long, "ab", true, false),
        (&long, "abc", true, true),
        (&long, "ABC", true, false),
        (&long, "a.c", true, false),
        (&"1".repeat(62), "abc", true, false),
    ] {
        let names = names(revision, phase);
        let name = name_to_make(&names, is_free);
        assert_eq!(name, &names[usize::from(is_short)], "{revision} {phase}");
        assert!(!is_short || name.len() <= 63);
    }
    let [one, other] = ["abc", "abd"].map(|phase| names(&long, phase)[1].clone());
    assert_ne!(one, other);
}

/// Reports by the status of `Available`, its observed generation (the object has generation 2), and
/// whether the phase object is being deleted.
#[test]
fn reports_by_status_generation_and_deletion() {
    for (status, row) in [
        //            generation 1   generation 2   none
        ("True", ["nothing", "passed", "nothing"]),
        ("False", ["nothing", "False", "nothing"]),
        ("Unknown", ["nothing", "Unknown", "nothing"]),
        ("Other", ["nothing", "Other", "nothing"]),
    ] {
        for (observed, expected) in [Some(1), Some(2), None].into_iter().zip(row) {
            let mut state = reports(status, "Reason", "message");
            state.conditions[0].observed_generation = observed;
            let report = match state.report() {
                PhaseReport::Passed => "passed".to_owned(),
                PhaseReport::Nothing => "nothing".to_owned(),
                PhaseReport::Not(status, reason, message) => {
                    assert_eq!((reason, message), ("Reason", "message"));
                    status.to_owned()
                }
            };
            assert_eq!(report, expected, "{status} {observed:?}");
            state.is_deleting = true;
            let deleted = PhaseReport::Not("False", Reason::ProbeFailure.as_str(), "being deleted");
            assert_eq!(state.report(), deleted, "{status} {observed:?}");
        }
    }
    let unreported = PhaseState::default();
    assert_eq!(unreported.report(), PhaseReport::Nothing);
}

/// Texts for people while a phase object is being deleted, by its last report.
#[test]
fn a_deleted_phase_object_waits_with_the_message_of_its_report() {
    for (status, reason, expected) in [
        ("True", "Available", "being deleted"),
        ("False", "ProbeFailure", "being deleted"),
        ("False", "ArchivalInProgress", "x"),
        ("Unknown", "ClusterUnreachable", "x"),
    ] {
        let mut state = reports(status, reason, "x");
        assert_eq!(state.why_waiting(), expected);
        state.generation += 1;
        assert_eq!(state.why_waiting(), "being deleted", "an outdated {status}");
    }
}

/// One character can make a name impossible, wherever it stands: every ASCII character as the
/// first, the middle, the last and the only one.
#[test]
fn every_character_in_every_place_of_a_name() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let digits = "0123456789";
    for c in (0..=127_u8).map(char::from).chain(['ä', '€']) {
        let is_letter = letters.contains(c);
        let is_digit = digits.contains(c);
        for (name, expected) in [
            (format!("{c}"), is_letter),
            (format!("{c}x"), is_letter),
            (format!("x{c}x"), is_letter || is_digit || c == '-'),
            (format!("x{c}"), is_letter || is_digit),
        ] {
            let delegated = Delegated {
                kind: "ObjectSetPhase",
                name: name.clone(),
                class: "default".to_owned(),
                ..Delegated::default()
            };
            assert_eq!(delegated.violation().is_none(), expected, "{name:?}");
        }
    }
}

#[test]
fn the_text_about_an_impossible_name() {
    for kind in ["ObjectSetPhase", "ClusterObjectSetPhase"] {
        for name in ["", "Web", &"x".repeat(64)] {
            let delegated = Delegated {
                kind,
                name: name.to_owned(),
                class: "default".to_owned(),
                ..Delegated::default()
            };
            let expected = format!(
                "{kind} \"{name}\": the name must be a DNS label of at most 63 characters that starts with a letter; \
                shorten the name of the revision or of the phase."
            );
            assert_eq!(delegated.violation(), Some(expected));
        }
    }
}

/// Phase objects outlive a release of Baton: another name would be another object.
#[test]
fn names_do_not_change_between_versions_of_baton() {
    for (revision, phase, plain, other) in [
        ("v1", "deploy", "v1-deploy", "v1-deploy-646ac520"),
        ("a-b", "c", "a-b-c", "a-b-c-a81be58b"),
        ("a", "b-c", "a-b-c", "a-b-c-63fa39e1"),
        ("v1", "", "v1-", "v1-398b4925"),
    ] {
        assert_eq!(
            names(revision, phase),
            [plain, other],
            "{revision}, {phase}"
        );
    }
}

/// All texts of up to four characters that may be confused with the separator.
fn short_names() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut longest = all.clone();
    for _ in 0..4 {
        let longer = |name: &String| ["a", "b", "-"].map(|c| format!("{name}{c}"));
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    all
}

/// If two pairs of revision and phase have the same plain name, their other names differ, and no
/// other name equals the plain name of a third pair.
#[test]
fn pairs_with_the_same_plain_name_have_different_other_names() {
    let mut by_name = BTreeMap::<String, (String, String)>::new();
    let parts = short_names();
    for revision in &parts {
        for phase in &parts {
            let pair = (revision.clone(), phase.clone());
            let [plain, other] = names(revision, phase);
            assert_eq!(plain, format!("{revision}-{phase}"));
            let suffix = other.rsplit_once('-').expect("a suffix").1;
            assert!(
                suffix.len() == 8 && suffix.chars().all(|c| "0123456789abcdef".contains(c)),
                "{other}"
            );
            assert!(!other.contains(&format!("--{suffix}")), "{other}");
            if let Some(before) = by_name.insert(other.clone(), pair.clone()) {
                panic!("{before:?} and {pair:?} are both {other}");
            }
        }
    }
    assert_eq!(by_name.len(), 121 * 121);
}

/// The other name has at most 63 bytes, and keeps as much of long names as there is room for.
#[test]
fn other_names_are_cut_to_a_label() {
    for (length, expected) in [(1, 3 + 9), (50, 52 + 9), (52, 63), (53, 63), (80, 63)] {
        let [plain, other] = names("r", &"x".repeat(length));
        assert_eq!(
            (plain.len(), other.len()),
            (length + 2, expected),
            "{length}"
        );
        let delegated = Delegated {
            name: other.clone(),
            class: "default".to_owned(),
            ..Delegated::default()
        };
        assert_eq!(delegated.violation(), None, "{other}");
    }
    // The cut leaves neither a hyphen nor half a character at the end.
    for (name, kept) in [
        (format!("{}--{}", "x".repeat(50), "y".repeat(20)), 52),
        (format!("{}ä{}", "x".repeat(51), "y".repeat(20)), 53),
        (format!("{}€", "x".repeat(50)), 52),
    ] {
        let [_, other] = names("r", &name);
        assert_eq!(other.len(), kept + 9, "{other}");
    }
}

/// The entries of a phase object in `status.remotePhases` and `status.waitingFor`.
#[test]
fn references_and_waiting_entries() {
    let state = |is_ours, is_deleting| {
        Some(PhaseState {
            is_ours,
            is_deleting,
            ..done()
        })
    };
    for (state, expected) in [
        (None, false),
        (state(true, false), true),
        // The objects of the phase exist until the phase object is gone.
        (state(true, true), true),
        (state(false, false), false),
        (state(false, true), false),
    ] {
        let delegated = Delegated {
            name: "v1-p".to_owned(),
            state,
            ..Delegated::default()
        };
        let reference = expected.then(|| RemotePhaseReference {
            name: "v1-p".to_owned(),
            uid: "phase".to_owned(),
        });
        assert_eq!(delegated.reference(), reference, "{:?}", delegated.state);
    }
    for (kind, namespace, expected) in [
        ("ObjectSetPhase", "ns", Some("ns")),
        ("ClusterObjectSetPhase", "", None),
    ] {
        let delegated = Delegated {
            kind,
            namespace: namespace.to_owned(),
            name: "v1-p".to_owned(),
            class: "default".to_owned(),
            ..Delegated::default()
        };
        let expected = WaitingForObject {
            phase: "p".to_owned(),
            group: "package-operator.run".to_owned(),
            kind: kind.to_owned(),
            name: "v1-p".to_owned(),
            namespace: expected.map(str::to_owned),
            reason: "WriteError".to_owned(),
            message: "message".to_owned(),
            cause: None,
        };
        assert_eq!(
            delegated.waiting("p", Reason::WriteError, "message"),
            expected
        );
    }
}

/// Reports by type, status and generation of a condition; the phase object has generation 2.
#[test]
fn reports_by_type_status_and_generation() {
    for (type_, status, row) in [
        // generation 1, 2, 3, none: passed `P`, paused `p`, mapped `m`
        ("Available", "True", [".", "P", ".", "."]),
        ("Available", "False", [".", ".", ".", "."]),
        ("Paused", "True", [".", "p", ".", "."]),
        ("Paused", "False", [".", ".", ".", "."]),
        ("Paused", "Unknown", [".", ".", ".", "."]),
        ("x.io/Available", "True", [".", "m", ".", "."]),
        ("x.io/Paused", "Unknown", [".", "m", ".", "."]),
        ("Ready", "True", [".", ".", ".", "."]),
    ] {
        for (generation, expected) in [Some(1), Some(2), Some(3), None].into_iter().zip(row) {
            let mut reported = condition(type_, status, "Reason", "message");
            reported.observed_generation = generation;
            let state = PhaseState {
                conditions: vec![reported],
                ..done()
            };
            let mut shown = String::new();
            if state.report() == PhaseReport::Passed {
                shown.push('P');
            }
            if state.reports_pause() {
                shown.push('p');
            }
            for mapped in state.mapped() {
                assert_eq!((&*mapped.type_, &*mapped.status), (type_, status));
                assert_eq!((&*mapped.reason, &*mapped.message), ("Reason", "message"));
                shown.push('m');
            }
            if shown.is_empty() {
                shown.push('.');
            }
            assert_eq!(shown, expected, "{type_} {status} {generation:?}");
        }
    }
}

/// The condition of the present generation is found among others.
#[test]
fn the_report_of_the_current_generation_is_used() {
    let mut outdated = condition(AVAILABLE, "False", "ProbeFailure", "old");
    outdated.observed_generation = Some(1);
    let state = PhaseState {
        conditions: vec![
            condition(PAUSED, "False", "Active", ""),
            outdated,
            condition("x.io/Ready", "False", "No", ""),
            condition(AVAILABLE, "Unknown", "ClusterUnreachable", "lost"),
        ],
        ..done()
    };
    assert_eq!(
        state.report(),
        PhaseReport::Not("Unknown", "ClusterUnreachable", "lost")
    );
    assert_eq!(state.why_waiting(), "lost");
    assert!(!state.reports_pause());
    assert_eq!(state.mapped().len(), 1);
}

/// Texts for people while a phase object is being deleted, by status and reason. The deletion hides
/// the report from the revision, but not from people.
#[test]
fn the_reason_for_waiting_by_status_and_reason() {
    for (status, row) in [
        //          ProbeFailure, ArchivalInProgress, ClusterUnreachable
        ("True", ["being deleted", "x", "being deleted"]),
        ("False", ["being deleted", "x", "being deleted"]),
        ("Unknown", ["x", "x", "x"]),
    ] {
        let reasons = ["ProbeFailure", "ArchivalInProgress", "ClusterUnreachable"];
        for (reason, expected) in reasons.into_iter().zip(row) {
            for is_deleting in [false, true] {
                let state = PhaseState {
                    is_deleting,
                    ..reports(status, reason, "x")
                };
                assert_eq!(state.why_waiting(), expected, "{status} {reason}");
            }
        }
    }
    let unreported = PhaseState::default();
    assert_eq!(unreported.why_waiting(), "being deleted");
}
