//! Kinds that delay the end of a revision: they cannot be listed, have no stored objects, or their
//! versions change.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

use crate::rights::{ACCOUNT, NAMESPACE, apply_shipped_rights};

alternating_scopes! {
    kinds_without_list_or_watch_are_refused_and_block_no_teardown;
    a_version_that_is_not_served_hides_no_object;
    teardown_waits_while_no_version_of_a_kind_is_served;
}

async fn kinds_without_list_or_watch_are_refused_and_block_no_teardown(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let mut review = object(
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview",
        "review",
    );
    review = review.with("/spec/user", "somebody");
    for (number, class) in ["", "default"].into_iter().enumerate() {
        let (first, beside) = (
            configmap(&format!("first-{number}")),
            configmap(&format!("beside-{number}")),
        );
        for end in ["archived", "deleted"] {
            let name = format!("{end}-{number}");
            let set = ns.set(&name).revision(1).phase("a", [first.clone()]);
            set.phase_of(class, "b", [beside.clone(), review.clone()])
                .create()
                .await;
            let wanted = [
                Because("Available", "False", "PreflightError"),
                Says(
                    "Available",
                    "Kind=LocalSubjectAccessReview cannot be listed and watched",
                ),
                Says("Available", "Phase \"b\""),
            ];
            ns.reaches(&name, &wanted).await;
            ns.live(&first).await;
            assert_eq!(ns.get(&beside).await, None);
            if end == "archived" {
                ns.set_lifecycle(&name, "Archived").await;
                ns.reaches(&name, &[Is("Archived", "True")]).await;
            }
            ns.delete_set(&name, "Background").await;
            assert_eq!(ns.get(&first).await, None);
        }
    }
}

/// Returns a definition of two versions of a kind that no other test has, and an object in the
/// older version.
fn definition(ns: &TestNamespace) -> (Entry, Entry) {
    let group = format!("{}.example", ns.name());
    let names = json!({ "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" });
    let name = format!("things.{group}");
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name).with(
        "/spec",
        json!({ "group": group, "scope": "Namespaced", "names": names, "versions": versions(true, true) }),
    );
    let thing = object(&format!("{group}/v1alpha1"), "Thing", "thing").with("/spec/size", 1);
    (crd, thing)
}

/// Returns both versions, each served or not.
fn versions(alpha: bool, stable: bool) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = |name: &str, served: bool| {
        json!({
            "name": name, "served": served, "storage": name == "v1", "schema": { "openAPIV3Schema": schema },
        })
    };
    json!([version("v1", stable), version("v1alpha1", alpha)])
}

async fn serve(ns: &TestNamespace, crd: &Entry, alpha: bool, stable: bool) {
    ns.merge(
        crd,
        &json!({ "spec": { "versions": versions(alpha, stable) } }),
    )
    .await;
}

/// Returns the object in the version that stays served.
fn stable(thing: &Entry) -> Entry {
    let mut thing = thing.clone();
    let version = thing.manifest["apiVersion"].as_str().unwrap();
    thing.manifest["apiVersion"] = version.replace("v1alpha1", "v1").into();
    thing
}

async fn a_version_that_is_not_served_hides_no_object(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (crd, thing) = definition(&ns);
    ns.create_elsewhere(&crd).await;
    let other = |name: &str| {
        let mut other = thing.clone();
        other.manifest["metadata"]["name"] = name.into();
        other
    };
    let sets = [
        ("archived", "", other("a")),
        ("deleted", "", other("b")),
        ("delegated", "default", other("c")),
    ];
    for (name, class, thing) in &sets {
        let set = ns.set(name).revision(1).phase("first", [configmap(name)]);
        set.phase_of(class, "thing", [thing.clone()]).create().await;
        ns.reaches(name, &[Is("Available", "True")]).await;
    }
    serve(&ns, &crd, false, true).await;
    for (name, _, thing) in &sets {
        // The object exists, and the revision still controls it.
        let kind = format!("Thing.{}.example {}", ns.name(), thing.name());
        let both = format!("ConfigMap {name}");
        let wanted = [
            Because("Available", "False", "PreflightError"),
            Says("Available", "not registered on the api server."),
            Controls(&[&both, &kind]),
        ];
        // The watch of a version ends when the version is no longer served, without an event, so
        // the test triggers a reconcile.
        ns.merge(
            &stable(thing),
            &json!({ "metadata": { "labels": { "look": "again" } } }),
        )
        .await;
        ns.reaches(name, &wanted).await;
    }
    for (name, _, thing) in &sets {
        if *name == "deleted" {
            ns.delete_set(name, "Background").await;
        } else {
            ns.set_lifecycle(name, "Archived").await;
            ns.reaches(name, &[Is("Archived", "True")]).await;
        }
        assert_eq!(ns.get(&stable(thing)).await, None, "{name}");
        assert_eq!(ns.get(&configmap(name)).await, None, "{name}");
    }
}

async fn teardown_waits_while_no_version_of_a_kind_is_served(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (crd, thing) = definition(&ns);
    ns.create_elsewhere(&crd).await;
    ns.revision(1).phase("a", [thing.clone()]).create().await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    serve(&ns, &crd, false, false).await;
    // The server needs a moment to stop serving the version.
    ns.reaches("v1", &[Because("Available", "False", "PreflightError")])
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    let wanted = [
        Is("Archived", "False"),
        Says("Archived", "Kind=Thing: CustomResourceDefinition things."),
        Says("Archived", "serves no version of it"),
    ];
    ns.reaches("v1", &wanted).await;
    serve(&ns, &crd, false, true).await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&stable(&thing)).await, None);
}

/// Grants the manager these verbs on secrets, and all verbs on config maps, and restarts it.
async fn allow(bed: &mut Exclusive, verbs: &[&str]) {
    let role = object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "baton-children",
    );
    let all = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    let mut rules = vec![json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": all })];
    if !verbs.is_empty() {
        rules.push(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": verbs }));
    }
    let rules = json!({ "rules": rules });
    bed.cluster().merge(&role.manifest, &rules).await.unwrap();
    bed.take_manager().kill();
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;
}

/// Objects that cannot be listed are read one by one. Objects that cannot be read either are
/// reported, and can be abandoned.
#[tokio::test]
async fn teardown_reads_objects_one_by_one_if_they_cannot_be_listed() {
    let mut bed = Exclusive::acquire().await;
    apply_shipped_rights(bed.cluster()).await;
    for scope in [Scope::Namespaced, Scope::Cluster] {
        let ns = bed.namespace(scope).await;
        for name in ["readable", "hidden"] {
            ns.set(name)
                .revision(1)
                .phase("a", [configmap(name)])
                .phase("b", [secret(name)])
                .available()
                .await;
        }
        allow(&mut bed, &["get", "delete"]).await;
        ns.set_lifecycle("readable", "Archived").await;
        ns.reaches("readable", &[Is("Archived", "True")]).await;
        assert_eq!(ns.get(&secret("readable")).await, None);
        assert_eq!(ns.get(&configmap("readable")).await, None);

        allow(&mut bed, &[]).await;
        for name in ["archived", "deleted"] {
            let set = ns.set(name).revision(1).phase("a", [secret(name)]);
            let wanted = [Is("Available", "False"), Says("Available", "forbidden")];
            set.create().await;
            ns.reaches(name, &wanted).await;
        }
        // Nothing was written, so nothing delays the archival or the deletion.
        ns.set_lifecycle("archived", "Archived").await;
        ns.reaches("archived", &[Is("Archived", "True")]).await;
        ns.delete_set("deleted", "Background").await;

        ns.set_lifecycle("hidden", "Archived").await;
        let wanted = [
            Is("Archived", "False"),
            Says("Archived", "Secret"),
            Says("Archived", "/hidden: secrets \"hidden\" is forbidden"),
        ];
        ns.reaches("hidden", &wanted).await;
        let abandon = json!({ "metadata": { "annotations": { "baton.run/abandon": "true" } } });
        ns.patch_set("hidden", &abandon).await.unwrap();
        ns.reaches("hidden", &[Is("Archived", "True")]).await;
        ns.live(&secret("hidden")).await;
        assert_eq!(ns.get(&configmap("hidden")).await, None);
        ns.delete_set("hidden", "Background").await;
        apply_shipped_rights(bed.cluster()).await;
        bed.take_manager().kill();
        bed.start_manager();
    }
}
