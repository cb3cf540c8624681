//! The parts of an outcome that concern objects, apart from the result.

use super::*;
use crate::diff::drift::Drift;

fn at(phase: usize, object: usize) -> Position {
    Position { phase, object }
}

/// An object with a status.
fn with_conditions(mut live: Value, conditions: &Value) -> Live {
    live["status"] = json!({ "conditions": conditions });
    Live::Present(live)
}

/// Failures of a phase are listed object by object, for any cause.
#[test]
fn a_probe_failure_lists_every_object_of_the_phase() {
    let probes = probes(
        "{fieldsEqual: {fieldA: .data.k, fieldB: .metadata.name}}, \
        {fieldsEqual: {fieldA: .data.k, fieldB: .metadata.namespace}}",
    );
    let twice = "\".data.k\" != \".metadata.name\" expected: a string of 1 byte got: another string of 1 byte, \
        \".data.k\" != \".metadata.namespace\" expected: a string of 1 byte got: a string of 2 bytes";
    let (steps, outcome) = run(
        &revision(),
        &[&["b", "leaving", "c", "taken"], &["later"]],
        &probes,
        |name| match name {
            "leaving" => Live::Present(terminating(live("2", "me*"))),
            _ => Live::Uncached,
        },
        &mut accept_all,
    );
    assert_eq!(steps, "d c c");
    let texts = [
        ("b", twice.to_owned()),
        ("leaving", "being deleted".to_owned()),
        ("c", twice.to_owned()),
        ("taken", "not found, left to revision v3".to_owned()),
    ];
    let failures = texts
        .each_ref()
        .map(|(name, text)| format!(" ConfigMap ns/{name}: {text}"));
    let expected = PassResult::ProbeFailure {
        phase: "p1".to_owned(),
        failures: failures.join(", "),
    };
    assert_eq!(outcome.result, expected);
    let waiting = outcome.waiting_for.iter().map(|w| {
        assert_eq!(
            (&*w.phase, &*w.reason, &*w.kind),
            ("p1", "ProbeFailure", "ConfigMap")
        );
        (&*w.name, w.message.clone())
    });
    assert_eq!(waiting.collect::<Vec<_>>(), texts);
}

/// Refused writes are listed with the position of their objects, and collisions with their own
/// text.
#[test]
fn problems_name_their_objects() {
    for (fate, result) in [
        (
            "invalid",
            PassResult::Preflight as fn(Vec<String>) -> PassResult,
        ),
        ("denied", PassResult::WriteError),
        ("broken", PassResult::Failed),
        ("cut", PassResult::Failed),
    ] {
        let (_, outcome) = run(
            &revision(),
            &[&["fine"], &["a", "fine-too", "b", "leader"]],
            &no_probes(),
            |_| Live::Gone,
            &mut |name, request| match name {
                "a" | "b" => answer_by_fate(fate, request),
                _ => accept_all(name, request),
            },
        );
        let text = match fate {
            "invalid" => "is invalid",
            "denied" => "denied",
            _ => "no route",
        };
        let texts = ["a", "b"].map(|name| format!("Phase \"p2\", ConfigMap /{name}: {text}"));
        assert_eq!(outcome.result, result(texts.to_vec()), "{fate}");
        let waiting: Vec<_> = outcome
            .waiting_for
            .iter()
            .map(|w| (&*w.phase, &*w.name))
            .collect();
        assert_eq!(waiting, [("p2", "a"), ("p2", "b")], "{fate}");
        assert_eq!(outcome.blockers, [], "{fate}");
    }
}

/// Conditions of all existing objects are mapped, also those of phases that are not reached.
#[test]
fn conditions_are_mapped_from_all_phases() {
    let revision = revision();
    let mut phases = phases(&revision, &[&["a", "b"], &["c"], &["d"]]);
    for (index, object) in phases
        .iter_mut()
        .flat_map(|phase| &mut phase.objects)
        .enumerate()
    {
        object.mappings = yaml(&format!(
            "[{{sourceType: Ready, destinationType: x.io/C{index}}}]"
        ));
    }
    let ready =
        |status: &str| json!([{"type": "Ready", "status": status, "reason": "R", "message": "m"}]);
    let (probes, kinds) = (no_probes(), kinds());
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases,
        probes: &probes,
        kinds: &kinds,
        siblings: &Family,
    };
    let observe = |at: Position| match (at.phase, at.object) {
        (0, 0) => with_conditions(live("3", "newer*"), &ready("True")),
        // The first phase does not pass.
        (0, _) => Live::Present(terminating(live("2", "me*"))),
        (1, _) => with_conditions(live("", "stranger*"), &ready("False")),
        _ => with_conditions(live("2", "me*"), &json!([])),
    };
    let mut pass = Pass::new(snapshot, |at| (observe(at), None));
    assert_eq!(pass.step(), Step::Done);
    let outcome = pass.outcome();
    assert!(matches!(outcome.result, PassResult::ProbeFailure { .. }));
    let shown = outcome
        .mapped
        .iter()
        .map(|c| (&*c.type_, &*c.status, &*c.reason, &*c.message));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("x.io/C0", "True", "R", "m"),
            ("x.io/C2", "False", "R", "m")
        ]
    );
    let names: Vec<_> = outcome
        .controller_of
        .iter()
        .map(|object| &*object.name)
        .collect();
    assert_eq!((names, outcome.controls_all), (vec!["b", "d"], false));
}

/// Writes and fingerprints are reported with the position of their object.
#[test]
fn writes_and_fingerprints_have_the_position_of_their_object() {
    let drifted = |name: &str| match name {
        "b" => Live::Present(live("1", "previous*")),
        "c" => Live::Present(live("2", "me*")),
        "newer" => Live::Present(live("3", "newer*")),
        _ => Live::Gone,
    };
    let mut server = |_: &str, request: &Request| match request {
        Request::DryRunCreate(body) | Request::Create(body) => Answer::Created(body.clone()),
        Request::DryRunApply(body) | Request::Apply(body) => {
            let mut live = managed_by(body.clone(), "package-operator", "Apply");
            live["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:data": {"f:k": {}}});
            Answer::Object(live)
        }
        other => panic!("{other:?}"),
    };
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b"], &["newer", "c"]],
        &no_probes(),
        drifted,
        &mut server,
    );
    assert_eq!(steps, "d A c D A");
    assert_eq!(
        outcome.writes,
        [
            (at(0, 0), WriteResult::Created),
            (at(0, 1), WriteResult::TookOver(Some("v1".to_owned()))),
            (at(1, 1), WriteResult::Repaired(Drift::at(".data.k"))),
        ]
    );
    // The answer to the create has no entry of ours, so it has no fingerprint.
    let learned: Vec<_> = outcome.learned.iter().map(|(at, _)| *at).collect();
    assert_eq!(learned, [at(0, 1), at(1, 1)]);
    let names: Vec<_> = outcome
        .controller_of
        .iter()
        .map(|object| &*object.name)
        .collect();
    assert_eq!((names, outcome.controls_all), (vec!["a", "b", "c"], false));
}

/// A blocker is reported with the `resourceVersion` that was observed.
#[test]
fn a_blocker_is_reported_with_its_observed_version() {
    let by = ", controlled by ObjectSet somebody";
    for (owners, number, by) in [
        ("stranger*", "", ""),
        ("unrelated*", "1", by),
        // The number is of another chain.
        ("unrelated*", "9", by),
        ("", "2", ""),
        ("archived*", "4", by),
    ] {
        let (steps, outcome) = run(
            &revision(),
            &[&["fine"], &["fine-too", "b", "c"]],
            &no_probes(),
            |name| match name {
                "b" | "c" => Live::Present(at_version(live(number, owners), &format!("77-{name}"))),
                _ => Live::Gone,
            },
            &mut accept_all,
        );
        assert_eq!(steps, "c c", "{owners}");
        assert_eq!(
            outcome.blockers,
            [(at(1, 1), "77-b".to_owned())],
            "{owners}"
        );
        let text = format!(
            "object /b kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap ns/b not owned by previous \
             revision{by}"
        );
        assert_eq!(
            outcome.result,
            PassResult::Collision(text.clone()),
            "{owners}"
        );
        let waiting: Vec<_> = outcome
            .waiting_for
            .iter()
            .map(|w| (&*w.name, &*w.message))
            .collect();
        assert_eq!(waiting, [("b", &*text)], "{owners}");
    }
}

/// An object of somebody else is taken over when its deletion is complete, of which no other watch
/// reports the end.
#[test]
fn a_terminating_object_of_another_owner_is_watched() {
    for (owners, expected) in [
        ("previous*", vec![(at(0, 0), "77".to_owned())]),
        ("previous* me", vec![]),
        ("me*", vec![]),
    ] {
        let mut leaving = at_version(live("1", owners), "77");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let (steps, outcome) = run(
            &revision(),
            &[&["a"]],
            &no_probes(),
            |_| Live::Present(leaving.clone()),
            &mut accept_all,
        );
        assert_eq!(steps, "", "{owners}");
        assert_eq!(outcome.blockers, expected, "{owners}");
    }
}

#[test]
fn a_paused_revision_reports_a_collision_and_writes_nothing() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..revision()
    };
    for (cached, owners) in [(true, "unrelated*"), (false, "unrelated*"), (false, "")] {
        let there = at_version(live("9", owners), "77");
        let (steps, outcome) = run(
            &paused,
            &[&["a"]],
            &no_probes(),
            |_| {
                if cached {
                    Live::Present(there.clone())
                } else {
                    Live::Uncached
                }
            },
            &mut |_, request| match request {
                Request::Get => Answer::Object(there.clone()),
                other => panic!("{other:?}"),
            },
        );
        assert_eq!(steps, if cached { "" } else { "g" });
        assert!(
            matches!(outcome.result, PassResult::Collision(_)),
            "{owners}"
        );
        assert_eq!(outcome.blockers, [(at(0, 0), "77".to_owned())]);
    }
}
