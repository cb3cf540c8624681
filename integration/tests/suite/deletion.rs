//! Deletion of revisions and of namespaces.

use baton_integration::prelude::*;

alternating_scopes! {
    orphaned_objects_stay;
    background_deletion_deletes_the_objects;
    foreground_deletion_deletes_the_objects;
    deletion_goes_in_reverse_order;
    deletion_leaves_objects_that_were_handed_over;
    deletion_of_the_newest_revision_returns_its_objects;
    foreground_deletion_of_the_newest_revision_returns_its_objects;
    a_paused_revision_can_be_deleted;
}

async fn orphaned_objects_stay(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm").data("k", "v");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    let before = ns.live(&cm).await;
    ns.delete_set("v1", "Orphan").await;
    let live = ns
        .object_becomes(&cm, "an orphan", |live| owners(live).is_empty())
        .await;
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(live["data"], json!({ "k": "v" }));
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
    ns.stays(Duration::from_secs(2), "the orphan", async || {
        ns.get(&cm).await.is_some()
    })
    .await;
}

async fn background_deletion_deletes_the_objects(scope: Scope) {
    deleted(scope, "Background").await;
}

async fn foreground_deletion_deletes_the_objects(scope: Scope) {
    deleted(scope, "Foreground").await;
}

async fn deleted(scope: Scope, propagation: &str) {
    let ns = TestNamespace::new(scope).await;
    let [a, b, sliced] = ["a", "b", "sliced"].map(configmap);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.revision(1)
        .phase("1", [a.clone()])
        .phase_with_slices("2", [b.clone()], &["slice"])
        .available()
        .await;
    ns.delete_set("v1", propagation).await;
    for object in [&a, &b, &sliced] {
        ns.gone(object).await;
    }
}

/// The objects of the deleted revision that a newer one has taken over stay, without a trace of the
/// deleted revision.
async fn deletion_leaves_objects_that_were_handed_over(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, own) = (configmap("shared"), configmap("own"));
    ns.revision(1)
        .phase("a", [shared.clone(), own.clone()])
        .available()
        .await;
    ns.revision(2)
        .phase("a", [shared.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap shared"])])
        .await;
    let before = ns.live(&shared).await;
    ns.delete_set("v1", "Background").await;
    ns.gone(&own).await;
    let live = ns.live(&shared).await;
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(owner_names(&live), [ns.set_name("v2")]);
    ns.stays(
        Duration::from_secs(2),
        "the object handed over",
        async || {
            let live = ns.live(&shared).await;
            uid(&live) == uid(&before) && is_labelled(&live)
        },
    )
    .await;
    ns.reaches("v2", &[Is("Available", "True"), No("InTransition")])
        .await;
}

/// With background propagation, the phases wait for one another as in an archival.
async fn deletion_goes_in_reverse_order(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, second) = (configmap("cm-1"), configmap("cm-2").blocked());
    ns.revision(1)
        .phase("1", [first.clone()])
        .phase("2", [second.clone()])
        .available()
        .await;
    assert!(ns.cluster().delete(&ns.set_ref("v1"), "Background").await);
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    ns.object_becomes(&second, "deleted", is_going).await;
    ns.stays(
        Duration::from_secs(2),
        "the first phase is untouched",
        async || !is_going(&ns.live(&first).await),
    )
    .await;
    ns.unblock(&second).await;
    ns.gone(&first).await;
    ns.eventually("the revision to be gone", async || {
        ns.cluster().get(&ns.set_ref("v1")).await.is_none()
    })
    .await;
}

/// The older revision is still active and recreates the objects that are deleted with the newer
/// one.
async fn deletion_of_the_newest_revision_returns_its_objects(scope: Scope) {
    gives_back_after(scope, "Background").await;
}

async fn foreground_deletion_of_the_newest_revision_returns_its_objects(scope: Scope) {
    gives_back_after(scope, "Foreground").await;
}

async fn gives_back_after(scope: Scope, propagation: &str) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone().data("from", "v1")])
        .available()
        .await;
    let new = cm.clone().data("from", "v2");
    ns.revision(2).phase("a", [new]).available().await;
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
    ns.delete_set("v2", propagation).await;
    let wanted = [
        Is("Available", "True"),
        No("InTransition"),
        Controls(&["ConfigMap cm"]),
    ];
    let v1 = ns.reaches("v1", &wanted).await;
    let live = ns.live(&cm).await;
    assert_eq!(live["data"], json!({ "from": "v1" }));
    assert_managed_by(&live, &v1);
}

async fn a_paused_revision_can_be_deleted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True")]).await;
    ns.delete_set("v1", "Background").await;
    ns.gone(&cm).await;
}

/// Nothing delays the deletion of a namespace, and nothing is created in it meanwhile.
#[tokio::test]
async fn the_deletion_of_a_namespace_is_not_delayed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let [shared, sliced, failing] = ["shared", "sliced", "failing"].map(configmap);
    ns.create_slice("slice", [sliced]).await;
    ns.revision(1)
        .phase("a", [shared.clone(), configmap("old")])
        .available()
        .await;
    ns.revision(2)
        .phase_with_slices("a", [shared], &["slice"])
        .phase("b", [failing])
        .probe(fields_equal("", "ConfigMap", ".data.never", ".data.never"))
        .reaching(&[Is("Available", "False")])
        .await;
    let namespace = object("v1", "Namespace", ns.name());
    ns.delete(&namespace).await;
    ns.eventually("the namespace to go", async || {
        ns.get(&namespace).await.is_none()
    })
    .await;
}
