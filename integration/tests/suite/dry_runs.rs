//! Dry runs of creates: the server refuses some bodies only in an apply.

use baton_integration::prelude::*;
use futures::{StreamExt as _, stream};

const REFUSED: Expectation<'static> = Because("Available", "False", "PreflightError");

/// Manifests with lists and maps of each type.
fn samples(group: &str) -> Vec<Entry> {
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example/app:1",
            "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "1" }],
            "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 80, "protocol": "UDP" }],
            "resources": { "limits": { "cpu": 1, "memory": "64Mi" } },
            "volumeMounts": [{ "name": "data", "mountPath": "/a" }, { "name": "data", "mountPath": "/b" }],
        })
    };
    let pod = json!({
        "containers": [container("app"), container("helper")],
        "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["a"] }, { "ip": "10.0.0.2", "hostnames": ["a"] }],
        "imagePullSecrets": [{ "name": "a" }, { "name": "b" }],
        "tolerations": [{ "key": "a", "operator": "Exists" }, { "key": "b", "operator": "Exists" }],
        "topologySpreadConstraints": [
            { "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway" },
            { "topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway" },
        ],
        "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "more", "emptyDir": {} }],
    });
    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": pod });
    let selector = json!({ "matchLabels": { "app": "a" } });
    let ports = json!([
        { "name": "a", "port": 80, "protocol": "TCP" }, { "name": "b", "port": 80, "protocol": "UDP" },
    ]);
    vec![
        configmap("odd").data("a", "1").annotation("note", "1"),
        secret("odd").with("/stringData", json!({ "a": "1" })).with("/type", "Opaque"),
        object("apps/v1", "Deployment", "odd")
            .with("/spec", json!({ "replicas": 1, "selector": selector, "template": template })),
        object("v1", "Service", "odd").with(
            "/spec",
            json!({ "selector": { "app": "a" }, "ports": ports, "ipFamilies": ["IPv4"] }),
        ),
        object("v1", "ServiceAccount", "odd")
            .with("/secrets", json!([{ "name": "a" }, { "name": "b" }])),
        object("networking.k8s.io/v1", "NetworkPolicy", "odd").with(
            "/spec",
            json!({
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{ "ports": [{ "port": 80 }, { "port": 81 }] }],
            }),
        ),
        object("rbac.authorization.k8s.io/v1", "Role", "odd").with(
            "/rules",
            json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }]),
        ),
        object(&format!("{group}/v1"), "Tool", "odd").with(
            "/spec",
            json!({
                "keyed": [{ "id": "a", "kind": "x", "size": 1 }, { "id": "b", "kind": "x", "size": 2 }],
                "unique": ["a", "b"], "free": { "any": [1, 1] },
            }),
        ),
    ]
}

/// The definition of a kind with an associative list, a set and a part without schema.
fn definition(group: &str) -> Entry {
    let text = json!({ "type": "string" });
    let entry = json!({
        "type": "object", "required": ["id"],
        "properties": { "id": text, "kind": { "type": "string", "default": "x" }, "size": { "type": "integer" } },
    });
    let keyed = json!({
        "type": "array", "items": entry,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "kind"],
    });
    let spec = json!({ "type": "object", "properties": {
        "keyed": keyed,
        "unique": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    } });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    tool_definition(group, "Namespaced", &schema)
}

/// The pointers of all values of an object, except its identity.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let identity = [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
    ];
    if identity.contains(&at) {
        return;
    }
    if !at.is_empty() {
        found.push(at.to_owned());
    }
    match value {
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointers(value, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                pointers(
                    value,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        _ => {}
    }
}

/// Returns all objects that differ from a manifest in one value, each with a description of it.
fn variants(manifest: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    pointers(manifest, "", &mut found);
    for pointer in found {
        let present = manifest.pointer(&pointer).unwrap();
        let is_metadata = pointer == "/metadata";
        let mut others = Vec::new();
        if !is_metadata {
            others.extend([
                json!(null),
                json!(7),
                json!(1.5),
                json!(true),
                json!("text"),
                json!(""),
                json!("a\u{7f}b"),
                json!("a\u{85}b"),
                json!("a\u{2028}b"),
                json!([]),
                json!({}),
            ]);
        }
        match present {
            Value::Array(list) => {
                let with = |entry: Value| json!([list.as_slice(), &[entry]].concat());
                others.extend(list.iter().cloned().map(with));
                others.extend([with(json!(null)), with(json!({}))]);
            }
            Value::Object(fields) => {
                let with = |key: &str, value: Value| {
                    let mut fields = fields.clone();
                    fields.insert(key.to_owned(), value);
                    json!(fields)
                };
                others.extend([
                    with("unknown", json!("x")),
                    with(&"x".repeat(1100), json!("x")),
                    with("managedFields", json!([{ "manager": "x" }])),
                ]);
                for key in fields.keys().filter(|_| !is_metadata) {
                    let mut fields = fields.clone();
                    fields.remove(key);
                    others.push(json!(fields));
                }
            }
            _ => {}
        }
        for value in others {
            let mut variant = manifest.clone();
            let text = value.to_string();
            variant.pointer_mut(&pointer).unwrap().clone_from(&value);
            all.push((
                format!("{pointer} = {}", text.chars().take(60).collect::<String>()),
                variant,
            ));
        }
    }
    all
}

/// Each body that the server accepts in a POST and refuses in an apply stops its phase before the
/// first write, also after an accepted apply of its kind.
#[tokio::test]
async fn what_only_an_apply_refuses_stops_the_phase() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let group = format!("{}.example.com", ns.name());
    let crd = definition(&group);
    ns.create_elsewhere(&crd).await;
    let samples = samples(&group);
    ns.eventually("the kind to be served", async || {
        let object = ns.reference(samples.last().unwrap());
        ns.cluster().try_apply(&object).await.is_ok()
    })
    .await;
    let mut all = Vec::new();
    for sample in &samples {
        let title = sample.kind();
        all.extend(
            variants(&ns.reference(sample))
                .into_iter()
                .map(|(text, it)| (format!("{title} {text}"), it)),
        );
    }
    let judged = stream::iter(all).map(async |(text, manifest)| {
        let cluster = ns.cluster();
        let posted = cluster.try_post(&manifest).await.is_ok();
        let applied = if posted {
            cluster.try_apply(&manifest).await.err()
        } else {
            None
        };
        applied.map(|refused| (text, manifest, refused.message))
    });
    let dangerous: Vec<_> = judged
        .buffer_unordered(8)
        .filter_map(async |it| it)
        .collect()
        .await;
    // Duplicates, missing keys, null, characters and keys that YAML does not have, managed fields.
    assert!(dangerous.len() > 50, "{}", dangerous.len());

    let mut refused = 0;
    for (round, some) in dangerous.chunks(15).enumerate() {
        // The manager learns, for the next minute, that it may apply these kinds.
        let known = samples.iter().map(|sample| {
            let name = format!("known-{round}");
            sample.clone().with("/metadata/name", name)
        });
        let set = ns.set(&format!("known-{round}"));
        set.phase("a", known).available().await;
        let mut created = Vec::new();
        for (number, (text, manifest, message)) in some.iter().enumerate() {
            let name = format!("odd-{round}-{number}");
            let mut odd = Entry::from(manifest.clone());
            odd.manifest["metadata"]["name"] = name.as_str().into();
            let beside = configmap(&format!("beside-{round}-{number}"));
            // The last object of a phase is written first, without a dry run.
            let set = ns.set(&name).phase("a", [odd, beside.clone()]);
            // The schema of revisions refuses some of them.
            if set.try_create().await.is_ok() {
                created.push((text, message, beside, name));
            }
        }
        for (text, message, beside, set) in created {
            // The manager sends no managed fields, so it can apply some of them.
            ns.eventually(&format!("a decision about {text}"), async || {
                let set = ns.read_set(&set).await;
                set.has(&[REFUSED]) || set.has(&[Is("Available", "True")])
            })
            .await;
            if ns.read_set(&set).await.has(&[REFUSED]) {
                refused += 1;
                assert_eq!(ns.get(&beside).await, None, "{text}: {message}");
            }
        }
    }
    assert!(refused > 40, "{refused}");
}
