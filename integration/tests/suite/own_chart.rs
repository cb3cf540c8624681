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
use baton_integration::tools::Helm;
use serde_json::Value;
use tempfile::TempDir;

use crate::cluster_commands::turn;

/// The purpose of the manager, which names its log.
const PURPOSE: &str = "own-chart";

/// A control plane of a test, without Baton, with a namespace for the objects of the test. The names
/// of the control plane and of the log of its manager have the purpose.
pub(crate) async fn bare(purpose: &str) -> (Guard, Bed, TestNamespace) {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-{purpose}", std::process::id());
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End)
        .await
        .unwrap();
    let cluster = Cluster::connect(&bed.kubeconfig()).await;
    let log = Log::of(&format!("manager-{purpose}"));
    let ns = TestNamespace::on(cluster, log, Scope::Namespaced).await;
    (guard, bed, ns)
}

/// A leading manager with the account and the flags of the live Deployment, except for its ports and
/// its folder of charts.
async fn manager(ns: &TestNamespace, charts: &TempDir) -> Manager {
    let cluster = ns.cluster();
    let live = ns
        .live(&object("apps/v1", "Deployment", "baton-manager"))
        .await;
    let args = &live["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap().iter();
    let flags = args.skip(1).map(|flag| {
        let flag = flag.as_str().unwrap();
        match flag.split_once('=') {
            Some((name @ "--webhook-addr", _)) => format!("{name}={}", free_address()),
            Some((name @ "--chart-cache", _)) => format!("{name}={}", charts.path().display()),
            _ => flag.to_owned(),
        }
    });
    let flags: Vec<_> = flags.collect();
    // The namespace of the release is not the one of `config/install.yaml`.
    let namespace = format!("--namespace={}", ns.name());
    assert!(flags.contains(&namespace), "{flags:?}");
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let token = cluster.token(ns.name(), "baton").await;
    let kubeconfig = Endpoint::of_bed(cluster.kubeconfig()).kubeconfig(&token);
    let kubeconfig = TemporaryKubeconfig::new(&kubeconfig);
    let manager = Manager::spawn(kubeconfig.path(), PURPOSE, &flags);
    ns.eventually("a manager to lead", async || {
        let version = ns.plugin(&["version", "-o", "json"]).done();
        let version: Value = serde_json::from_str(&version.stdout).unwrap();
        version["managers"][0]["version"] == version["client"]
    })
    .await;
    manager
}

/// The findings of `doctor` that are not fine.
fn findings(ns: &TestNamespace) -> (i32, Vec<String>) {
    let ran = ns.plugin(&["doctor", "-o", "json"]);
    let code = ran.code;
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let all = found["findings"].as_array().unwrap().iter();
    let others = all.filter(|it| it["state"] != "Fine");
    (code, others.map(Value::to_string).collect())
}

/// The server accepts what other values render.
fn other_values_are_valid(helm: &Helm<'_>, chart: &str) {
    for (values, expected) in [
        (
            "networkPolicy.enabled=true,dashboard.enabled=true,monitoring.dashboard=true",
            "podSelector: { matchLabels: { app.kubernetes.io/name: baton-dashboard } }",
        ),
        (
            "tenants.enabled=true,manager.webhook=false",
            "--default-service-account=default",
        ),
        (
            "manager.replicas=1,manager.chartCache.existingClaim=charts",
            "claimName: \"charts\"",
        ),
        (
            "manager.clustersNamespace=kube-public",
            "  name: baton-clusters\n  namespace: kube-public\n",
        ),
        (
            "releases.enabled=false,sites.enabled=false",
            "\"memory\":\"640Mi\"",
        ),
    ] {
        let args = [
            "upgrade",
            "baton",
            chart,
            "--dry-run=server",
            "--set",
            values,
        ];
        let planned = helm.run(&args);
        assert!(planned.contains(expected), "{expected}: {planned}");
    }
}

#[tokio::test]
async fn the_chart_is_installed_upgraded_and_removed_and_the_objects_stay() {
    let _turn = turn().await;
    let (_guard, _bed, ns) = bare(PURPOSE).await;
    let cluster = ns.cluster().clone();
    let dirs = Dirs::from_env().unwrap();
    let helm = ns.helm().await;
    let folder = chart::folder(&dirs);
    let chart = folder.to_str().unwrap();
    let charts = TempDir::with_prefix("charts-").unwrap();
    let kind = "CustomResourceDefinition";
    let definitions = object("apiextensions.k8s.io/v1", kind, "x").manifest;
    let count = async || cluster.list(&definitions, "").await.len();

    let ran = ns.plugin(&["doctor"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stdout.contains("no manager has ever led here"),
        "{ran:?}"
    );
    let _ = helm.run(&["install", "baton", chart]);
    let first = manager(&ns, &charts).await;
    let objects = ["lone", "deployed", "delegated"].map(configmap);
    let [lone, deployed, delegated] = objects.clone();
    ns.revision(1).phase("a", [lone]).available().await;
    let content = ns.content().phase("a", [deployed]);
    let shop = ns.deployment("shop").content(content).create().await;
    shop.concluded_as(1).await;
    let content = ns.content().delegated("a", "default", [delegated]);
    let far = ns.deployment("far").content(content).create().await;
    far.concluded_as(1).await;
    ns.eventually("nothing to be wrong", async || {
        let (code, others) = findings(&ns);
        // No program helm is on the path of the tests.
        let is_known = |it: &String| it.contains("\"subject\":\"helm\"");
        code == 0 && others.iter().all(is_known)
    })
    .await;

    other_values_are_valid(&helm, chart);
    let budget = object("policy/v1", "PodDisruptionBudget", "baton-manager");
    ns.live(&budget).await;
    // One replica can be evicted.
    let _ = helm.run(&["upgrade", "baton", chart, "--set", "manager.replicas=1"]);
    ns.gone(&budget).await;
    shop.reaches(&[Is("Available", "True")]).await;

    // Without a manager, nothing is removed.
    assert!(first.terminate().success());
    let _ = helm.run(&["uninstall", "baton"]);
    ns.gone(&object("apps/v1", "Deployment", "baton-manager"))
        .await;
    let ran = ns.plugin(&["uninstall", "--apply"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("no manager leads"), "{ran:?}");
    let controllers = async || {
        let mut kinds = Vec::new();
        for object in &objects {
            let live = ns.live(object).await;
            kinds.extend(
                live["metadata"]["ownerReferences"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default(),
            );
        }
        kinds.len()
    };
    assert_eq!((count().await, controllers().await), (18, 3), "all stays");

    // The definitions and objects that are left are used again.
    let _ = helm.run(&["install", "baton", chart]);
    let second = manager(&ns, &charts).await;
    let preview = ns.plugin(&["uninstall"]);
    assert_eq!(preview.code, 0, "{preview:?}");
    for expected in [
        "/shop: deleted; its objects stay, and",
        "/far: deleted",
        "the history of 3",
    ] {
        assert!(preview.stdout.contains(expected), "{preview:?}");
    }
    assert_eq!(controllers().await, 3, "a preview changes nothing");
    let ran = ns.plugin(&["uninstall", "--apply"]).done();
    assert!(
        ran.stdout
            .contains("objectsets.package-operator.run: deleted"),
        "{ran:?}"
    );
    ns.eventually("the definitions to be deleted", async || count().await == 0)
        .await;
    assert_eq!(controllers().await, 0, "the objects stay without an owner");
    drop(second);
    let _ = helm.run(&["uninstall", "baton"]);
}
