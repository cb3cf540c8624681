//! Revisions whose objects are written with the rights of service accounts.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::agent::Pulled;
use crate::rights::{ACCOUNT, NAMESPACE, apply_rights, apply_shipped_rights};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
pub(crate) const DEPLOYER: &str = "deployer";
pub(crate) const ALL: [&str; 5] = ["get", "create", "patch", "update", "delete"];

/// Grants a service account in a namespace these verbs on kinds of the core group.
pub(crate) async fn allow(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    kinds: &[&str],
    verbs: &[&str],
) {
    let account_object = object("v1", "ServiceAccount", account).within(namespace);
    let role = object(RBAC, "Role", account).within(namespace).with(
        "/rules",
        json!([{ "apiGroups": [""], "resources": kinds, "verbs": verbs }]),
    );
    let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": namespace });
    let binding = object(RBAC, "RoleBinding", account)
        .within(namespace)
        .with(
            "/roleRef",
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account }),
        )
        .with("/subjects", json!([subject]));
    for object in [account_object, role, binding] {
        cluster.apply(&object.manifest, "tests").await.unwrap();
    }
}

/// Grants the manager the right to impersonate accounts in one namespace.
async fn serve(ns: &TestNamespace) {
    let subject = json!({ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE });
    let role = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "baton-tenant",
    });
    let binding = object(RBAC, "RoleBinding", "baton-tenant")
        .with("/roleRef", role)
        .with("/subjects", json!([subject]));
    ns.create(&binding).await;
}

pub(crate) fn user(ns: &TestNamespace, account: &str) -> String {
    format!("system:serviceaccount:{}:{account}", ns.name())
}

/// The manager has no rights of its own on the objects of revisions.
///
/// Rollout, probes, handover, phases of a class, archival and deletion work nevertheless, but not
/// in a namespace without the right to impersonate.
#[tokio::test]
async fn a_manager_of_tenants_writes_with_their_rights_only() {
    let mut bed = Exclusive::acquire().await;
    apply_shipped_rights(bed.cluster()).await;
    apply_rights(bed.cluster(), "config/tenants").await;
    bed.take_manager().kill();
    let default = format!("--default-service-account={DEPLOYER}");
    bed.start_manager_as_with(NAMESPACE, ACCOUNT, &[&default])
        .await;

    let ns = bed.namespace(Scope::Namespaced).await;
    serve(&ns).await;
    allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &ALL).await;
    let (kept, gone, delegated) = (configmap("kept"), configmap("gone"), configmap("delegated"));
    let probe = cel_probe("", "ConfigMap", "self.metadata.name != ''", "no name");
    ns.revision(1)
        .phase("a", [kept.clone(), gone.clone()])
        .delegated("b", "default", [delegated.clone()])
        .probe(probe.clone())
        .available()
        .await;
    // One object has the same content and another one changes. The account may be named explicitly
    // as well.
    ns.revision(2)
        .phase("a", [kept.clone()])
        .delegated("b", "default", [delegated.clone().data("k", "2")])
        .probe(probe)
        .spec("serviceAccountName", DEPLOYER)
        .available()
        .await;
    let phase = ns.phase_object("v2", "b").await.unwrap();
    assert_eq!(phase.json["spec"]["serviceAccountName"], DEPLOYER);
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&gone).await, None);
    ns.merge(&kept, &json!({ "metadata": { "labels": null } }))
        .await;
    ns.object_becomes(&kept, "labelled again", is_labelled)
        .await;
    ns.delete_set("v2", "Background").await;
    ns.gone(&kept).await;
    ns.gone(&delegated).await;

    // Objects that the account may not write are reported, and nothing of their phase is written.
    let (beside, hidden) = (configmap("beside"), secret("hidden"));
    ns.set("secret")
        .phase("a", [beside.clone(), hidden.clone()])
        .reaching(&[
            Because("Available", "False", "PreflightError"),
            Says("Available", &user(&ns, DEPLOYER)),
            Says("Available", "secrets"),
        ])
        .await;
    assert_eq!((ns.get(&beside).await, ns.get(&hidden).await), (None, None));

    // The manager has no right to impersonate accounts in this namespace.
    let other = bed.namespace(Scope::Namespaced).await;
    allow(
        other.cluster(),
        other.name(),
        DEPLOYER,
        &["configmaps"],
        &ALL,
    )
    .await;
    other
        .set("v1")
        .phase("a", [kept.clone()])
        .reaching(&[
            Because("Available", "False", "PreflightError"),
            Says("Available", "cannot impersonate"),
        ])
        .await;
    assert_eq!(other.get(&kept).await, None);
    // The manager's own account may not write objects either.
    let wide = bed.namespace(Scope::Cluster).await;
    wide.set("v1")
        .phase("a", [kept.clone()])
        .reaching(&[
            Because("Available", "False", "PreflightError"),
            Says(
                "Available",
                &format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"),
            ),
        ])
        .await;
    assert_eq!(wide.get(&kept).await, None);
}

/// Values that the account may not read are not reported: neither by a probe, nor by a mapped
/// condition, nor for a colliding object.
#[tokio::test]
async fn values_that_the_account_may_not_read_are_not_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    allow(
        ns.cluster(),
        ns.name(),
        DEPLOYER,
        &["services"],
        &["create", "patch", "delete"],
    )
    .await;
    let service =
        || object("v1", "Service", "s").with("/spec", json!({ "ports": [{ "port": 80 }] }));
    // The object has the manager's label, so it is cached, and it has no controller.
    ns.create(&service().label("package-operator.run/cache", "True"))
        .await;
    let status = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "False", "reason": "Hunter2", "message": "hunter2",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let like = ns.reference(&service());
    ns.cluster().merge_status(&like, &status).await.unwrap();
    // The paused revision may take the object over, so it is no collision once it can be read.
    for (name, lifecycle, collision) in [
        ("active", "Active", "Prevent"),
        ("paused", "Paused", "None"),
    ] {
        let mapped = service().map("Ready", "demo.example/Ready");
        let set = ns
            .set(name)
            .phase("a", [mapped.collision(collision)])
            .probe(condition_probe("", "Service", "Ready"))
            .lifecycle(lifecycle)
            .spec("serviceAccountName", DEPLOYER)
            .reaching(&[
                Because("Available", "False", "PreflightError"),
                Says(
                    "Available",
                    &format!("{} may not get it", user(&ns, DEPLOYER)),
                ),
                No("demo.example/Ready"),
            ])
            .await;
        let reported = set.json["status"].to_string();
        assert!(!reported.to_lowercase().contains("hunter2"), "{reported}");
        assert!(!reported.contains(".status.condition"), "{reported}");
    }
    // Once the account may read the object, the condition is reported.
    allow(
        ns.cluster(),
        ns.name(),
        DEPLOYER,
        &["services"],
        &["get", "create", "patch", "delete"],
    )
    .await;
    ns.reaches("paused", &[Is("demo.example/Ready", "False")])
        .await;
}

/// The missing right is reported, also during a deletion, and the revision continues once the right
/// is granted.
#[tokio::test]
async fn a_revision_stays_without_the_right_to_delete_its_objects() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let most = ["get", "create", "patch"];
    allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &most).await;
    let cm = configmap("cm");
    for name in ["archived", "deleted"] {
        ns.set(name)
            .phase("a", [configmap(name)])
            .spec("serviceAccountName", DEPLOYER)
            .available()
            .await;
    }
    ns.set_lifecycle("archived", "Archived").await;
    let text = format!("User \"{}\" cannot delete resource", user(&ns, DEPLOYER));
    ns.reaches(
        "archived",
        &[
            Because("Archived", "False", "ArchivalInProgress"),
            Says("Archived", &text),
        ],
    )
    .await;
    assert!(
        ns.cluster()
            .delete(&ns.set_ref("deleted"), "Background")
            .await
    );
    ns.eventually(
        "the deletion to report the objects that it waits for",
        async || {
            let waiting = ns.read_set("deleted").await.json["status"]["waitingFor"].to_string();
            waiting.contains("cannot delete resource")
        },
    )
    .await;
    assert_eq!(ns.get(&cm).await, None);
    ns.live(&configmap("archived")).await;
    ns.live(&configmap("deleted")).await;
    allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &ALL).await;
    ns.reaches("archived", &[Is("Archived", "True")]).await;
    ns.eventually("the other revision to go", async || {
        ns.cluster().get(&ns.set_ref("deleted")).await.is_none()
    })
    .await;
    assert_eq!(ns.get(&configmap("deleted")).await, None);
}

/// A handover that changes only the owner usually needs no dry run. Without one, only the first of
/// several writes would detect the missing right.
#[tokio::test]
async fn a_handover_without_rights_takes_no_object() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let objects = [configmap("a"), configmap("b"), secret("c")];
    allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &ALL).await;
    ns.revision(1).phase("a", objects.clone()).available().await;
    ns.revision(2)
        .phase("a", objects.clone())
        .spec("serviceAccountName", DEPLOYER)
        .reaching(&[
            Because("Available", "False", "PreflightError"),
            Says("Available", &user(&ns, DEPLOYER)),
            Controls(&[]),
        ])
        .await;
    for entry in &objects {
        assert_eq!(revision_annotation(&ns.live(entry).await), "1");
    }
    allow(
        ns.cluster(),
        ns.name(),
        DEPLOYER,
        &["configmaps", "secrets"],
        &ALL,
    )
    .await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
}

#[tokio::test]
async fn the_account_of_a_revision_is_immutable() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let set = ns.set("v1").phase("a", [configmap("cm")]);
    set.spec("serviceAccountName", DEPLOYER).create().await;
    ns.set("v2").phase("a", [configmap("other")]).create().await;
    for (name, account) in [
        ("v1", json!("other")),
        ("v1", json!(null)),
        ("v2", json!("other")),
    ] {
        let patch = json!({ "spec": { "serviceAccountName": account } });
        let refused = ns.patch_set(name, &patch).await.unwrap_err();
        let text = "serviceAccountName is immutable";
        assert!(refused.message.contains(text), "{refused:?}");
    }
    for wrong in ["", "system:admin", "../x", "A"] {
        let set = ns.set("wrong").spec("serviceAccountName", wrong);
        let refused = set.try_create().await.unwrap_err();
        assert_eq!(refused.reason, "Invalid", "{wrong}");
    }
}

#[tokio::test]
async fn a_cluster_scoped_revision_has_no_account() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let cm = configmap("cm");
    ns.set("v1")
        .phase("a", [cm.clone()])
        .spec("serviceAccountName", DEPLOYER)
        .reaching(&[
            Because("Available", "False", "PreflightError"),
            Says(
                "Available",
                "a ClusterObjectSet has no namespace, so it cannot name a service account",
            ),
        ])
        .await;
    assert_eq!(ns.get(&cm).await, None);
}

/// In another cluster, the account of the same name and namespace in that cluster applies.
async fn delivered_as_the_account_of_that_cluster(ns: &TestNamespace, joined: &Joined) {
    let (site, cm) = (joined.site(), configmap("cm"));
    ns.set("v1")
        .delegated("a", &joined.class(), [cm.clone()])
        .spec("serviceAccountName", DEPLOYER)
        .reaching(&[
            Is("Available", "False"),
            Says("Available", &user(ns, DEPLOYER)),
            Says("Available", "forbidden"),
        ])
        .await;
    assert_eq!(site.read(ns, &cm).await, None);
    let there = site.cluster().await;
    allow(&there, ns.name(), DEPLOYER, &["configmaps"], &ALL).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    site.live(ns, &cm).await;
    ns.delete_set("v1", "Background").await;
    assert_eq!(site.read(ns, &cm).await, None);
}

#[tokio::test]
async fn pushed_objects_are_written_as_the_account_of_their_cluster() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    delivered_as_the_account_of_that_cluster(&ns, &joined).await;
}

#[tokio::test]
async fn agents_write_as_the_account_of_their_cluster() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    delivered_as_the_account_of_that_cluster(&pulled.ns, &pulled.joined).await;
}
