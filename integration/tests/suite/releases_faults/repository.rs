//! Charts that cannot be fetched. Running Releases are not affected, and waiting ones continue once
//! the charts are available again.

use std::path::{Path, PathBuf};

use baton_hack::charts::{Fault, Repository, pack_files};
use baton_hack::paths::Dirs;
use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name, reason};
use baton_integration::prelude::*;
use baton_integration::program::temporary;

use super::watched::Watched;
use super::{APP, PODS};
use crate::requests::settle;

/// Starts a repository for one test, with the charts of all tests.
pub(crate) async fn start() -> Repository {
    let dirs = Dirs::from_env().unwrap();
    Repository::start(&dirs).await.unwrap()
}

/// Adds a version of the chart with more files, each with its path and content.
pub(crate) fn add(charts: &Repository, version: &str, more: &[(&str, &str)]) {
    let folder = Dirs::from_env().unwrap().workspace;
    let folder = folder.join("hack/charts/test-nginx-0.0.1");
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for file in [
        "values.yaml",
        "templates/_helpers.tpl",
        "templates/deployment.yaml",
        "templates/service.yaml",
    ] {
        files.push((file.into(), std::fs::read(folder.join(file)).unwrap()));
    }
    let chart = json!({ "apiVersion": "v1", "name": "test-nginx", "version": version });
    files.push(("Chart.yaml".into(), chart.to_string().into_bytes()));
    let more = more.iter();
    files.extend(more.map(|(path, text)| ((*path).into(), (*text).into())));
    let root = Path::new("test-nginx");
    for (path, _) in &mut files {
        *path = root.join(&path);
    }
    let files = files
        .iter()
        .map(|(path, content)| (path.as_path(), content.as_slice()));
    charts.add("test-nginx", version, pack_files(files).unwrap());
}

/// Returns an environment with a chart of the test's repository.
pub(crate) fn environment(
    app: &TestApplication<'_>,
    charts: &Repository,
    version: &str,
    steps: &[baton_integration::application::Step],
) -> Value {
    let mut environment = app.environment(version, PODS, steps);
    environment["chart"]["repoUrl"] = charts.url().into();
    environment
}

/// True if the status reports that a Release cannot be rolled out. The Application reports it if
/// the index cannot be fetched before the Release exists; otherwise the Release reports it, with
/// any reason.
async fn is_refused(app: &TestApplication<'_>, generation: i64) -> bool {
    if let Some(release) = app.find(generation).await {
        return condition(&release, "Scheduled") == "False";
    }
    let application = app.ns.live(&app.entry()).await;
    let [reason, _] = reason(&application, "RollingOut");
    reason == "ChartVersionResolutionFailed"
}

#[tokio::test]
async fn a_failing_repository_delays_only_the_next_release() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    let lost = Fault::Lost {
        name: "test-nginx".to_owned(),
        version: "0.1.2".to_owned(),
    };
    let faults = [Fault::Down, lost, Fault::Status(503)];
    for at in 1..=faults.len() + 1 {
        add(&charts, &format!("0.1.{at}"), &[]);
    }
    app.apply(environment(&app, &charts, "0.0.1", ALL_IN)).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;

    for (generation, fault) in (1..).zip(faults) {
        println!("{fault:?}");
        let before = app.release(generation - 1).await;
        let version = format!("0.1.{generation}");
        charts.fail(fault);
        app.apply(environment(&app, &charts, &version, ALL_IN))
            .await;
        ns.eventually("the next Release to be refused", async || {
            is_refused(&app, generation).await
        })
        .await;
        // The running Release is complete and has all its pods. It is not checked that its strategy
        // is followed, because the strategy may require the targets of the next Release.
        let after = app.release(generation - 1).await;
        assert_eq!(condition(&after, "Scheduled"), "True", "{after}");
        assert_eq!(condition(&after, "Complete"), "True", "{after}");
        for field in ["achievedStep", "strategy"] {
            assert_eq!(before["status"][field], after["status"][field]);
        }
        assert_eq!(app.ready_pods(&before).await, [PODS as usize; 2]);
        charts.recover();
        app.completed(generation).await;
        watched.assert(PODS as usize).await;
    }

    charts.fail(Fault::Slow(Duration::from_secs(1)));
    let (slow, generation) = ("0.1.4", 4);
    app.apply(environment(&app, &charts, slow, VANGUARD)).await;
    app.at_step(generation, 0).await;
    watched.assert(PODS as usize).await;
}

/// Case I2: the chart passes the scheduler, which counts Deployments, and not the installation. No cluster
/// is touched.
#[tokio::test]
async fn a_chart_with_two_services_for_traffic_is_installed_nowhere() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    let second = object("v1", "Service", "second")
        .label("shipper-lb", "production")
        .with(
            "/spec",
            json!({ "ports": [{ "name": "http", "port": 80 }] }),
        );
    let second = second.manifest.to_string();
    add(&charts, "0.1.9", &[("templates/second.yaml", &second)]);
    app.apply(environment(&app, &charts, "0.1.9", ALL_IN)).await;
    let like = ns.reference(&TestApplication::kind("InstallationTarget", "any"));
    let text = "one and only one v1.Service object";
    ns.eventually("the refusal of the chart", async || {
        let targets = ns.cluster().list(&like, "").await;
        targets.iter().any(|target| {
            let [found, message] = reason(target, "Operational");
            condition(target, "Operational") == "False"
                && found == "ChartError"
                && message.contains(text)
        })
    })
    .await;
    app.becomes(0, "waiting for the installation", |release| {
        release["status"]["strategy"]["state"]["waitingForInstallation"] == "True"
    })
    .await;
    for found in app.in_clusters("apps/v1", "Deployment", "").await {
        assert_eq!(found, [] as [Value; 0]);
    }
}

/// Case I2: no cluster is touched.
#[tokio::test]
async fn a_chart_with_a_manifest_that_cannot_be_read_is_installed_nowhere() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    add(
        &charts,
        "0.1.8",
        &[("templates/second.yaml", "- no\n- object\n")],
    );
    app.apply(environment(&app, &charts, "0.1.8", ALL_IN)).await;
    app.becomes(0, "not scheduled", |release| {
        condition(release, "Scheduled") == "False"
            && reason(release, "Scheduled")[0] == "BrokenChartSpec"
    })
    .await;
    for found in app.in_clusters("apps/v1", "Deployment", "").await {
        assert_eq!(found, [] as [Value; 0]);
    }
}

/// A file is in the place of the folder.
#[tokio::test]
async fn a_disk_that_cannot_be_written_is_named_and_not_tried_in_a_loop() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    let folder = temporary("full-chart-cache");
    std::fs::write(&folder, "").unwrap();
    let flag = format!("--chart-cache={}", folder.display());
    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false", &flag]);
    app.apply(environment(&app, &charts, "0.0.1", ALL_IN)).await;
    let cause = format!("cannot write to {}: ", folder.display());
    let named = async || {
        let application = app.ns.live(&app.entry()).await;
        let [_, message] = reason(&application, "RollingOut");
        message.contains(&cause)
    };
    ns.eventually("the condition to name the folder", &named)
        .await;
    let before = charts.requests().len();
    ns.stays(Duration::from_secs(5), "a few requests", async || {
        charts.requests().len() <= before + 5
    })
    .await;
    assert!(named().await);

    std::fs::remove_file(&folder).unwrap();
    ns.eventually("the Release to be complete", async || {
        let release = app.find(0).await;
        release.is_some_and(|release| condition(&release, "Complete") == "True")
    })
    .await;
    bed.take_manager().kill();
    std::fs::remove_dir_all(&folder).ok();
}

/// A chart is rendered once for all clusters, and never again, not even by a restarted manager with
/// an empty chart cache.
#[tokio::test]
async fn a_restarted_manager_renders_no_chart_again() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, APP).await;
    let charts = start().await;
    let folder = temporary("empty-chart-cache");
    let flag = format!("--chart-cache={}", folder.display());
    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false", &flag]);
    app.apply(environment(&app, &charts, "0.0.1", ALL_IN)).await;
    app.completed(0).await;
    app.apply(environment(&app, &charts, "0.0.2", VANGUARD))
        .await;
    app.at_step(1, 0).await;
    settle(&ns, &bed).await;
    let second = app.release(1).await;
    for version in ["0.0.1", "0.0.2"] {
        let fetched = charts.requests_for(&format!("-{version}.tgz"));
        assert_eq!(fetched, 1, "{version}");
    }

    charts.fail(Fault::Down);
    let requests = charts.requests_for(".tgz");
    bed.take_manager().kill();
    std::fs::remove_dir_all(&folder).unwrap();
    bed.spawn_manager(&["--leader-elect=false", &flag]);
    settle(&ns, &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
    let read = app.release(1).await;
    assert_eq!(read["status"], second["status"]);
    for step in [1, 2] {
        app.promote(1, step).await;
        app.becomes(1, "a step further", |release| {
            release["status"]["achievedStep"]["step"] == step
        })
        .await;
    }
    app.completed(1).await;
    // Lost objects are recreated from the rendered manifests.
    let labels = format!("shipper-release={}", name(&second));
    for (app_cluster, found) in app
        .clusters
        .iter()
        .zip(app.in_clusters("apps/v1", "Deployment", &labels).await)
    {
        assert!(app_cluster.cluster.delete(&found[0], "Background").await);
    }
    ns.eventually("the Deployments to be made again", async || {
        app.ready_pods(&second).await == [PODS as usize; 2]
    })
    .await;
    assert_eq!(charts.requests_for(".tgz"), requests);
    bed.take_manager().kill();
    std::fs::remove_dir_all(&folder).ok();
}
