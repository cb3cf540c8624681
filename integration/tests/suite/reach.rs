//! The reach of a revision in other clusters: a namespaced revision stays in its namespace.

use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::agent::Pulled;

/// Objects of a site that a namespaced revision must not change.
struct Strangers {
    /// A namespace of the site other than the revision's.
    namespace: String,
    /// The object of another client there.
    configmap: Entry,
    before: Value,
}

impl Strangers {
    async fn on(site: &Site, ns: &TestNamespace) -> Self {
        let namespace = format!("{}-stranger", ns.name());
        site.namespace(&namespace).await;
        let configmap = configmap("theirs").within(&namespace).data("k", "theirs");
        let before = site.cluster().await.create(&configmap.manifest).await;
        Self {
            namespace,
            before: before.unwrap(),
            configmap,
        }
    }

    /// Returns objects that the revision may not contain, with the expected messages.
    fn wanted(&self, ns: &TestNamespace) -> [(Entry, String); 3] {
        let name = format!("{}-root", ns.name());
        let binding = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &name).with(
            "/roleRef",
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}),
        );
        let stolen = self.configmap.clone().data("k", "stolen");
        let elsewhere = |namespace: &str| {
            let own = ns.name();
            format!("object must be in namespace \"{own}\", actual \"{namespace}\"")
        };
        [
            (binding, "object must be namespace-scoped".to_owned()),
            (
                secret(&name).within("kube-system"),
                elsewhere("kube-system"),
            ),
            (stolen.collision("None"), elsewhere(&self.namespace)),
        ]
    }

    /// Fails if one of the objects was created or changed.
    async fn are_untouched(&self, site: &Site, ns: &TestNamespace) {
        let cluster = site.cluster().await;
        for (entry, _) in self.wanted(ns) {
            let expected = (entry.name() == self.configmap.name()).then_some(&self.before);
            assert_eq!(cluster.get(&entry.manifest).await.as_ref(), expected);
        }
    }
}

/// Objects outside of the namespace are refused before anything of their phase is written, and do
/// not delay the deletion.
async fn stays_in_its_namespace(ns: &TestNamespace, joined: &Joined) {
    let site = joined.site();
    let strangers = Strangers::on(site, ns).await;
    let own = configmap("own");
    for (at, (entry, text)) in strangers.wanted(ns).into_iter().enumerate() {
        let name = format!("v{at}");
        let set = ns.set(&name).revision(1);
        let objects = [own.clone(), entry.clone()];
        set.delegated("a", &joined.class(), objects).create().await;
        let wanted = [Because("Available", "False", "PreflightError")];
        let reported = ns.reaches(&name, &wanted).await;
        let position = format!(
            "{} {}/{}",
            entry.kind(),
            entry.manifest["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default(),
            entry.name()
        );
        assert_eq!(
            reported.message("Available"),
            format!("Phase \"a\" failed: Phase \"a\", {position}: {text}")
        );
        assert_eq!(site.read(ns, &own).await, None);
        strangers.are_untouched(site, ns).await;
        ns.delete_set(&name, "Background").await;
        strangers.are_untouched(site, ns).await;
    }
    site.forget(&strangers.namespace).await;
}

#[tokio::test]
async fn a_pushed_namespaced_revision_writes_only_into_its_namespace() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    stays_in_its_namespace(&ns, &joined).await;
}

#[tokio::test]
async fn a_pulled_namespaced_revision_writes_only_into_its_namespace() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    stays_in_its_namespace(&pulled.ns, &pulled.joined).await;
}

/// Cluster-scoped revisions are for administrators, so they may contain all objects.
#[tokio::test]
async fn a_cluster_revision_may_write_into_every_namespace() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let other = format!("{}-other", ns.name());
    let home = object("v1", "Namespace", &other);
    let inside = configmap("cm").within(&other);
    let set = ns
        .revision(1)
        .delegated("a", &joined.class(), [home.clone()]);
    let set = set.delegated("b", &joined.class(), [inside.clone()]);
    set.reaching(&[Is("Succeeded", "True")]).await;
    let cluster = site.cluster().await;
    assert!(cluster.get(&inside.manifest).await.is_some());
    ns.delete_set("v1", "Background").await;
    assert_eq!(cluster.get(&inside.manifest).await, None);
}

/// Objects that an earlier version has delivered outside of the namespace stay unchanged until
/// their owner is deleted.
#[tokio::test]
async fn objects_delivered_outside_the_namespace_before_stay_unchanged() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let strangers = Strangers::on(&site, &ns).await;
    let class = joined.class();
    let outside = configmap("outside")
        .within(&strangers.namespace)
        .data("k", "1");
    let own = configmap("own").data("k", "1");
    let set = ns.revision(1);
    let set = set.delegated("a", &class, [own.clone(), outside.clone()]);
    set.create().await;
    let refused = [Because("Available", "False", "PreflightError")];
    ns.reaches("v1", &refused).await;

    // The objects are created in the state that an earlier version leaves.
    let phase = ns.phase_object("v1", "a").await.unwrap();
    let owner = json!([{
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase", "name": phase.name(),
        "namespace": ns.name(), "uid": phase.uid(), "controller": true,
    }]);
    let cluster = site.cluster().await;
    let mut before = Vec::new();
    for entry in [&own, &outside] {
        let delivered = ns.reference(
            &entry
                .clone()
                .data("k", "drifted")
                .label("package-operator.run/cache", "True")
                .annotation("package-operator.run/owners", &owner.to_string())
                .annotation("package-operator.run/revision", "1"),
        );
        before.push(cluster.create(&delivered).await.unwrap());
    }
    // The objects are observed, but neither repaired nor removed.
    let controls = [
        Because("Available", "False", "PreflightError"),
        Controls(&["ConfigMap own", "ConfigMap outside"]),
    ];
    ns.reaches("v1", &controls).await;
    for (entry, before) in [&own, &outside].into_iter().zip(&before) {
        assert_eq!(site.live(&ns, entry).await, *before);
    }
    ns.delete_set("v1", "Background").await;
    for entry in [&own, &outside] {
        assert_eq!(site.read(&ns, entry).await, None);
    }
    strangers.are_untouched(&site, &ns).await;
    site.forget(&strangers.namespace).await;
}
