//! Removes fields that servers and programs have added to an object that was read from a cluster.

use std::collections::BTreeMap;

use baton_apis::constants::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_REVISION, API_VERSION, LABEL_CACHE,
};
use serde_json::{Map, Value};

use super::{allocated, text};

/// The fields of the metadata that a server sets.
const OF_SERVER: [&str; 8] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Labels and annotations in which programs store their own state.
const BOOKKEEPING: [&str; 4] = [
    ANNOTATION_LAST_APPLIED,
    ANNOTATION_REVISION,
    LABEL_CACHE,
    "deployment.kubernetes.io/revision",
];

/// Removes the status, and takes the metadata out. Fields that a server sets, and empty ones, are
/// dropped.
pub(super) fn strip(object: &mut Map<String, Value>) -> Map<String, Value> {
    object.remove("status");
    if object
        .get("metadata")
        .is_some_and(|metadata| !metadata["uid"].is_null())
    {
        allocated::strip(object);
    }
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for field in OF_SERVER {
        metadata.remove(field);
    }
    metadata.retain(|_, value| !value.is_null());
    if text(&metadata, "namespace").is_empty() {
        metadata.remove("namespace");
    }
    object.values_mut().for_each(unset_times);
    metadata
}

/// Removes `creationTimestamp: null`, which Go programs write into the metadata of embedded
/// templates.
fn unset_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata")
                && metadata
                    .get("creationTimestamp")
                    .is_some_and(Value::is_null)
            {
                metadata.remove("creationTimestamp");
            }
            map.values_mut().for_each(unset_times);
        }
        Value::Array(items) => items.iter_mut().for_each(unset_times),
        _ => {}
    }
}

/// Takes labels or annotations out of the metadata. Those in which programs store their own state
/// are dropped.
pub(super) fn texts(metadata: &mut Map<String, Value>, field: &str) -> BTreeMap<String, String> {
    let Some(Value::Object(map)) = metadata.remove(field) else {
        return BTreeMap::new();
    };
    let texts = map.into_iter().map(|(key, value)| match value {
        Value::String(text) => (key, text),
        // For servers, a key without a value has an empty text.
        _ => (key, String::new()),
    });
    texts
        .filter(|(key, _)| !BOOKKEEPING.contains(&key.as_str()))
        .collect()
}

/// The owners of an object that was read from a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owners {
    /// No owners, or only revisions: the object is part of a package already.
    None,
    /// A controller, which makes the object.
    Controller(String),
    Others,
}

/// Takes the owners out of the metadata.
pub(super) fn owners(metadata: &mut Map<String, Value>) -> Owners {
    let Some(Value::Array(mut owners)) = metadata.remove("ownerReferences") else {
        return Owners::None;
    };
    let field = |owner: &Value, field: &str| {
        let text = owner.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    owners.retain(|owner| field(owner, "apiVersion") != API_VERSION);
    let mut controllers = owners.iter().filter(|owner| owner["controller"] == true);
    match controllers.next() {
        Some(owner) => {
            Owners::Controller(format!("{}/{}", field(owner, "kind"), field(owner, "name")))
        }
        None if owners.is_empty() => Owners::None,
        None => Owners::Others,
    }
}
