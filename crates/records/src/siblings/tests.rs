use baton_apis::{
    conditions::IN_TRANSITION,
    constants::{LABEL_CHAIN, LABEL_OBJECT_DEPLOYMENT},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    phase::PhaseKind, record::Record, revision::RevisionKind::ObjectSet, slice::SliceKind,
};

#[derive(Default)]
struct Fixture {
    revisions: Revisions,
    phases: Phases,
    slices: Slices,
}

impl Fixture {
    /// Revision 1 lists nothing, 2 and 3 list those before them; 2 and 3 have a patch of the spec,
    /// and conditions.
    fn chain(newer: &[(Value, &[&str])]) -> Self {
        let fixture = Self::default();
        let first = (json!({}), &[][..]);
        for (number, (spec, conditions)) in [first].iter().chain(newer).enumerate() {
            let number = number + 1;
            let previous = (1..number).map(|n| json!({"name": format!("v{n}")}));
            let conditions = conditions.iter().map(|type_| {
                json!({"type": type_, "status": "True", "reason": "x", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            });
            let mut object = json!({
                "metadata": {"name": format!("v{number}"), "namespace": "shop", "uid": format!("u{number}"),
                    "resourceVersion": "5", "labels": {LABEL_OBJECT_DEPLOYMENT: "web"}},
                "spec": {"revision": number, "previous": previous.collect::<Vec<_>>()},
                "status": {"conditions": conditions.collect::<Vec<_>>()},
            });
            for (key, value) in spec.as_object().unwrap() {
                object["spec"][key] = value.clone();
            }
            let record = Record::read(ObjectSet, &object.to_string());
            fixture.revisions.observe(record.unwrap());
        }
        fixture
    }

    fn with_slice(self, name: &str, object: &str, has_content: bool) -> Self {
        let slice = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5"},
            "objects": [entry(object)],
        });
        let slice = Record::read(SliceKind(ObjectSet), &slice.to_string()).unwrap();
        self.slices.observe(if has_content {
            slice
        } else {
            slice.without_content()
        });
        self
    }

    /// The revision to which the first one leaves the object `cm`, as its status reports it.
    fn claim(&self) -> String {
        let own = self.revisions.by_uid("u1").unwrap();
        let stores = Stores {
            revisions: &self.revisions,
            phases: &self.phases,
            slices: &self.slices,
        };
        let key = ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: "cm".to_owned(),
        };
        let claim = CachedSiblings::of_set(&own, stores).taken_by_newer(&key);
        claim.map(|claim| claim.to_string()).unwrap_or_default()
    }
}

fn entry(name: &str) -> Value {
    json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}})
}

fn inline(name: &str) -> Value {
    json!({"lifecycleState": "Paused", "phases": [{"name": "a", "objects": [entry(name)]}]})
}

fn sliced() -> Value {
    json!({"lifecycleState": "Paused", "phases": [{"name": "a", "slices": ["s"]}]})
}

const DONE: &[&str] = &[SUCCEEDED];
const TAKEN: &str = "left to revision v2";

#[test]
fn objects_in_slices_of_a_newer_revision_are_left_to_it() {
    for (newer, conditions, expected) in [
        (inline("cm"), DONE, TAKEN),
        (inline("cm"), &[], ""),
        (inline("other"), DONE, ""),
        (sliced(), DONE, TAKEN),
        (sliced(), &[], ""),
    ] {
        let fixture = Fixture::chain(&[(newer.clone(), conditions)]).with_slice("s", "cm", true);
        assert_eq!(fixture.claim(), expected, "{newer} {conditions:?}");
    }
    let fixture = Fixture::chain(&[(sliced(), DONE)]).with_slice("s", "other", true);
    assert_eq!(fixture.claim(), "");
}

#[test]
fn an_older_revision_waits_until_the_content_of_a_newer_one_is_known() {
    let fixture = || Fixture::chain(&[(sliced(), DONE)]);
    let unread = fixture().with_slice("s", "other", false);
    for (fixture, doubt) in [(fixture(), "not found"), (unread, "not read yet")] {
        assert_eq!(
            fixture.claim(),
            format!("{TAKEN}, whose content is not known: slice \"s\": {doubt}")
        );
    }
    // A revision that certainly contains the object is preferred to one that may.
    let fixture = Fixture::chain(&[(sliced(), DONE), (inline("cm"), DONE)]);
    assert_eq!(fixture.claim(), "left to revision v3");
    // A revision that has never had all of its objects claims nothing.
    assert_eq!(Fixture::chain(&[(sliced(), &[])]).claim(), "");
}

/// An agent caches only the phase objects of a revision.
#[test]
fn an_object_of_a_phase_object_is_left_to_its_revision() {
    let fixture = Fixture::chain(&[(json!({}), DONE)]);
    assert_eq!(fixture.claim(), "");
    let phase = json!({
        "metadata": {"name": "v2-a", "namespace": "shop", "uid": "p2", "resourceVersion": "5",
            "ownerReferences": [{"uid": "u2", "controller": true}]},
        "spec": {"revision": 2, "objects": [entry("cm")]},
    });
    let phase = Record::read(PhaseKind(ObjectSet), &phase.to_string());
    fixture.phases.observe(phase.unwrap());
    assert_eq!(fixture.claim(), TAKEN);
}

/// The object is gone, so `controllerOf` does not name it any more.
#[test]
fn an_object_that_a_newer_revision_has_run_is_left_to_it() {
    let ended = json!({"ended": [
        {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "cm", "outcome": "Complete"},
    ]});
    let known = Fixture::chain(&[(json!({}), &[])]);
    assert_eq!(known.claim(), "");
    let set = json!({
        "metadata": {"name": "v2", "namespace": "shop", "uid": "u2", "resourceVersion": "6",
            "labels": {LABEL_OBJECT_DEPLOYMENT: "web"}},
        "spec": {"revision": 2, "previous": [{"name": "v1"}]},
        "status": ended,
    });
    let set = Record::read(ObjectSet, &set.to_string());
    known.revisions.observe(set.unwrap());
    assert_eq!(known.claim(), TAKEN);

    let known = Fixture::chain(&[(json!({}), &[])]);
    let phase = json!({
        "metadata": {"name": "v2-a", "namespace": "shop", "uid": "p2", "resourceVersion": "5",
            "ownerReferences": [{"uid": "u2", "controller": true}]},
        "spec": {"revision": 2, "objects": []},
        "status": ended,
    });
    let phase = Record::read(PhaseKind(ObjectSet), &phase.to_string());
    known.phases.observe(phase.unwrap());
    assert_eq!(known.claim(), TAKEN);
}

/// The newer revision has never succeeded. It may have taken the object over if it is paused, and if
/// the older one once had all objects and has lost some.
#[test]
fn an_object_that_was_given_is_left_to_a_paused_revision() {
    let given = &[SUCCEEDED, IN_TRANSITION][..];
    let active = json!({"phases": [{"name": "a", "objects": [entry("cm")]}]});
    for (newer, own, controls, expected) in [
        (inline("cm"), given, &[][..], TAKEN),
        (sliced(), given, &[], TAKEN),
        (inline("other"), given, &[], ""),
        (inline("cm"), given, &["cm"], ""),
        (inline("cm"), given, &["other"], TAKEN),
        (inline("cm"), DONE, &[], ""),
        (inline("cm"), &[IN_TRANSITION], &[], ""),
        (active, given, &[], ""),
    ] {
        let fixture = Fixture::chain(&[(newer.clone(), &[])]).with_slice("s", "cm", true);
        let conditions = own.iter().map(|type_| {
            json!({"type": type_, "status": "True", "reason": "x", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let controls = controls.iter().map(|name| {
            json!({"kind": "ConfigMap", "group": "", "version": "", "name": name, "namespace": "shop"})
        });
        let first = json!({
            "metadata": {"name": "v1", "namespace": "shop", "uid": "u1", "resourceVersion": "6",
                "labels": {LABEL_OBJECT_DEPLOYMENT: "web"}},
            "spec": {"revision": 1},
            "status": {
                "conditions": conditions.collect::<Vec<_>>(),
                "controllerOf": controls.collect::<Vec<_>>(),
            },
        });
        let first = Record::read(ObjectSet, &first.to_string()).unwrap();
        fixture.revisions.observe(first);
        assert_eq!(fixture.claim(), expected, "{newer} {own:?}");
    }
}

/// A revision from `name number previous,previous label=value`; `-` stands for nothing.
fn member(line: &str) -> RevisionRecord {
    let [name, number, previous, label] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let previous = previous.split(',').filter(|name| *name != "-");
    let mut object = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5", "labels": {}},
        "spec": {
            "revision": number.parse::<i64>().unwrap(),
            "previous": previous.map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        },
        "status": {"remotePhases": [{"name": "p", "uid": format!("{name}-phase")}]},
    });
    let label_of = |of: &str| match of {
        "od" => LABEL_OBJECT_DEPLOYMENT,
        _ => LABEL_CHAIN,
    };
    if let Some((of, value)) = label.split_once('=') {
        object["metadata"]["labels"][label_of(of)] = value.into();
    }
    Record::read(ObjectSet, &object.to_string()).unwrap()
}

/// The place of each other revision relative to the first one: `P` previous, `S` of the same chain,
/// `?` unknown, `.` of another chain.
fn relations(lines: &[&str]) -> String {
    let fixture = Fixture::default();
    for line in lines {
        fixture.revisions.observe(member(line));
    }
    let stores = Stores {
        revisions: &fixture.revisions,
        phases: &fixture.phases,
        slices: &fixture.slices,
    };
    let own = member(lines[0]);
    let siblings = CachedSiblings::of_set(&own, stores);
    let others = lines[1..].iter().map(|line| {
        let name = line.split(' ').next().unwrap();
        let sibling = siblings.sibling(name).unwrap();
        let by_phase = siblings.sibling(&format!("{name}-phase"));
        assert_eq!(
            by_phase.as_ref(),
            Some(&sibling),
            "a phase stands for its revision"
        );
        match sibling.relation {
            Relation::Previous => 'P',
            Relation::SameChain => 'S',
            Relation::Unknown => '?',
            Relation::OtherChain => '.',
        }
    });
    others.collect()
}

#[test]
fn revisions_are_related_by_their_chain_and_not_by_their_numbers() {
    for (lines, expected) in [
        // Revisions without a deployment: before, after, after that, and somebody's.
        (
            &["b 2 a -", "a 1 - -", "c 3 b -", "d 4 c -", "x 9 - -"][..],
            "PSS.",
        ),
        // Both list the same one.
        (&["b 2 a -", "c 3 a -", "a 1 - -"], ".P"),
        // The revision between is deleted.
        (&["a 1 - -", "c 3 b -"], "?"),
        (&["a 1 - od=web", "c 3 b -", "d 3 b od=other"], ".."),
        (&["a 1 - -", "c 3 b od=web"], "."),
        // Two deployments.
        (
            &[
                "a 1 - od=web",
                "b 2 a od=web",
                "c 3 gone od=web",
                "x 1 - od=other",
                "y 7 x od=other",
            ],
            "SS..",
        ),
        // Two chains of Releases or sites.
        (
            &["a 1 - chain=web", "b 2 - chain=web", "x 7 - chain=other"],
            "S.",
        ),
        (&["a 1 - od=web", "b 2 - chain=web"], "."),
    ] {
        assert_eq!(relations(lines), expected, "{lines:?}");
    }
}
