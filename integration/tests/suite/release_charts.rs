//! Charts that were not written for Baton: those of `helm create`, unmodified.

use baton_hack::charts::Repository;
use baton_integration::application::{ALL_IN, Step, TestApplication, VANGUARD, name};
use baton_integration::manifest::object;
use baton_integration::prelude::*;
use baton_integration::program::temporary;

/// Returns a repository with the chart `stock` of `helm create`.
async fn stock(ns: &TestNamespace) -> Repository {
    let folder = temporary(&format!("charts-{}", ns.name()));
    let chart = folder.join("stock");
    std::fs::create_dir_all(&folder).unwrap();
    let _ = ns
        .helm()
        .await
        .run(&["create", &chart.display().to_string()]);
    std::fs::rename(&chart, folder.join("stock-0.1.0")).unwrap();
    Repository::of(&folder).await.unwrap()
}

/// Returns an environment with the chart and these values.
fn environment(
    app: &TestApplication<'_>,
    charts: &Repository,
    values: Value,
    steps: &[Step],
) -> Value {
    let mut environment = app.environment("0.1.0", 0, steps);
    environment["chart"] = json!({ "name": "stock", "version": "0.1.0", "repoUrl": charts.url() });
    environment["values"] = values;
    environment
}

/// Returns the only object of a kind of the Application in each cluster.
async fn only(app: &TestApplication<'_>, api: &str, kind: &str) -> Vec<Value> {
    let found = app.in_clusters(api, kind, "shipper-app=web").await;
    let one = |mut objects: Vec<Value>| {
        assert_eq!(objects.len(), 1, "{objects:#?}");
        objects.remove(0)
    };
    found.into_iter().map(one).collect()
}

/// Promotes the Release of a generation through all steps, with the pods of each in each cluster.
async fn has_steps(app: &TestApplication<'_>, wanted: i64, pods: [usize; 3]) -> Value {
    for (step, pods) in (0..).zip(&pods[..2]) {
        if step > 0 {
            app.promote(wanted, step).await;
        }
        let release = app.at_step(wanted, step).await;
        app.has_pods(&release, *pods).await;
    }
    app.promote(wanted, 2).await;
    let release = app.completed(wanted).await;
    app.has_pods(&release, pods[2]).await;
    release
}

/// The Service and the Ingress are the same objects for all Releases, and the pod of the test is not
/// created.
#[tokio::test]
async fn the_chart_of_helm_create_is_rolled_out_upgraded_and_rolled_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let charts = stock(&ns).await;
    let app = TestApplication::new(&ns, "web").await;
    let values = |version: &str| {
        json!({
            "replicaCount": 4, "podLabels": { "version": version }, "ingress": { "enabled": true },
        })
    };
    app.apply(environment(&app, &charts, values("1"), ALL_IN))
        .await;
    let first = app.completed(0).await;
    app.has_pods(&first, 4).await;
    let ingresses = async || only(&app, "networking.k8s.io/v1", "Ingress").await;
    let before = [app.services().await, ingresses().await].concat();
    for object in &before {
        assert_eq!(name(object), "web-stock");
    }
    for ingress in ingresses().await {
        let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"];
        assert_eq!(backend["service"]["name"], "web-stock");
    }
    for pods in app.in_clusters("v1", "Pod", "shipper-app=web").await {
        assert_eq!(pods.len(), 4, "{pods:#?}");
    }

    app.apply(environment(&app, &charts, values("2"), VANGUARD))
        .await;
    has_steps(&app, 1, [1, 2, 4]).await;
    app.apply(environment(&app, &charts, values("1"), ALL_IN))
        .await;
    app.completed(2).await;
    ns.eventually("4 addresses", async || app.addresses().await == [4, 4])
        .await;
    let after = [app.services().await, ingresses().await].concat();
    let uids = |objects: &[Value]| {
        objects
            .iter()
            .map(|it| uid(it).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(uids(&after), uids(&before));
}

/// `diff -f` and `pack --application` render the chart and refuse what the manager would refuse.
///
/// The repository is served by another thread than the one that waits for the plugin.
#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_checked_before_its_application_is_applied() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let charts = stock(&ns).await;
    let app = TestApplication::new(&ns, "web").await;
    let of = |values: Value| environment(&app, &charts, values, ALL_IN);
    let diff = |values: Value| {
        let manifest = json!({
            "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Application",
            "metadata": { "name": "web" }, "spec": { "template": of(values) },
        });
        ns.plugin_with_input(&["diff", "-f", "-"], &manifest.to_string())
    };
    let new = diff(json!({}));
    assert_eq!((new.code, &*new.stderr), (1, ""), "{new:?}");
    for kind in ["Deployment.apps", "Service", "ServiceAccount"] {
        assert!(
            new.stdout.contains(&format!("\n{kind} {}/", ns.name())),
            "{new:?}"
        );
    }
    assert!(!new.stdout.contains("\nPod "), "{new:?}");
    let refused = diff(json!({ "fullnameOverride": "fixed" }));
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused
            .stdout
            .contains("should be templated with {{.Release.Name}}"),
        "{refused:?}"
    );

    app.apply(of(json!({}))).await;
    let release = app.completed(0).await;
    // Shipper's commands print what helm renders.
    let file = temporary(&format!("application-{}.json", ns.name()));
    std::fs::write(&file, ns.live(&app.entry()).await.to_string()).unwrap();
    let file = format!("--filename={}", file.display());
    let (of_app, of_release) = (
        "web-foobar-0",
        release["metadata"]["name"].as_str().unwrap(),
    );
    for (words, name) in [
        (&["app", "--appName=web"][..], of_app),
        (&["app", &file], of_app),
        (&["release", of_release], of_release),
    ] {
        let rendered = ns.plugin(&[&["chart", "render"], words].concat()).success();
        let instance = format!("app.kubernetes.io/instance: {name}\n");
        assert!(rendered.contains(&instance), "{rendered}");
        assert!(!rendered.contains("shipper-release"), "{rendered}");
    }
    let same = diff(json!({}));
    assert_eq!(same.code, 0, "{same:?}");
    let other = diff(json!({ "image": { "tag": "other" } }));
    assert_eq!((other.code, &*other.stderr), (1, ""), "{other:?}");
    assert!(other.stdout.contains("Deployment.apps "), "{other:?}");
    assert!(!other.stdout.contains("ServiceAccount "), "{other:?}");

    let values = temporary(&format!("values-{}.yaml", ns.name()));
    std::fs::write(&values, "fullnameOverride: fixed\n").unwrap();
    let values = format!("--values={}", values.display());
    let (repo, region) = (format!("--repo={}", charts.url()), "--region=eu");
    let pack = ["pack", "--application", "--chart=stock", &repo, region];
    let packed = ns.plugin(&pack).success();
    assert!(packed.contains("kind: Application"), "{packed}");
    let refused = ns.plugin(&[&pack[..], &[&values]].concat());
    assert_eq!((refused.code, &*refused.stdout), (3, ""), "{refused:?}");
    assert!(refused.stderr.contains("{{.Release.Name}}"), "{refused:?}");
    let output = ns
        .plugin_command(&pack)
        .env("HELM_BIN", "/nowhere/helm")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("helm not found: /nowhere/helm does not exist"),
        "{stderr}"
    );
}

/// The autoscaler of the chart is the authority over the number of pods. The next Release starts
/// with the present number, scaled by the step.
#[tokio::test]
async fn an_autoscaled_chart_keeps_its_number_of_pods() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let charts = stock(&ns).await;
    let app = TestApplication::new(&ns, "web").await;
    // The autoscaler of the second one would raise the single pod of its first step to its minimum.
    let values = |version: &str, least: u32| {
        let autoscaling = json!({ "enabled": true, "minReplicas": least });
        json!({ "autoscaling": autoscaling, "podLabels": { "version": version } })
    };
    app.apply(environment(&app, &charts, values("1", 2), ALL_IN))
        .await;
    let first = app.completed(0).await;
    app.has_pods(&first, 2).await;
    let workloads = only(&app, "apps/v1", "Deployment").await;
    for (app_cluster, workload) in app.clusters.iter().zip(&workloads) {
        let scale = json!({ "spec": { "replicas": 6 } });
        app_cluster.cluster.merge(workload, &scale).await.unwrap();
    }
    app.has_pods(&first, 6).await;
    app.apply(environment(&app, &charts, values("2", 1), VANGUARD))
        .await;
    let second = has_steps(&app, 1, [1, 3, 6]).await;
    app.has_pods(&first, 0).await;
    assert_ne!(uid(&first), uid(&second));
}

/// An autoscaler that the chart does not contain is recognized as soon as it scales the workload.
#[tokio::test]
async fn an_autoscaler_in_the_cluster_keeps_its_number_of_pods() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let charts = stock(&ns).await;
    let app = TestApplication::new(&ns, "web").await;
    let values = |version: &str| json!({ "podLabels": { "version": version } });
    app.apply(environment(&app, &charts, values("1"), ALL_IN))
        .await;
    let first = app.completed(0).await;
    app.has_pods(&first, 1).await;
    for (app_cluster, workload) in app
        .clusters
        .iter()
        .zip(only(&app, "apps/v1", "Deployment").await)
    {
        let target =
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name(&workload) });
        let autoscaler = object("autoscaling/v2", "HorizontalPodAutoscaler", "mine").with(
            "/spec",
            json!({ "scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 9 }),
        );
        let autoscaler = ns.reference(&autoscaler);
        app_cluster.cluster.create(&autoscaler).await.unwrap();
    }
    app.has_pods(&first, 4).await;
    app.apply(environment(&app, &charts, values("2"), VANGUARD))
        .await;
    app.at_step(1, 0).await;
    app.has_pods(&first, 4).await;
}
