//! The requests of a pass, their order, and its result.

mod ahead;
mod delegation;
mod order;
mod outcome;
mod pauses;

use baton_apis::LifecycleState;
use serde_json::{Value, json};

use super::*;
use crate::object_pass::WriteResult;
use crate::{
    revision::{KindScope, KindState, duplicates},
    tests::fixtures::*,
};

/// Objects of a phase are sent concurrently, and phases one after the other. Every dry run of a
/// phase precedes its first write, which is that of the object without a dry run.
#[test]
fn objects_of_a_phase_are_sent_side_by_side() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b", "c"], &["d", "e"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut accept_all,
    );
    assert_eq!(steps, "dd c cc d c c");
    assert_eq!(outcome.result, PassResult::Passed);
    assert!(outcome.controls_all);
    let names: Vec<_> = outcome
        .controller_of
        .iter()
        .map(|object| object.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert!(
        outcome
            .writes
            .iter()
            .all(|(_, write)| *write == WriteResult::Created)
    );
}

#[test]
fn a_refused_object_stops_its_phase_before_anything_is_written() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "bad", "c"], &["d"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match request {
            Request::DryRunCreate(_) if name == "bad" => Answer::Refused("is invalid".into()),
            _ => accept_all(name, request),
        },
    );
    // All faults are reported at once, so the last object is checked as well. The refusal may
    // concern an existing object with another controller, so the object is read.
    assert_eq!(steps, "dd g d");
    let text = "Phase \"p1\", ConfigMap /bad: is invalid".to_owned();
    assert_eq!(outcome.result, PassResult::Preflight(vec![text]));
    assert_eq!(outcome.waiting_for.len(), 1);
}

/// Ownership of fields does not change while the revision is not rolled out.
#[test]
fn nothing_is_migrated_while_the_phase_is_refused() {
    let live = posted("previous", "1", "other", true);
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "bad"]],
        &no_probes(),
        |name| match name {
            "a" => Live::Present(live.clone()),
            _ => Live::Gone,
        },
        &mut |name, request| match request {
            Request::DryRunCreate(_) if name == "bad" => Answer::Refused("is invalid".into()),
            _ => server_of_posted(&live, true, true)(name, request),
        },
    );
    assert_eq!(steps, "D d");
    assert!(matches!(outcome.result, PassResult::Preflight(_)));
}

#[test]
fn objects_after_a_collision_are_not_written() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b", "c"]],
        &no_probes(),
        |name| match name {
            "b" => Live::Present(live("", "foreign*")),
            _ => Live::Uncached,
        },
        &mut accept_all,
    );
    assert_eq!(steps, "c");
    assert!(matches!(outcome.result, PassResult::Collision(_)));
    assert!(!outcome.controls_all);
}

#[test]
fn later_phases_wait_for_a_failing_probe() {
    let probes = probes("{fieldsEqual: {fieldA: .data.k, fieldB: .metadata.name}}");
    let (steps, outcome) = run(
        &revision(),
        &[&["a"], &["b"]],
        &probes,
        |_| Live::Uncached,
        &mut accept_all,
    );
    assert_eq!(steps, "c");
    assert_eq!(
        outcome.result,
        PassResult::ProbeFailure {
            phase: "p1".into(),
            failures: " ConfigMap ns/a: \".data.k\" != \".metadata.name\" expected: a string of 1 byte got: another \
                string of 1 byte"
                .into(),
        }
    );
    assert_eq!(outcome.waiting_for[0].name, "a");
}

/// Conditions of the hidden object are not reported, and its phase is not written; other objects
/// are reported as usual.
#[test]
fn an_unreadable_object_stops_its_phase_and_is_not_reported() {
    let revision = revision();
    let mapping = "conditionMappings: [{sourceType: Ready, destinationType: a.example/Ready}]";
    let object = |name: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n  {mapping}")
    };
    let (reported, hidden) = (object("told"), object("hidden"));
    let mut phases = vec![
        phase(&revision, "p0", &[&reported]),
        phase(
            &revision,
            "p1",
            &[
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: beside}}",
                &hidden,
            ],
        ),
    ];
    phases[1].objects[1].hidden = Some("x may not get it".to_owned());
    let kinds = kinds();
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases,
        probes: &no_probes(),
        kinds: &kinds,
        siblings: &Family,
    };
    let mut pass = Pass::new(snapshot, |at| {
        let mut live = live("3", "newer*");
        live["metadata"]["name"] = phases[at.phase].objects[at.object].key.name.as_str().into();
        live["status"] = json!({"conditions": [{"type": "Ready", "status": "False", "message": at.phase.to_string()}]});
        (Live::Present(live), None)
    });
    assert_eq!(pass.step(), Step::Done);
    let outcome = pass.outcome();
    let text = "Phase \"p1\", ConfigMap /hidden: x may not get it".to_owned();
    assert_eq!(outcome.result, PassResult::Preflight(vec![text]));
    let mapped: Vec<_> = outcome
        .mapped
        .iter()
        .map(|mapped| mapped.message.as_str())
        .collect();
    assert_eq!(mapped, ["0"]);
}

#[test]
fn nothing_is_written_while_paused() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..revision()
    };
    let drifted = |_: &str| Live::Present(live("2", "me*"));
    let (steps, outcome) = run(&paused, &[&["a"]], &no_probes(), drifted, &mut accept_all);
    assert_eq!((steps.as_str(), outcome.result), ("", PassResult::Passed));
    let (steps, outcome) = run(
        &paused,
        &[&["a"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut accept_all,
    );
    // An object of somebody else may exist.
    assert_eq!(steps, "g");
    assert!(matches!(outcome.result, PassResult::ProbeFailure { .. }));
}

/// Phases are identified by their position in the list, not by their name.
#[test]
fn phases_with_the_same_name_do_not_collide() {
    let revision = revision();
    let mut phases = phases(&revision, &[&["a"], &["b"]]);
    phases[1].name = "p1".into();
    assert_eq!(duplicates(&phases), Vec::<String>::new());
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases,
        probes: &no_probes(),
        kinds: &kinds(),
        siblings: &Family,
    };
    let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
    let mut order = Vec::new();
    while let Step::Send(requests) = pass.step() {
        for (at, request) in requests {
            order.push((letter(&request), at.phase));
            pass.answer(at, &request, accept_all("", &request));
        }
    }
    assert_eq!(order, [('c', 0), ('c', 1)]);
    assert!(pass.outcome().controls_all);
}

/// The outcomes of an object in a pass: `foreign` is its owner, the others are answers to its
/// requests.
const FATES: [&str; 6] = ["fine", "invalid", "denied", "broken", "cut", "foreign"];

fn answer_by_fate(fate: &str, request: &Request) -> Answer {
    match (fate, request) {
        ("invalid", Request::DryRunCreate(_) | Request::Create(_)) => {
            Answer::Refused("is invalid".to_owned())
        }
        ("denied", Request::Create(_)) => Answer::Refused("denied".to_owned()),
        ("broken", Request::DryRunCreate(_) | Request::Create(_)) | ("cut", Request::Create(_)) => {
            Answer::Failed("no route".to_owned())
        }
        _ => accept_all("", request),
    }
}

/// The result of a phase of two objects: `P` passes, `V` preflight error, `W` write error, `F`
/// failure, `C` collision. The most serious problem is reported, unless the first collision hides the
/// second object.
#[test]
fn results_by_the_problems_of_two_objects() {
    for (first, row) in [
        //           fine invalid denied broken cut foreign
        ("fine", "P    V       V      F      F   C"),
        ("invalid", "V    V       V      V      V   V"),
        ("denied", "W    V       V      F      F   V"),
        ("broken", "F    V       F      F      F   F"),
        ("cut", "F    V       V      F      F   F"),
        ("foreign", "C    C       C      C      C   C"),
    ] {
        for (second, expected) in FATES.into_iter().zip(row.split_whitespace()) {
            let fates = [("a", first), ("b", second)];
            let fate = |name: &str| fates.iter().find(|(of, _)| *of == name).unwrap().1;
            let (steps, outcome) = run(
                &revision(),
                &[&["a", "b"], &["later"]],
                &no_probes(),
                |name| match name {
                    "later" => Live::Present(live("3", "newer*")),
                    _ if fate(name) == "foreign" => Live::Present(live("", "stranger*")),
                    _ => Live::Uncached,
                },
                &mut |name, request| answer_by_fate(fate(name), request),
            );
            let (result, texts) = match outcome.result {
                PassResult::Passed => ("P", Vec::new()),
                PassResult::Preflight(texts) => ("V", texts),
                PassResult::WriteError(texts) => ("W", texts),
                PassResult::Failed(texts) => ("F", texts),
                PassResult::Collision(text) => ("C", vec![text]),
                other => panic!("{other:?}"),
            };
            assert_eq!(result, expected, "{first}, {second}: {steps}");
            // Objects after a collision are skipped, and no write follows a failed check.
            let processed = if first == "foreign" { 1 } else { 2 };
            let fails_check = |(_, fate): &(&str, &str)| matches!(*fate, "invalid" | "broken");
            let is_written = |(_, fate): &&(&str, &str)| *fate != "foreign";
            let mut wanted = fates[..processed].iter().filter(is_written);
            // The last object leads, so its own write fails, and no other write follows.
            let leader = wanted.next_back();
            let expected = match leader {
                None => 0,
                Some(_) if wanted.clone().any(fails_check) => 0,
                Some((_, "fine")) => 1 + wanted.count(),
                Some(_) => 1,
            };
            let writes = steps.matches('c').count();
            assert_eq!(writes, expected, "{first}, {second}: {steps}");
            let reason = match result {
                "V" => "PreflightError",
                "W" | "F" => "WriteError",
                _ => "CollisionDetected",
            };
            assert!(
                outcome.waiting_for.iter().all(|w| w.reason == reason),
                "{first}, {second}"
            );
            // The condition and `waitingFor` list the same texts, and only collisions are blockers.
            let waiting: Vec<_> = outcome
                .waiting_for
                .iter()
                .map(|w| w.message.clone())
                .collect();
            assert_eq!(waiting, texts, "{first}, {second}");
            assert_eq!(!outcome.blockers.is_empty(), result == "C");
        }
    }
}

/// The second phase is reached or not, by the state of the object in the first one.
#[test]
fn a_phase_starts_when_all_objects_of_the_previous_one_are_ready() {
    let probes = probes("{fieldsEqual: {fieldA: .data.k, fieldB: .data.k}}");
    let with_data = |mut live: Value, data: Value| {
        live["data"] = data;
        Live::Present(live)
    };
    let newer = || live("3", "newer*");
    let config = |data| with_data(newer(), data);
    for (case, first, active, paused) in [
        ("of a newer revision", config(json!({"k": "v"})), None, None),
        (
            "of a newer revision, and failing",
            config(json!({})),
            Some("\".data.k\" missing"),
            Some("\".data.k\" missing"),
        ),
        (
            "being deleted",
            Live::Present(terminating(live("2", "me*"))),
            Some("being deleted"),
            None,
        ),
        ("created now", Live::Uncached, None, Some("not found")),
        ("deleted", Live::Gone, None, Some("not found")),
    ] {
        for (lifecycle, message) in [
            (LifecycleState::Active, active),
            (LifecycleState::Paused, paused),
        ] {
            let revision = Revision {
                lifecycle,
                ..revision()
            };
            let (steps, outcome) = run(
                &revision,
                &[&["a"], &["b"]],
                &probes,
                |name| match name {
                    "a" => first.clone(),
                    _ => Live::Present(live("", "stranger*")),
                },
                &mut accept_all,
            );
            let is_reached = match outcome.result {
                PassResult::Collision(_) => true,
                // A collision does not matter to a revision that writes nothing.
                PassResult::Passed => lifecycle == LifecycleState::Paused,
                PassResult::ProbeFailure { ref phase, .. } => {
                    assert_eq!(phase, "p1");
                    false
                }
                ref other => panic!("{case}: {other:?}"),
            };
            assert_eq!(
                is_reached,
                message.is_none(),
                "{case} {lifecycle:?} {steps}"
            );
            if let Some(message) = message {
                let shown = &outcome.waiting_for[0].message;
                assert!(shown == message, "{case}: {shown}");
            }
        }
    }
}

/// The objects that a revision reports as its own, and if these are all of them, by the owners of
/// two objects.
#[test]
fn controlled_objects_by_their_owners() {
    for (a, b, expected, all) in [
        ("me*", "me*", &["a", "b"][..], true),
        ("me*", "newer*", &["a"], false),
        ("newer*", "me*", &["b"], false),
        ("newer*", "newer*", &[], false),
        ("newer* me", "me*", &["b"], false),
    ] {
        let paused = Revision {
            lifecycle: LifecycleState::Paused,
            ..revision()
        };
        let observe = |name: &str| Live::Present(live("3", if name == "a" { a } else { b }));
        let (_, outcome) = run(
            &paused,
            &[&["a"], &["b"]],
            &no_probes(),
            observe,
            &mut accept_all,
        );
        let names: Vec<_> = outcome.controller_of.iter().map(|o| &*o.name).collect();
        assert_eq!(
            (&names[..], outcome.controls_all),
            (expected, all),
            "{a}, {b}"
        );
    }
}

/// A phase with an invalid manifest is not begun; earlier phases are written. All violations of the
/// phase are listed in the order of its objects.
#[test]
fn preflight_stops_a_phase_before_its_first_request() {
    let revision = revision();
    let fine = "{apiVersion: v1, kind: ConfigMap, metadata: {name: fine}}";
    let later = "{apiVersion: x.io/v1, kind: Later, metadata: {name: later}}";
    for (object, text) in [
        (
            "{apiVersion: x.io/v1, kind: Gone, metadata: {name: a}}",
            "Gone /a: x.io/v1, Kind=Gone not registered on the api server.",
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
            "Namespace /a: Must be namespaced scoped when part of an non-cluster-scoped API.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}",
            "ConfigMap b/a: Must stay within the same namespace.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap}",
            "ConfigMap /: Object must have a metadata.name.",
        ),
    ] {
        for (objects, count) in [
            (&[object][..], 1),
            (&[fine, object], 1),
            (&[object, fine, object], 2),
        ] {
            let phases = [
                phase(&revision, "first", &[fine]),
                phase(&revision, "second", objects),
                phase(&revision, "third", &[later]),
            ];
            let (probes, kinds) = (no_probes(), kinds());
            let snapshot = Snapshot {
                revision: &revision,
                phases: &phases,
                probes: &probes,
                kinds: &kinds,
                siblings: &Family,
            };
            let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
            let mut letters = Vec::new();
            while let Step::Send(requests) = pass.step() {
                for (at, request) in requests {
                    letters.push((letter(&request), at.phase));
                    pass.answer(at, &request, accept_all("", &request));
                }
            }
            assert_eq!(letters, [('c', 0)], "{object}");
            let outcome = pass.outcome();
            let texts = vec![format!("Phase \"second\", {text}"); count];
            assert_eq!(outcome.result, PassResult::Preflight(texts), "{object}");
            assert_eq!(outcome.waiting_for, [], "{object}");
        }
    }
}

/// Facts observed before the pass, such as a missing storage class, are added to the failures of an
/// object, and left out when the object is fine.
#[test]
fn a_failure_includes_missing_classes_and_reasons_of_pods() {
    let revision = revision();
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    let failing = "{fieldsEqual: {fieldA: .data.k, fieldB: .metadata.name}}";
    for (probe, lacks, reason, status, expected) in [
        (failing, None, Some("pods"), "Pending", Some("(pods)")),
        (
            failing,
            Some("no class"),
            Some("pods"),
            "Pending",
            Some("string of 1 byte (pods), no class"),
        ),
        (
            failing,
            Some("no class"),
            None,
            "Bound",
            Some("string of 1 byte"),
        ),
        (
            "",
            Some("no class"),
            None,
            "Pending",
            Some("ns/a: no class"),
        ),
        ("", Some("no class"), None, "Bound", None),
        ("", None, Some("pods"), "Pending", None),
    ] {
        let mut phases = vec![phase(&revision, "p1", &[object])];
        phases[0].objects[0].lacks = lacks.map(ToOwned::to_owned);
        phases[0].objects[0].reason = reason.map(ToOwned::to_owned);
        let probes = if probe.is_empty() {
            no_probes()
        } else {
            probes(probe)
        };
        let kinds = kinds();
        let snapshot = Snapshot {
            revision: &revision,
            phases: &phases,
            probes: &probes,
            kinds: &kinds,
            siblings: &Family,
        };
        let mut pass = Pass::new(snapshot, |_| {
            let mut live = live("3", "newer*");
            live["metadata"]["name"] = "a".into();
            live["data"]["k"] = "b".into();
            live["status"]["phase"] = status.into();
            (Live::Present(live), None)
        });
        assert_eq!(pass.step(), Step::Done);
        let reported = match pass.outcome().result {
            PassResult::ProbeFailure { failures, .. } => Some(failures),
            _ => None,
        };
        let ends = reported
            .as_deref()
            .map(|reported| expected.is_some_and(|end| reported.ends_with(end)));
        assert_eq!(ends, expected.map(|_| true), "{reported:?} {expected:?}");
    }
}

/// The account's right to read an object is checked only if the object is probed.
#[test]
fn the_state_of_an_unprobed_workload_is_not_reported() {
    let revision = revision();
    let object = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}";
    let phases = [phase(&revision, "p1", &[object])];
    let probes = no_probes();
    let kinds = Kinds::from([(
        phases[0].objects[0].gvk.clone(),
        KindState::served(KindScope::Namespaced),
    )]);
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases,
        probes: &probes,
        kinds: &kinds,
        siblings: &Family,
    };
    let mut pass = Pass::new(snapshot, |_| {
        let mut live = terminating(live("2", "me*"));
        live["status"]["conditions"] =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "quota of team a"}]);
        (Live::Present(live), None)
    });
    assert_eq!(pass.step(), Step::Done);
    let expected = PassResult::ProbeFailure {
        phase: "p1".to_owned(),
        failures: "apps Deployment ns/a: being deleted".to_owned(),
    };
    assert_eq!(pass.outcome().result, expected);
}
