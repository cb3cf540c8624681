//! Shared helpers for the tests of rules.

use serde_json::{Value, json};

use crate::cel::Rule;
use crate::cel::functions::FUNCTIONS;
use crate::cel::types::Ty;

/// The result of a rule: `true`, `false`, `error: <cause>`, or `refused: <cause>`.
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

/// An object with values of every type.
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

/// The same object with unmistakable values: texts of letters for private use, numbers with many
/// eights.
pub fn with_unique_values(object: &Value) -> Value {
    match object {
        Value::String(text) => text.chars().map(private).collect::<String>().into(),
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or_default().unsigned_abs();
            json!(88_888_000 + number % 1000)
        }
        Value::Array(items) => items.iter().map(with_unique_values).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), with_unique_values(value)))
            .collect(),
        Value::Null | Value::Bool(_) => object.clone(),
    }
}

fn private(char: char) -> char {
    let letter = 0xe000 + u32::from(char) % 0x1000;
    char::from_u32(letter).unwrap_or('\u{e000}')
}

/// True if a text contains a value of [`with_unique_values`].
pub fn quotes(text: &str) -> bool {
    let is_private = |char| matches!(char, '\u{e000}'..='\u{efff}');
    text.contains(is_private) || text.contains("8888")
}

/// All declarations of functions as `(name, member, parameters, result)`.
pub fn declared() -> Vec<(&'static str, bool, &'static [Ty], &'static Ty)> {
    FUNCTIONS
        .iter()
        .flat_map(|(name, overloads)| overloads.iter().map(move |overload| (name, overload)))
        .map(|(name, overload)| {
            let parameters = overload.parameters.as_slice();
            (name.as_str(), overload.member, parameters, &overload.result)
        })
        .collect()
}
