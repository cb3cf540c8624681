//! Makes objects of documents: splits lists, removes fields that only a server or this program
//! needs, and reports objects that cannot be packed.

mod allocated;
mod check;
mod strip;

use std::collections::BTreeMap;

use baton_apis::{CollisionProtection, ConditionMapping};
use baton_engine::{Gvk, ObjectKey};
use serde_json::{Map, Value};

use super::{
    directives::{self, Directives},
    documents::Parsed,
    hooks::{self, Hook},
    source_location::{InputError, SourceLocation},
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) location: SourceLocation,
    pub(crate) gvk: Gvk,
    pub(crate) name: String,
    /// Namespace of the object; empty if the manifest names none.
    pub(crate) namespace: String,
    /// The manifest, without the removed fields.
    pub(crate) object: Value,
    /// The phase in the annotation.
    pub(crate) phase: Option<String>,
    /// The collision protection in the annotation.
    pub(crate) collision_protection: Option<CollisionProtection>,
    /// The conditions to copy, from the annotation.
    pub(crate) condition_mappings: Vec<ConditionMapping>,
    /// The fields that are only sent when the object is created, from the annotation.
    pub(crate) create_only_fields: Vec<String>,
    /// The Helm hook of the object, if it is one.
    pub(crate) hook: Option<Hook>,
}

impl Manifest {
    /// The identity of the object, in any version.
    pub(crate) fn key(&self) -> ObjectKey {
        self.gvk.key(&self.namespace, &self.name)
    }

    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.gvk.kind, self.name)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// True if all hooks of Helm are left out.
    pub(crate) no_hooks: bool,
    /// True if Secrets with values are left out.
    pub(crate) no_secrets: bool,
    /// Objects in the order of the input.
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) errors: Vec<InputError>,
    pub(crate) notes: Vec<String>,
}

impl Collected {
    /// Adds the content of a source.
    pub(crate) fn take(&mut self, found: Parsed) {
        let before = self.errors.len();
        self.errors.extend(found.errors);
        self.notes.extend(found.notes);
        for (location, document) in found.documents {
            self.take_value(&location, document.value, &document.item_lines);
        }
        if let Some(errors) = self.errors.get_mut(before..) {
            errors.sort_by_key(InputError::line);
        }
    }

    /// Adds a document: an object, or a list of objects that begin in these lines.
    pub(crate) fn take_value(
        &mut self,
        location: &SourceLocation,
        value: Value,
        item_lines: &[usize],
    ) {
        let mut object = match value {
            Value::Object(object) => object,
            other => {
                let message = format!("is {}, not an object", check::type_name(&other));
                self.errors.push(InputError::at(location, message));
                return;
            }
        };
        if text(&object, "kind").ends_with("List")
            && let Some(Value::Array(items)) = object.get_mut("items")
        {
            let items = std::mem::take(items);
            self.take_list(location, &object, items, item_lines);
            return;
        }
        match self.manifest(location, object) {
            Ok(manifest) => self.manifests.extend(manifest),
            Err(messages) => {
                let errors = messages
                    .into_iter()
                    .map(|text| InputError::at(location, text));
                self.errors.extend(errors);
            }
        }
    }

    fn take_list(
        &mut self,
        location: &SourceLocation,
        list: &Map<String, Value>,
        items: Vec<Value>,
        lines: &[usize],
    ) {
        let of = text(list, "kind").strip_suffix("List").unwrap_or_default();
        for (index, mut item) in items.into_iter().enumerate() {
            // Servers leave the kind out of the items of a list of one kind.
            if let Value::Object(item) = &mut item
                && !of.is_empty()
                && !item.contains_key("kind")
            {
                item.insert("kind".to_owned(), of.into());
                item.insert("apiVersion".to_owned(), text(list, "apiVersion").into());
            }
            let location = SourceLocation {
                line: lines.get(index).copied().unwrap_or(location.line),
                ..location.clone()
            };
            self.take_value(&location, item, &[]);
        }
    }

    /// Makes a manifest of an object; `None` if it is left out. All errors of the object are
    /// returned.
    fn manifest(
        &mut self,
        location: &SourceLocation,
        mut object: Map<String, Value>,
    ) -> Result<Option<Manifest>, Vec<String>> {
        let mut errors = check::errors(&object);
        if !errors.is_empty() {
            return Err(errors);
        }
        let gvk = Gvk::new(text(&object, "apiVersion"), text(&object, "kind"));
        let mut metadata = strip::strip(&mut object);
        let name = text(&metadata, "name").to_owned();
        let namespace = text(&metadata, "namespace").to_owned();
        let title = format!("{}/{name}", gvk.kind);

        let mut annotations = strip::texts(&mut metadata, "annotations");
        let directives = directives::take(&mut annotations).unwrap_or_else(|messages| {
            errors.extend(messages.iter().map(|message| format!("{title}: {message}")));
            Directives::default()
        });
        let owners = strip::owners(&mut metadata);
        if owners == strip::Owners::Others {
            errors.push(format!(
                "{title} has metadata.ownerReferences; remove them, because the revision will be its owner"
            ));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let hook = hooks::of(&annotations);
        let reason = match (&owners, &hook) {
            (strip::Owners::Controller(controller), _) => Some(format!("{controller} creates it")),
            (_, Err(names)) => Some(format!("a revision cannot run a Helm hook of {names}")),
            (_, Ok(Some(_))) if self.no_hooks => Some("it is a Helm hook".to_owned()),
            _ => None,
        };
        if let Some(reason) = reason {
            self.notes
                .push(format!("{location}: {title} is left out, because {reason}"));
            return Ok(None);
        }
        if let Some(ignored) = hooks::ignored(&gvk.kind, &annotations) {
            self.notes
                .push(format!("{location}: {title} is a Helm hook: {ignored}"));
        }

        let labels = strip::texts(&mut metadata, "labels");
        for (field, map) in [("annotations", annotations), ("labels", labels)] {
            if !map.is_empty() {
                let map = map
                    .into_iter()
                    .map(|(key, text)| (key, Value::String(text)));
                metadata.insert(field.to_owned(), map.collect());
            }
        }
        object.insert("metadata".to_owned(), metadata.into());
        let Directives {
            phase,
            collision_protection,
            condition_mappings,
            create_only_fields,
        } = directives;
        Ok(Some(Manifest {
            location: location.clone(),
            gvk,
            name,
            namespace,
            object: object.into(),
            phase,
            collision_protection,
            condition_mappings,
            create_only_fields,
            hook: hook.unwrap_or_default(),
        }))
    }
}

fn text<'o>(object: &'o Map<String, Value>, field: &str) -> &'o str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Errors for objects that occur more than once, each with both places. Call this when the
/// namespaces are known.
pub(crate) fn duplicates(manifests: &[Manifest]) -> Vec<InputError> {
    let mut first: BTreeMap<ObjectKey, &Manifest> = BTreeMap::new();
    let mut errors = Vec::new();
    for manifest in manifests {
        match first.get(&manifest.key()) {
            Some(other) => errors.push(InputError::at(
                &manifest.location,
                format!("{} is in {} already", manifest.title(), other.location),
            )),
            None => {
                first.insert(manifest.key(), manifest);
            }
        }
    }
    errors
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;
