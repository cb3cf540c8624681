//! Objects whose controller existed in the hub before the hub was restored from a backup.

use baton_apis::constants::FIELD_MANAGER;

use super::*;

/// A phase object `web` of the chain `c`, in the hub `hub`.
fn phase_object() -> Revision {
    let mut revision = Revision {
        delivery: Delivery::Remote,
        ..revision()
    };
    revision.created = Some("2026-01-01T00:00:01Z".parse().unwrap());
    let identity = &mut revision.identity;
    identity.kind = "ObjectSetPhase".to_owned();
    identity.is_remote = true;
    identity.name = "web".to_owned();
    identity.hub = "hub".to_owned();
    identity.chain = "c".to_owned();
    revision
}

/// An object that Baton has written at a time.
fn written(time: &str) -> Value {
    let mut object = live("9", "");
    object["metadata"]["managedFields"] = json!([{
        "manager": FIELD_MANAGER, "operation": "Apply", "time": time, "fieldsV1": {},
    }]);
    object
}

/// Patches of an entry with the same name and another chain, of one with another name and the same
/// chain, and the decision under every protection.
#[test]
fn objects_of_a_forgotten_revision_are_taken_over_by_its_chain() {
    const FOREIGN: [&str; 3] = ["foreign", "foreign", "adopt"];
    let by_name = json!({"name": "web", "chain": "other"});
    let by_chain = json!({"name": "other", "chain": "c"});
    for (patch, expected) in [
        (json!({}), ["adopt"; 3]),
        (json!({"controller": false}), ["orphan"; 3]),
        (json!({"hub": "old"}), FOREIGN),
        (json!({"hub": null}), FOREIGN),
        (json!({"namespace": "shop"}), FOREIGN),
        // An owner reference of the API.
        (json!({"namespace": null}), FOREIGN),
        (json!({"kind": "ClusterObjectSetPhase"}), FOREIGN),
        (json!({"apiVersion": "v1"}), FOREIGN),
        // An existing owner is not forgotten.
        (
            json!({"uid": "unrelated"}),
            ["foreign", "foreign", "from other"],
        ),
        (json!({"uid": "previous"}), ["from v1"; 3]),
    ] {
        for is_chain in [&by_name, &by_chain] {
            let mut entry = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase",
                "namespace": "ns", "uid": "gone", "hub": "hub", "controller": true});
            json_patch::merge(&mut entry, is_chain);
            json_patch::merge(&mut entry, &patch);
            let mut object = written("2026-01-01T00:00:00Z");
            object["metadata"]["ownerReferences"] = json!([entry]);
            for (protection, expected) in PROTECTIONS.into_iter().zip(expected) {
                let shown = decide(&phase_object(), protection, &object);
                assert_eq!(shown, expected, "{entry} {protection:?}");
            }
        }
    }
}

fn decide(revision: &Revision, protection: CollisionProtection, object: &Value) -> String {
    let desired = desired(revision, protection, "{}");
    let situation = classify(revision, &Family, object);
    show(&decide_adoption(revision, &desired, &situation, object))
}

/// The owners of an object beside the forgotten controller, and the decision.
#[test]
fn an_earlier_revision_does_not_take_an_object_of_a_forgotten_one() {
    let revision = phase_object();
    let mut forgotten = revision.identity.controller_reference();
    forgotten["uid"] = "gone".into();
    let mut own = revision.identity.controller_reference();
    own["controller"] = false.into();
    let mut other = forgotten.clone();
    other["uid"] = "previous".into();
    other["controller"] = false.into();
    let mut foreign = forgotten.clone();
    foreign["hub"] = "old".into();
    for (beside, expected) in [
        (json!([]), "adopt"),
        (json!([own]), "foreign"),
        (json!([other]), "adopt"),
        (json!([foreign]), "foreign"),
    ] {
        let mut object = written("2026-01-01T00:00:00Z");
        let mut owners = beside.as_array().unwrap().clone();
        owners.push(forgotten.clone());
        object["metadata"]["ownerReferences"] = owners.into();
        assert_eq!(decide(&revision, Prevent, &object), expected, "{beside}");
    }
    // The time of the last write, with a revision that was created at the first second.
    for (time, expected) in [
        ("2026-01-01T00:00:00Z", "adopt"),
        ("2026-01-01T00:00:01Z", "foreign"),
        ("2026-01-01T00:00:02Z", "foreign"),
        ("never", "foreign"),
    ] {
        let mut object = written(time);
        object["metadata"]["ownerReferences"] = json!([forgotten]);
        assert_eq!(decide(&revision, Prevent, &object), expected, "{time}");
    }
    let of_unknown_age = Revision {
        created: None,
        ..phase_object()
    };
    let mut object = written("2026-01-01T00:00:00Z");
    object["metadata"]["ownerReferences"] = json!([forgotten]);
    assert_eq!(decide(&of_unknown_age, Prevent, &object), "foreign");
    // A chain without a label consists of the revision alone, and a hub is not always known.
    for (name, hub, chain, expected) in [
        ("web", "hub", "", "adopt"),
        ("other", "hub", "", "foreign"),
        ("other", "", "c", "foreign"),
    ] {
        let mut revision = phase_object();
        let identity = &mut revision.identity;
        name.clone_into(&mut identity.name);
        hub.clone_into(&mut identity.hub);
        chain.clone_into(&mut identity.chain);
        let mut object = written("2026-01-01T00:00:00Z");
        let mut entry = forgotten.clone();
        if chain.is_empty() {
            entry.as_object_mut().unwrap().remove("chain");
        }
        if hub.is_empty() {
            entry.as_object_mut().unwrap().remove("hub");
        }
        object["metadata"]["ownerReferences"] = json!([entry]);
        let shown = decide(&revision, Prevent, &object);
        assert_eq!(shown, expected, "{name} {hub} {chain}");
    }
}
