//! Finds errors in an object that are independent of the server.

use serde_json::{Map, Value};

use super::text;

/// The errors that keep an object from being packed. Without errors, `apiVersion`, `kind` and
/// `metadata.name` are texts that are not empty, and `metadata` is a map.
pub(super) fn errors(object: &Map<String, Value>) -> Vec<String> {
    let mut errors = Vec::new();
    for field in ["apiVersion", "kind"] {
        match object.get(field) {
            Some(Value::String(text)) if !text.trim().is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => {
                errors.push(format!("{field} is missing"));
            }
            Some(other) => errors.push(format!("{field} is {}, not a string", type_name(other))),
        }
    }
    let kind = match text(object, "kind") {
        "" => "the object",
        kind => kind,
    };
    let none = Map::new();
    match object.get("metadata") {
        Some(Value::Object(metadata)) => of_metadata(kind, metadata, &mut errors),
        None | Some(Value::Null) => of_metadata(kind, &none, &mut errors),
        Some(other) => errors.push(format!("metadata is {}, not a map", type_name(other))),
    }
    if text(object, "apiVersion").starts_with("kustomize.config.k8s.io/") {
        errors = vec![format!(
            "a {kind} is not an object of a cluster; pack its directory"
        )];
    }
    errors
}

fn of_metadata(kind: &str, metadata: &Map<String, Value>, errors: &mut Vec<String>) {
    match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => {}
        None | Some(Value::Null | Value::String(_)) if metadata.contains_key("generateName") => {
            errors.push(format!(
                "{kind} has metadata.generateName; objects of a revision need a metadata.name"
            ));
        }
        None | Some(Value::Null | Value::String(_)) => {
            errors.push(format!("{kind} has no metadata.name"));
        }
        Some(other) => errors.push(needs_quotes("metadata.name", other)),
    }
    match metadata.get("namespace") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => errors.push(needs_quotes("metadata.namespace", other)),
    }
    // Values that are no texts are a frequent mistake here, and the message of a server does not
    // name the key.
    for field in ["labels", "annotations"] {
        match metadata.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    if !value.is_string() && !value.is_null() {
                        let field = format!("metadata.{field}: {key}");
                        errors.push(needs_quotes(&field, value));
                    }
                }
            }
            Some(other) => {
                errors.push(format!(
                    "metadata.{field} is {}, not a map",
                    type_name(other)
                ));
            }
        }
    }
}

fn needs_quotes(field: &str, value: &Value) -> String {
    format!(
        "{field} is {}, not a string; put it in quotes",
        type_name(value)
    )
}

/// The type of a value, with an article.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
