//! The plugin's `adopt` and its undo: releases of a real helm and objects of a real kubectl become
//! a first revision.

use std::collections::BTreeSet;
use std::fs;

use baton_integration::manifest::foreign_controller;
use baton_integration::plugin::snapshots;
use baton_integration::prelude::*;
use baton_integration::tools::Helm;
use tempfile::TempDir;

/// A chart with typical templates: settings, a password, a workload, a service, a hook.
const CHART: [(&str, &str); 6] = [
    ("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.2.3}"),
    (
        "templates/settings.yaml",
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: shop}}
data:
  greeting: {{ .Values.greeting | quote }}
  {{- if .Values.extra }}
  extra: here
  {{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more}
data: {a: b}
",
    ),
    (
        "templates/secret.yaml",
        "
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {password: hunter2}
",
    ),
    (
        "templates/web.yaml",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: web
        image: registry.example/shop:1.0
        resources: {}
        ports: [{containerPort: 80}]
        env:
        - {name: GREETING, value: {{ .Values.greeting | quote }}}
        - {name: MORE, value: '1'}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: shop}, ports: [{port: 80}]}
",
    ),
    (
        "templates/hook.yaml",
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: 'post-delete'}}
",
    ),
    ("values.yaml", "{greeting: hello, replicas: 2, extra: true}"),
];

pub(crate) fn chart() -> TempDir {
    let directory = TempDir::with_prefix("chart-").unwrap();
    for (name, text) in CHART {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn text(directory: &TempDir) -> &str {
    directory.path().to_str().unwrap()
}

fn web() -> Entry {
    object("apps/v1", "Deployment", "web")
}

/// Applies the output of `adopt`, changed or not, as the plugin would.
pub(crate) async fn apply(ns: &TestNamespace, deployment: &Value) {
    let args = [
        "apply",
        "--server-side",
        "--field-manager=kubectl-baton",
        "-f",
        "-",
    ];
    let _ = ns.kubectl(&args, deployment).await;
}

/// Time limit for the start of pods. These tests are the first of a run, while others start whole
/// clusters.
const STARTS: Duration = Duration::from_mins(3);

/// Returns the UIDs of the workload's pods, once this number of them is ready.
async fn pods(ns: &TestNamespace, count: usize) -> BTreeSet<String> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": ns.name()}});
    let list = async || ns.cluster().list(&pod, "app=shop").await;
    ns.within(STARTS)
        .eventually("the pods to be ready", async || {
            let live = ns.live(&web()).await;
            let status = &live["status"];
            status["observedGeneration"] == live["metadata"]["generation"]
                && status["updatedReplicas"] == count
                && status["readyReplicas"] == count
                && list().await.len() == count
        })
        .await;
    let pods = list().await;
    pods.iter().map(|pod| uid(pod).to_owned()).collect()
}

/// Installs the chart, and returns the UIDs of its workload's pods.
async fn installed(ns: &TestNamespace, helm: &Helm<'_>, args: &[&str]) -> BTreeSet<String> {
    let chart = chart();
    let install = ["install", "shop", text(&chart)];
    let _ = helm.run(&[&install[..], args].concat());
    pods(ns, 2).await
}

const ADOPT: [&str; 4] = ["adopt", "shop", "--helm", "shop"];

/// Returns the deployment that `adopt` would create, as JSON.
fn deployment(ns: &TestNamespace, args: &[&str]) -> Value {
    let printed = ns.plugin(&[args, &["-o", "json"]].concat()).done();
    serde_json::from_str(&printed.stdout).unwrap()
}

/// Returns the objects of all phases of a deployment.
fn objects(deployment: &Value) -> Vec<&Value> {
    let phases = deployment["spec"]["template"]["spec"]["phases"].as_array();
    let phases = phases.unwrap().iter();
    let objects = phases.flat_map(|phase| phase["objects"].as_array().unwrap());
    objects.map(|entry| &entry["object"]).collect()
}

fn object_of<'d>(deployment: &'d Value, kind: &str, name: &str) -> &'d Value {
    let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects(deployment).into_iter().find(is).unwrap()
}

/// Adopts a release, drops a part of its content, and undoes the adoption.
async fn takes_over_and_gives_back(args: &[&str]) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let helm = ns.helm().await;
    let before = installed(&ns, &helm, args).await;
    let was = ns.live(&web()).await;

    // The manifests are as if written by hand, without fields that the server adds.
    let made = deployment(&ns, &ADOPT);
    let container =
        &object_of(&made, "Deployment", "web")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container,
        &json!({
            "name": "web", "image": "registry.example/shop:1.0", "resources": {},
            "ports": [{"containerPort": 80}],
            "env": [{"name": "GREETING", "value": "hello"}, {"name": "MORE", "value": "1"}],
        })
    );
    let ran = ns.plugin(&[&ADOPT[..], &["--apply"]].concat()).done();
    assert!(!ran.stderr.contains("hunter2") && !ran.stdout.contains("hunter2"));
    let shop = ns.existing("shop");
    shop.concluded().await;
    assert_eq!(pods(&ns, 2).await, before, "no pod was replaced");
    let is = ns.live(&web()).await;
    assert_eq!(is["spec"], was["spec"]);
    assert_eq!(uid(&is), uid(&was));
    assert_eq!(controller(&is), shop.set(1).await.json["metadata"]["name"]);

    // Content that the next revision drops is removed, although Helm has created it.
    let mut next = made.clone();
    let phases = next["spec"]["template"]["spec"]["phases"].as_array_mut();
    for phase in phases.unwrap() {
        let entries = phase["objects"].as_array_mut().unwrap();
        entries.retain(|entry| entry["object"]["metadata"]["name"] != "more");
        for entry in entries {
            let object = &mut entry["object"];
            if object["metadata"]["name"] == "settings" {
                object["data"].as_object_mut().unwrap().remove("extra");
            }
            if object["kind"] == "Deployment" {
                let spec = &mut object["spec"]["template"]["spec"];
                spec["containers"][0]["env"].as_array_mut().unwrap().pop();
            }
        }
    }
    apply(&ns, &next).await;
    shop.concluded_as(2).await;
    ns.gone(&configmap("more")).await;
    assert_eq!(
        ns.live(&configmap("settings")).await["data"],
        json!({"greeting": "hello"})
    );
    let live = ns.live(&web()).await;
    let variables = &live["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(variables, &json!([{"name": "GREETING", "value": "hello"}]));

    // The undo does not change the objects, and helm continues as if nothing had happened.
    let between = pods(&ns, 2).await;
    let shown = ns.plugin(&["adopt", "shop", "--undo"]).done();
    assert!(shown.stdout.contains(": kept\n"), "{}", shown.stdout);
    shop.concluded().await;
    ns.until_garbage_is_collected().await;
    ns.until_owners_are_observed().await;
    ns.plugin(&["adopt", "shop", "--undo", "--apply"]).done();
    shop.gone().await;
    assert_eq!(pods(&ns, 2).await, between);
    let free = ns.live(&web()).await;
    assert!(owners(&free).is_empty(), "{free}");
    assert!(
        !is_labelled(&free) && !has_manager(&free, "package-operator"),
        "{free}"
    );
    let status = helm.run(&["status", "shop"]);
    assert!(status.contains("STATUS: deployed"), "{status}");
    let chart = chart();
    let upgrade = [
        "upgrade",
        "shop",
        text(&chart),
        "--set",
        "greeting=bye,extra=false",
    ];
    let _ = helm.run(&upgrade);
    assert_eq!(
        ns.live(&configmap("settings")).await["data"],
        json!({"greeting": "bye"})
    );
    assert!(ns.get(&configmap("more")).await.is_some());
    let _ = helm.run(&["uninstall", "shop", "--wait"]);
    for entry in [web(), configmap("settings"), secret("db")] {
        ns.gone(&entry).await;
    }
}

#[tokio::test]
async fn a_release_is_taken_over_without_a_restart_and_given_back() {
    takes_over_and_gives_back(&[]).await;
}

/// Releases of Helm 3, whose managed fields contain the server's defaults as well.
#[tokio::test]
async fn a_client_side_release_is_taken_over_without_a_restart_and_given_back() {
    takes_over_and_gives_back(&["--server-side=false"]).await;
}

#[tokio::test]
async fn a_release_is_shown_before_it_is_taken_over() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let helm = ns.helm().await;
    installed(&ns, &helm, &[]).await;
    let ran = ns.plugin(&ADOPT).done();
    snapshots(&ns).bind(|| {
        insta::assert_snapshot!(
            "adopt_preview",
            format!("{}---\n{}", ran.stdout, ran.stderr)
        );
    });
    assert_eq!(
        ns.cluster().get(&ns.existing("shop").reference()).await,
        None
    );
    let live = ns.live(&web()).await;
    assert!(!is_labelled(&live));
    // A Secret may be left out of the adoption.
    let ran = ns.plugin(&[&ADOPT[..], &["--no-secrets"]].concat()).done();
    assert!(ran.stderr.contains("db is left out"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("Secret"), "{}", ran.stdout);
}

/// Drift stays as it is, unless the user requests the content of Helm's record. Then pods may be
/// replaced, which must be allowed.
#[tokio::test]
async fn drift_from_a_release_is_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let helm = ns.helm().await;
    installed(&ns, &helm, &[]).await;
    let args = ["set", "env", "deployment/web", "GREETING=edited"];
    let _ = ns.kubectl(&args, &Value::Null).await;
    let before = pods(&ns, 2).await;
    let shown = ns.plugin(&ADOPT).done();
    let note =
        "Deployment/web differs from its record in .spec.template.spec.containers[0].env[0].value";
    assert!(shown.stderr.contains(note), "{}", shown.stderr);
    assert!(
        shown.stdout.contains("revision 1: 5 taken over unchanged"),
        "{}",
        shown.stdout
    );
    let recorded = [&ADOPT[..], &["--recorded", "--apply"]].concat();
    let refused = ns.plugin(&recorded);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused.stderr.contains("pods would be replaced"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        ns.cluster().get(&ns.existing("shop").reference()).await,
        None
    );
    assert_eq!(pods(&ns, 2).await, before);
    ns.plugin(&[&recorded[..], &["--allow-restart"]].concat())
        .done();
    let live = ns.live(&web()).await;
    let variables = &live["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(variables[0]["value"], "hello");
}

#[tokio::test]
async fn objects_that_cannot_be_adopted_are_reported_before_any_write() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let helm = ns.helm().await;
    let said = |args: &[&str]| ns.plugin(args).failed();
    assert_eq!(
        said(&["adopt", "shop", "--helm", "nothing"]),
        format!(
            "error: there is no Helm release nothing in the namespace {}\n",
            ns.name()
        )
    );
    installed(&ns, &helm, &[]).await;
    ns.merge(
        &configmap("settings"),
        &json!({"metadata": {"ownerReferences": [foreign_controller()]}}),
    )
    .await;
    ns.delete(&configmap("more")).await;
    ns.gone(&configmap("more")).await;
    let errors = said(&ADOPT);
    for expected in [
        "because of 2 errors",
        "settings is controlled by",
        "more does not exist",
    ] {
        assert!(errors.contains(expected), "{errors}");
    }
    // The missing object can be skipped, but the controlled one cannot.
    let skipped = said(&[&ADOPT[..], &["--skip-missing"]].concat());
    assert!(skipped.contains("settings is controlled by"), "{skipped}");
    ns.merge(
        &configmap("settings"),
        &json!({"metadata": {"ownerReferences": null}}),
    )
    .await;
    ns.plugin(&[&ADOPT[..], &["--skip-missing", "--apply", "--no-wait"]].concat())
        .done();
    ns.existing("shop").concluded().await;
    // The objects belong to a revision now.
    let again = said(&["adopt", "other", "deployment/web"]);
    assert!(
        again.contains("is controlled by ObjectSet.package-operator.run shop-"),
        "{again}"
    );
    let taken = said(&["adopt", "shop", "service/web", "configmap/kube-root-ca.crt"]);
    assert!(taken.contains("controlled by ObjectSet"), "{taken}");
    let free = configmap("free").data("a", "b");
    ns.create(&free).await;
    let named = said(&["adopt", "shop", "configmap/free"]);
    assert!(named.contains("od/shop exists already"), "{named}");
    // helm is working on the release.
    let record = object("v1", "Secret", "sh.helm.release.v1.shop.v1");
    ns.merge(
        &record,
        &json!({"metadata": {"labels": {"status": "pending-upgrade"}}}),
    )
    .await;
    let pending = said(&ADOPT);
    assert!(pending.contains("shop is pending-upgrade"), "{pending}");
    let torn =
        json!({"metadata": {"labels": {"status": "deployed"}}, "stringData": {"release": "x"}});
    ns.merge(&record, &torn).await;
    let torn = said(&ADOPT);
    assert!(
        torn.contains(
            "the record sh.helm.release.v1.shop.v1 of the Helm release shop is not base64"
        ),
        "{torn}"
    );
}

/// Adopts objects of kubectl with and without a record of the last apply.
#[tokio::test]
async fn objects_are_adopted_by_name_and_by_labels() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let labelled = |entry: Entry| entry.label("team", "shop");
    let applied = labelled(configmap("applied").data("a", "1"));
    let _ = ns.kubectl(&["apply", "-f", "-"], &applied.manifest).await;
    let created = labelled(configmap("created").data("b", "1"));
    let _ = ns.kubectl(&["create", "-f", "-"], &created.manifest).await;
    let labels = json!({"app": "shop"});
    let pod = json!({
        "metadata": {"labels": {"app": "shop", "team": "shop"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/shop:1.0"}]},
    });
    let workload = labelled(web())
        .with("/spec/replicas", 2)
        .with("/spec/selector/matchLabels", labels)
        .with("/spec/template", pod);
    let _ = ns.kubectl(&["apply", "-f", "-"], &workload.manifest).await;
    let before = pods(&ns, 2).await;

    // Pods and ReplicaSets have the label as well.
    let by_label = deployment(&ns, &["adopt", "shop", "-l", "team=shop"]);
    let names = |deployment: &Value| {
        let objects = objects(deployment).into_iter();
        let names = objects.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&by_label), ["applied", "created", "web"]);
    let only = ["adopt", "shop", "-l", "team=shop", "--kinds", "deploy"];
    assert_eq!(names(&deployment(&ns, &only)), ["web"]);
    let none = ns.plugin(&["adopt", "shop", "-l", "team=none"]).failed();
    assert!(
        none.starts_with("error: no objects with team=none in the namespace"),
        "{none}"
    );

    let by_name = [
        "adopt",
        "shop",
        "cm/applied",
        "ConfigMap/created",
        "deployments.apps/web",
    ];
    assert_eq!(
        objects(&deployment(&ns, &by_name)).len(),
        objects(&by_label).len()
    );
    ns.plugin(&[&by_name[..], &["--apply"]].concat()).done();
    let shop = ns.existing("shop");
    shop.concluded().await;
    assert_eq!(pods(&ns, 2).await, before);
    // Dropped content is removed, also from the object without a record.
    let mut next = by_label.clone();
    let drop = |next: &mut Value, name: &str| {
        for phase in next["spec"]["template"]["spec"]["phases"]
            .as_array_mut()
            .unwrap()
        {
            for entry in phase["objects"].as_array_mut().unwrap() {
                if entry["object"]["metadata"]["name"] == name {
                    entry["object"]["data"] = json!({"new": "1"});
                }
            }
        }
    };
    drop(&mut next, "applied");
    drop(&mut next, "created");
    apply(&ns, &next).await;
    shop.concluded_as(2).await;
    for entry in [&applied, &created] {
        assert_eq!(
            ns.live(entry).await["data"],
            json!({"new": "1"}),
            "{}",
            entry.name()
        );
    }
    ns.until_garbage_is_collected().await;
    ns.until_owners_are_observed().await;
    ns.plugin(&["adopt", "shop", "--undo", "--apply"]).done();
    // kubectl continues as before the adoption.
    let _ = ns.kubectl(&["apply", "-f", "-"], &applied.manifest).await;
    assert_eq!(ns.live(&applied).await["data"]["a"], "1");
    assert!(owners(&ns.live(&created).await).is_empty());
}
