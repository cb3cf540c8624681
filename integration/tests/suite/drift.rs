//! Foreign changes of managed objects are reported by an event, by metrics, and by `kubectl baton
//! drift`.

use baton_integration::prelude::*;

use crate::tenants::{DEPLOYER, allow};

alternating_scopes! {
    a_field_taken_by_force_is_reported_with_its_manager;
    a_deletion_is_reported;
}

const OBJECTS: &str = "baton_repaired_objects_total";
const FIELDS: &str = "baton_repaired_fields_total";
/// A secret value that no output may contain.
const PIN: &str = "geheim-4711";

/// Returns the plugin's name for the revision of a scope.
fn target(ns: &TestNamespace, name: &str) -> String {
    let kind = match ns.scope() {
        Scope::Namespaced => "os",
        Scope::Cluster => "cos",
    };
    format!("{kind}/{}", ns.set_name(name))
}

async fn revision_of(scope: Scope, entry: &Entry) -> TestNamespace {
    let ns = TestNamespace::new(scope).await;
    ns.revision(1)
        .phase("a", [entry.clone()])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns
}

/// Does the same as `kubectl apply --server-side --force-conflicts --field-manager=intruder`.
async fn apply_as_intruder(ns: &TestNamespace, object: Value) {
    ns.cluster().apply(&object, "intruder").await.unwrap();
}

fn map_of(ns: &TestNamespace, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "cm", "namespace": ns.name() },
        "data": data,
    })
}

async fn a_field_taken_by_force_is_reported_with_its_manager(scope: Scope) {
    let cm = configmap("cm").data("k", "v").data("l", "w");
    let ns = revision_of(scope, &cm).await;
    let none = ns.plugin(&["drift", &target(&ns, "v1")]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{none:?}");
    assert_eq!(none.stderr, "No drift found.\n");

    apply_as_intruder(
        &ns,
        map_of(&ns, &json!({ "k": "theirs", "l": "theirs", "m": "theirs" })),
    )
    .await;
    ns.object_becomes(&cm, "repaired", |live| {
        live["data"] == json!({ "k": "v", "l": "w", "m": "theirs" })
    })
    .await;
    let what = format!("ConfigMap {}/cm (.data.k, .data.l by intruder)", ns.name());
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;

    let (kind, namespace) = match scope {
        Scope::Namespaced => ("ObjectSet", ns.name()),
        Scope::Cluster => ("ClusterObjectSet", ""),
    };
    let labels = [
        ("baton_kind", kind),
        ("baton_namespace", namespace),
        ("repaired_kind", "ConfigMap"),
        ("manager", "other"),
    ];
    // All tests share the series of the cluster scope.
    assert!(ns.metrics().sum(OBJECTS, &labels) >= Some(1.0));
    assert!(ns.metrics().sum(FIELDS, &labels) >= Some(2.0));
    if scope == Scope::Namespaced {
        assert_eq!(ns.metrics().sum(OBJECTS, &labels), Some(1.0));
        assert_eq!(ns.metrics().sum(FIELDS, &labels), Some(2.0));
    }

    let reported = ns.plugin(&["drift", &target(&ns, "v1")]);
    assert_eq!(
        (reported.code, reported.stderr.as_str()),
        (1, ""),
        "{reported:?}"
    );
    let owner = format!("{kind}/{}", ns.set_name("v1"));
    for text in [
        "repaired",
        "ConfigMap/cm",
        &owner,
        ".data.k, .data.l by intruder",
    ] {
        assert!(
            reported.stdout.contains(text),
            "{text}: {}",
            reported.stdout
        );
    }
    let json = ns.plugin(&["drift", &target(&ns, "v1"), "-o", "json"]);
    assert_eq!(json.code, 1);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    let item = &value["items"][0];
    assert_eq!(item["fields"][0]["path"], ".data.k");
    assert_eq!(item["fields"][0]["managers"], json!(["intruder"]));
    assert_eq!(
        (&item["repaired"], &item["times"]),
        (&json!(true), &json!(1))
    );
}

async fn a_deletion_is_reported(scope: Scope) {
    let cm = configmap("cm").data("k", "v");
    let ns = revision_of(scope, &cm).await;
    ns.delete(&cm).await;
    let text = format!(
        "Repaired 1 object(s) that differed: ConfigMap {}/cm (deleted)",
        ns.name()
    );
    ns.has_event("Normal", &text).await;
    if scope == Scope::Namespaced {
        let labels = [
            ("baton_namespace", ns.name()),
            ("repaired_kind", "ConfigMap"),
        ];
        assert_eq!(ns.metrics().sum(OBJECTS, &labels), Some(1.0));
        assert_eq!(ns.metrics().sum(FIELDS, &labels), Some(0.0));
    }
    let reported = ns.plugin(&["drift", &target(&ns, "v1"), "-o", "json"]);
    assert_eq!(reported.code, 1, "{reported:?}");
    let value: Value = serde_json::from_str(&reported.stdout).unwrap();
    let item = &value["items"][0];
    assert_eq!(
        (&item["deleted"], &item["object"]),
        (&json!(true), &json!("ConfigMap/cm"))
    );
    let table = ns.plugin(&["drift", &target(&ns, "v1")]).stdout;
    assert!(table.trim_end().ends_with("deleted"), "{table}");
}

/// A removed field has no owner any more, and the server does not report which client removed it.
#[tokio::test]
async fn a_removed_field_is_reported_without_a_manager() {
    let cm = configmap("cm").data("k", "v").label("app", "demo");
    let ns = revision_of(Scope::Namespaced, &cm).await;
    let patch = json!({ "metadata": { "labels": { "app": null } } });
    ns.merge(&cm, &patch).await;
    ns.object_becomes(&cm, "repaired", |live| {
        live["metadata"]["labels"]["app"] == "demo"
    })
    .await;
    let what = format!("ConfigMap {}/cm (.metadata.labels.app removed)", ns.name());
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;
    let labels = [("baton_namespace", ns.name()), ("manager", "unknown")];
    assert_eq!(ns.metrics().sum(OBJECTS, &labels), Some(1.0));
}

/// An autoscaler writes to a subresource, and the managed fields entry names the subresource.
#[tokio::test]
async fn a_change_of_the_scale_is_reported_with_its_manager() {
    let web = object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 1)
        .with("/spec/selector/matchLabels/app", "web")
        .with("/spec/template/metadata/labels/app", "web")
        .with(
            "/spec/template/spec/containers",
            json!([{ "name": "web", "image": "image:1" }]),
        );
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [web.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["Deployment.apps web"])])
        .await;
    ns.cluster().scale(&ns.reference(&web), 3).await.unwrap();
    ns.object_becomes(&web, "repaired", |live| live["spec"]["replicas"] == 1)
        .await;
    let what = format!(
        "Deployment.apps {}/web (.spec.replicas by a-user)",
        ns.name()
    );
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;
}

/// A paused revision repairs nothing, so there is no event: the command compares the objects
/// itself. No output contains values.
#[tokio::test]
async fn the_command_reports_drift_of_a_paused_revision() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (pin, gone) = (
        secret("pin").with("/stringData/pin", PIN),
        configmap("gone"),
    );
    ns.revision(1)
        .phase("a", [pin.clone(), gone.clone()])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True")]).await;
    let drifted = json!({ "stringData": { "pin": format!("{PIN}-2") } });
    ns.merge(&pin, &drifted).await;
    ns.delete(&gone).await;
    ns.gone(&gone).await;

    let reported = ns.plugin(&["drift"]);
    assert_eq!(
        (reported.code, reported.stderr.as_str()),
        (1, ""),
        "{reported:?}"
    );
    let line = |object: &str| {
        let mut lines = reported.stdout.lines();
        let line = lines.find(|line| line.contains(object)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("Secret/pin"),
        "paused now Secret/pin ObjectSet/v1 .data.pin by a-user"
    );
    assert_eq!(
        line("ConfigMap/gone"),
        "paused, missing now ConfigMap/gone ObjectSet/v1"
    );
    for format in ["json", "yaml"] {
        let reported = ns.plugin(&["drift", "-o", format]);
        assert!(
            !reported.stdout.contains(PIN) && reported.stdout.contains(".data.pin"),
            "{reported:?}"
        );
    }

    // The field manager of `stringData` owns another path than the `data` that results from it.
    let text = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pin", "namespace": ns.name() },
        "stringData": { "pin": format!("{PIN}-3") },
    });
    apply_as_intruder(&ns, text).await;
    let reported = ns.plugin(&["drift"]);
    assert!(
        reported.stdout.contains(".data.pin by a-user, intruder\n"),
        "{reported:?}"
    );

    // The resumed revision repairs the objects, and then the repair is reported.
    ns.set_lifecycle("v1", "Active").await;
    ns.object_becomes(&gone, "made again", |live| !live.is_null())
        .await;
    let what = format!("Secret {}/pin (.data.pin by a-user, intruder)", ns.name());
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;
    let reported = ns.plugin(&["drift", "v1"]);
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(
        reported.stdout.contains("repaired") && !reported.stdout.contains("paused"),
        "{reported:?}"
    );
    let namespace = ("NAMESPACE", ns.name());
    let all = ns.plugin(&["drift", "-A"]);
    assert!(
        all.stdout.starts_with(namespace.0) && all.stdout.contains(namespace.1),
        "{all:?}"
    );
}

/// Objects that could not be compared are not reported as free of drift.
#[tokio::test]
async fn objects_that_could_not_be_compared_are_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let empty = ns.plugin(&["drift"]);
    let expected = format!("No resources found in {} namespace.\n", ns.name());
    assert_eq!((empty.code, empty.stderr), (0, expected));
    let (pin, map) = (secret("pin"), configmap("map"));
    ns.revision(1)
        .phase("a", [pin, map])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    let whole = ns.plugin(&["drift"]);
    assert_eq!(
        (whole.code, whole.stderr.as_str()),
        (0, "No drift found.\n")
    );

    // The user may read neither events nor Secrets; drift of the other objects is found.
    let user = ns.unique("narrow");
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["get", "list"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"] },
    ]);
    ns.grant(&user, rules).await;
    let account = format!("--as={user}");
    let run = || ns.plugin(&["drift", &account]);
    ns.eventually("the rights to be there", async || {
        let reported = run();
        reported.code == 0 && !reported.stderr.contains("ConfigMap")
    })
    .await;
    let reported = run();
    for expected in [
        "warning: v1 Secret not compared: ",
        "warning: repairs cannot be read: ",
        "No drift found among the compared objects.\n",
    ] {
        assert!(reported.stderr.contains(expected), "{reported:?}");
    }
    let reported = ns.plugin(&["drift", &account, "-o", "json"]);
    let value: Value = serde_json::from_str(&reported.stdout).unwrap();
    assert_eq!(
        value["warnings"].as_array().map(Vec::len),
        Some(2),
        "{value}"
    );
}

/// A user who may read a revision gets no more information about its objects than the revision's
/// account may read.
#[tokio::test]
async fn only_fields_are_reported_if_the_account_may_not_read_the_object() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let verbs = ["create", "patch", "update", "delete"];
    allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &verbs).await;
    let cm = configmap("cm").data("k", "v");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .spec("serviceAccountName", DEPLOYER)
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    apply_as_intruder(&ns, map_of(&ns, &json!({ "k": "theirs" }))).await;
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "v")
        .await;
    let what = format!("ConfigMap {}/cm (.data.k)", ns.name());
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;
}

/// An apply under the manager's own name adds a field that then belongs to the manager, although no
/// manifest has it.
#[tokio::test]
async fn a_field_added_under_our_manager_name_is_reported_to_readers() {
    for account in [None, Some(DEPLOYER)] {
        let ns = TestNamespace::new(Scope::Namespaced).await;
        let verbs = ["create", "patch", "update", "delete"];
        allow(ns.cluster(), ns.name(), DEPLOYER, &["configmaps"], &verbs).await;
        let cm = configmap("cm").data("k", "v");
        let mut revision = ns.revision(1).phase("a", [cm.clone()]);
        if let Some(account) = account {
            revision = revision.spec("serviceAccountName", account);
        }
        revision
            .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        let mut more = ns.live(&cm).await;
        let metadata = more["metadata"].as_object_mut().unwrap();
        let names = [
            "name",
            "namespace",
            "labels",
            "annotations",
            "ownerReferences",
        ];
        metadata.retain(|key, _| names.contains(&key.as_str()));
        more["data"]["geheim"] = "x".into();
        let taken = ns.cluster().apply(&more, "package-operator").await;
        taken.unwrap();
        ns.object_becomes(&cm, "repaired", |live| live["data"] == json!({ "k": "v" }))
            .await;
        let path = if account.is_none() {
            " (.data.geheim)"
        } else {
            ""
        };
        let what = format!("ConfigMap {}/cm{path}", ns.name());
        ns.has_event(
            "Normal",
            &format!("Repaired 1 object(s) that differed: {what}"),
        )
        .await;
    }
}

/// A value in the server's own format is no drift, and neither are the fields of other managers.
#[tokio::test]
async fn an_equal_value_in_another_format_is_no_drift() {
    let quota = object("v1", "ResourceQuota", "quota")
        .with("/spec/hard/cpu", "1000m")
        .with("/spec/hard/pods", "9");
    let ns = revision_of(Scope::Namespaced, &quota).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "quota", "namespace": ns.name() },
        "spec": { "hard": { "memory": "1Gi" } },
    });
    apply_as_intruder(&ns, theirs).await;
    let none = ns.plugin(&["drift"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{none:?}");
    // The path of a real change is reported, but not the path of a value in another format.
    let patch = json!({ "spec": { "hard": { "pods": "3" } } });
    ns.merge(&quota, &patch).await;
    ns.object_becomes(&quota, "repaired", |live| {
        live["spec"]["hard"]["pods"] == "9"
    })
    .await;
    let what = format!(
        "ResourceQuota {}/quota (.spec.hard.pods by a-user)",
        ns.name()
    );
    ns.has_event(
        "Normal",
        &format!("Repaired 1 object(s) that differed: {what}"),
    )
    .await;
}
