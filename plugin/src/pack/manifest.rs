//! From documents to the objects in them: lists are taken apart, what only a server or this program
//! needs is taken out, and what cannot be packed is told.

mod allocated;
mod check;
mod strip;

use std::collections::BTreeMap;

use baton::engine::{Gvk, ObjectKey};
use baton_apis::{CollisionProtection, ConditionMapping};
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
    /// Leave out all hooks of Helm.
    pub no_hooks: bool,
    /// Objects in the order of the input.
    pub manifests: Vec<Manifest>,
    /// What cannot be packed.
    pub faults: Vec<Fault>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Intake {
    /// Takes in what was found in a source.
    pub fn take(&mut self, found: Found) {
        let before = self.faults.len();
        self.faults.extend(found.faults);
        self.notes.extend(found.notes);
        for (place, document) in found.documents {
            self.take_value(&place, document.value, &document.item_lines);
        }
        if let Some(faults) = self.faults.get_mut(before..) {
            faults.sort_by_key(Fault::line);
        }
    }

    fn take_value(&mut self, place: &Place, value: Value, item_lines: &[usize]) {
        let mut object = match value {
            Value::Object(object) => object,
            other => {
                let message = format!("is {}, not an object", check::type_name(&other));
                self.faults.push(Fault::at(place, message));
                return;
            }
        };
        if text(&object, "kind").ends_with("List")
            && let Some(Value::Array(items)) = object.get_mut("items")
        {
            let items = std::mem::take(items);
            self.take_list(place, &object, items, item_lines);
            return;
        }
        match self.manifest(place, object) {
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
            let place = Place {
                line: lines.get(index).copied().unwrap_or(place.line),
                ..place.clone()
            };
            self.take_value(&place, item, &[]);
        }
    }

    /// Makes a manifest of an object; `None` if it is left out. Errors are all that is wrong with it.
    fn manifest(
        &mut self,
        place: &Place,
        mut object: Map<String, Value>,
    ) -> Result<Option<Manifest>, Vec<String>> {
        let mut faults = check::faults(&object);
        if !faults.is_empty() {
            return Err(faults);
        }
        let gvk = Gvk::new(text(&object, "apiVersion"), text(&object, "kind"));
        let mut metadata = strip::strip(&mut object);
        let name = text(&metadata, "name").to_owned();
        let namespace = text(&metadata, "namespace").to_owned();
        let title = format!("{}/{name}", gvk.kind);

        let mut annotations = strip::texts(&mut metadata, "annotations");
        let directives = directives::take(&mut annotations).unwrap_or_else(|messages| {
            faults.extend(messages.iter().map(|message| format!("{title}: {message}")));
            Directives::default()
        });
        let owners = strip::owners(&mut metadata);
        if owners == strip::Owners::Others {
            faults.push(format!(
                "{title} has metadata.ownerReferences; take them out, as the revision will own it"
            ));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let hook = hooks::of(&annotations);
        let reason = match (&owners, &hook) {
            (strip::Owners::Controller(controller), _) => Some(format!("{controller} makes it")),
            (_, Err(words)) => Some(format!(
                "a revision has no moment for a Helm hook of {words}"
            )),
            (_, Ok(Some(_))) if self.no_hooks => Some("it is a Helm hook".to_owned()),
            _ => None,
        };
        if let Some(reason) = reason {
            self.notes
                .push(format!("{place}: {title} is left out, as {reason}"));
            return Ok(None);
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
            place: place.clone(),
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
