//! The Helm chart of Baton, on a control plane without Baton.

use baton_hack::bed::{Afterwards, Bed};
use baton_hack::chart;
use baton_hack::paths::Dirs;
use baton_integration::endpoint::Endpoint;
use baton_integration::guard::Guard;
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::program::{Log, free_address};
use baton_integration::sites::TemporaryKubeconfig;
use tempfile::TempDir;

use crate::cluster_commands::turn;

/// The purpose of the manager, which names its log.
const PURPOSE: &str = "own-chart";

/// The flags of the manager in the live Deployment, with free ports and a folder of the test.
async fn flags(cluster: &Cluster, namespace: &str, charts: &TempDir) -> Vec<String> {
    let mut deployment = object("apps/v1", "Deployment", "baton-manager").manifest;
    deployment["metadata"]["namespace"] = namespace.into();
    let live = cluster.get(&deployment).await.unwrap();
    let args = &live["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap());
    let flags = args.skip(1).map(|flag| match flag.split_once('=') {
        Some((name @ "--webhook-addr", _)) => format!("{name}={}", free_address()),
        Some((name @ "--chart-cache", _)) => format!("{name}={}", charts.path().display()),
        _ => flag.to_owned(),
    });
    flags.collect()
}

#[tokio::test]
async fn the_chart_installs_upgrades_and_leaves_definitions_and_objects() {
    let _turn = turn().await;
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-own-chart", std::process::id());
    let _guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End)
        .await
        .unwrap();
    let cluster = Cluster::connect(&bed.kubeconfig()).await;
    let log = Log::of(&format!("manager-{PURPOSE}"));
    let ns = TestNamespace::on(cluster.clone(), log, Scope::Namespaced).await;
    let helm = ns.helm().await;
    let folder = chart::folder(&dirs);
    let chart = folder.to_str().unwrap();

    // The namespace of the release is not the one of `config/install.yaml`.
    let _ = helm.run(&["install", "baton", chart]);
    let charts = TempDir::with_prefix("charts-").unwrap();
    let flags = flags(&cluster, ns.name(), &charts).await;
    assert!(
        flags.contains(&format!("--namespace={}", ns.name())),
        "{flags:?}"
    );
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let token = cluster.token(ns.name(), "baton").await;
    let kubeconfig = Endpoint::of_bed(cluster.kubeconfig()).kubeconfig(&token);
    let kubeconfig = TemporaryKubeconfig::new(&kubeconfig);
    let _manager = Manager::start_with(kubeconfig.path(), PURPOSE, &flags);
    let content = configmap("content");
    ns.revision(1)
        .phase("a", [content.clone()])
        .available()
        .await;

    // The server validates what other values render.
    let agent = [
        "agent.enabled=true",
        "agent.cluster=eu-1",
        "networkPolicy.enabled=true",
    ];
    let agent = agent.join(",");
    let planned = helm.run(&[
        "upgrade",
        "baton",
        chart,
        "--dry-run=server",
        "--set",
        &agent,
    ]);
    for expected in [
        "--cluster=eu-1",
        "kind: NetworkPolicy",
        "kind: PersistentVolumeClaim",
    ] {
        assert!(planned.contains(expected), "{expected}: {planned}");
    }
    let budget = object("policy/v1", "PodDisruptionBudget", "baton-manager");
    ns.live(&budget).await;
    // One replica can be evicted.
    let _ = helm.run(&["upgrade", "baton", chart, "--set", "manager.replicas=1"]);
    ns.gone(&budget).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;

    let _ = helm.run(&["uninstall", "baton"]);
    ns.gone(&object("apps/v1", "Deployment", "baton-manager"))
        .await;
    let live = ns.live(&content).await;
    assert_eq!(live["metadata"]["ownerReferences"][0]["kind"], "ObjectSet");
    let kind = "CustomResourceDefinition";
    let definitions = object("apiextensions.k8s.io/v1", kind, "x").manifest;
    let left = cluster.list(&definitions, "").await;
    assert_eq!(left.len(), 18, "all definitions stay");
}
