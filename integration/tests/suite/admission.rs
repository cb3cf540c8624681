//! Writes that the schema alone refuses.

use baton_integration::prelude::*;

both_scopes! {
    phases_are_immutable;
    availability_probes_are_immutable;
    previous_is_immutable;
    revision_is_immutable;
}

/// Creates an available revision with one object.
async fn available(scope: Scope) -> TestNamespace {
    let ns = TestNamespace::new(scope).await;
    ns.revision(1)
        .phase("a", [configmap("cm").data("k", "v")])
        .available()
        .await;
    ns
}

async fn refused(ns: &TestNamespace, patch: Value, message: &str) {
    let refused = ns.patch_set("v1", &patch).await.unwrap_err();
    assert_eq!(refused.reason, "Invalid", "{refused:?}");
    assert!(refused.message.contains(message), "{refused:?}");
}

async fn phases_are_immutable(scope: Scope) {
    let ns = available(scope).await;
    let mut phases = ns.read_set("v1").await.json["spec"]["phases"].clone();
    phases[0]["objects"][0]["object"]["data"]["k"] = "other".into();
    refused(
        &ns,
        json!({ "spec": { "phases": phases } }),
        "phases is immutable",
    )
    .await;
    refused(
        &ns,
        json!({ "spec": { "phases": null } }),
        "phases is immutable",
    )
    .await;
}

async fn availability_probes_are_immutable(scope: Scope) {
    let ns = available(scope).await;
    let probes = json!([fields_equal(
        "",
        "ConfigMap",
        ".metadata.name",
        ".data.name"
    )]);
    let patch = json!({ "spec": { "availabilityProbes": probes } });
    refused(&ns, patch, "availabilityProbes is immutable").await;
}

async fn previous_is_immutable(scope: Scope) {
    let ns = available(scope).await;
    let patch = json!({ "spec": { "previous": [{ "name": "v0" }] } });
    refused(&ns, patch, "previous is immutable").await;
}

async fn revision_is_immutable(scope: Scope) {
    let ns = available(scope).await;
    refused(
        &ns,
        json!({ "spec": { "revision": 2 } }),
        "revision is immutable",
    )
    .await;
    refused(
        &ns,
        json!({ "spec": { "revision": null } }),
        "revision is immutable",
    )
    .await;
}
