//! Reads fields of live objects. Works on plain JSON, because the kinds of
//! children are unknown at build time.

use baton_apis::{
    ControlledObjectReference,
    constants::{ANNOTATION_REVISION, API_VERSION, GROUP},
};
use serde_json::{Map, Value, json};

use crate::{Gvk, ObjectKey, Precondition};

/// The identity of a revision in owner references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `ObjectSet` or `ClusterObjectSet`.
    pub kind: String,
    /// Namespace, empty for the cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// True if the objects of the revision are in another cluster than the revision.
    pub is_remote: bool,
    /// UID of the hub of the revision, for owners in other clusters; empty if it is not known.
    pub hub: String,
    /// The chain of the revision, for owners in other clusters: the label of its revisions and the value
    /// of that label. Empty if no label shows the chain.
    pub chain: String,
}

impl Identity {
    /// The controller reference on objects that this revision owns.
    pub fn controller_reference(&self) -> Value {
        if self.is_remote {
            let mut reference = json!({
                "apiVersion": API_VERSION,
                "kind": self.kind,
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "controller": true,
            });
            for (field, value) in [("hub", &self.hub), ("chain", &self.chain)] {
                if !value.is_empty() {
                    reference[field] = value.as_str().into();
                }
            }
            return reference;
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// True if an owner reference names this revision, by group, kind, name and uid.
    pub fn is(&self, reference: &Value) -> bool {
        text(reference, "uid") == self.uid
            && text(reference, "kind") == self.kind
            && text(reference, "name") == self.name
            && is_of_own_group(reference)
    }

    /// True if an owner reference is an entry of the annotation, in the own hub, that names this revision
    /// or one of its chain, with whatever UID.
    ///
    /// # Caveats
    /// The owner need not exist: the hub may have been restored from a backup that lacks it.
    pub fn is_chain_of(&self, reference: &Value) -> bool {
        let is_same = |field, own: &str| !own.is_empty() && text(reference, field) == own;
        reference.get("namespace").and_then(Value::as_str) == Some(&self.namespace)
            && text(reference, "kind") == self.kind
            && is_of_own_group(reference)
            && is_same("hub", &self.hub)
            && (is_same("name", &self.name) || is_same("chain", &self.chain))
    }

    /// True if an object names this revision as its controller. An object can have two controllers:
    /// one in its own cluster, and one in another.
    pub fn controls(&self, live: &Value) -> bool {
        let mut references = owner_references(live).iter();
        references.any(|reference| is_controller(reference) && self.is(reference))
    }

    /// True if the revision may own only objects of its own namespace.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

/// Returns a string field; empty if it is absent or no string.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a string field of the metadata; empty if absent.
pub fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .map_or("", |metadata| text(metadata, field))
}

/// Returns an annotation; empty if absent.
pub fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let metadata = object.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    annotations.map_or("", |annotations| text(annotations, name))
}

/// Returns the value of a label; empty if absent.
pub fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    let labels = object.pointer("/metadata/labels");
    labels.map_or("", |labels| text(labels, name))
}

/// Returns the owner references; empty if there are none.
pub fn owner_references(object: &Value) -> &[Value] {
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// True if an owner reference is that of the controller.
pub fn is_controller(reference: &Value) -> bool {
    reference
        .get("controller")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// Returns the owner reference of the controller, if any. The API server admits at most one.
pub fn controller(object: &Value) -> Option<&Value> {
    owner_references(object)
        .iter()
        .find(|reference| is_controller(reference))
}

/// True if an owner reference names an object of the API group of revisions.
pub(crate) fn is_of_own_group(reference: &Value) -> bool {
    text(reference, "apiVersion")
        .split_once('/')
        .is_some_and(|(group, _)| group == GROUP)
}

/// Returns the revision number in the annotation; 0 if it is missing or no number.
pub fn revision_number(object: &Value) -> i64 {
    annotation(object, ANNOTATION_REVISION).parse().unwrap_or(0)
}

/// True if the object is being deleted: it waits for finalizers or its grace period.
pub fn is_terminating(object: &Value) -> bool {
    !metadata(object, "deletionTimestamp").is_empty()
}

/// The reason why an object that is being deleted still exists.
pub fn why_terminating(object: &Value) -> String {
    let finalizers = object.pointer("/metadata/finalizers");
    let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
    match names.as_slice() {
        [] => "being deleted".to_owned(),
        names => format!("being deleted, held by {}", names.join(", ")),
    }
}

/// The observed state, as the precondition of a later write.
pub fn precondition(object: &Value) -> Precondition {
    Precondition {
        uid: metadata(object, "uid").to_owned(),
        resource_version: metadata(object, "resourceVersion").to_owned(),
        owner_index: 0,
    }
}

/// Returns the object's metadata as a mutable map; creates it if it is missing.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// Returns a field of an object as a mutable map; replaces a value of another type.
pub(super) fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let map = &mut object[field];
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    map.as_object_mut().expect("was made an object above")
}

/// The entry of `status.controllerOf` for the object of a manifest; `namespace` is that of the
/// revision, for manifests without one.
pub fn manifest_reference(manifest: &Value, namespace: &str) -> ControlledObjectReference {
    let gvk = Gvk::new(text(manifest, "apiVersion"), text(manifest, "kind"));
    let written = metadata(manifest, "namespace");
    let namespace = if written.is_empty() {
        namespace
    } else {
        written
    };
    ControlledObjectReference {
        kind: gvk.kind,
        group: gvk.group,
        name: metadata(manifest, "name").to_owned(),
        version: String::new(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    }
}

/// The entry of `status.controllerOf` for an object. `version` stays empty, because the object is
/// the same in every version.
pub fn controlled_reference(key: &ObjectKey) -> ControlledObjectReference {
    ControlledObjectReference {
        kind: key.kind.clone(),
        group: key.group.clone(),
        name: key.name.clone(),
        version: String::new(),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
    }
}
