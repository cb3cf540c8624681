//! The plugin's `pack`: its output for manifests, and the rollout of the output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use baton_hack::paths::Dirs;
use baton_hack::tools::{Tool, Toolbox};
use baton_integration::namespace::LABEL_TEST;
use baton_integration::plugin;
use baton_integration::prelude::*;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope as KindScope};
use tempfile::TempDir;

/// An application: settings, a workload, and access to it.
const SHOP: [(&str, &str); 3] = [
    (
        "10-settings.yaml",
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data: {greeting: hello, mode: '0644'}
",
    ),
    (
        "20-app.yaml",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: &labels {app: shop}}
  template:
    metadata: {labels: *labels, creationTimestamp: null}
    spec:
      containers: [{name: shop, image: registry.example/shop:1.0}]
      volumes: [{name: settings, configMap: {name: shop, defaultMode: 0644}}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {package-operator.run/phase: migrate}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: registry.example/shop:1.0}]
",
    ),
    (
        "30-edge.yml",
        "
apiVersion: v1
kind: List
items:
- apiVersion: networking.k8s.io/v1
  kind: Ingress
  metadata: {name: shop}
  spec: {defaultBackend: {service: {name: shop, port: {number: 80}}}}
- apiVersion: v1
  kind: Service
  metadata: {name: shop}
  spec: {selector: {app: shop}, ports: [{port: 80}]}
",
    ),
];

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::with_prefix("pack-").unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns config maps with some text each.
fn config_maps(count: usize, changed: Option<usize>) -> String {
    let config_map = |index| {
        let content = if changed == Some(index) { "y" } else { "x" }.repeat(400);
        format!(
            "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: big-{index}}}, data: {{content: {content}}}}}\n"
        )
    };
    (0..count).map(config_map).collect()
}

#[tokio::test]
async fn a_directory_is_rolled_out_and_changed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let shop = directory(&SHOP);
    let args = [
        "pack",
        text(shop.path()),
        "--name=shop",
        "--phase-order=config,migrate",
        "--apply",
    ];
    let title = "objectdeployment.package-operator.run/shop";
    let dry = ns.plugin(&[&args[..], &["--dry-run"]].concat()).done();
    assert_eq!(dry.stdout, format!("{title} created (server dry run)\n"));
    let deployment = ns.existing("shop");
    assert_eq!(ns.cluster().get(&deployment.reference()).await, None);

    assert_eq!(ns.plugin(&args).done().stdout, format!("{title} created\n"));
    deployment.concluded().await;
    let phases: Vec<_> = deployment.set(1).await.json["spec"]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].clone())
        .collect();
    assert_eq!(
        phases,
        ["config", "migrate", "services", "workloads", "traffic"]
    );
    let live = ns.live(&object("apps/v1", "Deployment", "shop")).await;
    assert_eq!(
        live["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"],
        420
    );
    assert_eq!(
        ns.plugin(&args).done().stdout,
        format!("{title} unchanged\n")
    );

    let settings = SHOP[0].1.replace("hello", "hi");
    fs::write(shop.path().join(SHOP[0].0), settings).unwrap();
    assert_eq!(
        ns.plugin(&args).done().stdout,
        format!("{title} configured\n")
    );
    deployment.set_reaches(2, &[Is("Available", "True")]).await;
    ns.object_becomes(&configmap("shop"), "changed", |live| {
        live["data"]["greeting"] == "hi"
    })
    .await;
    deployment.set_reaches(1, &[Is("Archived", "True")]).await;
}

/// kubectl builds a kustomization, and the namespace of the result is used.
#[tokio::test]
async fn a_kustomization_is_built_by_kubectl() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let overlay = format!(
        "resources: [../base]\nnamePrefix: my-\nnamespace: {}\n\
         images: [{{name: registry.example/shop, newTag: '2.0'}}]\n",
        ns.name()
    );
    let base = "resources: [10-settings.yaml, 20-app.yaml]\n";
    let files = [
        ("base/kustomization.yaml", base),
        ("overlay/kustomization.yaml", &overlay),
        ("base/10-settings.yaml", SHOP[0].1),
        ("base/20-app.yaml", SHOP[1].1),
    ];
    let directory = directory(&files);
    let tools = Toolbox::prepare(&Dirs::from_env().unwrap()).await.unwrap();
    let overlay = directory.path().join("overlay");
    let run = |args: &[&str], path: &Path| {
        let mut command = ns.plugin_command(args);
        let output = command.env("PATH", path).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        String::from_utf8(printed)
            .unwrap()
            .replace(text(directory.path()), "DIR")
    };
    let kubectl = tools.path(Tool::Kubectl).parent().unwrap();
    let args = ["pack", "-k", text(&overlay), "--name=shop"];
    plugin::snapshots(&ns).bind(|| {
        insta::assert_snapshot!("pack_kustomization", run(&args, kubectl));
        insta::assert_snapshot!(
            "pack_kustomization_without_kubectl",
            run(&args, directory.path())
        );
    });
    assert_eq!(
        run(&["pack", text(&overlay), "--name=shop"], kubectl),
        run(&args, kubectl)
    );
    fs::remove_file(directory.path().join("base/20-app.yaml")).unwrap();
    let broken = run(&args, kubectl);
    assert!(
        broken.starts_with("error: DIR/overlay: kubectl kustomize: accumulating resources"),
        "{broken}"
    );
}

/// Slices are created before the objects that refer to them, and a changed object gives its slice a
/// new name.
#[tokio::test]
async fn slices_are_created_first_and_renamed_on_change() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let args = ["pack", "-", "--name=big", "--slice-limit=4Ki", "--apply"];
    let first = ns.plugin_with_input(&args, &config_maps(30, None)).done();
    let lines: Vec<_> = first.stdout.lines().collect();
    let (deployment, slices) = lines.split_last().unwrap();
    assert_eq!(
        *deployment,
        "objectdeployment.package-operator.run/big created"
    );
    assert!((4..10).contains(&slices.len()), "{}", first.stdout);
    assert!(slices.iter().all(
        |line| line.starts_with("objectslice.package-operator.run/big-")
            && line.ends_with(" created")
    ));
    let deployment = ns.existing("big");
    let packed = deployment.concluded().await;
    let phases = &packed.json["spec"]["template"]["spec"]["phases"];
    assert_eq!(phases[0]["slices"].as_array().unwrap().len(), slices.len());
    assert_eq!(phases[0].get("objects"), None);

    let changed = config_maps(30, Some(7));
    let second = ns.plugin_with_input(&args, &changed).done().stdout;
    assert_eq!(second.matches(" created\n").count(), 1, "{second}");
    assert_eq!(second.matches(" configured\n").count(), 1, "{second}");
    assert_eq!(
        second.matches(" unchanged\n").count(),
        slices.len() - 1,
        "{second}"
    );
    deployment.set_reaches(2, &[Is("Available", "True")]).await;
    ns.object_becomes(&configmap("big-7"), "changed", |live| {
        live["data"]["content"].as_str().unwrap().starts_with('y')
    })
    .await;

    // The command without `--apply` prints the same objects that `--apply` sends.
    let printed = &args[..args.len() - 1];
    let printed = ns.plugin_with_input(printed, &changed).done().stdout;
    for line in second.lines() {
        let name = line.split([' ', '/']).nth(1).unwrap();
        assert!(printed.contains(&format!("  name: {name}\n")), "{printed}");
    }
}

/// A client that is killed after the slices leaves none behind that nothing would ever delete.
#[tokio::test]
async fn a_deployment_owns_its_slices_before_its_revision_does() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let args = ["pack", "-", "--name=big", "--slice-limit=4Ki", "--apply"];
    ns.plugin_with_input(&args, &config_maps(30, None)).done();
    let big = ns.existing("big");
    big.concluded().await;
    // No revision is created while the deployment is paused.
    big.patch(&json!({ "spec": { "paused": true } })).await;
    let changed = config_maps(30, Some(7));
    let second = ns.plugin_with_input(&args, &changed).done().stdout;
    let created = second
        .lines()
        .find_map(|line| line.strip_suffix(" created"));
    let (_, name) = created.unwrap().split_once('/').unwrap();
    let slice = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSlice",
        "metadata": { "namespace": ns.name() },
    });
    let slices = ns.cluster().list(&slice, "").await;
    let slice = slices
        .iter()
        .find(|slice| slice["metadata"]["name"] == name);
    assert_eq!(owner_names(slice.unwrap()), ["big"]);
}

/// Returns objects of all kinds with probes, including those that a wrong probe would never find
/// available.
fn all_probed_kinds() -> Vec<Value> {
    let pods = |name: &str| {
        json!({
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        })
    };
    let workload = |kind: &str, name: &str, spec: Value| {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": { "app": name } }, "template": pods(name) },
        });
        let more = spec.as_object().unwrap().clone();
        object["spec"].as_object_mut().unwrap().extend(more);
        object
    };
    let run_once = json!({
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    });
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": "old" },
        "spec": { "replicas": 1, "selector": { "app": "old" }, "template": pods("old") },
    });
    vec![
        workload("Deployment", "some", json!({ "replicas": 2 })),
        workload("Deployment", "none", json!({ "replicas": 0 })),
        workload(
            "StatefulSet",
            "partitioned",
            json!({
                "replicas": 2, "serviceName": "x",
                "updateStrategy": { "rollingUpdate": { "partition": 1 } },
            }),
        ),
        workload(
            "StatefulSet",
            "by-hand",
            json!({ "replicas": 1, "serviceName": "x", "updateStrategy": { "type": "OnDelete" } }),
        ),
        workload(
            "StatefulSet",
            "no-pods",
            json!({ "replicas": 0, "serviceName": "x" }),
        ),
        workload("DaemonSet", "everywhere", json!({})),
        workload("ReplicaSet", "plain", json!({ "replicas": 1 })),
        controller,
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
            "spec": { "template": { "spec": run_once } },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone" },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "unbound" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
    ]
}

/// The probes of a well-known kind pass in every final state of its objects.
#[tokio::test]
async fn probes_pass_on_live_objects() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let objects = all_probed_kinds();
    let list = |objects: &[Value]| json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let args = ["pack", "-", "--name=zoo", "--apply"];
    ns.plugin_with_input(&args, &list(&objects).to_string())
        .done();
    let zoo = ns.existing("zoo");
    zoo.concluded().await;
    let probed: BTreeSet<_> = zoo.set(1).await.json["spec"]["availabilityProbes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| probe["selector"]["kind"]["kind"].clone().to_string())
        .collect();
    let kinds: BTreeSet<_> = objects
        .iter()
        .map(|object| object["kind"].to_string())
        .collect();
    assert_eq!(probed, kinds);

    // A change of the pods is rolled out, except for pods that the update strategy holds back.
    let mut changed = objects.clone();
    for object in &mut changed {
        let changeable = ["Deployment", "StatefulSet", "DaemonSet"];
        if changeable.iter().any(|kind| object["kind"] == *kind) {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
        }
    }
    ns.plugin_with_input(&args, &list(&changed).to_string())
        .done();
    zoo.set_reaches(2, &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    let live = ns
        .live(&object("apps/v1", "StatefulSet", "partitioned"))
        .await;
    assert_eq!(live["status"]["updatedReplicas"], 1);
    assert_ne!(
        live["status"]["updateRevision"],
        live["status"]["currentRevision"]
    );

    // The live objects can be packed again.
    let mut live = Vec::new();
    for object in &changed {
        live.push(ns.cluster().get(&within(object, ns.name())).await.unwrap());
    }
    ns.plugin_with_input(&args, &list(&live).to_string()).done();
    let packed = zoo.read().await.json["spec"]["template"].to_string();
    for field in [
        "managedFields",
        "resourceVersion",
        "ownerReferences",
        "creationTimestamp",
        "uid\"",
    ] {
        assert!(!packed.contains(field), "{field} in {packed}");
    }
    zoo.set_reaches(3, &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
}

fn within(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// A package may contain definitions of kinds. They come first and their objects last, and the
/// scope of the kinds is taken from them.
#[tokio::test]
async fn definitions_come_before_their_custom_resources() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let group = format!("{}.example.com", ns.name());
    let definition = |kind: &str, scope: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": scope,
                "names": { "kind": kind, "plural": plural },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } },
                }],
            },
        })
    };
    let api_version = format!("{group}/v1");
    let custom = |kind: &str, name: &str| object(&api_version, kind, name).manifest;
    let package = [
        custom("Widget", "own"),
        custom("Gadget", &ns.unique("own")),
        configmap("settings").into_json()["object"].clone(),
        definition("Widget", "Namespaced"),
        definition("Gadget", "Cluster"),
    ];
    let stream = |objects: &[Value]| {
        let texts: Vec<_> = objects.iter().map(Value::to_string).collect();
        texts.join("\n---\n")
    };
    let name = ns.set_name("widgets");
    let args = ["pack", "-", "--apply", "--name"];
    let ran = ns
        .plugin_with_input(&[&args[..], &[&name]].concat(), &stream(&package))
        .done();
    assert_eq!(
        ran.stdout,
        format!("clusterobjectdeployment.package-operator.run/{name} created\n")
    );
    assert_eq!(
        ran.stderr,
        format!(
            "note: the result is cluster-scoped, as Gadget/{} is cluster-scoped\n",
            ns.unique("own")
        )
    );
    let widgets = ns.existing("widgets");
    let labels = json!({ "metadata": { "labels": { LABEL_TEST: ns.name() } } });
    widgets.patch(&labels).await;
    widgets.concluded().await;
    let deployment = widgets.read().await.json;
    let phases = deployment["spec"]["template"]["spec"]["phases"]
        .as_array()
        .unwrap();
    let names: Vec<_> = phases
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["crds", "config", "custom-resources"]);
    let own = &phases[2]["objects"];
    assert_eq!(own[0]["object"]["metadata"]["namespace"], ns.name());
    assert_eq!(own[1]["object"]["metadata"].get("namespace"), None);

    // Without the definitions, the server reports the scope.
    let lone = ns.set_name("lone");
    let args = [&args[..], &[&lone]].concat();
    let gadget = custom("Gadget", &ns.unique("other"));
    let ran = ns.plugin_with_input(&args, &stream(&[gadget])).done();
    assert_eq!(
        ran.stdout,
        format!("clusterobjectdeployment.package-operator.run/{lone} created\n")
    );
    let lone = ns.existing("lone");
    lone.patch(&labels).await;
    lone.concluded().await;
    lone.delete("Foreground").await;
    lone.gone().await;
}

/// The plugin's rollback does not conflict with the next package.
#[tokio::test]
async fn a_package_follows_a_rollback_without_a_conflict() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = directory(&[("web.yaml", SHOP[0].1)]);
    let file = app.path().join("web.yaml");
    let pack = || ns.plugin(&["pack", text(&file), "--apply"]);
    pack().done();
    let web = ns.existing("web");
    web.concluded().await;
    fs::write(&file, SHOP[0].1.replace("hello", "hi")).unwrap();
    pack().done();
    web.set_reaches(2, &[Is("Succeeded", "True")]).await;
    ns.plugin(&["rollback", "web"]).done();
    fs::write(&file, SHOP[0].1.replace("hello", "hey")).unwrap();
    pack().done();
    let fourth = web.set_reaches(4, &[Is("Succeeded", "True")]).await;
    let annotations = &fourth.json["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/change-cause"], Value::Null);
}

/// The content of a revision is immutable, and the error names the next step.
#[tokio::test]
async fn a_changed_revision_is_refused_with_advice() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = directory(&[("web.yaml", SHOP[0].1)]);
    let file = app.path().join("web.yaml");
    let run = |more: &[&str]| ns.plugin(&[&["pack", text(&file), "--apply"], more].concat());
    let title = "objectset.package-operator.run";
    assert_eq!(
        run(&["--revision=1"]).done().stdout,
        format!("{title}/web-v1 created\n")
    );
    ns.reaches("web-v1", &[Is("Available", "True")]).await;
    assert_eq!(
        run(&["--revision=1"]).done().stdout,
        format!("{title}/web-v1 unchanged\n")
    );
    fs::write(&file, SHOP[0].1.replace("hello", "hi")).unwrap();
    let refused = run(&["--revision=1"]);
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (
            2,
            "error: objectset.package-operator.run/web-v1 exists with other content, and a revision cannot be changed; \
             create the next one: --revision --name NEW-NAME --previous web-v1\n"
        )
    );
    run(&["--revision", "--name=web-v2", "--previous=web-v1"]).done();
    let next = ns
        .reaches(
            "web-v2",
            &[Is("Available", "True"), Controls(&["ConfigMap shop"])],
        )
        .await;
    assert_eq!(next.number(), Some(2));
}

/// A user may interrupt the command while it reads from a terminal.
#[tokio::test]
async fn reading_stdin_can_be_interrupted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let more_than_a_pipe_holds = config_maps(1000, None);
    // The plugin may handle the input or the signal first.
    for _ in 0..5 {
        let mut typing = ns.plugin_started(&["pack", "-", "--name=web"]);
        typing.reads(&more_than_a_pipe_holds);
        let code = typing.interrupt();
        assert!(
            [130, plugin::BY_A_SIGNAL].contains(&code),
            "exit code {code}"
        );
    }
}

/// A closed standard error does not change the exit code.
#[tokio::test]
async fn the_exit_code_is_unchanged_when_standard_error_is_closed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut command = ns.plugin_command(&["pack", "-"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[tokio::test]
async fn invalid_flags_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for (flags, expected) in [
        (
            &["--name=web", "-n", "a/b"][..],
            "names of namespaces consist of",
        ),
        (
            &["--name=web", "--revision=2", "--previous", "a,"],
            "\"\" cannot be a name",
        ),
        (&["--name", "Web"], "does not consist of lower-case letters"),
    ] {
        let args = [&["pack", "-"][..], flags].concat();
        let said = ns.plugin_with_input(&args, &config_maps(1, None)).failed();
        assert!(said.contains(expected), "{flags:?}: {said}");
    }
}

/// Manifests that the server refuses are refused before anything is written.
#[tokio::test]
async fn manifests_that_the_server_refuses_are_refused_before_writing() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let pack = |name: &str, more: &[&str]| {
        let args = [
            &["pack", "-", "--apply", "--slice-limit=4Ki", "--name", name],
            more,
        ]
        .concat();
        ns.plugin_with_input(&args, &config_maps(30, None))
    };
    let nowhere = ns.unique("nowhere");
    let ran = pack("web", &["-n", &nowhere]);
    assert_eq!(
        ran.stderr,
        format!("error: namespaces \"{nowhere}\" not found\n")
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));

    pack("web", &[]).done();
    let web = ns.existing("web");
    let other = json!({ "spec": { "template": { "spec": { "phases": [] } } } });
    web.patch(&other).await;
    let slice = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSlice",
        "metadata": { "namespace": ns.name() },
    });
    let before = ns.cluster().list(&slice, "").await.len();
    let args = ["pack", "-", "--apply", "--slice-limit=4Ki", "--name=web"];
    let ran = ns.plugin_with_input(&args, &config_maps(30, Some(3)));
    assert_eq!(
        ran.stderr,
        "error: objectdeployment.package-operator.run/web: Apply failed with 1 conflict: \
         conflict with \"a-user\" using \
         package-operator.run/v1alpha1: .spec.template.spec.phases; --force-conflicts takes the fields over\n"
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert_eq!(ns.cluster().list(&slice, "").await.len(), before);
    pack("web", &["--force-conflicts"]).done();
    web.concluded().await;
}

/// The table of kinds matches the server: it contains each kind whose objects are stored, with its
/// scope.
#[tokio::test]
async fn every_built_in_kind_is_known() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let config = Kubeconfig::read_from(ns.cluster().kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let discovery = Discovery::new(client).run_aggregated().await.unwrap();
    let mut scopes = BTreeMap::new();
    let mut objects = Vec::new();
    for group in discovery.groups() {
        // Groups of extensions have a dot, and those of other projects of Kubernetes end with
        // `.x-k8s.io`.
        let name = group.name();
        if name.contains('.') && (!name.ends_with(".k8s.io") || name.ends_with(".x-k8s.io")) {
            continue;
        }
        for (resource, capabilities) in group.recommended_resources() {
            let kept = ["create", "list", "delete"];
            if !kept
                .iter()
                .all(|verb| capabilities.supports_operation(verb))
            {
                continue;
            }
            objects.push(json!({
                "apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": { "name": "x" },
            }));
            let is_namespaced = capabilities.scope == KindScope::Namespaced;
            scopes.insert((resource.group, resource.kind), is_namespaced);
        }
    }
    assert!(scopes.len() > 50, "{scopes:#?}");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let args = ["pack", "-", "--name=all", "--cluster", "-o=json"];
    let ran = ns.plugin_with_input(&args, &list.to_string()).done();
    assert_eq!(ran.stderr, "");
    let packed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut found = BTreeMap::new();
    for phase in packed["spec"]["template"]["spec"]["phases"]
        .as_array()
        .unwrap()
    {
        for entry in phase["objects"].as_array().unwrap() {
            let object = &entry["object"];
            let api_version = object["apiVersion"].as_str().unwrap();
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let kind = object["kind"].as_str().unwrap().to_owned();
            let is_namespaced = object["metadata"]["namespace"] == ns.name();
            found.insert((group.to_owned(), kind), is_namespaced);
        }
    }
    assert_eq!(found, scopes);
}

/// Returns a ConfigMap that cannot be changed, with this value.
fn immutable(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fixed}}\nimmutable: true\ndata: {{k: \"{value}\"}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: first, annotations: {{package-operator.run/phase: a}}}}\n\
         data: {{k: \"{value}\"}}\n"
    )
}

/// The apply and the rollback compute the same forecast as `diff -f` before they write.
#[tokio::test]
async fn a_change_that_would_be_refused_halfway_is_not_begun() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let args = ["pack", "-", "--name=web", "--apply"];
    let pack = |value: &str, more: &[&str]| {
        let args = [&args, more].concat();
        ns.plugin_with_input(&args, &immutable(value))
    };
    pack("1", &["--wait"]).done();
    let web = ns.existing("web");
    let before = web.read().await.json["spec"].clone();
    for more in [&[][..], &["--dry-run"]] {
        let ran = pack("2", more);
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
        let lines: Vec<_> = ran.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{}", ran.stderr);
        assert!(
            lines[0].starts_with(&format!(
                "error: ConfigMap {}/fixed (phase config): refused: ",
                ns.name()
            )),
            "{}",
            lines[0]
        );
        assert_eq!(
            lines[1],
            "error: nothing was written, because an object would be refused; --force writes it all the same"
        );
    }
    assert_eq!(web.read().await.json["spec"], before);

    let forced = pack("2", &["--force"]);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert!(forced.stderr.starts_with(&format!(
        "warning: ConfigMap {}/fixed (phase config): ",
        ns.name()
    )));
    web.set_reaches(2, &[Is("Available", "False")]).await;
}

/// The forecast of a rollback is that of an apply.
#[tokio::test]
async fn a_rollback_that_would_be_refused_halfway_is_not_begun() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let pack = |value: &str| {
        let recreated = immutable(value).replace(
            "name: fixed",
            &format!(
                "name: fixed, annotations: {{baton.run/update: {}}}",
                if value == "2" { "recreate" } else { "\"\"" }
            ),
        );
        let recreated = recreated.replace(", annotations: {baton.run/update: \"\"}", "");
        let args = ["pack", "-", "--name=web", "--apply", "--wait"];
        ns.plugin_with_input(&args, &recreated).done();
    };
    pack("1");
    pack("2");
    let web = ns.existing("web");
    let before = web.read().await.json["spec"].clone();
    for more in [&["--dry-run"][..], &[]] {
        let ran = ns.plugin(&[&["rollback", "od/web"], more].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
        assert!(
            ran.stderr
                .contains("/fixed (phase config): refused: ConfigMap"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(web.read().await.json["spec"], before);
}

/// Two people who start from the same revision: the second one does not overwrite the first.
#[tokio::test]
async fn an_apply_to_another_revision_than_the_expected_one_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let pack = |content: Option<usize>, more: &[&str]| {
        let args = [&["pack", "-", "--name=web", "--apply"], more].concat();
        ns.plugin_with_input(&args, &config_maps(2, content))
    };
    pack(None, &["--wait", "--progress-deadline=77"]).done();
    pack(Some(0), &["--wait", "--if-revision=1"]).done();
    let ran = pack(Some(1), &["--if-revision=1"]);
    assert_eq!(
        ran.stderr,
        "error: objectdeployment.package-operator.run/web was not changed: its current revision is 2, not revision 1 \
         as \
         --if-revision requires\n"
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""));
    // The deadline of the first run stays without its flag.
    let web = ns.existing("web").read().await.json;
    assert_eq!(web["spec"]["progressDeadlineSeconds"], 77);
}
