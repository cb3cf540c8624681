//! Namespaces and definitions of kinds that a newer revision omits although it has objects in them.

use baton_integration::prelude::*;

/// Returns a namespace other than the test's, and an object in it.
fn contents(ns: &TestNamespace) -> (Entry, Entry) {
    let name = ns.unique("inner");
    let inner = object("v1", "Namespace", &name);
    let cm = configmap("cm").within(&name).data("k", "v");
    (inner, cm)
}

/// Fails if the object is being deleted.
async fn is_untouched(ns: &TestNamespace, inner: &Entry) {
    let live = ns.live(inner).await;
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
}

/// A revision is refused before it writes anything if the deletion of an omitted namespace would
/// delete its objects.
///
/// Once the namespace is to be kept, the revision is rolled out and the namespace is orphaned.
#[tokio::test]
async fn a_namespace_with_objects_of_a_newer_revision_is_never_deleted() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let (inner, cm) = contents(&ns);
    ns.revision(1)
        .phase("a", [inner.clone()])
        .phase("b", [cm.clone()])
        .available()
        .await;
    let before = ns.live(&cm).await;
    let changed = cm.clone().data("k", "w");
    ns.revision(2)
        .phase("a", [changed.clone()])
        .previous(&["v1"])
        .create()
        .await;
    let refused = ns
        .reaches("v2", &[Because("Available", "False", "PreflightError")])
        .await;
    let message = refused.message("Available");
    let reported = format!(
        "Namespace {name} is left out and would be deleted with revision {v1}, and with it ConfigMap {name}/cm: keep \
         it in the revision, or exempt it from deletion with the annotation baton.run/deletion=keep",
        name = inner.name(),
        v1 = ns.set_name("v1"),
    );
    assert_eq!(message, reported);
    assert_eq!(ns.live(&cm).await, before);

    let keep = json!({ "metadata": { "annotations": { "baton.run/deletion": "keep" } } });
    ns.merge(&inner, &keep).await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    is_untouched(&ns, &inner).await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "w");
    ns.delete(&inner).await;
}

/// If the annotation is removed after the rollout, it is too late for a refusal, and the namespace
/// is kept nevertheless.
#[tokio::test]
async fn a_namespace_in_use_is_released_whatever_its_annotations_are() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let (inner, cm) = contents(&ns);
    ns.revision(1)
        .phase("a", [inner.clone()])
        .phase("b", [cm.clone()])
        .available()
        .await;
    let annotate = async |value: Value| {
        let keep = json!({ "metadata": { "annotations": { "baton.run/deletion": value } } });
        ns.merge(&inner, &keep).await;
    };
    annotate("keep".into()).await;
    ns.revision(2)
        .phase("a", [cm.clone()])
        .previous(&["v1"])
        .available()
        .await;
    annotate(Value::Null).await;
    ns.delete_set("v1", "Background").await;
    is_untouched(&ns, &inner).await;
    assert_eq!(owner_names(&ns.live(&inner).await), [""; 0]);
    // Without a newer active revision, the namespace would be deleted as usual.
    ns.delete_set("v2", "Background").await;
    ns.gone(&cm).await;
    ns.delete(&inner).await;
}

/// The deletion of a kind's definition would delete all its objects.
#[tokio::test]
async fn a_definition_with_objects_of_a_newer_revision_is_never_deleted() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let group = format!("{}.example", ns.name());
    let name = format!("things.{group}");
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name).with("/spec", json!({
        "group": group, "scope": "Namespaced",
        "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
    }));
    let thing = object(&format!("{group}/v1"), "Thing", "thing").within(ns.name());
    let thing = thing.with("/spec/size", 1);
    ns.revision(1)
        .phase("a", [crd.clone()])
        .phase("b", [thing.clone()])
        .create()
        .await;
    let long = Duration::from_secs(45);
    let available = [Is("Available", "True")];
    ns.within(long).reaches("v1", &available).await;
    ns.revision(2)
        .phase("a", [thing.clone()])
        .previous(&["v1"])
        .create()
        .await;
    let reported = format!(
        "CustomResourceDefinition {name} is left out and would be deleted with revision {}, and with it",
        ns.set_name("v1"),
    );
    let wanted = [
        Because("Available", "False", "PreflightError"),
        Says("Available", &reported),
    ];
    ns.reaches("v2", &wanted).await;
    is_untouched(&ns, &crd).await;
    ns.delete_set("v2", "Background").await;
    ns.delete_set("v1", "Background").await;
    ns.gone(&crd).await;
}
