//! Checks of manifests that do not depend on the kind.

use serde_json::Value;

use crate::owners::RESERVED;

/// Fields of another type than in any object.
///
/// The schema refuses some of them. A dry run would refuse the others, but never receives them,
/// because the preparation of a manifest replaces a value that should be a map.
pub(super) fn malformed(manifest: &Value) -> Vec<String> {
    let given = |path: &str| manifest.pointer(path).filter(|value| !value.is_null());
    let is_text_map = |value: &Value| {
        let map = value.as_object();
        map.is_some_and(|map| {
            map.values()
                .all(|value| value.is_string() || value.is_null())
        })
    };
    let mut found = Vec::new();
    if !manifest.is_object() {
        found.push("Object must be a map.".to_owned());
    }
    if given("/metadata").is_some_and(|metadata| !metadata.is_object()) {
        found.push("metadata must be a map.".to_owned());
    }
    for path in [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
    ] {
        if given(path).is_some_and(|value| !value.is_string()) {
            let field = path[1..].replace('/', ".");
            found.push(format!("{field} must be a string."));
        }
    }
    for field in ["labels", "annotations"] {
        let map = given(&format!("/metadata/{field}"));
        if map.is_some_and(|map| !is_text_map(map)) {
            found.push(format!("metadata.{field} must be a map of strings."));
        }
    }
    let owners = given("/metadata/ownerReferences");
    if owners.is_some_and(|owners| !owners.is_array()) {
        found.push("metadata.ownerReferences must be a list.".to_owned());
    }
    found
}

/// Fields of the metadata that a manifest of a delegated phase must not have.
const FORBIDDEN: [&str; 6] = [
    "uid",
    "generation",
    "generateName",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
];

/// Returns a violation for each forbidden field that is set.
pub(super) fn forbidden(manifest: &Value) -> impl Iterator<Item = String> {
    let is_set = |field: &&str| match manifest.pointer("/metadata").and_then(|m| m.get(*field)) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    let found: Vec<_> = FORBIDDEN.into_iter().filter(is_set).collect();
    found
        .into_iter()
        .map(|field| format!("metadata.{field} must not be set."))
}

/// Returns a violation if a manifest has an annotation about the owners in other clusters. It would
/// replace that of Baton.
pub(super) fn owners_annotation(manifest: &Value) -> Option<String> {
    let annotations = manifest.pointer("/metadata/annotations")?;
    let mut reserved = RESERVED.into_iter();
    let found = reserved.find(|name| annotations.get(name).is_some())?;
    Some(format!("metadata.annotations must not have {found}."))
}
