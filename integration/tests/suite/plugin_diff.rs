//! The previews of `kubectl baton`: the objects that are deleted together with others, the fields
//! that a take-over removes or leaves, and objects in other clusters.

use std::fs;

use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, TemporaryKubeconfig};
use kube::config::Kubeconfig;
use tempfile::TempDir;

/// Writes a manifest to a file for the plugin, and returns its path.
fn file(dir: &TempDir, manifest: &Value) -> String {
    let path = dir.path().join("given.yaml");
    fs::write(&path, manifest.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn contains_all(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "{wanted:?} is not in:\n{text}");
    }
}

/// Objects whose deletion also deletes other objects or data.
struct Precious {
    inner: Entry,
    crd: Entry,
    volume: Entry,
    claim: Entry,
    kept: Entry,
    set: Entry,
    tool: Entry,
}

impl Precious {
    fn new(ns: &TestNamespace) -> Self {
        let group = format!("{}.example.com", ns.name());
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let storage = json!({ "requests": { "storage": "1Gi" } });
        let claim = |name: &str| {
            let spec = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": storage });
            object("v1", "PersistentVolumeClaim", name).with("/spec", spec)
        };
        let volume = ns.unique("volume");
        let labels = json!({ "app": "db" });
        Self {
            inner: object("v1", "Namespace", &ns.unique("inner")),
            crd: tool_definition(&group, "Namespaced", &schema),
            claim: claim("data").with("/spec/volumeName", volume.clone()),
            kept: claim("kept").annotation("baton.run/deletion", "keep"),
            // The volume is reserved. Otherwise any claim could get it, even that of another test.
            volume: object("v1", "PersistentVolume", &volume).with(
                "/spec",
                json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Delete", "hostPath": { "path": "/nowhere" },
                    "claimRef": { "namespace": ns.name(), "name": "data" } }),
            ),
            set: object("apps/v1", "StatefulSet", "db").with(
                "/spec",
                json!({ "replicas": 0, "serviceName": "db", "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels },
                        "spec": { "containers": [{ "name": "db", "image": "registry.example/db:1" }] } },
                    "volumeClaimTemplates": [{ "metadata": { "name": "data" },
                        "spec": { "accessModes": ["ReadWriteOnce"], "resources": storage } }] }),
            ),
            tool: object(&format!("{group}/v1"), "Tool", "t"),
        }
    }
}

/// Every command that would delete a namespace, a definition, a claim or a `StatefulSet` warns of
/// the objects that are deleted with it. Objects that are to be kept are not among them.
#[tokio::test]
async fn commands_warn_of_objects_that_are_deleted_with_others() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let all = Precious::new(&ns);
    ns.create_elsewhere(&all.volume).await;
    let established = condition_probe(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "Established",
    );
    let with = ns
        .content()
        .phase("a", [all.inner.clone(), all.crd.clone()])
        .probe(established);
    let with = with.phase(
        "b",
        [
            all.claim.clone(),
            all.kept.clone(),
            all.set.clone(),
            configmap("cm"),
        ],
    );
    let web = ns.deployment("web").content(with).create().await;
    web.concluded().await;
    for stranger in [
        configmap("theirs").within(all.inner.name()),
        all.tool.clone(),
    ] {
        ns.create(&stranger).await;
    }
    let without = ns.content().phase("b", [configmap("cm")]);
    let given = ns.deployment("web").content(without);
    let dir = TempDir::new().unwrap();
    let given = given.manifest();
    let path = file(&dir, &given);
    let (namespace, crd) = (
        format!("Namespace {}", all.inner.name()),
        format!(
            "CustomResourceDefinition.apiextensions.k8s.io {}",
            all.crd.name()
        ),
    );
    let along = [
        "all of its content is deleted with it: 1 configmaps",
        "all objects of its kind are deleted with it, in all namespaces: 1",
        "its data is deleted with volume",
        "(reclaim policy Delete)",
        "it has no pods; the PersistentVolumeClaims of data stay",
    ];
    let diff = ns.plugin(&["diff", "-f", &path]);
    assert_eq!(diff.code, 1, "{diff:?}");
    contains_all(&diff.stdout, &along);
    contains_all(
        &diff.stdout,
        &[&namespace, &crd, "kept (phase b): kept, without an owner"],
    );
    assert_eq!(
        diff.stdout.matches("  warning: ").count(),
        4,
        "{}",
        diff.stdout
    );

    let plain = ns.plugin_with_input(
        &[
            "pack",
            "-",
            "--name",
            web.name(),
            "--cluster",
            "--apply",
            "--dry-run",
        ],
        &ns.reference(&configmap("cm")).to_string(),
    );
    let warned: Vec<_> = plain
        .stderr
        .lines()
        .filter(|it| it.starts_with("warning: "))
        .collect();
    assert_eq!(warned.len(), 4, "{plain:?}");
    contains_all(&plain.stderr, &along);
    contains_all(
        &plain.stderr,
        &["(phase b): deleted when revision 2 is available: its data is deleted with"],
    );
}

/// Compares two revisions, and rolls back to the one without the claim.
#[tokio::test]
async fn comparisons_and_rollbacks_warn_of_deletions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let all = Precious::new(&ns);
    let web = ns
        .deployment("web")
        .content(ns.content().phase("a", [configmap("cm")]));
    let web = web.create().await;
    web.concluded().await;
    web.edit(
        ns.content()
            .phase("a", [configmap("cm"), all.set.clone(), all.kept.clone()]),
    )
    .await;
    web.concluded_as(2).await;
    let warning = "it has no pods; the PersistentVolumeClaims of data stay";
    let ran = ns.plugin(&["diff", "web", "--from", "2", "--to", "1"]);
    contains_all(
        &ran.stdout,
        &[&format!("db (phase a): removed\n  warning: {warning}")],
    );
    assert_eq!(ran.stdout.matches("warning: ").count(), 1, "{}", ran.stdout);
    // In the other direction nothing is deleted.
    let ran = ns.plugin(&["diff", "web"]);
    assert!(!ran.stdout.contains("warning: "), "{}", ran.stdout);
    let ran = ns.plugin(&["rollback", "web", "--to-revision", "1", "--dry-run"]);
    let expected = format!(
        "warning: StatefulSet.apps {}/db (phase a): deleted when revision 3 is available: {warning}\n",
        ns.name()
    );
    assert_eq!((ran.code, ran.stderr), (0, expected));
    web.set_reaches(2, &[Is("Available", "True")]).await;
}

/// Objects that a user may not read are reported as unknown, which is no failure.
#[tokio::test]
async fn objects_that_may_not_be_read_are_reported_as_unknown() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let all = Precious::new(&ns);
    ns.create_elsewhere(&all.volume).await;
    ns.revision(1)
        .phase("a", [configmap("cm"), all.claim.clone()])
        .available()
        .await;
    let user = ns.unique("dev");
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch", "create"] }]);
    ns.grant(&user, rules).await;
    let dir = TempDir::new().unwrap();
    let next = ns.set("v2").previous(&["v1"]).phase("a", [configmap("cm")]);
    let path = file(&dir, &next.manifest());
    let account = format!("--as={user}");
    // The server applies new rights with a delay.
    ns.eventually("the rights to be there", async || {
        ns.plugin(&["diff", "-f", &path, &account]).code == 1
    })
    .await;
    let ran = ns.plugin(&["diff", "-f", &path, &account]);
    let expected = format!(
        "warning: its data is deleted with it, unless volume {}, which you have no right to read, has the reclaim \
         policy Retain",
        all.volume.name()
    );
    contains_all(&ran.stdout, &[&expected]);

    // Objects that the user may not list would be deleted nevertheless.
    let user = ns.unique("narrow");
    let verbs = ["get", "list", "patch", "create"];
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": verbs },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs },
    ]);
    ns.grant(&user, rules).await;
    let account = format!("--as={user}");
    ns.eventually("the rights to be there", async || {
        ns.plugin(&["diff", "-f", &path, &account]).code == 1
    })
    .await;
    let ran = ns.plugin(&["diff", "-f", &path, &account]);
    contains_all(
        &ran.stdout,
        &[
            "deleted when v1 is archived, unless it is gone or to be kept",
            "warning: other objects or data may be deleted with it (",
        ],
    );

    // Two revisions can be compared by a user who may read nothing else.
    ns.set("v2")
        .previous(&["v1"])
        .phase("a", [configmap("cm")])
        .available()
        .await;
    let user = ns.unique("reader");
    let rules = json!([{ "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["get", "list"] }]);
    ns.grant(&user, rules).await;
    let account = format!("--as={user}");
    ns.eventually("the rights to be there", async || {
        ns.plugin(&["diff", "os/v2", &account]).code == 1
    })
    .await;
    let ran = ns.plugin(&["diff", "os/v2", &account]);
    let expected =
        "warning: other objects or data may be deleted with it (you have no right to read it)";
    contains_all(&ran.stdout, &[expected]);
}

/// Returns a workload with these variables.
fn workload(variables: &[&str]) -> Entry {
    let variables = variables.iter();
    let variables: Vec<_> = variables
        .map(|name| json!({ "name": name, "value": "1" }))
        .collect();
    let labels = json!({ "app": "web" });
    object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 0)
        .with("/spec/selector/matchLabels", labels.clone())
        .with("/spec/template/metadata/labels", labels)
        .with(
            "/spec/template/spec/containers",
            json!([{ "name": "app", "image": "registry.example/app:1", "env": variables }]),
        )
        .collision("IfNoController")
}

/// The preview of a take-over matches the take-over: it removes the fields that kubectl applied and
/// the revision omits, and leaves defaults and the fields of other managers.
#[tokio::test]
async fn the_preview_of_a_takeover_matches_the_takeover() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let hidden = "aHVudGVyMi1odW50ZXIy";
    let password = |keys: &[&str]| {
        let secret = secret("web").collision("IfNoController");
        keys.iter()
            .fold(secret, |it, key| it.with(&format!("/data/{key}"), hidden))
    };
    for applied in [workload(&["A", "B"]), password(&["a", "b"])] {
        let _ = ns.kubectl(&["apply", "-f", "-"], &applied.manifest).await;
    }
    let _ = ns
        .kubectl(&["set", "env", "deployment/web", "OTHER=1"], &Value::Null)
        .await;
    let wanted = || [workload(&["A"]), password(&["a"])];
    let dir = TempDir::new().unwrap();
    let path = file(&dir, &ns.set("v1").phase("a", wanted()).manifest());
    let shown = ns.plugin(&["diff", "-f", &path]);
    assert_eq!((shown.code, shown.stderr.as_str()), (1, ""), "{shown:?}");
    contains_all(
        &shown.stdout,
        &[
            "the take-over removes fields that kubectl-client-side-apply applied: \
             .spec.template.spec.containers[{\"name\":\"app\"}].env[{\"name\":\"B\"}]\n",
            "set by kubectl-set, and not changed: \
             .spec.template.spec.containers[{\"name\":\"app\"}].env[{\"name\":\"OTHER\"}]\n",
            "-        - name: B\n",
            "the take-over removes fields that kubectl-client-side-apply applied: .data.b\n",
        ],
    );
    let removed = shown
        .stdout
        .lines()
        .filter(|line| line.starts_with("-  "))
        .count();
    assert_eq!(
        removed, 3,
        "nothing but the variable and the key goes:\n{}",
        shown.stdout
    );
    assert!(!shown.stdout.contains(hidden), "{}", shown.stdout);

    ns.set("v1")
        .lifecycle("Paused")
        .phase("a", wanted())
        .create()
        .await;
    ns.reaches("v1", &[Is("Paused", "True")]).await;
    let live = ns.plugin(&["diff", "os/v1", "--live"]);
    contains_all(
        &live.stdout,
        &["the take-over removes fields that kubectl-client-side-apply applied: .data.b\n"],
    );
    ns.set_lifecycle("v1", "Active").await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    let taken = ns.live(&wanted()[0]).await;
    let names = taken["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap();
    let names: Vec<_> = names
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["A", "OTHER"]);
    assert_eq!(ns.live(&wanted()[1]).await["data"], json!({ "a": hidden }));
    // All fields but one belong to the manager now.
    let live = ns.plugin(&["diff", "os/v1", "--live"]);
    let expected = format!(
        "Deployment.apps {}/web (phase a): as wanted, with fields of others\n  set by kubectl-set, and not changed: \
         .spec.template.spec.containers[{{\"name\":\"app\"}}].env[{{\"name\":\"OTHER\"}}]\n",
        ns.name()
    );
    assert_eq!((live.code, live.stdout), (0, expected));
}

/// Returns a kubeconfig with the contexts `hub` and `site`.
pub(crate) fn kubeconfig(ns: &TestNamespace, site: &Site) -> TemporaryKubeconfig {
    let read = |path: &std::path::Path, name: &str| {
        let mut config = Kubeconfig::read_from(path).unwrap();
        name.clone_into(&mut config.clusters[0].name);
        name.clone_into(&mut config.auth_infos[0].name);
        let context = config.contexts[0].context.as_mut().unwrap();
        name.clone_into(&mut context.cluster);
        context.user = Some(name.to_owned());
        name.clone_into(&mut config.contexts[0].name);
        config.contexts.truncate(1);
        config
    };
    let mut merged = read(ns.cluster().kubeconfig(), "hub");
    let other = read(&site.kubeconfig(), "site");
    merged.clusters.extend(other.clusters);
    merged.auth_infos.extend(other.auth_infos);
    merged.contexts.extend(other.contexts);
    merged.current_context = Some("hub".to_owned());
    TemporaryKubeconfig::new(&serde_saphyr::to_string(&merged).unwrap())
}

/// Phases in another cluster are compared through a context of the user, like phases in this
/// cluster.
#[tokio::test]
async fn phases_in_another_cluster_are_compared_through_a_context() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let class = joined.class();
    let name = class.strip_prefix("cluster.").unwrap();
    let cm = || configmap("far");
    let phase = |set, value: &str, more: &[Entry]| {
        let objects = [&[cm().data("k", value)], more].concat();
        let set: baton_integration::set::SetBuilder<'_> = set;
        set.delegated("there", &class, objects)
    };
    phase(ns.revision(1), "1", &[configmap("old")])
        .available()
        .await;
    let config = kubeconfig(&ns, &site);
    let run = |args: &[&str]| {
        let mut command = ns.plugin_command(args);
        let output = command.env("KUBECONFIG", config.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let context = format!("--cluster-context={name}=site");
    let (code, stdout, _) = run(&["diff", "os/v1", "--live"]);
    assert_eq!(code, 0);
    let unseen = format!(
        "far (phase there): not compared: it is in cluster {name}; see --cluster-context\n"
    );
    contains_all(
        &stdout,
        &[&unseen, "its phase object reports that it is available"],
    );
    assert_eq!(
        run(&["diff", "os/v1", "--live", &context]),
        (0, String::new(), String::new())
    );

    let dir = TempDir::new().unwrap();
    let next = phase(ns.set("v2").previous(&["v1"]), "2", &[]);
    let path = file(&dir, &next.manifest());
    let (code, stdout, stderr) = run(&["diff", "-f", &path, &context]);
    assert_eq!((code, &*stderr), (1, ""), "{stdout}");
    contains_all(
        &stdout,
        &[
            "1 changed, 1 deleted",
            "far (phase there): changed\n",
            "-  k: \"1\"\n+  k: \"2\"\n",
            "old (phase there): deleted when v1 is archived\n",
        ],
    );
    let (code, stdout, _) = run(&["diff", "-f", &path]);
    assert_eq!(code, 1);
    contains_all(
        &stdout,
        &[
            "far (phase there): not compared: ",
            "old (phase there): deleted when v1 is archived, unless",
        ],
    );
    let (code, _, stderr) = run(&[
        "diff",
        "os/v1",
        "--live",
        &format!("--cluster-context={name}=nobody"),
    ]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("nobody"), "{stderr}");
}

/// A server validates nothing in a namespace that does not exist, so the request names a namespace
/// that exists.
#[tokio::test]
async fn a_refusal_is_reported_although_the_namespace_does_not_exist_yet() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let inner = ns.unique("inner");
    let service = |name: &str, port: u32| {
        let spec = json!({ "selector": { "app": "a" }, "ports": [{ "port": port }] });
        object("v1", "Service", name)
            .within(&inner)
            .with("/spec", spec)
            .into_json()
    };
    let deployment = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ClusterObjectDeployment",
        "metadata": { "name": ns.unique("shop") },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "phases": [
                    { "name": "namespace", "objects": [object("v1", "Namespace", &inner).into_json()] },
                    { "name": "services", "objects": [
                        service("fine", 80), service("bad", 70_000),
                    ] },
                ] },
            },
        },
    });
    let dir = TempDir::new().unwrap();
    let ran = ns.plugin(&["diff", "-f", &file(&dir, &deployment)]);
    assert_eq!(ran.code, 3, "{ran:?}");
    contains_all(
        &ran.stdout,
        &[
            &format!("Service {inner}/fine (phase services): created"),
            &format!("Service {inner}/bad (phase services): refused: "),
            "spec.ports[0].port: Invalid value",
        ],
    );
}
