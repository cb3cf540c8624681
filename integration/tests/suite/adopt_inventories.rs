//! The plugin's `adopt` with the inventories of kapp, Argo CD and Flux. The tools are not run: the
//! tests write their records in the same format.

use baton_integration::prelude::*;

use crate::adopt::apply;

/// Returns the definition of another tool's kind, whose schema accepts everything.
fn definition(plural: &str, kind: &str, group: &str, version: &str) -> Entry {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &format!("{plural}.{group}"),
    )
    .with("/spec/group", group)
    .with("/spec/scope", "Namespaced")
    .with("/spec/names", json!({"plural": plural, "kind": kind}))
    .with(
        "/spec/versions",
        json!([{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]),
    )
}

/// Installs a kind permanently, and creates an object of it once it is served.
async fn create_of(ns: &TestNamespace, definition: &Entry, custom: &Entry) {
    let cluster = ns.cluster();
    let created = cluster.create(&definition.manifest).await;
    assert!(created.is_ok() || created.is_err_and(|refused| refused.code == 409));
    let custom = ns.reference(custom);
    ns.eventually("the kind to be served", async || {
        cluster.create(&custom).await.is_ok()
    })
    .await;
}

fn keys(names: &[&str]) -> Entry {
    let settings = configmap("settings");
    names.iter().fold(settings, |it, key| it.data(key, "1"))
}

/// Adopts an object, drops a field, and returns the object afterwards.
async fn after_dropping(ns: &TestNamespace, args: &[&str]) -> Value {
    let args = [&["adopt", "shop"], args].concat();
    let printed = ns.plugin(&[&args[..], &["-o", "json"]].concat()).done();
    let mut deployment: Value = serde_json::from_str(&printed.stdout).unwrap();
    let before = ns.live(&keys(&[])).await;
    ns.plugin(&[&args[..], &["--apply"]].concat()).done();
    let shop = ns.existing("shop");
    shop.concluded().await;
    let taken = ns.live(&keys(&[])).await;
    assert_eq!(taken["data"], before["data"]);
    let content = "/spec/template/spec/phases/0/objects/0/object/data";
    let data = deployment.pointer_mut(content).unwrap();
    assert_eq!(*data, json!({"a": "1", "b": "1"}));
    data.as_object_mut().unwrap().remove("b");
    apply(ns, &deployment).await;
    shop.concluded_as(2).await;
    let live = ns.live(&keys(&[])).await;
    assert_eq!(live["data"], json!({"a": "1"}));
    live
}

#[tokio::test]
async fn an_app_of_kapp_is_adopted_by_its_label() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let label = ns.unique("app");
    let original = keys(&["a", "b"]).label("kapp.k14s.io/app", &label);
    let text = ns.reference(&original).to_string();
    let applied = original
        .clone()
        .annotation("kapp.k14s.io/identity", "v1;x/ConfigMap/settings;v1")
        .annotation("kapp.k14s.io/original", &text);
    ns.cluster()
        .apply(&ns.reference(&applied), "kapp")
        .await
        .unwrap();
    // An object of another app, and kapp's record.
    ns.create(&configmap("other").label("kapp.k14s.io/app", "other"))
        .await;
    let spec = json!({
        "labelKey": "kapp.k14s.io/app", "labelValue": label,
        "usedGKs": [{"Group": "", "Kind": "ConfigMap"}],
        "lastChange": {"namespaces": [ns.name()]},
    });
    let record = configmap("shop.apps.k14s.io")
        .label("kapp.k14s.io/is-app", "")
        .data("spec", &spec.to_string());
    ns.create(&record).await;
    let missing = ns.plugin(&["adopt", "shop", "--kapp", "nothing"]).failed();
    assert!(
        missing.contains("there is no app nothing of kapp"),
        "{missing}"
    );
    let live = after_dropping(&ns, &["--kapp", "shop"]).await;
    // kapp still finds its object and the content of its last apply.
    assert_eq!(live["metadata"]["labels"]["kapp.k14s.io/app"], label);
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["kapp.k14s.io/original"], text);
    assert!(annotations["kapp.k14s.io/identity"].is_string());
}

#[tokio::test]
async fn an_application_of_argo_cd_is_adopted_by_its_status() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let tracked = keys(&["a", "b"]).annotation(
        "argocd.argoproj.io/tracking-id",
        "shop:/ConfigMap:x/settings",
    );
    ns.cluster()
        .apply(&ns.reference(&tracked), "argocd-controller")
        .await
        .unwrap();
    let listed = json!([{
        "version": "v1", "kind": "ConfigMap", "namespace": ns.name(), "name": "settings", "status": "Synced",
    }]);
    let application = object("argoproj.io/v1alpha1", "Application", "shop")
        .with("/spec/syncPolicy", json!({"automated": {}}))
        .with("/status/resources", listed);
    let crd = definition("applications", "Application", "argoproj.io", "v1alpha1");
    create_of(&ns, &crd, &application).await;
    let source = format!("{}/shop", ns.name());
    let shown = ns.plugin(&["adopt", "shop", "--argocd", &source]).done();
    assert!(
        shown.stderr.contains("synchronises automatically"),
        "{}",
        shown.stderr
    );
    let elsewhere = ns
        .plugin(&["adopt", "shop", "--argocd", "nothing"])
        .failed();
    assert!(
        elsewhere.contains("there is no Application nothing in the namespace argocd"),
        "{elsewhere}"
    );
    let live = after_dropping(&ns, &["--argocd", &source]).await;
    assert!(live["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"].is_string());
}

#[tokio::test]
async fn a_kustomization_of_flux_is_adopted_by_its_inventory() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let labelled = keys(&["a", "b"]).label("kustomize.toolkit.fluxcd.io/name", "shop");
    ns.cluster()
        .apply(&ns.reference(&labelled), "kustomize-controller")
        .await
        .unwrap();
    let group = "kustomize.toolkit.fluxcd.io";
    let entries = json!([{"id": format!("{}_settings__ConfigMap", ns.name()), "v": "v1"}]);
    let kustomization = object(&format!("{group}/v1"), "Kustomization", "shop")
        .with("/spec/suspend", true)
        .with("/status/inventory/entries", entries);
    let crd = definition("kustomizations", "Kustomization", group, "v1");
    create_of(&ns, &crd, &kustomization).await;
    let source = format!("{}/shop", ns.name());
    let live = after_dropping(&ns, &["--flux", &source]).await;
    assert_eq!(
        live["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"],
        "shop"
    );
    ns.plugin(&["adopt", "shop", "--undo", "--apply"]).done();
    let free = ns.live(&keys(&[])).await;
    assert!(has_manager(&free, "kustomize-controller"), "{free}");
    // Fields that Flux drops are removed again.
    let _ = ns
        .cluster()
        .apply(&ns.reference(&keys(&["c"])), "kustomize-controller")
        .await
        .unwrap();
    assert_eq!(ns.live(&keys(&[])).await["data"], json!({"c": "1"}));
}
