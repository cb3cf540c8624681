//! Manifests that change from one branch of a union to another one, and nulls: the server's defaults of the old
//! branch belong to nobody.

use baton_integration::prelude::*;
use std::fs;
use tempfile::TempDir;

alternating_scopes! {
    a_branch_is_left_with_its_defaults;
    fields_of_others_keep_their_branch;
    a_null_removes_what_the_revision_had_set;
}

fn workload(kind: &str, name: &str) -> Entry {
    object("apps/v1", kind, name)
        .with("/spec/selector/matchLabels/app", name)
        .with("/spec/template/metadata/labels/app", name)
        .with(
            "/spec/template/spec/containers",
            json!([{ "name": "a", "image": "image:1" }]),
        )
}

/// A kind with a union by `oneOf`, and one by a rule. Both have a default branch.
fn definition(ns: &TestNamespace) -> Entry {
    let group = format!("{}.example.com", ns.name());
    let max = json!({ "type": "object", "properties": { "max": { "type": "integer" } } });
    let strategy = json!({
        "type": "object",
        "default": { "type": "Rolling", "rolling": { "max": 1 } },
        "properties": { "type": { "type": "string" }, "rolling": max },
        "oneOf": [
            { "properties": { "type": { "enum": ["Rolling"] } }, "required": ["rolling"] },
            { "properties": { "type": { "enum": ["Recreate"] } }, "not": { "required": ["rolling"] } },
        ],
    });
    let source = json!({
        "type": "object",
        "default": { "local": { "max": 1 } },
        "properties": { "local": max, "remote": max },
        "x-kubernetes-validations": [
            { "rule": "!(has(self.local) && has(self.remote))", "message": "one excludes the other" },
        ],
    });
    let spec = json!({ "type": "object", "properties": {
        "size": { "type": "integer" }, "strategy": strategy, "source": source,
    } });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let names = json!({ "plural": "unions", "singular": "union", "kind": "Union", "listKind": "UnionList" });
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("unions.{group}")).with(
        "/spec",
        json!({ "group": group, "scope": "Namespaced", "names": names,
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] }),
    )
}

/// Creates the definition of the kind, and waits until it is served.
async fn define(ns: &TestNamespace) {
    let unions = definition(ns);
    ns.create_elsewhere(&unions).await;
    ns.eventually("the kind is established", async || {
        let live = ns
            .cluster()
            .get(&ns.reference(&unions))
            .await
            .unwrap_or_default();
        let conditions = live["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .iter()
            .any(|it| it["type"] == "Established" && it["status"] == "True")
    })
    .await;
}

/// `diff` forecasts the changes of a deployment.
fn forecast_shows_the_branches(ns: &TestNamespace, given: &Value) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("given.yaml");
    fs::write(&path, given.to_string()).unwrap();
    let forecast = ns.plugin(&["diff", "-f", path.to_str().unwrap()]);
    assert_eq!(forecast.code, 1, "{forecast:?}");
    for text in [
        "-    rollingUpdate:",
        "+    type: Recreate",
        "+    type: OnDelete",
        "+    remote:",
        "-    local:",
    ] {
        assert!(
            forecast.stdout.contains(text),
            "{text} is not in:\n{}",
            forecast.stdout
        );
    }
}

async fn a_branch_is_left_with_its_defaults(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    define(&ns).await;
    let version = format!("{}.example.com/v1", ns.name());
    let volumes = "/spec/template/spec/volumes";
    let deployment = workload("Deployment", "web").with("/spec/replicas", 0);
    let stateful = workload("StatefulSet", "db").with("/spec/replicas", 0);
    let custom = object(&version, "Union", "custom").with("/spec/size", 1);
    let before = |settings: &str| {
        [
            configmap("settings").data("k", settings),
            deployment
                .clone()
                .with(volumes, json!([{ "name": "v" }, { "name": "w" }])),
            stateful.clone(),
            custom.clone(),
        ]
    };
    let after = [
        configmap("settings").data("k", "2"),
        deployment
            .clone()
            .with("/spec/strategy/type", "Recreate")
            .with(
                volumes,
                json!([{ "name": "w", "configMap": { "name": "c" } }, { "name": "v" }]),
            ),
        stateful
            .clone()
            .with("/spec/updateStrategy/type", "OnDelete"),
        custom
            .clone()
            .with("/spec/strategy/type", "Recreate")
            .with("/spec/source/remote/max", 2),
    ];
    let web = ns
        .deployment("web")
        .content(ns.content().phase("a", before("1")));
    let web = web.create().await;
    web.concluded_as(1).await;
    let uids = |lives: Vec<Value>| {
        lives
            .iter()
            .map(|live| uid(live).to_owned())
            .collect::<Vec<_>>()
    };
    let read = async || {
        let mut lives = Vec::new();
        for entry in [&deployment, &stateful, &custom] {
            lives.push(ns.live(entry).await);
        }
        lives
    };
    let created = uids(read().await);

    let given = ns
        .deployment("web")
        .content(ns.content().phase("a", after.clone()));
    forecast_shows_the_branches(&ns, &given.manifest());

    web.edit(ns.content().phase("a", after)).await;
    web.concluded_as(2).await;
    let lives = read().await;
    assert_eq!(lives[0]["spec"]["strategy"], json!({ "type": "Recreate" }));
    let sources = lives[0].pointer(volumes).unwrap();
    assert_eq!(sources[0]["name"], "w");
    assert!(sources[0].get("emptyDir").is_none(), "{sources}");
    assert_eq!(sources[1], json!({ "name": "v", "emptyDir": {} }));
    assert_eq!(
        lives[1]["spec"]["updateStrategy"],
        json!({ "type": "OnDelete" })
    );
    let spec = json!({ "size": 1, "strategy": { "type": "Recreate" }, "source": { "remote": { "max": 2 } } });
    assert_eq!(lives[2]["spec"], spec);
    assert_eq!(uids(lives), created);

    web.edit(ns.content().phase("a", before("3"))).await;
    web.concluded_as(3).await;
    let lives = read().await;
    assert_eq!(lives[0]["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(lives[1]["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(lives[2]["spec"]["strategy"]["rolling"], json!({ "max": 1 }));
    assert_eq!(uids(lives), created);
}

/// The refusal has the words of the server, and nothing is written.
async fn fields_of_others_keep_their_branch(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let deployment = workload("Deployment", "web").with("/spec/replicas", 0);
    let settings = |value: &str| configmap("settings").data("k", value);
    ns.revision(1)
        .phase("a", [settings("1"), deployment.clone()])
        .available()
        .await;
    let surge = json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": 3 } } } });
    ns.merge(&deployment, &surge).await;
    let recreate = deployment.clone().with("/spec/strategy/type", "Recreate");
    ns.revision(2)
        .phase("a", [settings("2"), recreate])
        .create()
        .await;
    let wanted = [
        Because("Available", "False", "PreflightError"),
        Says("Available", "spec.strategy.rollingUpdate: Forbidden"),
    ];
    ns.reaches("v2", &wanted).await;
    assert_eq!(ns.live(&settings("1")).await["data"]["k"], "1");
    let strategy = &ns.live(&deployment).await["spec"]["strategy"];
    assert_eq!(strategy["rollingUpdate"]["maxSurge"], 3);
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

/// An apply with a `null` keeps a map: a probe without a handler would be refused.
async fn a_null_removes_what_the_revision_had_set(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let container = |probe: Value| {
        json!([{
            "name": "a", "image": "image:1", "env": null, "resources": null, "livenessProbe": probe,
        }])
    };
    let web = |strategy: Value, probe: Value| {
        workload("Deployment", "web")
            .with("/spec/replicas", 0)
            .with(
                "/spec/strategy",
                json!({ "type": "RollingUpdate", "rollingUpdate": strategy }),
            )
            .with("/spec/template/spec/securityContext", Value::Null)
            .with("/spec/template/spec/containers", container(probe))
    };
    let before = web(
        json!({ "maxSurge": 3 }),
        json!({ "exec": { "command": ["true"] } }),
    );
    ns.revision(1).phase("a", [before]).available().await;
    let after = web(Value::Null, Value::Null);
    ns.revision(2).phase("a", [after.clone()]).available().await;
    let live = ns
        .object_becomes(&after, "observed by its controller", |live| {
            live["status"]["observedGeneration"] == live["metadata"]["generation"]
                && live["metadata"]["annotations"]["package-operator.run/revision"] == "2"
        })
        .await;
    assert_eq!(live["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let container = &live["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("livenessProbe").is_none(), "{container}");
    // Each change of the object causes a pass.
    for n in 0..3 {
        ns.merge(
            &after,
            &json!({ "metadata": { "labels": { "n": n.to_string() } } }),
        )
        .await;
        let version = ns.live(&after).await["metadata"]["resourceVersion"].clone();
        ns.stays(Duration::from_millis(500), "without a write", async || {
            ns.live(&after).await["metadata"]["resourceVersion"] == version
        })
        .await;
    }
}
