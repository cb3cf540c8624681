//! Clusters that are, or seem to be, the manager's own cluster.

use baton_integration::application::{ALL_IN, TestApplication, condition, name};
use baton_integration::faults::{Answer, Faults, On, Verb};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

use super::{APP, PODS};

/// Waits until the `InstallationTarget` reports a text about a cluster.
async fn reported(app: &TestApplication<'_>, text: &str) {
    let ns = app.ns;
    let like = ns.reference(&TestApplication::kind("InstallationTarget", "any"));
    ns.eventually("the refusal in the InstallationTarget", async || {
        let targets = ns.cluster().list(&like, "").await;
        targets.iter().any(|target| {
            condition(target, "Ready") == "False" && target["status"].to_string().contains(text)
        })
    })
    .await;
}

/// Returns the revisions of the Application.
async fn revisions(ns: &TestNamespace) -> Vec<Value> {
    let like = ns.reference(&object("package-operator.run/v1alpha1", "ObjectSet", "any"));
    ns.cluster().list(&like, "").await
}

/// Every cluster that Baton delivers to knows the UID of the hub, and may report it as its own.
#[tokio::test]
async fn a_cluster_that_poses_as_the_hub_receives_nothing() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let faults = Faults::start(site.endpoint()).await;
    let system = object("v1", "Namespace", "kube-system");
    let own = ns.cluster().get(&system.manifest).await.unwrap();
    let on = On::verb(Verb::Get).path("/api/v1/namespaces/kube-system$");
    let posing = faults.inject(on, Answer::Object(own));
    let app = TestApplication::through(&ns, APP, &site, &faults.url()).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    reported(&app, "does not prove to be it by Secret").await;
    posing.used(1).await;
    let revisions = revisions(&ns).await;
    assert_eq!(revisions.len(), 1, "{revisions:?}");
    let remote = app.clusters[1].joined.name();
    assert!(!name(&revisions[0]).contains(remote), "{revisions:?}");
}

/// The hub itself is a cluster like others for assignments. The Release needs both clusters.
#[tokio::test]
async fn a_namespace_that_may_not_deliver_into_the_hub_installs_nothing_there() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, APP).await;
    let hub = app.clusters[0].joined.name();
    let nobody = json!({ "namespaces": { "names": [] }, "clusters": { "names": [hub] } });
    let closed = object("baton.run/v1alpha1", "SiteAssignment", &ns.unique("closed"));
    let closed = ns.create_elsewhere(&closed.with("/spec", nobody)).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let refusal = format!("may not deliver into: {hub}");
    app.becomes(0, "refused", |release| {
        condition(release, "Scheduled") == "False"
            && release["status"].to_string().contains(&refusal)
    })
    .await;
    assert_eq!(revisions(&ns).await, [] as [Value; 0]);
    let opened = json!({ "spec": { "namespaces": { "names": [ns.name()] } } });
    ns.cluster().merge(&closed, &opened).await.unwrap();
    app.completed(0).await;
}
