//! The manager with the rights that it ships with, and with fewer rights.

use baton_hack::paths::Dirs;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

/// The namespace and the account of the manager, as in the manifests in `config/rbac`.
pub(crate) const NAMESPACE: &str = "baton-system";
pub(crate) const ACCOUNT: &str = "baton";

/// Applies the manifests of `config/rbac`.
pub(crate) async fn apply_shipped_rights(cluster: &Cluster) {
    apply_rights(cluster, "config/rbac").await;
}

/// Applies the manifests of a directory, which require the namespace of the manager.
pub(crate) async fn apply_rights(cluster: &Cluster, directory: &str) {
    let dir = Dirs::from_env().unwrap().workspace.join(directory);
    let namespace = object("v1", "Namespace", NAMESPACE).manifest;
    cluster.apply(&namespace, "tests").await.unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for document in text.split("\n---\n") {
            let manifest: Value = serde_saphyr::from_str(document).unwrap_or_default();
            if !manifest.is_null() {
                cluster.apply(&manifest, "tests").await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn the_shipped_rights_are_enough() {
    let mut bed = Exclusive::acquire().await;
    apply_shipped_rights(bed.cluster()).await;
    bed.take_manager().kill();
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;
    for scope in [Scope::Namespaced, Scope::Cluster] {
        let ns = bed.namespace(scope).await;
        let (shared, own, sliced) = (configmap("shared"), secret("own"), configmap("sliced"));
        ns.create_slice("slice", [sliced.clone()]).await;
        ns.set("v1")
            .phase_with_slices("a", [shared.clone(), own.clone()], &["slice"])
            .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        let new = shared.clone().data("k", "2");
        ns.set("v2")
            .previous(&["v1"])
            .phase("a", [new])
            .reaching(&[Is("Available", "True"), Controls(&["ConfigMap shared"])])
            .await;
        ns.merge(&shared, &json!({ "data": { "k": "drifted" } }))
            .await;
        ns.object_becomes(&shared, "repaired", |live| live["data"]["k"] == "2")
            .await;
        ns.set_lifecycle("v1", "Archived").await;
        ns.reaches("v1", &[Is("Archived", "True")]).await;
        assert_eq!(ns.get(&own).await, None);
        assert_eq!(ns.get(&sliced).await, None);
        let namespace = match scope {
            Scope::Namespaced => ns.name(),
            Scope::Cluster => "default",
        };
        let events = object("v1", "Event", "").within(namespace).manifest;
        let name = ns.set_name("v2");
        ns.eventually("an event about the handover", async || {
            let events = ns.cluster().list(&events, "").await;
            events
                .iter()
                .any(|event| event["involvedObject"]["name"] == *name)
        })
        .await;
        ns.delete_set("v2", "Background").await;
        ns.gone(&shared).await;
    }
}

/// A missing right stops only the revision that needs it, and the status reports it.
#[tokio::test]
async fn a_missing_right_is_reported() {
    let mut bed = Exclusive::acquire().await;
    apply_shipped_rights(bed.cluster()).await;
    let role = object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "baton-children",
    );
    let rules = json!({ "rules": [{
        "apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }] });
    bed.cluster().merge(&role.manifest, &rules).await.unwrap();
    bed.take_manager().kill();
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;

    let ns = bed.namespace(Scope::Namespaced).await;
    let (cm, hidden, beside) = (configmap("cm"), secret("hidden"), configmap("beside"));
    ns.set("refused")
        .revision(1)
        .phase("a", [beside.clone(), hidden.clone()])
        .create()
        .await;
    ns.set("allowed")
        .revision(1)
        .phase("a", [cm.clone()])
        .available()
        .await;
    let wanted = [
        Is("Available", "False"),
        Says("Available", "secrets"),
        Says("Available", "forbidden"),
        Phase("NotReady"),
    ];
    ns.reaches("refused", &wanted).await;
    assert_eq!(ns.get(&hidden).await, None);
    assert_eq!(ns.get(&beside).await, None);
    // The manager continues with the other revision.
    ns.merge(
        &cm,
        &json!({ "data": { "theirs": "1" }, "metadata": { "labels": null } }),
    )
    .await;
    ns.object_becomes(&cm, "labelled again", is_labelled).await;

    apply_shipped_rights(bed.cluster()).await;
    let wanted = [
        Is("Available", "True"),
        Controls(&["ConfigMap beside", "Secret hidden"]),
    ];
    ns.reaches("refused", &wanted).await;
    ns.reaches("allowed", &[Is("Available", "True")]).await;
}
