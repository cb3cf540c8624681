//! Checks before the first write of a revision that checks all phases first.

use super::*;
use crate::{
    Gvk,
    revision::{KindScope, KindState},
};

fn checking_all() -> Revision {
    Revision {
        checks_all_first: true,
        ..revision()
    }
}

/// A revision whose objects may be in any namespace and have any scope.
fn cluster_scoped() -> Revision {
    let mut revision = checking_all();
    revision.identity.namespace = String::new();
    revision
}

/// A server that refuses the object `bad`, and on which no object exists.
fn refuse_bad(name: &str, request: &Request) -> Answer {
    match request {
        Request::DryRunCreate(_) | Request::Create(_) if name == "bad" => {
            Answer::Refused("is invalid".into())
        }
        _ => accept_all(name, request),
    }
}

const BAD: &str = "Phase \"p2\", ConfigMap /bad: is invalid";

#[test]
fn all_phases_are_checked_before_the_first_write() {
    let names: &[&[&str]] = &[&["a", "b"], &["c", "d"], &["e"]];
    let run = |revision: &Revision| {
        let unknown = |_: &str| Live::Uncached;
        let (steps, outcome) = run(revision, names, &no_probes(), unknown, &mut accept_all);
        assert_eq!(outcome.result, PassResult::Passed);
        steps
    };
    assert_eq!(run(&revision()), "d c c d c c c");
    // Writes of an earlier phase may change the answer, so later phases are checked again.
    assert_eq!(run(&checking_all()), "ddddd cc d c c c");
}

#[test]
fn a_refusal_in_a_later_phase_prevents_the_first_write() {
    let names: &[&[&str]] = &[&["a"], &["b", "bad"]];
    let run = |revision: &Revision| {
        run(
            revision,
            names,
            &no_probes(),
            |_| Live::Uncached,
            &mut refuse_bad,
        )
    };
    let (steps, outcome) = run(&checking_all());
    assert_eq!(steps, "ddd g");
    assert_eq!(outcome.result, PassResult::Preflight(vec![BAD.to_owned()]));
    assert_eq!(outcome.writes, []);
    assert_eq!(outcome.waiting_for[0].phase, "p2");
    let (steps, outcome) = run(&revision());
    assert_eq!(steps, "c d c g");
    assert_eq!(outcome.result, PassResult::Preflight(vec![BAD.to_owned()]));
    assert_eq!(outcome.writes.len(), 1);
}

/// A revision that controls an object is checked phase by phase, in every pass.
#[test]
fn a_revision_with_objects_is_checked_phase_by_phase() {
    let mut own = live("2", "me*");
    own["data"]["k"] = "v".into();
    own["metadata"]["managedFields"] = json!([]);
    let (steps, outcome) = run(
        &checking_all(),
        &[&["a"], &["bad"]],
        &probes("{fieldsEqual: {fieldA: .data.k, fieldB: .metadata.name}}"),
        |name| match name {
            "a" => Live::Present(own.clone()),
            _ => Live::Uncached,
        },
        &mut refuse_bad,
    );
    assert_eq!(steps, "D A");
    assert!(matches!(outcome.result, PassResult::ProbeFailure { .. }));
}

#[test]
fn only_the_first_phase_is_read_while_paused() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..checking_all()
    };
    let names: &[&[&str]] = &[&["a"], &["bad"]];
    let (steps, _) = run(
        &paused,
        names,
        &no_probes(),
        |_| Live::Uncached,
        &mut refuse_bad,
    );
    assert_eq!(steps, "g");
}

#[test]
fn a_collision_in_a_later_phase_prevents_the_first_write() {
    let names: &[&[&str]] = &[&["a"], &["b"], &["c"]];
    let stranger = |name: &str| match name {
        "a" => Live::Uncached,
        _ => Live::Present(live("", "stranger*")),
    };
    let (steps, outcome) = run(
        &checking_all(),
        names,
        &no_probes(),
        stranger,
        &mut accept_all,
    );
    assert_eq!(steps, "d");
    let text = "object /b kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap ns/b not owned by previous \
                revision";
    assert_eq!(outcome.result, PassResult::Collision(text.to_owned()));
    assert_eq!(outcome.blockers.len(), 1);
    assert_eq!(outcome.writes, []);
}

/// Ownership of fields changes with the phase itself, not before.
#[test]
fn fields_are_not_migrated_before_their_phase_is_reached() {
    let legacy = posted("previous", "1", "other", true);
    let (steps, outcome) = run(
        &checking_all(),
        &[&["b"], &["a"]],
        &no_probes(),
        |name| match name {
            "a" => Live::Present(legacy.clone()),
            _ => Live::Gone,
        },
        // The server accepts the object without the fields that are to be removed.
        &mut server_of_posted(&legacy, false, true),
    );
    assert_eq!(steps, "dD c m A");
    assert_eq!(outcome.result, PassResult::Passed);
}

fn inside(name: &str, namespace: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}}}, data: {{k: v}}}}"
    )
}

const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: inner}}";

/// Objects in a namespace that an earlier phase creates are checked with their own phase; the
/// namespace itself and objects elsewhere are checked first.
#[test]
fn objects_in_a_namespace_of_an_earlier_phase_are_not_checked_ahead() {
    let revision = cluster_scoped();
    let there = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "inner", "uid": "n", "resourceVersion": "1",
        "ownerReferences": live("1", "previous*")["metadata"]["ownerReferences"],
        "annotations": {"package-operator.run/revision": "1"}}});
    let phases = |order: [usize; 2]| {
        let contents = [vec![NAMESPACE.to_owned()], vec![inside("bad", "inner")]];
        order.map(|at| {
            let objects: Vec<_> = contents[at].iter().map(String::as_str).collect();
            phase(&revision, &format!("p{}", at + 1), &objects)
        })
    };
    let run = |order, namespace: &Live| {
        let live = |name: &str| match name {
            "inner" => namespace.clone(),
            _ => Live::Uncached,
        };
        let phases = phases(order);
        run_phases(&revision, &phases, &no_probes(), live, &mut refuse_bad)
    };
    let text = "Phase \"p2\", ConfigMap inner/bad: is invalid".to_owned();
    let refused = PassResult::Preflight(vec![text]);
    let is_written = |outcome: &Outcome| !outcome.writes.is_empty();
    for (order, namespace, written) in [
        ([0, 1], Live::Uncached, true),
        ([0, 1], Live::Gone, true),
        ([0, 1], Live::Present(terminating(there.clone())), false),
        ([0, 1], Live::Present(there.clone()), false),
        // The phase of the namespace comes too late.
        ([1, 0], Live::Gone, false),
    ] {
        let (steps, outcome) = run(order, &namespace);
        assert_eq!(
            is_written(&outcome),
            written,
            "{order:?} {namespace:?}: {steps}"
        );
        if namespace != Live::Present(terminating(there.clone())) {
            assert_eq!(outcome.result, refused, "{order:?} {namespace:?}: {steps}");
        }
    }
}

/// A malformed manifest is reported in any case; a kind that is not served, only if no earlier
/// phase defines it.
#[test]
fn kinds_that_an_earlier_phase_defines_are_not_checked_ahead() {
    let revision = cluster_scoped();
    let definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: \
        tools.example.com}, spec: {group: example.com, names: {kind: Tool}}}";
    let tool = "{apiVersion: example.com/v1, kind: Tool, metadata: {name: t, namespace: team}}";
    let broken =
        "{apiVersion: example.com/v1, kind: Tool, metadata: {name: t, namespace: team, labels: x}}";
    let other = "{apiVersion: example.com/v1, kind: Other, metadata: {name: t, namespace: team}}";
    let mut kinds = kinds();
    kinds.insert(
        Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        KindState::served(KindScope::Cluster),
    );
    let unserved = |kind: &str| {
        format!(
            "Phase \"p2\", {kind} team/t: example.com/v1, Kind={kind} not registered on the api server."
        )
    };
    let malformed =
        "Phase \"p2\", Tool team/t: metadata.labels must be a map of strings.".to_owned();
    for (first, second, expected) in [
        (definition, tool, None),
        (definition, other, Some(unserved("Other"))),
        (definition, broken, Some(malformed)),
        (NAMESPACE, tool, Some(unserved("Tool"))),
    ] {
        let phases = [
            phase(&revision, "p1", &[first]),
            phase(&revision, "p2", &[second]),
        ];
        let snapshot = Snapshot {
            revision: &revision,
            phases: &phases,
            probes: &no_probes(),
            kinds: &kinds,
            siblings: &Family,
        };
        let mut pass = Pass::new(snapshot, |_| (Live::Gone, None));
        let step = pass.step();
        if let Some(text) = expected {
            assert_eq!(step, Step::Done, "{second}");
            let result = pass.outcome().result;
            assert_eq!(result, PassResult::Preflight(vec![text]));
        } else {
            let Step::Send(requests) = step else {
                panic!("{:?}", pass.outcome());
            };
            let places: Vec<_> = requests.iter().map(|(at, _)| at.phase).collect();
            assert_eq!(places, [0]);
        }
    }
}

/// The objects of a new revision have to be accepted before those that they replace are removed.
#[test]
fn a_check_dry_runs_every_object_and_writes_nothing() {
    let none = |_: &str| Live::Uncached;
    let (steps, outcome) = run_check(&revision(), &[&["a", "b"], &["c"]], none, &mut refuse_bad);
    assert_eq!(steps, "ddd");
    assert_eq!(
        (outcome.result, outcome.writes),
        (PassResult::Passed, vec![])
    );

    let (steps, outcome) = run_check(&revision(), &[&["a"], &["b", "bad"]], none, &mut refuse_bad);
    assert_eq!(steps, "ddd g");
    assert_eq!(outcome.result, PassResult::Preflight(vec![BAD.to_owned()]));

    // An object of the previous revision can be taken over in any state; an object of another owner
    // cannot.
    for (owner, expected, steps_expected) in
        [("previous*", "Passed", "D"), ("foreign*", "Collision", "")]
    {
        let there = |_: &str| Live::Present(live("1", owner));
        let (steps, outcome) = run_check(&revision(), &[&["a"]], there, &mut accept_all);
        assert_eq!(steps, steps_expected);
        assert!(
            format!("{:?}", outcome.result).starts_with(expected),
            "{outcome:?}"
        );
        assert_eq!(outcome.writes, []);
    }

    let failing = &mut |_: &str, _: &Request| Answer::Failed("timeout".to_owned());
    let (_, outcome) = run_check(&revision(), &[&["a"]], none, failing);
    assert!(
        matches!(outcome.result, PassResult::Failed(_)),
        "{outcome:?}"
    );
}
