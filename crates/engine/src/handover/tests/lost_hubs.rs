//! Objects whose owners are in a hub that does not exist any more.

use super::*;

/// An owner in another cluster, with the uid of its hub, if its entry has one.
fn remote(uid: &str, hub: &str, is_controller: bool) -> Value {
    let mut owner = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase",
        "name": "web", "namespace": "shop", "uid": uid, "controller": is_controller});
    if !hub.is_empty() {
        owner["hub"] = hub.into();
    }
    owner
}

fn in_hub(hub: &str, lost: &[&str]) -> Revision {
    let mut revision = Revision {
        delivery: Delivery::Remote,
        lost_hubs: lost.iter().map(ToString::to_string).collect(),
        ..revision()
    };
    revision.identity.is_remote = true;
    revision.identity.hub = hub.to_owned();
    revision
}

/// The owners of an object, by uid and hub, with a star after a controller; the uids that a user has
/// declared lost; and the decision under every protection.
#[test]
fn objects_of_a_lost_hub_are_taken_over() {
    for (owners, lost, expected) in [
        ("p/old*", "old", ["adopt"; 3]),
        ("p/old*", "", ["foreign", "foreign", "adopt"]),
        ("p/old*", "other", ["foreign", "foreign", "adopt"]),
        // Without a controller as well: a revision number on it is that of the lost hub.
        ("p/old", "old", ["adopt"; 3]),
        ("p/old", "", ["orphan"; 3]),
        ("", "old", ["orphan"; 3]),
        // All owners have to be lost.
        ("p/old q/old*", "old", ["adopt"; 3]),
        ("p/old* q/live", "old", ["foreign", "foreign", "adopt"]),
        ("p/old q/live*", "old", ["foreign", "foreign", "adopt"]),
        ("p/old q/live*", "old live", ["adopt"; 3]),
        ("p/old* native", "old", ["foreign", "foreign", "adopt"]),
        // A hub that was declared lost and is back has taken the object, so it keeps it.
        ("me/hub p/old*", "old", ["foreign"; 3]),
        // An entry of an earlier version of Baton names no hub. Its owner is named instead.
        ("p/*", "old", ["foreign", "foreign", "adopt"]),
        ("p/*", "p", ["adopt"; 3]),
        ("p/ q/*", "p q", ["adopt"; 3]),
        ("p/ q/*", "q", ["foreign", "foreign", "adopt"]),
        // The own hub is not lost, nor is an existing revision.
        ("p/hub*", "hub p", ["foreign", "foreign", "adopt"]),
        (
            "unrelated/*",
            "unrelated",
            ["foreign", "foreign", "from other"],
        ),
        ("me/hub*", "hub me", ["keep"; 3]),
    ] {
        let mut object = live("1", "");
        let references = owners.split_whitespace().map(|owner| {
            let name = owner.trim_end_matches('*');
            match name.split_once('/') {
                None => json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name}),
                Some(("me", hub)) => json!({"apiVersion": "package-operator.run/v1alpha1",
                    "kind": "ObjectSet", "name": "v2", "namespace": "ns", "uid": "me", "hub": hub,
                    "controller": owner.ends_with('*')}),
                Some((uid, hub)) => remote(uid, hub, owner.ends_with('*')),
            }
        });
        object["metadata"]["ownerReferences"] = references.collect();
        let lost: Vec<_> = lost.split_whitespace().collect();
        let revision = in_hub("hub", &lost);
        for (protection, expected) in PROTECTIONS.into_iter().zip(expected) {
            let desired = desired(&revision, protection, "{}");
            let situation = classify(&revision, &Family, &object);
            let adoption = decide_adoption(&revision, &desired, &situation, &object);
            assert_eq!(
                show(&adoption),
                expected,
                "{owners} {lost:?} {protection:?}"
            );
        }
    }
}

#[test]
fn a_collision_names_the_hub_of_the_owner() {
    for (own, hub, expected) in [
        ("new", "old", " of hub old"),
        ("new", "", " with uid p"),
        ("new", "new", ", which does not exist in this hub any more"),
        ("", "old", " of hub old"),
        ("", "", ""),
    ] {
        let revision = in_hub(own, &[]);
        let mut object = live("1", "");
        object["metadata"]["ownerReferences"] = json!([remote("p", hub, true)]);
        let desired = desired(&revision, Prevent, "{}");
        let message =
            collision_message(&revision, &Family, (&desired, Refusal::Protected), &object);
        let expected = format!(", controlled by ObjectSetPhase shop/web{expected}");
        assert!(message.ends_with(&expected), "{own} {hub}: {message}");
    }
}
