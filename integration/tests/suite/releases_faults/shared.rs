//! Objects with fixed names, which all Releases of an application share.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD};
use baton_integration::prelude::*;

use super::repository::{add, environment, start};
use super::watched::Watched;
use super::{APP, PODS};

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
";

/// Waits until the shared `ConfigMap` has this data in each cluster, and returns its UIDs.
async fn settings(app: &TestApplication<'_>, data: Value) -> Vec<String> {
    let read = async || {
        let mut found = Vec::new();
        for app_cluster in &app.clusters {
            let reference = app.ns.reference(&configmap("settings"));
            found.push(
                app_cluster
                    .cluster
                    .get(&reference)
                    .await
                    .unwrap_or_default(),
            );
        }
        found
    };
    let text = format!("the settings to be {data}");
    app.ns
        .eventually(&text, async || {
            read().await.iter().all(|live| live["data"] == data)
        })
        .await;
    read()
        .await
        .iter()
        .map(|live| uid(live).to_owned())
        .collect()
}

/// The next Release changes an object of the previous one, and an abort restores it.
#[tokio::test]
async fn a_config_map_with_a_fixed_name_has_the_data_of_the_newest_release() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    for (version, data) in [
        ("0.1.1", "  of: one\n  old: here\n"),
        ("0.1.2", "  of: two\n  new: here\n"),
    ] {
        let template = format!("{SETTINGS}{data}");
        add(&charts, version, &[("templates/other.yaml", &template)]);
    }
    let first = environment(&app, &charts, "0.1.1", ALL_IN);
    app.apply(first.clone()).await;
    app.completed(0).await;
    let one = json!({ "of": "one", "old": "here" });
    let two = json!({ "of": "two", "new": "here" });
    let uids = settings(&app, one.clone()).await;
    let watched = Watched::start(&app).await;

    let second = environment(&app, &charts, "0.1.2", VANGUARD);
    app.apply(second.clone()).await;
    let contender = app.at_step(1, 0).await;
    assert_eq!(settings(&app, two.clone()).await, uids);
    app.delete_release(&contender).await;
    app.completed(0).await;
    assert_eq!(settings(&app, one.clone()).await, uids);

    // The second Release is rolled out completely. A rollback is another Release.
    app.apply(second).await;
    for step in [0, 1] {
        app.at_step(1, step).await;
        app.promote(1, step + 1).await;
    }
    app.completed(1).await;
    assert_eq!(settings(&app, two).await, uids);
    app.apply(first).await;
    app.completed(2).await;
    assert_eq!(settings(&app, one).await, uids);
    watched.assert(PODS as usize).await;
}

/// Objects that are deleted while no manager runs leave nothing behind in any cluster.
#[tokio::test]
async fn objects_deleted_while_the_manager_is_down_leave_nothing_behind() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", PODS, VANGUARD)).await;
    let second = app.at_step(1, 0).await;
    let watched = Watched::start(&app).await;

    bed.take_manager().kill();
    app.delete_release(&second).await;
    let target = TestApplication::kind(
        "InstallationTarget",
        second["metadata"]["name"].as_str().unwrap(),
    );
    bed.start_manager();
    ns.gone(&target).await;
    app.completed(0).await;
    app.has_pods(&second, 0).await;
    app.has_pods(&first, PODS as usize).await;
    watched.assert(PODS as usize).await;

    bed.take_manager().kill();
    ns.delete(&app.entry()).await;
    ns.gone(&app.entry()).await;
    bed.start_manager();
    ns.gone(&TestApplication::kind(
        "InstallationTarget",
        first["metadata"]["name"].as_str().unwrap(),
    ))
    .await;
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Pod")] {
        ns.eventually("nothing to be left", async || {
            let found = app
                .in_clusters(api, kind, &format!("shipper-app={APP}"))
                .await;
            found.iter().all(Vec::is_empty)
        })
        .await;
    }
}
