//! Bodies of requests, and reactions to their answers.

use super::*;
use crate::diff::leftovers::Leftovers;
use crate::object::{Identity, is_controller, text};

/// The bodies of all requests about an object, by the state that they are based on.
#[test]
fn request_bodies_contain_owner_and_observed_state() {
    let me = revision().identity.controller_reference();
    let previous = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
        "name": "v1", "uid": "previous", "controller": false});
    let body = |owners: Value, is_observed: bool| {
        let mut body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {
                "name": "a", "namespace": "ns", "ownerReferences": owners,
                "annotations": {"package-operator.run/revision": "2"},
                "labels": {"package-operator.run/cache": "True"},
            },
        });
        if is_observed {
            body["metadata"]["uid"] = "uid-a".into();
            body["metadata"]["resourceVersion"] = "41".into();
        } else {
            // No object has this version, so the server refuses a write to any object.
            body["metadata"]["resourceVersion"] = "1".into();
        }
        body
    };
    let absent = body(json!([me]), false);
    let ours = body(json!([me]), true);
    let handover = body(json!([previous, me]), true);
    for (path, expected) in [
        ("uncached", Request::DryRunCreate(absent.clone())),
        ("gone", Request::DryRunCreate(absent.clone())),
        ("gone created", Request::Create(absent)),
        ("ours", Request::DryRunApply(ours.clone())),
        ("ours ours", Request::Apply(ours)),
        ("previous", Request::DryRunApply(handover.clone())),
        ("previous ours", Request::Apply(handover)),
        (
            "legacy ours",
            Request::Migrate {
                live: precondition(&live("2", "me*")),
                former: Vec::new(),
                leftovers: Leftovers::default(),
            },
        ),
    ] {
        let mut steps = path.split_whitespace();
        with_object(
            &revision(),
            initial(steps.next().expect("a state")),
            |mut pass| {
                for step in steps {
                    assert!(answer_next(&mut pass, step), "{path}");
                }
                let (NextAction::Check(request)
                | NextAction::DryRun(request)
                | NextAction::Prepare(request)
                | NextAction::Write(request)) = pass.next_action()
                else {
                    panic!("{path}: {:?}", pass.next_action())
                };
                assert_eq!(request, expected, "{path}");
            },
        );
    }
}

/// A create-only field is part of the create, and is left to others afterwards.
#[test]
fn create_only_fields_are_sent_to_absent_objects_only() {
    let revision = revision();
    let mut phases = phases(&revision, &[&["a"]]);
    phases[0].objects[0].create_only = vec![".data.k".parse().expect("a path")];
    for (name, expected) in [
        ("gone", json!({"k": "v"})),
        ("ours", Value::Null),
        ("previous", Value::Null),
    ] {
        let observed = (initial(name), None);
        let pass = ObjectPass::new(&revision, &Family, &phases[0].objects[0], observed);
        let (NextAction::DryRun(Request::DryRunCreate(body) | Request::DryRunApply(body))
        | NextAction::Check(Request::DryRunApply(body))) = pass.next_action()
        else {
            panic!("{:?}", pass.next_action())
        };
        assert_eq!(
            body["data"].get("k").cloned().unwrap_or_default(),
            expected["k"],
            "{name}"
        );
    }
}

/// The result of a create that merged into an object: our own creation (`.`) or to be taken back
/// (`t`), by the entries of `managedFields` as manager, operation and subresource.
#[test]
fn an_object_is_our_own_creation_when_nobody_else_wrote_it() {
    for (entries, expected) in [
        (&["package-operator Apply"][..], '.'),
        (&["package-operator Update"], 't'),
        (&["kubectl Apply"], 't'),
        (&["kubectl Update"], 't'),
        // An entry of the status does not identify the creator of the object.
        (&["package-operator Apply", "kubelet Update status"], '.'),
        (
            &["package-operator Apply", "package-operator Update status"],
            '.',
        ),
        (&["package-operator Apply", "kubectl Update"], 't'),
        (&["kubectl Update", "package-operator Apply"], 't'),
    ] {
        let entry = |entry: &&str| {
            let mut words = entry.split(' ');
            let mut entry = json!({"manager": words.next(), "operation": words.next()});
            if let Some(subresource) = words.next() {
                entry["subresource"] = subresource.into();
            }
            entry
        };
        let mut merged = live("2", "me*");
        merged["metadata"]["managedFields"] = entries.iter().map(entry).collect();
        with_object(&revision(), Live::Gone, |mut pass| {
            assert!(answer_next(&mut pass, "created"));
            let NextAction::Write(request) = pass.next_action() else {
                panic!("{:?}", pass.next_action())
            };
            pass.answer(&request, Answer::Merged(merged));
            assert_eq!(need_letter(&pass.next_action()), expected, "{entries:?}");
            let is_ours = expected == '.';
            assert_eq!(
                pass.write,
                is_ours.then_some(WriteResult::Created),
                "{entries:?}"
            );
            assert_eq!(pass.is_controlled(), is_ours, "{entries:?}");
        });
    }
    // Without any entry the creator is unknown.
    with_object(&revision(), Live::Gone, |mut pass| {
        pass.answer(
            &Request::Create(Value::Null),
            Answer::Merged(live("2", "me*")),
        );
        assert_eq!(need_letter(&pass.next_action()), 't');
    });
}

/// The revision is in another cluster: an owner in the object's own cluster does not become ours.
/// Owners with a `~` are entries of the annotation, those in brackets are owned by our manager.
#[test]
fn owner_references_of_an_apply_to_another_cluster() {
    for (owners, handover, repair) in [
        ("", "me*", "me*"),
        ("me~*", "me*", "me*"),
        ("pod", "me*", "me*"),
        ("pod*", "me*", "me*"),
        ("[pod]", "me*", "me*"),
        ("previous~*", "previous me*", "me*"),
        ("[previous~]", "previous me*", "previous me*"),
        ("pod* previous~* me~", "previous me*", "me*"),
        ("me~* [previous~] pod", "me* previous", "me* previous"),
    ] {
        let revision = Revision {
            identity: Identity {
                is_remote: true,
                hub: String::new(),
                chain: String::new(),
                ..revision().identity
            },
            ..revision()
        };
        let plain = owners.replace(['[', ']', '~'], "");
        let mut live = live("1", &plain);
        for (index, owner) in owners.split_whitespace().enumerate() {
            if owner.contains('~') {
                live["metadata"]["ownerReferences"][index]["namespace"] = "shop".into();
            }
        }
        own_bracketed(&mut live, owners);
        assert_eq!(
            show(References::All, &live, &revision),
            handover,
            "{owners}"
        );
        assert_eq!(
            show(References::Owned, &live, &revision),
            repair,
            "{owners}"
        );
        assert_eq!(
            show(References::AsLive, &live, &revision),
            plain,
            "{owners}"
        );
    }
}

/// A controller flag with the value `false` equals an absent one; only an existing flag is cleared.
#[test]
fn a_handover_clears_existing_controller_flags() {
    let mut live = live("1", "previous* pod");
    let references = live["metadata"]["ownerReferences"]
        .as_array_mut()
        .expect("owners");
    references[1]
        .as_object_mut()
        .expect("a map")
        .remove("controller");
    let list = References::All.list(&live, &revision());
    assert_eq!(list[0]["controller"], false);
    assert_eq!(list[1].get("controller"), None);
    assert_eq!(list[2], revision().identity.controller_reference());
}

/// The reported kind of a write, by the former owner of the object.
#[test]
fn a_write_is_reported_by_the_former_owner() {
    let took_over = |name: &str| WriteResult::TookOver(Some(name.to_owned()));
    for (number, owners, protection, expected) in [
        (
            "2",
            "me*",
            CollisionProtection::Prevent,
            WriteResult::Repaired(Drift::at(".")),
        ),
        (
            "1",
            "previous*",
            CollisionProtection::Prevent,
            took_over("v1"),
        ),
        (
            "1",
            "unrelated*",
            CollisionProtection::None,
            took_over("other"),
        ),
        (
            "",
            "stranger*",
            CollisionProtection::None,
            WriteResult::TookOver(None),
        ),
        (
            "",
            "",
            CollisionProtection::IfNoController,
            WriteResult::TookOver(None),
        ),
        (
            "3",
            "me",
            CollisionProtection::Prevent,
            WriteResult::TookOver(None),
        ),
    ] {
        let revision = revision();
        let mut phases = phases(&revision, &[&["a"]]);
        phases[0].objects[0].protection = protection;
        let observed = (Live::Present(live(number, owners)), None);
        let mut pass = ObjectPass::new(&revision, &Family, &phases[0].objects[0], observed);
        assert!(answer_next(&mut pass, "ours") && answer_next(&mut pass, "ours"));
        assert_eq!(pass.write, Some(expected), "{owners}");
        assert!(pass.is_controlled());
    }
}

/// A manager that applies under our name can give us fields that the manifest lacks: they are
/// reported without values.
#[test]
fn fields_added_under_our_manager_name_are_reported_without_values() {
    let revision = revision();
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, set: [x]}";
    let phase = phase(&revision, "p", &[manifest]);
    let state = |elements: &[&str]| {
        let set = elements.iter();
        let set: serde_json::Map<_, _> = set.map(|it| (format!("v:\"{it}\""), json!({}))).collect();
        let fields = json!({
            "f:metadata": {
                "f:annotations": { "f:package-operator.run/revision": {} },
                "f:labels": { "f:package-operator.run/cache": {} },
                "f:ownerReferences": { "k:{\"uid\":\"me\"}": {} },
            },
            "f:set": set,
        });
        let mut object = live("2", "");
        object["metadata"]["ownerReferences"] = json!([revision.identity.controller_reference()]);
        object["metadata"]["labels"] = json!({ "package-operator.run/cache": "True" });
        object["metadata"]["managedFields"] = json!([{
            "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields,
        }]);
        object["set"] = json!(elements);
        object
    };
    let observed = (Live::Present(state(&["x", "geheim"])), None);
    let mut pass = ObjectPass::new(&revision, &Family, &phase.objects[0], observed);
    pass.answer(&Request::Apply(json!({})), Answer::Object(state(&["x"])));
    let Some(WriteResult::Repaired(drift)) = pass.write else {
        panic!("{:?}", pass.write);
    };
    assert_eq!(drift.to_string(), ".set[…]");
    assert!(drift.without_managers().is_empty());
}

/// Stopping and starting a workload is no repair, because no client had changed it.
#[test]
fn stopping_a_workload_is_not_reported_as_a_repair() {
    let revision = revision();
    let phase = phase(
        &revision,
        "p",
        &["{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"],
    );
    let state = |stopped: &str, number: i64| {
        let mut object = live("2", "");
        object["metadata"]["ownerReferences"] = json!([revision.identity.controller_reference()]);
        object["metadata"]["annotations"]["baton.run/stopped"] = stopped.into();
        object["spec"]["replicas"] = number.into();
        object
    };
    for (before, after, is_switched) in [
        ("", "true", true),
        ("true", "", true),
        ("true", "true", false),
    ] {
        let observed = (Live::Present(state(before, 1)), None);
        let mut pass = ObjectPass::new(&revision, &Family, &phase.objects[0], observed);
        pass.answer(&Request::Apply(json!({})), Answer::Object(state(after, 0)));
        let found = pass.write == Some(WriteResult::Switched);
        assert_eq!(found, is_switched, "{before} {after}: {:?}", pass.write);
    }
}

/// The owner references of an apply, by those of the live object. References in brackets are owned
/// by our manager; a star marks the controller.
#[test]
fn owner_references_of_an_apply() {
    for (owners, handover, repair) in [
        ("", "me*", "me*"),
        ("me*", "me*", "me*"),
        ("me", "me*", "me*"),
        ("previous*", "previous me*", "me*"),
        ("[previous]", "previous me*", "previous me*"),
        ("me* [previous] pod", "me* previous pod", "me* previous"),
        (
            "pod stranger* [newer]",
            "pod stranger newer me*",
            "newer me*",
        ),
    ] {
        let plain = owners.replace(['[', ']'], "");
        let mut live = live("1", &plain);
        own_bracketed(&mut live, owners);
        assert_eq!(
            show(References::All, &live, &revision()),
            handover,
            "{owners}"
        );
        assert_eq!(
            show(References::Owned, &live, &revision()),
            repair,
            "{owners}"
        );
        assert_eq!(
            show(References::AsLive, &live, &revision()),
            plain,
            "{owners}"
        );
    }
}

/// Gives our manager the ownership of the owner references in brackets.
fn own_bracketed(live: &mut Value, owners: &str) {
    let bracketed = owners
        .split_whitespace()
        .filter(|owner| owner.starts_with('['));
    let keys = bracketed.map(|owner| {
        let uid = owner.trim_matches(['[', ']', '~']);
        (format!("k:{{\"uid\":\"{uid}\"}}"), json!({}))
    });
    let owned: Value = keys.collect::<serde_json::Map<_, _>>().into();
    live["metadata"]["managedFields"] = json!([{"manager": FIELD_MANAGER, "operation": "Apply",
        "apiVersion": "v1", "fieldsV1": {"f:metadata": {"f:ownerReferences": owned}}}]);
}

/// The uids of a list of owner references; a star marks controllers.
fn show(references: References, live: &Value, revision: &Revision) -> String {
    let show = |reference: &Value| {
        let star = if is_controller(reference) { "*" } else { "" };
        format!("{}{star}", text(reference, "uid"))
    };
    let list = references.list(live, revision);
    list.iter().map(show).collect::<Vec<_>>().join(" ")
}
