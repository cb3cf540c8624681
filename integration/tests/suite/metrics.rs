//! The metrics of each revision, and those of the manager.

use baton_integration::prelude::*;

both_scopes! {
    series_come_and_go_with_the_revision;
}

const CREATED: &str = "package_operator_object_set_created_timestamp_seconds";
const SUCCEEDED: &str = "package_operator_object_set_succeeded_timestamp_seconds";

async fn series_come_and_go_with_the_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let namespace = match scope {
        Scope::Namespaced => ns.name(),
        Scope::Cluster => "",
    };
    let name = ns.set_name("v1");
    let labels = [("pko_name", &*name), ("pko_namespace", namespace)];
    let instance = [("pko_name", &*name), ("pko_package_instance", "demo")];
    let image = [("pko_name", &*name), ("image", "registry/package:1")];

    let set = ns
        .set("v1")
        .label("package-operator.run/instance", "demo")
        .annotation(
            "package-operator.run/package-source-image",
            "registry/package:1",
        )
        .revision(1)
        .phase("a", [configmap("cm")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let created = set.json["metadata"]["creationTimestamp"].as_str().unwrap();
    let created: jiff::Timestamp = created.parse().unwrap();
    ns.eventually("both series", async || {
        let metrics = ns.metrics();
        let found = metrics.sum(CREATED, &labels);
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit")]
        let right = found == Some(created.as_second() as f64);
        right
            && metrics.sum(CREATED, &instance) == found
            && metrics
                .sum(SUCCEEDED, &labels)
                .is_some_and(|at| at >= found.unwrap_or_default())
            && metrics.sum(SUCCEEDED, &image).is_some()
    })
    .await;
    // The label is copied to the objects as well.
    let live = ns.live(&configmap("cm")).await;
    assert_eq!(
        live["metadata"]["labels"]["package-operator.run/instance"],
        "demo"
    );

    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.eventually("the end of the succeeded series", async || {
        let metrics = ns.metrics();
        metrics.sum(SUCCEEDED, &labels).is_none() && metrics.sum(CREATED, &labels).is_some()
    })
    .await;
    ns.delete_set("v1", "Background").await;
    ns.eventually("the end of the created series", async || {
        ns.metrics().sum(CREATED, &labels).is_none()
    })
    .await;
}

/// The metrics for operators of the manager.
#[tokio::test]
async fn metrics_of_the_manager_are_exposed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let metrics = ns.metrics();
    let owner = ("owner", "123-456");
    let informers = metrics.sum("package_operator_managed_cache_informers_total", &[owner]);
    assert!(informers >= Some(1.0), "{informers:?}");
    let gvk = ("gvk", "/v1, Kind=ConfigMap");
    let objects = metrics.sum(
        "package_operator_managed_cache_objects_total",
        &[owner, gvk],
    );
    assert!(objects >= Some(1.0), "{objects:?}");
    for family in [
        "baton_reconcile_total",
        "baton_reconcile_duration_seconds_count",
    ] {
        let count = metrics.sum(family, &[("controller", "objectset")]);
        assert!(count >= Some(1.0), "{family}: {count:?}");
    }
    assert!(metrics.sum("baton_queue_depth", &[]).is_some());
    assert!(metrics.writes() >= 1);
}
