//! Masks the values of Secrets.
//!
//! A Secret is found at any place: as the object itself, or inside another object, such as a nested
//! `ObjectSet`. Its `data` and `stringData` keep their keys, and every value becomes `***`. If the
//! two sides have different values, they become `*** (before)` and `*** (after)`, as in `kubectl
//! diff`. Copies of a manifest in annotations are masked as a whole.

use std::collections::BTreeMap;

use baton_apis::constants::ANNOTATION_LAST_APPLIED;
use baton_engine::diff::is_secret;
use serde_json::Value;

use crate::object::text_at;

const MASK: &str = "***";
const MASK_BEFORE: &str = "*** (before)";
const MASK_AFTER: &str = "*** (after)";

/// The fields of a Secret that contain values.
const SECRET_FIELDS: [&str; 2] = ["data", "stringData"];

/// The place of a value: the identity of its object, the field, and the key in the field.
type SecretField = (String, &'static str, String);

/// The masked values of one side. Values at the same place are compared with each other, wherever
/// in the tree their object is.
type Values = BTreeMap<SecretField, Value>;

/// Masks the values of all Secrets on two sides of a comparison.
pub fn mask(before: Option<&mut Value>, after: Option<&mut Value>) {
    let hidden = |side: Option<&Value>| {
        let mut values = Values::new();
        if let Some(side) = side {
            visit(&mut side.clone(), &mut |pointer, value| {
                values.insert(pointer, value.clone());
            });
        }
        values
    };
    let (old, new) = (hidden(before.as_deref()), hidden(after.as_deref()));
    for (side, others, changed) in [(before, &new, MASK_BEFORE), (after, &old, MASK_AFTER)] {
        if let Some(side) = side {
            visit(side, &mut |pointer, value| {
                let differs = others.get(&pointer).is_some_and(|other| other != value);
                *value = if differs { changed } else { MASK }.into();
            });
        }
    }
}

/// Masks the values of a manifest in a text, such as the message of a server.
pub fn redact(text: &str, manifest: &Value) -> String {
    let mut hidden: Vec<String> = Vec::new();
    visit(&mut manifest.clone(), &mut |(_, field, _), value| {
        collect(value, &mut hidden);
        if let (Some(bytes), "data") = (decoded(value), field) {
            hidden.extend(String::from_utf8(bytes));
        }
    });
    // The longest first, because a value can be part of another one.
    hidden.retain(|value| !value.is_empty());
    hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
    hidden
        .iter()
        .fold(text.to_owned(), |text, value| text.replace(value, MASK))
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(value.clone()).ok()?;
    Some(bytes.0)
}

/// Calls `hide` with each value to mask.
fn visit(value: &mut Value, hide: &mut impl FnMut(SecretField, &mut Value)) {
    let object = Some(&*value).filter(|value| value.is_object());
    let identity = object.map(identity).unwrap_or_default();
    let is_secret = is_secret(value);
    match value {
        Value::Object(fields) => {
            if is_secret {
                for field in SECRET_FIELDS {
                    match fields.get_mut(field) {
                        None | Some(Value::Null) => {}
                        Some(Value::Object(values)) => {
                            for (key, value) in values {
                                hide((identity.clone(), field, key.clone()), value);
                            }
                        }
                        // Not a map, so the manifest is invalid, but its content is still secret.
                        Some(other) => hide((identity.clone(), field, String::new()), other),
                    }
                }
            }
            let annotations = fields
                .get_mut("metadata")
                .and_then(|metadata| metadata.get_mut("annotations"))
                .and_then(Value::as_object_mut);
            for (name, value) in annotations.into_iter().flatten() {
                if is_telling(name, value, is_secret) {
                    hide((identity.clone(), "annotations", name.clone()), value);
                }
            }
            for (name, value) in fields {
                if !is_secret || !SECRET_FIELDS.contains(&name.as_str()) {
                    visit(value, hide);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, hide)),
        _ => {}
    }
}

/// True if an annotation can contain the values of a Secret.
///
/// On a Secret, this is any manifest. On other objects, it is the copy that `kubectl apply` stores,
/// if it contains a Secret.
fn is_telling(name: &str, value: &Value, on_secret: bool) -> bool {
    let Some(text) = value.as_str() else {
        return on_secret || name == ANNOTATION_LAST_APPLIED;
    };
    let parsed = serde_json::from_str::<Value>(text);
    match parsed {
        _ if on_secret && name == ANNOTATION_LAST_APPLIED => true,
        Ok(parsed) if on_secret => parsed.is_object() || parsed.is_array(),
        Ok(parsed) if name == ANNOTATION_LAST_APPLIED => holds_secret(&parsed),
        Err(_) => name == ANNOTATION_LAST_APPLIED,
        Ok(_) => false,
    }
}

fn holds_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => is_secret(value) || fields.values().any(holds_secret),
        Value::Array(items) => items.iter().any(holds_secret),
        _ => false,
    }
}

/// The identity of an object: kind, namespace and name.
fn identity(object: &Value) -> String {
    let pointers = ["/kind", "/metadata/namespace", "/metadata/name"];
    let [kind, namespace, name] = pointers.map(|pointer| text_at(object, pointer));
    format!("{kind} {namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn masked(before: &str, after: &str) -> (Value, Value) {
        let (mut before, mut after) = (yaml(before), yaml(after));
        mask(Some(&mut before), Some(&mut after));
        (before, after)
    }

    /// Masks the `data` of a Secret on both sides.
    fn check(before: &str, after: &str, expected_before: &str, expected_after: &str) {
        let secret = |field: &str, data: &str| {
            format!("{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, {field}: {data}}}")
        };
        for field in SECRET_FIELDS {
            let masked = masked(&secret(field, before), &secret(field, after));
            let expected = (
                yaml(&secret(field, expected_before)),
                yaml(&secret(field, expected_after)),
            );
            assert_eq!(masked, expected, "{field}");
        }
    }

    #[test]
    fn values_of_secrets_are_masked() {
        check("{a: eA==}", "{a: eA==}", "{a: '***'}", "{a: '***'}");
        check(
            "{a: eA==}",
            "{a: eQ==}",
            "{a: '*** (before)'}",
            "{a: '*** (after)'}",
        );
        check("{a: eA==}", "{b: eA==}", "{a: '***'}", "{b: '***'}");
        check("{a: eA==}", "{}", "{a: '***'}", "{}");
        check("{a: eA==}", "null", "{a: '***'}", "null");
        // Values that no server accepts are masked as well.
        check(
            "{a: 7}",
            "{a: {b: [x]}}",
            "{a: '*** (before)'}",
            "{a: '*** (after)'}",
        );
        check("[a, b]", "eA==", "'*** (before)'", "'*** (after)'");
        // A real value that looks like a mask.
        check(
            "{a: '***'}",
            "{a: x}",
            "{a: '*** (before)'}",
            "{a: '*** (after)'}",
        );
    }

    #[test]
    fn a_side_may_be_missing() {
        let secret = "{apiVersion: v1, kind: Secret, data: {a: eA==}}";
        let expected = yaml("{apiVersion: v1, kind: Secret, data: {a: '***'}}");
        let mut only = yaml(secret);
        mask(None, Some(&mut only));
        assert_eq!(only, expected);
        let mut only = yaml(secret);
        mask(Some(&mut only), None);
        assert_eq!(only, expected);
        mask(None, None);
    }

    #[test]
    fn other_objects_are_shown() {
        for text in [
            "{apiVersion: v1, kind: ConfigMap, data: {a: x}}",
            "{apiVersion: example.com/v1, kind: Secret, data: {a: x}}",
            "{apiVersion: v1, kind: Secret, type: Opaque, immutable: true, metadata: {name: s, annotations: {a: b, \
                 c: '7'}}}",
            "x",
        ] {
            assert_eq!(masked(text, text), (yaml(text), yaml(text)));
        }
    }

    #[test]
    fn nested_secrets_are_compared_by_name_not_by_place() {
        let set = |objects: &str| {
            format!("{{kind: ObjectSet, spec: {{phases: [{{objects: [{objects}]}}]}}}}")
        };
        let secret = |name: &str, value: &str| {
            format!(
                "{{object: {{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, data: {{k: '{value}'}}}}}}"
            )
        };
        let (before, after) = masked(
            &set(&secret("a", "1")),
            &set(&format!("{}, {}", secret("b", "2"), secret("a", "1"))),
        );
        assert_eq!(before, yaml(&set(&secret("a", "***"))));
        let expected = set(&format!("{}, {}", secret("b", "***"), secret("a", "***")));
        assert_eq!(after, yaml(&expected));
        let (_, after) = masked(&set(&secret("a", "1")), &set(&secret("a", "2")));
        assert_eq!(after, yaml(&set(&secret("a", "*** (after)"))));
    }

    #[test]
    fn copies_of_manifests_in_annotations() {
        let object = |kind: &str, annotations: &Value| {
            serde_json::json!({"apiVersion": "v1", "kind": kind,
                "metadata": {"name": "x", "annotations": annotations}})
        };
        let copy = r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"eA=="}}"#;
        let check = |kind, name: &str, before: &str, after: &str, expected: (&str, &str)| {
            let mut before = object(kind, &serde_json::json!({ name: before }));
            let mut after = object(kind, &serde_json::json!({ name: after }));
            mask(Some(&mut before), Some(&mut after));
            assert_eq!(before["metadata"]["annotations"][name], expected.0);
            assert_eq!(after["metadata"]["annotations"][name], expected.1);
        };
        check("Secret", ANNOTATION_LAST_APPLIED, copy, copy, (MASK, MASK));
        check(
            "Secret",
            ANNOTATION_LAST_APPLIED,
            copy,
            "{}",
            (MASK_BEFORE, MASK_AFTER),
        );
        // Truncated, so that it cannot be parsed.
        check(
            "Secret",
            ANNOTATION_LAST_APPLIED,
            &copy[..40],
            &copy[..40],
            (MASK, MASK),
        );
        check(
            "List",
            ANNOTATION_LAST_APPLIED,
            &copy[..40],
            &copy[..40],
            (MASK, MASK),
        );
        check("Secret", "kapp.k14s.io/original", copy, copy, (MASK, MASK));
        let list = format!(r#"{{"kind":"List","items":[{copy}]}}"#);
        check("List", ANNOTATION_LAST_APPLIED, &list, &list, (MASK, MASK));
        let harmless = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}"#;
        check(
            "ConfigMap",
            ANNOTATION_LAST_APPLIED,
            harmless,
            harmless,
            (harmless, harmless),
        );
        check("ConfigMap", "other", harmless, "x", (harmless, "x"));
        check("Secret", "other", "plain text", "7", ("plain text", "7"));
    }

    #[test]
    fn messages_of_servers_are_redacted() {
        let secret = yaml(
            "{apiVersion: v1, kind: Secret, data: {a: aHVudGVyMg==}, stringData: {pin: 123456, empty: '', deep: \
                 [tief]}}",
        );
        assert_eq!(
            redact(
                "expected string, got Value:123456 hunter2 aHVudGVyMg== tief",
                &secret
            ),
            "expected string, got Value:*** *** *** ***"
        );
        let harmless = yaml("{apiVersion: v1, kind: ConfigMap, data: {a: hunter2}}");
        assert_eq!(redact("hunter2", &harmless), "hunter2");
    }
}
