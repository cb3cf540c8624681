//! Objects that a revision cannot have written, or may not remove.

use serde_json::json;

use super::*;

/// There is no request about an object that the revision cannot have written.
#[test]
fn objects_outside_of_the_reach_are_skipped() {
    let revision = revision();
    for object in [
        "{apiVersion: x.io/v1, kind: Unserved, metadata: {name: a}}",
        "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a}}",
    ] {
        let phases = [phase(&revision, "p", &[object])];
        let kinds = kinds();
        let observe = |_| Live::Present(live("2", "me*"));
        let teardown = Teardown::new(&revision, &phases, &kinds, observe);
        assert_eq!(next_letter(teardown), '.', "{object}");
    }
}

/// A kind in the manifest, its state, and the first request or the result without one.
#[test]
fn only_a_kind_that_exists_in_no_version_has_no_objects() {
    let revision = revision();
    let object = "{apiVersion: x.io/v1alpha1, kind: Thing, metadata: {name: a}}";
    let phases = [phase(&revision, "p", &[object])];
    let gvk = &phases[0].objects[0].gvk;
    let served = |other: Option<&str>, is_watched| KindState::Served {
        scope: KindScope::Namespaced,
        other_version: other.map(ToOwned::to_owned),
        is_watched,
    };
    let unknown = || KindState::Unknown("the server behind it is down".to_owned());
    for (state, is_abandoned, expected) in [
        (None, false, '.'),
        (Some(KindState::Unmanageable), false, '.'),
        (Some(served(None, true)), false, 'g'),
        (Some(served(None, false)), false, 'g'),
        (Some(served(Some("v1"), true)), false, 'g'),
        (Some(unknown()), false, 'F'),
        (Some(unknown()), true, '.'),
    ] {
        let kinds: Kinds = state
            .clone()
            .map(|state| (gvk.clone(), state))
            .into_iter()
            .collect();
        let revision = Revision {
            is_abandoned,
            ..revision.clone()
        };
        let teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Uncached);
        assert_eq!(next_letter(teardown), expected, "{state:?}");
        let through = state.map_or(gvk.clone(), |state| state.through(gvk));
        let is_other = expected == 'g' && through.version == "v1";
        assert!(is_other || through == *gvk, "{through}");
    }
}

/// A kind that is away delays a teardown only if the revision may have written an object of it.
#[test]
fn a_kind_of_which_nothing_was_written_delays_no_teardown() {
    let object = "{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}}";
    let phases = [phase(&revision(), "p", &[object])];
    let own = controlled_reference(&phases[0].objects[0].key);
    for state in [
        KindState::Away("down".into()),
        KindState::Unknown("gone".into()),
    ] {
        let kinds = Kinds::from([(phases[0].objects[0].gvk.clone(), state)]);
        for (written, expected) in [
            (None, 'F'),
            (Some(BTreeSet::from([own.clone()])), 'F'),
            (Some(BTreeSet::new()), '.'),
        ] {
            let revision = Revision {
                written,
                ..revision()
            };
            let teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Uncached);
            assert_eq!(next_letter(teardown), expected);
        }
    }
}

#[test]
fn the_last_report_shows_which_objects_may_have_been_written() {
    let own = ControlledObjectReference {
        kind: "Thing".to_owned(),
        name: "a".to_owned(),
        ..ControlledObjectReference::default()
    };
    let condition = |type_: &str, status: &str| {
        let condition = json!({"type": type_, "status": status, "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value::<Condition>(condition).unwrap()
    };
    let failed = || condition("Available", "False");
    for (conditions, is_known) in [
        (vec![], false),
        (vec![condition("Paused", "True")], false),
        (vec![failed()], true),
        (vec![condition("Available", "Unknown")], true),
        (vec![condition("Available", "True")], false),
        (vec![failed(), condition("Succeeded", "True")], false),
    ] {
        let expected = is_known.then(|| BTreeSet::from([own.clone()]));
        assert_eq!(
            reported_writes(&conditions, std::slice::from_ref(&own), &[]),
            expected,
            "{conditions:?}"
        );
        let end = serde_json::from_value(json!({
            "group": "", "kind": "Thing", "name": "a", "outcome": "Complete",
        }));
        assert_eq!(
            reported_writes(&conditions, &[], &[end.unwrap()]),
            expected,
            "{conditions:?}"
        );
    }
}

/// Without a watch no event reports the end of an object, so the teardown is requeued.
#[test]
fn an_object_of_an_unwatched_kind_is_polled_until_it_is_gone() {
    let revision = revision();
    let phases = [phase(
        &revision,
        "p",
        &["{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"],
    )];
    for (is_watched, expected) in [(true, 'w'), (false, 'F')] {
        let state = KindState::Served {
            scope: KindScope::Namespaced,
            other_version: None,
            is_watched,
        };
        let kinds = Kinds::from([(Gvk::new("v1", "ConfigMap"), state)]);
        let leaving = |_| Live::Present(terminating(live("2", "me*")));
        let teardown = Teardown::new(&revision, &phases, &kinds, leaving);
        assert_eq!(next_letter(teardown), expected);
    }
}

/// An object that the server refuses to release delays neither earlier phases nor the end; one that
/// only takes its time does.
#[test]
fn an_abandoned_revision_leaves_objects_that_it_may_not_remove() {
    for (name, is_abandoned, expected) in [
        ("refused", false, "xb F"),
        ("failed", false, "xb F"),
        ("refused", true, "xb xa ."),
        ("failed", true, "xb xa ."),
        ("leaving", true, "xb w"),
    ] {
        let revision = Revision {
            is_abandoned,
            ..revision()
        };
        let phases = phases(&revision, &[&["a"], &["b"]]);
        let kinds = kinds();
        let ours = |_| Live::Present(live("2", "me*"));
        let mut teardown = Teardown::new(&revision, &phases, &kinds, ours);
        let mut steps = Vec::new();
        while let Some((at, request)) = next(&mut teardown) {
            let object = &phases[at.phase].objects[at.object].key.name;
            steps.push(format!("{}{object}", letter(&request)));
            teardown.answer(at, &request, answer(name));
        }
        steps.push(next_letter(teardown).to_string());
        assert_eq!(steps.join(" "), expected, "{name}");
    }
}

/// In other clusters an earlier version could write everywhere, and the reach of a revision may
/// have been wider before.
#[test]
fn objects_outside_of_the_reach_are_deleted_in_other_clusters() {
    let revision = Revision {
        delivery: Delivery::Remote,
        ..revision()
    };
    for (object, expected) in [
        (
            "{apiVersion: x.io/v1, kind: Unserved, metadata: {name: a}}",
            '.',
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
            'x',
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
            'x',
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
            '.',
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a}}",
            '.',
        ),
    ] {
        let phases = [phase(&revision, "p", &[object])];
        let kinds = kinds();
        // In places where the revision may have written, only the server can show that an object is
        // not its own.
        let others = if expected == 'x' { 'g' } else { '.' };
        for (owners, expected) in [("me*", expected), ("foreign*", others), ("", others)] {
            let observe = |_| Live::Present(live("2", owners));
            let teardown = Teardown::new(&revision, &phases, &kinds, observe);
            assert_eq!(next_letter(teardown), expected, "{object} {owners}");
        }
    }
}
