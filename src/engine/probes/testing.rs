//! What the tests of the rules share.

use serde_json::{Value, json};

use super::rule::Rule;

/// What becomes of a rule: `true`, `false`, `error: <why>`, or `refused: <why>`.
pub fn verdict(rule: &str, object: &Value) -> String {
    match Rule::compile(rule) {
        Err(error) => format!("refused: {error}"),
        Ok(rule) => match rule.evaluate(object) {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        },
    }
}

/// Checks rules against [`object`].
pub fn check(rules: &[(&str, &str)]) {
    let object = object();
    for (rule, expected) in rules {
        assert_eq!(verdict(rule, &object), *expected, "{rule}");
    }
}

/// Checks rules that must all hold for [`object`].
pub fn hold(rules: &[&str]) {
    let object = object();
    for rule in rules {
        assert_eq!(verdict(rule, &object), "true", "{rule}");
    }
}

/// An object with a bit of everything.
pub fn object() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "web-1",
            "generation": 3,
            "creationTimestamp": "2024-01-02T03:04:05Z",
            "labels": {"app.kubernetes.io/name": "web", "tier": "front"},
        },
        "spec": {
            "replicas": 3, "ratio": 1.5, "whole": 2.0, "paused": false, "none": null,
            "image": "registry.example.com:5000/web:v1.2", "text": "äbc", "empty": "",
            "items": [{"name": "a", "value": 1}, {"name": "b", "value": 2}, {"name": "c"}],
            "numbers": [3, 1, 2], "floats": [0.5, 1.5], "words": ["b", "a", "b"], "mixed": [1, "a"],
            "huge": 18_446_744_073_709_551_615_u64,
        },
        "status": {
            "replicas": 3,
            "phase": "Running",
            "url": "https://example.com:8443/a b?x=1&x=2",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Progressing", "status": "False"},
            ],
        },
    })
}
