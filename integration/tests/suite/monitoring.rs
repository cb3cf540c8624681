//! The metrics about deployments, revisions and clusters, and the queries in `config/monitoring`.

use std::collections::BTreeSet;
use std::path::Path;

use baton_integration::fleet::Fleet;
use baton_integration::prelude::*;
use regex::Regex;

alternating_scopes! {
    a_deployment_has_series_while_it_exists;
}

const CONDITION: &str = "baton_deployment_condition";
const NUMBER: &str = "baton_deployment_revision";
const REVISIONS: &str = "baton_revisions";
const CONNECTED: &str = "baton_cluster_connected";

async fn a_deployment_has_series_while_it_exists(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = ns
        .deployment("web")
        .content(ns.content().phase("a", [configmap("cm").data("k", "v")]))
        .create()
        .await;
    web.concluded().await;
    let (kind, namespace) = match scope {
        Scope::Namespaced => ("ObjectDeployment", ns.name()),
        Scope::Cluster => ("ClusterObjectDeployment", ""),
    };
    let whose = [
        ("baton_kind", kind),
        ("baton_namespace", namespace),
        ("baton_name", web.name()),
    ];
    let with = |more: [(&'static str, &'static str); 2]| [&whose[..], &more[..]].concat();
    let available = with([("condition", "Available"), ("status", "True")]);
    let idle = with([("condition", "Progressing"), ("reason", "Idle")]);
    // The manager receives its own writes by its watch.
    ns.eventually("the series", async || {
        let metrics = ns.metrics();
        metrics.sum(CONDITION, &available) == Some(1.0)
            && metrics.sum(CONDITION, &idle) == Some(1.0)
            && metrics.sum(NUMBER, &whose) == Some(1.0)
    })
    .await;

    web.delete("Foreground").await;
    web.gone().await;
    ns.eventually("the end of the series", async || {
        let metrics = ns.metrics();
        metrics.sum(CONDITION, &whose).is_none() && metrics.sum(NUMBER, &whose).is_none()
    })
    .await;
}

/// A metric counts revisions that need the help of a user, so that users need not inspect each
/// revision.
#[tokio::test]
async fn a_refused_revision_is_counted_by_its_reason() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.create(&configmap("taken")).await;
    ns.revision(1)
        .phase("a", [configmap("taken")])
        .reaching(&[Because("Available", "False", "CollisionDetected")])
        .await;
    let refused = [
        ("baton_namespace", ns.name()),
        ("state", "CollisionDetected"),
    ];
    ns.eventually("the series", async || {
        ns.metrics().sum(REVISIONS, &refused) == Some(1.0)
    })
    .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    let archived = [("baton_namespace", ns.name()), ("state", "Archived")];
    ns.eventually("the other series", async || {
        let metrics = ns.metrics();
        metrics.sum(REVISIONS, &refused).is_none() && metrics.sum(REVISIONS, &archived) == Some(1.0)
    })
    .await;
}

/// Creates a Cluster that is unreachable. It has a series as long as the Cluster exists.
async fn lost_cluster(ns: &TestNamespace) -> Value {
    let cluster = json!({
        "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
        "metadata": { "name": ns.unique("monitored") },
        "spec": { "region": "a", "apiMaster": "https://127.0.0.1:1" },
    });
    ns.cluster().create(&cluster).await.unwrap();
    cluster
}

#[tokio::test]
async fn a_cluster_that_is_not_connected_has_a_series() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cluster = lost_cluster(&ns).await;
    let name = cluster["metadata"]["name"].as_str().unwrap();
    let labels = [("baton_cluster", name)];
    ns.eventually("the series", async || {
        ns.metrics().sum(CONNECTED, &labels) == Some(0.0)
    })
    .await;
    assert!(ns.cluster().delete(&cluster, "Background").await);
    ns.eventually("its end", async || {
        ns.metrics().sum(CONNECTED, &labels).is_none()
    })
    .await;
}

/// A renamed metric or label must be renamed in the rules and in the dashboard as well.
#[tokio::test]
async fn the_rules_and_the_dashboard_use_existing_metrics() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm").data("k", "v");
    let web = ns
        .deployment("web")
        .content(ns.content().phase("a", [cm.clone()]))
        .create()
        .await;
    web.concluded().await;
    // The last repair begins a dispute, which has a series of its own.
    for _ in 0..20 {
        ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
        ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "v")
            .await;
    }
    let cluster = lost_cluster(&ns).await;
    Fleet::new(&ns).deployment("web", json!({})).await;

    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/monitoring");
    // The names of recording rules contain colons, and the dashboard queries them.
    let name =
        Regex::new(r"[a-z]+(:[a-z0-9_]+)+|\b(baton|process|package_operator|shipper)_[a-z_]+")
            .unwrap();
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
    let rules = read("rules.yaml");
    let recorded: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .collect();
    let mut queried = BTreeSet::new();
    for expression in expressions(&rules, &read("dashboard.json")) {
        let names = name.find_iter(&expression);
        queried.extend(names.map(|found| found.as_str().to_owned()));
    }
    assert!(queried.len() > 15, "{queried:?}");
    ns.eventually("everything that is asked for", async || {
        let metrics = ns.metrics();
        let is_there = |name: &String| {
            recorded.contains(name.as_str())
                || metrics.family(name).next().is_some()
                // The name may be that of a label.
                || [CONDITION, REVISIONS, CONNECTED].iter().any(|family| {
                    metrics.family(family).any(|(labels, _)| labels.get(name).is_some())
                })
        };
        let missing: Vec<&String> = queried.iter().filter(|name| !is_there(name)).collect();
        if !missing.is_empty() {
            eprintln!("not there: {missing:?}");
        }
        missing.is_empty()
    })
    .await;
    assert!(ns.cluster().delete(&cluster, "Background").await);
}

/// Returns the expressions of the rules and of the dashboard.
fn expressions(rules: &str, dashboard: &str) -> Vec<String> {
    let rules: Value = serde_saphyr::from_str(rules).unwrap();
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut found = Vec::new();
    for group in rules["groups"].as_array().unwrap() {
        let rules = group["rules"].as_array().unwrap().iter();
        found.extend(rules.map(|rule| rule["expr"].as_str().unwrap().to_owned()));
    }
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap().iter();
        found.extend(targets.map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let query = variable["query"]["query"].as_str();
        found.extend(query.map(str::to_owned));
    }
    found
}
