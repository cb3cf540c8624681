//! From documents to the objects in them: lists are taken apart, what only a server or this program
//! needs is taken out, and what cannot be packed is told.

use std::collections::BTreeMap;

use baton::engine::{Gvk, ObjectKey};
use baton_apis::{CollisionProtection, ConditionMapping, constants};
use serde_json::{Map, Value};

use super::{
    directives::{self, Directives},
    documents::Found,
    hooks::{self, Hook},
    place::{Fault, Place},
};

/// An object to pack.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Where it was read.
    pub place: Place,
    /// Its kind and version.
    pub gvk: Gvk,
    /// Its name.
    pub name: String,
    /// Its namespace; empty if the manifest names none.
    pub namespace: String,
    /// The manifest, without what is stripped.
    pub object: Value,
    /// The phase that an annotation names.
    pub phase: Option<String>,
    /// What may be taken over, if an annotation says so.
    pub collision_protection: Option<CollisionProtection>,
    /// Conditions to copy, from an annotation.
    pub condition_mappings: Vec<ConditionMapping>,
    /// Fields to send once only, from an annotation.
    pub create_only_fields: Vec<String>,
    /// When Helm would make it, if not with the other objects.
    pub hook: Option<Hook>,
}

impl Manifest {
    /// Who it is, in whatever version.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.gvk.group.clone(),
            kind: self.gvk.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// `Deployment/web`, for messages.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.gvk.kind, self.name)
    }
}

/// What the input consists of.
#[derive(Debug, Default)]
pub struct Intake {
    /// Objects in the order of the input.
    pub manifests: Vec<Manifest>,
    /// What cannot be packed.
    pub faults: Vec<Fault>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What a server adds to the metadata of an object.
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

/// Annotations that programs keep on objects and that say nothing about what is wanted.
const BOOKKEEPING: [&str; 3] = [
    constants::ANNOTATION_LAST_APPLIED,
    constants::ANNOTATION_REVISION,
    "deployment.kubernetes.io/revision",
];

impl Intake {
    /// Takes in what was found in a source. `hooks` says whether hooks of Helm are packed.
    pub fn take(&mut self, found: Found, hooks: bool) {
        let before = self.faults.len();
        self.faults.extend(found.faults);
        self.notes.extend(found.notes);
        for (place, document) in found.documents {
            self.take_value(&place, document.value, &document.item_lines, hooks);
        }
        if let Some(faults) = self.faults.get_mut(before..) {
            faults.sort_by_key(Fault::line);
        }
    }

    fn take_value(&mut self, place: &Place, value: Value, lines: &[usize], hooks: bool) {
        let Value::Object(mut object) = value else {
            let message = format!("is {}, not an object", type_name(&value));
            self.faults.push(Fault::at(place, message));
            return;
        };
        let kind = text(&object, "kind").to_owned();
        if kind.ends_with("List") && object.get("items").is_some_and(Value::is_array) {
            let api_version = text(&object, "apiVersion").to_owned();
            let items = object.remove("items");
            self.take_list(place, &api_version, &kind, items, lines, hooks);
            return;
        }
        match self.manifest(place, object, hooks) {
            Ok(manifest) => self.manifests.extend(manifest),
            Err(messages) => {
                let faults = messages.into_iter().map(|text| Fault::at(place, text));
                self.faults.extend(faults);
            }
        }
    }

    fn take_list(
        &mut self,
        place: &Place,
        api_version: &str,
        kind: &str,
        items: Option<Value>,
        lines: &[usize],
        hooks: bool,
    ) {
        let Some(Value::Array(items)) = items else {
            return;
        };
        for (index, mut item) in items.into_iter().enumerate() {
            // Servers leave the kind out of the items of a list of one kind.
            if let Value::Object(item) = &mut item
                && kind != "List"
                && !item.contains_key("kind")
            {
                let kind = kind.strip_suffix("List").unwrap_or(kind);
                item.insert("kind".to_owned(), kind.into());
                item.insert("apiVersion".to_owned(), api_version.into());
            }
            let place = Place {
                line: lines.get(index).copied().unwrap_or(place.line),
                ..place.clone()
            };
            self.take_value(&place, item, &[], hooks);
        }
    }

    /// Makes a manifest of an object; `None` if it is left out. Errors are all that is wrong with it.
    fn manifest(
        &mut self,
        place: &Place,
        mut object: Map<String, Value>,
        hooks: bool,
    ) -> Result<Option<Manifest>, Vec<String>> {
        let mut faults = Vec::new();
        for field in ["apiVersion", "kind"] {
            match object.get(field) {
                Some(Value::String(text)) if !text.trim().is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => {
                    faults.push(format!("{field} is missing"));
                }
                Some(other) => faults.push(format!("{field} is {}, not a text", type_name(other))),
            }
        }
        let gvk = Gvk::new(text(&object, "apiVersion"), text(&object, "kind"));
        let title = if gvk.kind.is_empty() {
            "the object".to_owned()
        } else {
            gvk.kind.clone()
        };
        object.remove("status");
        let mut metadata = match object.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            None | Some(Value::Null) => Map::new(),
            Some(other) => {
                faults.push(format!("metadata is {}, not a map", type_name(&other)));
                return Err(faults);
            }
        };
        faults.extend(name_fault(&title, &metadata));
        faults.extend(texts_fault(&metadata));
        for field in OF_SERVER {
            metadata.remove(field);
        }
        metadata.retain(|_, value| !value.is_null());
        let name = text(&metadata, "name").to_owned();
        let namespace = text(&metadata, "namespace").to_owned();
        if namespace.is_empty() {
            metadata.remove("namespace");
        }
        if gvk.group == "kustomize.config.k8s.io" {
            faults.push(format!(
                "a {title} is no object of the cluster; pack its directory"
            ));
        }
        if !faults.is_empty() {
            return Err(faults);
        }

        let titled = format!("{}/{name}", gvk.kind);
        match owners(&mut metadata) {
            Owners::None => {}
            Owners::Controller(controller) => {
                self.notes.push(format!(
                    "{place}: {titled} is left out, as {controller} makes it"
                ));
                return Ok(None);
            }
            Owners::Others => {
                faults.push(format!(
                    "{titled} has metadata.ownerReferences; take them out, as the revision will own it"
                ));
            }
        }
        let mut annotations = texts(&mut metadata, "annotations");
        for annotation in BOOKKEEPING {
            annotations.remove(annotation);
        }
        let mut labels = texts(&mut metadata, "labels");
        labels.remove(constants::LABEL_CACHE);
        let directives = match directives::take(&mut annotations) {
            Ok(directives) => directives,
            Err(messages) => {
                faults.extend(messages.into_iter().map(|text| format!("{titled}: {text}")));
                Directives::default()
            }
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let hook = match hooks::of(&annotations) {
            Ok(Some(_)) if !hooks => {
                self.notes.push(format!(
                    "{place}: {titled} is left out, as it is a Helm hook"
                ));
                return Ok(None);
            }
            Ok(hook) => hook,
            Err(words) => {
                self.notes.push(format!(
                    "{place}: {titled} is left out: a revision has no moment for a Helm hook of {words}"
                ));
                return Ok(None);
            }
        };
        for (field, map) in [("annotations", annotations), ("labels", labels)] {
            if !map.is_empty() {
                let map = map
                    .into_iter()
                    .map(|(key, text)| (key, Value::String(text)));
                metadata.insert(field.to_owned(), map.collect());
            }
        }
        object.insert("metadata".to_owned(), metadata.into());
        object.values_mut().for_each(strip_unset_times);
        let Directives {
            phase,
            collision_protection,
            condition_mappings,
            create_only_fields,
        } = directives;
        Ok(Some(Manifest {
            place: place.clone(),
            gvk,
            name,
            namespace,
            object: object.into(),
            phase,
            collision_protection,
            condition_mappings,
            create_only_fields,
            hook,
        }))
    }
}

fn text<'o>(object: &'o Map<String, Value>, field: &str) -> &'o str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// What a value is, with its article.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn name_fault(title: &str, metadata: &Map<String, Value>) -> Option<String> {
    match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => None,
        None | Some(Value::Null | Value::String(_)) => {
            Some(if text(metadata, "generateName").is_empty() {
                format!("{title} has no metadata.name")
            } else {
                format!(
                    "{title} has metadata.generateName; objects of a revision need a metadata.name"
                )
            })
        }
        Some(other) => Some(format!(
            "metadata.name of {title} is {}, not a text; put it in quotes",
            type_name(other)
        )),
    }
}

/// Labels and annotations with other values than texts are the most frequent mistake, and the
/// server's words for it do not name the key.
fn texts_fault(metadata: &Map<String, Value>) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(namespace) = metadata.get("namespace")
        && !namespace.is_string()
        && !namespace.is_null()
    {
        let found = type_name(namespace);
        faults.push(format!(
            "metadata.namespace is {found}, not a text; put it in quotes"
        ));
    }
    for field in ["labels", "annotations"] {
        match metadata.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                let others = map
                    .iter()
                    .filter(|(_, value)| !value.is_string() && !value.is_null());
                faults.extend(others.map(|(key, value)| {
                    let found = type_name(value);
                    format!("metadata.{field}: {key} is {found}, not a text; put it in quotes")
                }));
            }
            Some(other) => {
                faults.push(format!(
                    "metadata.{field} is {}, not a map",
                    type_name(other)
                ));
            }
        }
    }
    faults
}

/// Takes labels or annotations out of the metadata.
fn texts(metadata: &mut Map<String, Value>, field: &str) -> BTreeMap<String, String> {
    match metadata.remove(field) {
        Some(Value::Object(map)) => map
            .into_iter()
            .filter_map(|(key, value)| match value {
                Value::String(text) => Some((key, text)),
                Value::Null => Some((key, String::new())),
                _ => None,
            })
            .collect(),
        _ => BTreeMap::new(),
    }
}

/// Who owns an object that was read from a cluster.
enum Owners {
    /// Nobody, or a revision: the object is part of a package already.
    None,
    /// A controller that makes the object.
    Controller(String),
    /// Somebody else.
    Others,
}

fn owners(metadata: &mut Map<String, Value>) -> Owners {
    let Some(Value::Array(references)) = metadata.remove("ownerReferences") else {
        return Owners::None;
    };
    let field = |reference: &Value, field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let foreign: Vec<_> = references
        .iter()
        .filter(|reference| field(reference, "apiVersion") != constants::API_VERSION)
        .collect();
    let controller = foreign
        .iter()
        .find(|reference| reference.get("controller") == Some(&Value::Bool(true)));
    match controller {
        Some(controller) => Owners::Controller(format!(
            "{}/{}",
            field(controller, "kind"),
            field(controller, "name")
        )),
        None if foreign.is_empty() => Owners::None,
        None => Owners::Others,
    }
}

/// Go programs write `creationTimestamp: null` into the metadata of embedded templates.
fn strip_unset_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata")
                && metadata
                    .get("creationTimestamp")
                    .is_some_and(Value::is_null)
            {
                metadata.remove("creationTimestamp");
            }
            map.values_mut().for_each(strip_unset_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_unset_times),
        _ => {}
    }
}

/// Faults of objects that are there more than once, each naming both places. Call it when the
/// namespaces are known.
#[must_use]
pub fn duplicates(manifests: &[Manifest]) -> Vec<Fault> {
    let mut first: BTreeMap<ObjectKey, &Manifest> = BTreeMap::new();
    let mut faults = Vec::new();
    for manifest in manifests {
        match first.get(&manifest.key()) {
            Some(other) => faults.push(Fault::at(
                &manifest.place,
                format!("{} is in {} already", manifest.title(), other.place),
            )),
            None => {
                first.insert(manifest.key(), manifest);
            }
        }
    }
    faults
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;
