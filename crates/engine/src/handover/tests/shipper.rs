//! Objects that Shipper has installed.

use super::*;

/// An object of Shipper is taken by its Release under every protection and delivery, with the
/// fields of Shipper, and by nobody else.
#[test]
fn an_object_that_shipper_has_installed_is_taken_by_its_release() {
    let live = json!({"metadata": {
        "name": "cm",
        "namespace": "ns",
        "labels": {"shipper-app": "web", "shipper-owned-by": "web-0"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web-0-anchor", "uid": "a"}],
    }});
    for (release, expected, managers) in [
        (
            "web-0",
            "adopt",
            "kubectl-client-side-apply kubectl helm shipper",
        ),
        ("web-1", "foreign", "kubectl-client-side-apply kubectl helm"),
    ] {
        let label = format!("{{shipper-app: web, shipper-owned-by: {release}}}");
        for protection in [Prevent, IfNoController] {
            for delivery in [Delivery::InProcess, Delivery::Delegated, Delivery::Remote] {
                let revision = Revision {
                    delivery,
                    ..revision()
                };
                let desired = desired(&revision, protection, &label);
                let situation = classify(&revision, &Family, &live);
                let adoption = decide_adoption(&revision, &desired, &situation, &live);
                let is_free = protection == IfNoController;
                let expected = if is_free { "adopt" } else { expected };
                assert_eq!(
                    show(&adoption),
                    expected,
                    "{release} {protection:?} {delivery:?}"
                );
                let former = former_managers(&situation, &desired, &live);
                assert_eq!(former.join(" "), managers);
            }
        }
    }
    let desired = desired(
        &revision(),
        Prevent,
        "{shipper-app: web, shipper-owned-by: web-1}",
    );
    let message = collision_message(&revision(), &Family, (&desired, Refusal::Protected), &live);
    assert!(
        message.ends_with(", installed by Shipper for Release web-0"),
        "{message}"
    );
}
