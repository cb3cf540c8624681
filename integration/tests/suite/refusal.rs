//! Writes that the API server refuses although the manager has the right to send them. Admission
//! policies stand for webhooks and quotas.

use baton_integration::prelude::*;

both_scopes! {
    a_refused_write_is_reported;
    a_refused_dry_run_leaks_no_object;
    a_refused_delete_is_reported_and_retried;
}

/// Refuses operations on the config maps of the test's namespace, and waits until the policy is in
/// force.
async fn refuse(ns: &TestNamespace, operations: &[&str]) -> Entry {
    let name = ns.unique("refuse");
    let api = "admissionregistration.k8s.io/v1";
    let policy = object(api, "ValidatingAdmissionPolicy", &name).with(
        "/spec",
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": operations,
            }] },
            "validations": [{ "expression": "false", "message": "not on a Friday" }],
        }),
    );
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name() } });
    let binding = object(api, "ValidatingAdmissionPolicyBinding", &name).with(
        "/spec",
        json!({
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": { "namespaceSelector": selector },
        }),
    );
    // An object to test the policy with.
    let canary = configmap("canary");
    let canary_ref = ns.reference(&canary);
    ns.create(&canary).await;
    ns.create_elsewhere(&policy).await;
    ns.create_elsewhere(&binding).await;
    let round = std::cell::Cell::new(0);
    ns.eventually("the policy to be in force", async || {
        round.set(round.get() + 1);
        if operations.contains(&"UPDATE") {
            let patch = json!({ "data": { "round": round.get().to_string() } });
            ns.cluster().merge(&canary_ref, &patch).await.is_err()
        } else if operations.contains(&"CREATE") {
            let another = ns.reference(&configmap(&format!("canary-{}", round.get())));
            ns.cluster().create(&another).await.is_err()
        } else {
            ns.cluster().try_delete(&canary_ref).await.is_err() || {
                ns.create(&canary).await;
                false
            }
        }
    })
    .await;
    binding
}

async fn a_refused_write_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    refuse(&ns, &["CREATE"]).await;
    let cm = configmap("cm");
    let set = ns
        .revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "False"), Phase("NotReady")])
        .await;
    set.assert(&[
        Because("Available", "False", "PreflightError"),
        Says("Available", "Phase \"a\", ConfigMap "),
        Says("Available", "/cm: "),
        Says("Available", "not on a Friday"),
    ]);
    assert_eq!(ns.get(&cm).await, None);
}

/// Package Operator ends the teardown of an object after a refused dry run, and leaves the object
/// behind.
async fn a_refused_dry_run_leaks_no_object(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    refuse(&ns, &["CREATE", "UPDATE"]).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&cm).await, None);
}

async fn a_refused_delete_is_reported_and_retried(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, second) = (configmap("first"), configmap("second"));
    ns.revision(1)
        .phase("a", [first.clone()])
        .phase("b", [second.clone()])
        .available()
        .await;
    let binding = refuse(&ns, &["DELETE"]).await;
    ns.set_lifecycle("v1", "Archived").await;
    let wanted = [
        Because("Archived", "False", "ArchivalInProgress"),
        Says("Archived", "second"),
        Says("Archived", "not on a Friday"),
    ];
    ns.reaches("v1", &wanted).await;
    ns.live(&first).await;
    ns.cluster().delete(&binding.manifest, "Background").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&first).await, None);
    assert_eq!(ns.get(&second).await, None);
}
