//! Objects that users apply with other tools before a revision takes them over.

use baton_integration::prelude::*;

/// Returns a workload whose container has these variables.
fn workload(variables: &[(&str, &str)]) -> Entry {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| json!({ "name": name, "value": value }));
    let container = json!({
        "name": "app", "image": "registry.example/app:1", "env": variables.collect::<Vec<_>>(),
    });
    let labels = json!({ "app": "web" });
    object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 0)
        .with("/spec/selector/matchLabels", labels.clone())
        .with("/spec/template/metadata/labels", labels)
        .with("/spec/template/spec/containers", json!([container]))
        .collision("IfNoController")
}

fn settings(keys: &[&str]) -> Entry {
    let settings = configmap("settings").collision("IfNoController");
    keys.iter().fold(settings, |it, key| it.data(key, "1"))
}

/// Returns the names of a workload's variables.
fn variables(live: &Value) -> Vec<&str> {
    let list = &live["spec"]["template"]["spec"]["containers"][0]["env"];
    let list = list.as_array().unwrap().iter();
    list.map(|it| it["name"].as_str().unwrap()).collect()
}

const APPLY: &[&str] = &["apply", "-f", "-"];

/// Fields that kubectl has applied, in any way, are removed by the revision that drops them. Fields
/// of other managers stay, and the take-over changes no pod.
#[tokio::test]
async fn a_field_of_kubectl_is_removed_when_a_revision_drops_it() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (both, one) = (workload(&[("A", "1"), ("B", "1")]), workload(&[("A", "1")]));
    let keys = settings(&["a", "b"]);
    ns.kubectl(APPLY, &both.manifest).await;
    // `kubectl set env` owns the variable now, but kubectl has also applied it.
    ns.kubectl(&["set", "env", "deployment/web", "B=2"], &Value::Null)
        .await;
    ns.kubectl(&["set", "env", "deployment/web", "OTHER=1"], &Value::Null)
        .await;
    ns.kubectl(&["apply", "--server-side", "-f", "-"], &keys.manifest)
        .await;
    let before = ns.live(&both).await;
    let edited = workload(&[("A", "1"), ("B", "2")]);
    ns.revision(1)
        .phase("a", [edited, keys.clone()])
        .available()
        .await;
    let taken = ns.live(&both).await;
    assert_eq!(taken["spec"], before["spec"], "no pod is touched");
    let note = "kubectl.kubernetes.io/last-applied-configuration";
    let note = |live: &Value| live["metadata"]["annotations"][note].clone();
    assert!(note(&taken).is_string());
    ns.revision(2)
        .phase("a", [one.clone(), settings(&["a"])])
        .previous(&["v1"])
        .available()
        .await;
    let after = ns.live(&one).await;
    assert_eq!(variables(&after), ["A", "OTHER"]);
    assert_eq!(ns.live(&keys).await["data"], json!({ "a": "1" }));
    assert_eq!(note(&after), note(&before), "kubectl can go on from there");
}

/// The revision takes over the fields of Helm and of managers that the manifest names, and no
/// others.
#[tokio::test]
async fn fields_of_named_managers_are_taken_over() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let flux = settings(&["a", "b"]);
    for (manager, named, left) in [
        ("helm", "", json!({ "a": "1" })),
        ("kustomize-controller", "", json!({ "a": "1", "b": "1" })),
        (
            "kustomize-controller",
            "argocd-controller, kustomize-controller",
            json!({ "a": "1" }),
        ),
    ] {
        let applied = ns.reference(&flux);
        ns.cluster().apply(&applied, manager).await.unwrap();
        let name = ns.unique("set");
        let with = |entry: Entry| entry.annotation("baton.run/former-managers", named);
        let first = ns.set(&name).revision(1);
        first.phase("a", [with(flux.clone())]).available().await;
        let second = format!("{name}-2");
        ns.set(&second)
            .revision(2)
            .previous(&[&name])
            .phase("a", [with(settings(&["a"]))])
            .available()
            .await;
        assert_eq!(ns.live(&flux).await["data"], left, "{manager} {named}");
        for set in [&name, &second] {
            ns.delete_set(set, "Background").await;
        }
        ns.gone(&flux).await;
    }
}
