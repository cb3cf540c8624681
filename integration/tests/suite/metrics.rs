//! The metrics of each revision, and those of the manager.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use baton_apis::metrics::{FAMILIES, MetricFamily};
use baton_hack::{paths::Dirs, tools};
use baton_integration::application::{ALL_IN, TestApplication};
use baton_integration::prelude::*;
use tempfile::TempDir;
use tokio::process::Command;

alternating_scopes! {
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

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The families of `OpenMetrics` text: their types, and the names of the labels of each series.
fn families(text: &str) -> BTreeMap<&str, (&str, Vec<BTreeSet<&str>>)> {
    let mut families = BTreeMap::new();
    let mut last = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, type_) = rest.split_once(' ').unwrap();
            assert!(families.insert(name, (type_, vec![])).is_none(), "{name}");
            last = name;
        } else if !line.starts_with('#') {
            assert!(line.starts_with(last), "{line} follows the type of {last}");
            let (_, labels) = line.split_once('{').unwrap_or_default();
            // The name of a label stands before `="`; values contain no quotation marks here.
            let labels = labels.split('"').step_by(2);
            let labels = labels.filter_map(|part| part.trim_start_matches(',').strip_suffix('='));
            families.get_mut(last).unwrap().1.push(labels.collect());
        }
    }
    families
}

#[tokio::test]
async fn exposed_and_listed_families_are_the_same() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm").data("k", "v");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    // Families have no series before something is counted.
    ns.merge(&cm, &json!({ "data": { "k": "other" } })).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    ns.eventually("all listed families", async || {
        let text = ns.scrape(OPEN_METRICS);
        let exposed = families(&text);
        let is_exposed = |family: &MetricFamily| exposed.keys().any(|name| family.has_name(name));
        // Those of the dashboard are exposed by its own process: see `dashboard::login`.
        let of_manager = |family: &&MetricFamily| !family.name.starts_with("baton_dashboard_");
        FAMILIES.iter().filter(of_manager).all(is_exposed)
    })
    .await;

    let text = ns.scrape(OPEN_METRICS);
    let families = families(&text);
    let listed = |name: &str| FAMILIES.iter().find(|family| family.has_name(name));
    for (name, (type_, series)) in &families {
        let family = listed(name).unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(family.metric_type.as_str(), *type_, "{name}");
        assert!(
            text.contains(&format!("# HELP {name} {}.\n", family.help)),
            "{name}"
        );
        for labels in series {
            let labels: Vec<_> = labels
                .iter()
                .filter(|label| **label != "le")
                .copied()
                .collect();
            assert_eq!(labels, family.labels, "{name}");
        }
    }
}

/// promtool parses both formats with the parsers of Prometheus and of its Go client.
#[tokio::test]
async fn both_formats_of_the_metrics_are_valid() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let directory = TempDir::new().unwrap();
    let promtool = tools::promtool(&Dirs::from_env().unwrap()).await.unwrap();
    let run = async |args: &str, text: &str| {
        let file = directory.path().join("metrics.txt");
        fs::write(&file, text).unwrap();
        let output = Command::new(&promtool)
            .args(args.split(' '))
            .current_dir(directory.path())
            .stdin(fs::File::open(file).unwrap())
            .output()
            .await;
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), errors)
    };

    let plain = ns.scrape("*/*");
    let check = "check metrics --lint=none --extended";
    assert_eq!(run(check, &plain).await, (true, String::new()));

    // Imported series need a time.
    let mut timed = String::new();
    for line in ns.scrape(OPEN_METRICS).lines() {
        let time = if line.starts_with('#') { "" } else { " 1" };
        writeln!(timed, "{line}{time}").unwrap();
    }
    let import = "tsdb create-blocks-from openmetrics --quiet metrics.txt blocks";
    let (is_valid, errors) = run(import, &timed).await;
    assert!(is_valid, "{errors}");
    // The two formats differ: each is refused by the parser of the other one.
    assert!(!run(check, &ns.scrape(OPEN_METRICS)).await.0);
    assert!(!run(import, &plain).await.0);
}
