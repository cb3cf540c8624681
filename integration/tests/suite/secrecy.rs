//! A user who may read revisions, events and the log cannot read values of objects there.

use baton_integration::prelude::*;

alternating_scopes! {
    values_of_fields_are_never_quoted;
}

const DECODED: &str = "hunter2";
const ENCODED: &str = "aHVudGVyMg==";
const PIN: i64 = 271_828;

async fn values_of_fields_are_never_quoted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let hidden = |name: &str| secret(name).data("password", ENCODED);
    let selector = json!({ "kind": { "group": "", "kind": "Secret" } });
    let on_secrets = |probes: Value| json!({ "selector": selector, "probes": probes });
    let equal =
        json!({ "fieldsEqual": { "fieldA": ".data.password", "fieldB": ".metadata.name" } });
    let cel = |rule: &str| json!({ "cel": { "rule": rule, "message": "no" } });
    for (name, entry, probe, text) in [
        (
            "equal",
            hidden("equal"),
            equal,
            "expected: a string of 12 bytes got: a string of 5 bytes",
        ),
        (
            "key",
            hidden("key"),
            cel("self.data[self.data.password] == ''"),
            "no such key, of 12 bytes",
        ),
        (
            "zone",
            hidden("zone"),
            cel("timestamp('2024-01-02T03:04:05Z').getHours(self.data.password) == 1"),
            "invalid time zone",
        ),
        // Values that the server itself quotes in its messages.
        (
            "port",
            object("v1", "Service", "port").with(
                "/spec",
                json!({ "ports": [{ "port": 1, "name": "hunter2 is no label" }] }),
            ),
            cel("true"),
            "Invalid value: a string of 19 bytes",
        ),
        (
            "typed",
            secret("typed").with("/stringData", json!({ "pin": PIN })),
            cel("true"),
            ".stringData.pin",
        ),
    ] {
        ns.set(name)
            .phase("a", [entry])
            .probe(on_secrets(json!([probe])))
            .reaching(&[Is("Available", "False"), Says("Available", text)])
            .await;
    }
    let namespace = match scope {
        Scope::Namespaced => ns.name(),
        Scope::Cluster => "default",
    };
    let like = object("v1", "Event", "").within(namespace).manifest;
    let refused = ns.set_name("typed");
    ns.eventually("an event about the refusal", async || {
        let events = ns.cluster().list(&like, "").await;
        events
            .iter()
            .any(|event| event["involvedObject"]["name"] == *refused)
    })
    .await;
    let mut texts: Vec<String> = ns
        .cluster()
        .list(&like, "")
        .await
        .iter()
        .map(|event| event["message"].to_string())
        .collect();
    for name in ["equal", "key", "zone", "port", "typed"] {
        texts.push(ns.read_set(name).await.json["status"].to_string());
    }
    for text in texts {
        for value in [DECODED, ENCODED, &PIN.to_string()] {
            assert!(!text.contains(value), "{value} is quoted: {text}");
        }
    }
}
