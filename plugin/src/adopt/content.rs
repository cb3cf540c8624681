//! The content of a revision for an existing object, such that the take-over changes nothing.
//!
//! The fields are those of the former tool: by its record (the manifest of a Helm release, the last
//! apply of kubectl), or else by the fields that it owns. The values are those of the cluster,
//! because the take-over would change drifted values otherwise.
//!
//! The revision takes over all fields that the tool owns. Its first apply removes those that it
//! does not have, unless the server has set them: the entry of an update owns the server's defaults
//! as well. [`Content::without`] is the object that this would leave, for the server to complete.

use baton_apis::constants::{ANNOTATION_LAST_APPLIED, ANNOTATIONS_OF_TOOLS};
use baton_engine::diff::{
    Marker, encode_texts,
    legacy::{entries, migrated},
    owned_fields,
};
use baton_view::{
    diff::{clean::clean_live, project::project},
    object::text_at,
};
use serde_json::{Map, Value};

/// The annotation in which kapp records its last apply.
const ANNOTATION_OF_KAPP: &str = "kapp.k14s.io/original";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// The fields of the tool, with the values of the cluster.
    pub(crate) concise: Value,
    /// The fields of the tool and the server's defaults that it owns, with the values of the
    /// cluster.
    pub(crate) full: Value,
    /// The object that would be left if the content was applied in place of the former tool; `None`
    /// if that is the live object.
    pub(crate) without: Option<Value>,
    /// The content that the tool wants, if its record has it.
    pub(crate) wanted: Option<Value>,
}

/// The last apply that annotations of an object record, if it is of the same version.
pub(crate) fn recorded(live: &Value) -> Option<Value> {
    let annotations = live.pointer("/metadata/annotations")?;
    [ANNOTATION_LAST_APPLIED, ANNOTATION_OF_KAPP]
        .into_iter()
        .filter_map(|name| annotations.get(name)?.as_str())
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .find(|record| {
            ["/apiVersion", "/kind", "/metadata/name"]
                .iter()
                .all(|pointer| text_at(record, pointer) == text_at(live, pointer))
        })
}

/// Computes the content for an object. `wanted` is the content of a record; the revision takes over
/// the fields of `former` managers.
pub(crate) fn content(live: &Value, wanted: Option<Value>, former: &[String]) -> Content {
    let mut theirs = live.clone();
    if let Some(entries) = migrated(live, former) {
        theirs["metadata"]["managedFields"] = entries.into();
    }
    let owned = owned_fields(&theirs);
    let owned = owned.as_deref().and_then(Value::as_object);
    let owned = owned.filter(|_| is_of_version(&theirs, live));
    let wanted = wanted.map(|wanted| {
        let mut wanted = without_nulls(wanted);
        encode_texts(&mut wanted);
        wanted
    });
    let (concise, full) = match (&wanted, owned) {
        (Some(wanted), Some(_)) => (project(live, wanted), project(&theirs, wanted)),
        (Some(wanted), None) => (project(live, wanted), project(live, wanted)),
        (None, Some(_)) => {
            let owned = project(&theirs, &Value::Object(Map::new()));
            (owned.clone(), owned)
        }
        (None, None) => (live.clone(), live.clone()),
    };
    let full = dressed(full, live);
    let mut concise = dressed(concise, live);
    // Tools add labels and annotations to the content of their records.
    concise["metadata"] = full["metadata"].clone();
    let without = owned.and_then(|owned| pruned(live, owned, Some(&concise)));
    Content {
        without: without.filter(|without| without != live),
        concise,
        full,
        wanted,
    }
}

impl Content {
    /// The content of the record. The values of the live object are ignored.
    pub(crate) fn as_recorded(&self) -> Value {
        let Some(mut wanted) = self.wanted.clone() else {
            return self.concise.clone();
        };
        let mut metadata = self.full["metadata"].clone();
        for field in ["labels", "annotations"] {
            if let Some(Value::Object(texts)) = wanted.pointer(&format!("/metadata/{field}")) {
                for (key, value) in texts {
                    metadata[field][key] = value.clone();
                }
            }
        }
        wanted["metadata"] = metadata;
        wanted
    }

    /// True if the live object differs from the record. The difference may be only in notation,
    /// which the server decides.
    pub(crate) fn may_have_drifted(&self) -> bool {
        let spec = |object: &Value| {
            let mut object = object.clone();
            if let Some(fields) = object.as_object_mut() {
                fields.remove("metadata");
                fields.remove("status");
            }
            object
        };
        let wanted = self.wanted.as_ref();
        wanted.is_some_and(|wanted| spec(wanted) != spec(&self.concise))
    }
}

/// True if the entry has the paths of the object's version.
fn is_of_version(theirs: &Value, live: &Value) -> bool {
    let mut entries = entries(theirs).iter();
    let ours = entries.find(|entry| entry.get("fieldsV1") == owned_fields(theirs).as_deref());
    ours.is_some_and(|entry| entry.get("apiVersion") == live.get("apiVersion"))
}

/// A part of a live object with its identity, and without the fields that are no content.
fn dressed(part: Value, live: &Value) -> Value {
    let mut part = clean_live(part);
    for field in ["apiVersion", "kind"] {
        part[field] = live[field].clone();
    }
    if !part["metadata"].is_object() {
        part["metadata"] = Map::new().into();
    }
    // A UID marks an object of a server, and has it stripped of fields that only fit that server.
    for field in ["name", "namespace", "uid"] {
        if let Some(value) = live.pointer(&format!("/metadata/{field}")) {
            part["metadata"][field] = value.clone();
        }
    }
    let annotations = part.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !ANNOTATIONS_OF_TOOLS.contains(&name.as_str()));
        if annotations.is_empty()
            && let Some(metadata) = part["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    part
}

/// An object without the fields that are owned and not wanted; `None` if nothing is left.
fn pruned(live: &Value, owned: &Map<String, Value>, wanted: Option<&Value>) -> Option<Value> {
    if owned.keys().all(|marker| marker == ".") {
        return wanted.is_some().then(|| live.clone());
    }
    match live {
        Value::Object(fields) => {
            let rest = fields.iter().filter_map(|(name, value)| {
                let below = owned.get(&format!("f:{name}")).and_then(Value::as_object);
                let left = match below {
                    Some(below) => pruned(value, below, wanted.and_then(|it| it.get(name)))?,
                    None => value.clone(),
                };
                Some((name.clone(), left))
            });
            let rest: Map<String, Value> = rest.collect();
            (wanted.is_some() || !rest.is_empty()).then_some(rest.into())
        }
        Value::Array(items) => {
            let none = Vec::new();
            let wanted_items = wanted.and_then(Value::as_array).unwrap_or(&none);
            let rest = items.iter().filter_map(|item| {
                let markers = owned.iter();
                let mut markers = markers.map(|(marker, below)| (Marker::parse(marker), below));
                let Some((marker, below)) = markers.find(|(marker, _)| marker.is_of(item)) else {
                    return Some(item.clone());
                };
                let mut wanted_items = wanted_items.iter();
                let wanted = wanted_items.find(|wanted| marker.may_be_of(wanted))?;
                match below.as_object() {
                    Some(below) => pruned(item, below, Some(wanted)),
                    None => Some(item.clone()),
                }
            });
            let rest: Vec<Value> = rest.collect();
            (wanted.is_some() || !rest.is_empty()).then_some(rest.into())
        }
        other => wanted.is_some().then(|| other.clone()),
    }
}

/// Removes fields that are null. Templates write them, and servers ignore them.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for field in fields.values_mut() {
                *field = without_nulls(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        _ => {}
    }
    value
}

#[cfg(test)]
#[path = "content/tests.rs"]
mod tests;
