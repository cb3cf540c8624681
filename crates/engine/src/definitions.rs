//! Changes of custom resource definitions that would lose data of stored objects.
//!
//! The definition as it is, and as the server would store it, are compared version by version. A
//! change loses data if a stored object is affected by it, so the caller has to list the objects of
//! the kind, and only then: see [`Question`].
//!
//! Observable behaviour: `docs/contract/phases.md`.

mod schema;
mod stored;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::constants::{ALLOW_DATA_LOSS, ANNOTATION_ALLOW_DATA_LOSS};
use serde_json::Value;

use crate::{
    Gvk,
    containers::Container,
    object::{annotation, text},
};
use schema::Comparison;

/// A step of a path from an object to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldStep {
    /// The field of this name.
    Field(String),
    /// All elements of a list.
    Items,
    /// All values of a map.
    Values,
}

/// A change that loses data, or after which stored objects are not valid any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Name of the version; empty if the change concerns all versions.
    pub version: String,
    /// The field that changes.
    pub path: Vec<FieldStep>,
    /// The change.
    pub cause: Cause,
}

/// A change of a definition that may lose data.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A version in which objects are stored is removed.
    VersionRemoved,
    /// A field of the definition changes that must not: its name, and both values.
    Moved(&'static str, String, String),
    /// The field is removed. The value is its old schema.
    Removed(Value),
    /// Fields that no schema names are removed, except those of these names.
    UnknownRemoved(BTreeSet<String>),
    /// The field of this name becomes required, and has no default.
    Required(String),
    /// The type changes to another one that does not include it.
    Type(String, String),
    /// The value must not be null any more.
    NotNullable,
    /// This keyword admits fewer values.
    Narrower(&'static str),
    /// The default was this value, and is another one or none.
    Default(Value),
    /// The schema is nested too deeply to be compared.
    TooDeep,
}

/// A change that loses no data, but that users should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A version in which no object is stored is removed.
    VersionRemoved(String),
    /// A version is not served any more.
    NotServed(String),
    /// A version has a new validation rule: version, field, and the rule.
    Rule(String, Vec<FieldStep>, String),
}

/// The changes of a definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Those that may lose data.
    pub losses: Vec<Loss>,
    /// Those that lose no data.
    pub notes: Vec<Note>,
}

/// A question about the stored objects of a kind: the first one that a change of its definition
/// affects.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// API group of the kind.
    pub group: String,
    /// Name of the kind.
    pub kind: String,
    /// Name of its resource.
    pub plural: String,
    /// The version to list the objects in; `None` if no served version shows the fields.
    pub version: Option<String>,
    /// The changes, all of one version.
    pub losses: Vec<Loss>,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// No object is affected.
    Nothing,
    /// This object is affected: its namespace and name, and the positions of the losses.
    Object(String, String, Vec<usize>),
    /// The objects cannot be listed; the cause.
    Unknown(String),
}

/// The decision about a change of a definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Review {
    /// The change loses no data, or the loss is allowed.
    Accepted,
    /// The change is refused; the text is for people.
    Refused(String),
    /// The change is refused if the answer to one of these questions [refuses](Question::refusal)
    /// it.
    Ask(Vec<Question>),
}

/// True for the kind of custom resource definitions.
pub fn is_definition(gvk: &Gvk) -> bool {
    let [_, (group, kind)] = Container::KINDS;
    gvk.group == group && gvk.kind == kind
}

/// True if the annotation of an object allows a loss of data.
pub fn allows_data_loss(object: &Value) -> bool {
    annotation(object, ANNOTATION_ALLOW_DATA_LOSS) == ALLOW_DATA_LOSS
}

/// Decides about a change of a definition. `old` is the live object, and `new` the object that the
/// server would store.
///
/// The annotation counts in `new`: there it is that of the manifest, or one that a user has set on
/// the live object, and not one of an earlier manifest.
pub fn review(old: &Value, new: &Value) -> Review {
    if allows_data_loss(new) {
        return Review::Accepted;
    }
    let (certain, dependent): (Vec<_>, Vec<_>) = changes(old, new)
        .losses
        .into_iter()
        .partition(Loss::is_certain);
    if !certain.is_empty() {
        return Review::Refused(texts::refusal(&certain, None));
    }
    // A kind that was never served has no objects.
    if dependent.is_empty() || !is_established(old) {
        return Review::Accepted;
    }
    let mut by_version: BTreeMap<String, Vec<Loss>> = BTreeMap::new();
    for loss in dependent {
        by_version
            .entry(loss.version.clone())
            .or_default()
            .push(loss);
    }
    let spec = &old["spec"];
    let questions = by_version.into_iter().map(|(version, losses)| Question {
        group: text(spec, "group").to_owned(),
        kind: text(&spec["names"], "kind").to_owned(),
        plural: text(&spec["names"], "plural").to_owned(),
        version: listed_version(spec, &version),
        losses,
    });
    Review::Ask(questions.collect())
}

/// The text for a definition that would be deleted and created again without permission.
pub fn recreation_refusal(refusal: &str) -> String {
    format!(
        "{refusal}; it is not deleted and created again, because all objects of its kind would be deleted: the \
             annotation {ANNOTATION_ALLOW_DATA_LOSS}={ALLOW_DATA_LOSS} in its manifest allows that"
    )
}

/// Compares two definitions of a kind.
///
/// # Guarantees
/// Equal definitions have no changes. Fields of an unexpected form are not compared: the server
/// refuses them.
pub fn changes(old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    moved(old_spec, new_spec, &mut changes);
    let stored = stored_versions(old);
    let (before, after) = (versions(old_spec), versions(new_spec));
    let find = |name: &str| after.iter().find(|it| text(it, "name") == name).copied();
    for version in &before {
        let name = text(version, "name");
        let is_stored = stored.contains(name);
        let Some(next) = find(name) else {
            if is_stored {
                changes.add(name, Vec::new(), Cause::VersionRemoved);
            } else {
                changes.notes.push(Note::VersionRemoved(name.to_owned()));
            }
            continue;
        };
        let (was_served, is_served) = (is(version, "served"), is(next, "served"));
        if was_served && !is_served {
            changes.notes.push(Note::NotServed(name.to_owned()));
        }
        if was_served || is_stored {
            changes.compare(name, (version, next), (old_spec, new_spec));
        }
    }
    let storage = |all: &[&Value]| all.iter().position(|it| is(it, "storage"));
    if let (Some(from), Some(to)) = (storage(&before), storage(&after))
        && !is_converted(new_spec)
    {
        let (from, to) = (before[from], after[to]);
        let name = text(from, "name");
        if name != text(to, "name") {
            changes.compare(name, (from, to), (old_spec, new_spec));
        }
    }
    changes
}

impl Changes {
    fn add(&mut self, version: &str, path: Vec<FieldStep>, cause: Cause) {
        let loss = Loss {
            version: version.to_owned(),
            path,
            cause,
        };
        if !self.losses.contains(&loss) {
            self.losses.push(loss);
        }
    }

    /// Compares two versions of a schema.
    fn compare(
        &mut self,
        name: &str,
        (old, new): (&Value, &Value),
        (old_spec, new_spec): (&Value, &Value),
    ) {
        let schema = |version: &'_ Value| version.pointer("/schema/openAPIV3Schema").cloned();
        let (Some(before), Some(after)) = (schema(old), schema(new)) else {
            return;
        };
        let preserves = |spec: &Value| is(spec, "preserveUnknownFields");
        let mut comparison = Comparison {
            was_open: preserves(old_spec),
            is_open: preserves(new_spec),
            // The controller of the kind writes the status again.
            leaves_status: old.pointer("/subresources/status").is_some(),
            ..Comparison::default()
        };
        comparison.run(&before, &after);
        for (path, cause) in comparison.losses {
            self.add(name, path, cause);
        }
        for (path, rule) in comparison.rules {
            self.notes.push(Note::Rule(name.to_owned(), path, rule));
        }
    }
}

impl Loss {
    /// True if the change is refused whatever objects exist.
    fn is_certain(&self) -> bool {
        matches!(self.cause, Cause::VersionRemoved | Cause::Moved(..))
    }
}

impl Question {
    /// The first of these objects that is affected, if any.
    pub fn first_affected(&self, objects: &[Value]) -> Option<Affected> {
        objects.iter().find_map(|object| {
            let losses = self.losses.iter().enumerate();
            let affected = losses.filter(|(_, loss)| stored::is_affected(loss, object));
            let affected: Vec<usize> = affected.map(|(at, _)| at).collect();
            let metadata = &object["metadata"];
            let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
            (!affected.is_empty())
                .then(|| Affected::Object(namespace.to_owned(), name.to_owned(), affected))
        })
    }

    /// The text for the refusal of the change, if the answer is a reason to refuse it. Objects that
    /// cannot be listed count as affected.
    pub fn refusal(&self, answer: &Affected) -> Option<String> {
        let losses: Vec<Loss> = match answer {
            Affected::Nothing => return None,
            Affected::Unknown(_) => self.losses.clone(),
            Affected::Object(_, _, at) => at
                .iter()
                .filter_map(|at| self.losses.get(*at).cloned())
                .collect(),
        };
        Some(texts::refusal(&losses, Some((self, answer))))
    }
}

/// Adds the fields of a definition that must not change.
fn moved(old: &Value, new: &Value, changes: &mut Changes) {
    let names = |spec: &Value, field| text(&spec["names"], field).to_owned();
    for (field, from, to) in [
        (
            "spec.scope",
            text(old, "scope").to_owned(),
            text(new, "scope").to_owned(),
        ),
        (
            "spec.group",
            text(old, "group").to_owned(),
            text(new, "group").to_owned(),
        ),
        ("spec.names.kind", names(old, "kind"), names(new, "kind")),
        (
            "spec.names.plural",
            names(old, "plural"),
            names(new, "plural"),
        ),
    ] {
        if !from.is_empty() && !to.is_empty() && from != to {
            changes.add("", Vec::new(), Cause::Moved(field, from, to));
        }
    }
}

/// The versions in which objects may be stored.
fn stored_versions(definition: &Value) -> BTreeSet<&str> {
    let listed = definition.pointer("/status/storedVersions");
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let storage = versions(&definition["spec"]).into_iter();
    let storage = storage.filter(|version| is(version, "storage"));
    let storage = storage.map(|version| text(version, "name"));
    listed.filter_map(Value::as_str).chain(storage).collect()
}

fn versions(spec: &Value) -> Vec<&Value> {
    let list = spec.get("versions").and_then(Value::as_array);
    list.into_iter().flatten().collect()
}

/// The version in which the fields of a version can be read.
fn listed_version(spec: &Value, version: &str) -> Option<String> {
    let all = versions(spec);
    let served = || all.iter().filter(|it| is(it, "served"));
    let same = served().find(|it| text(it, "name") == version);
    // Without a webhook, a version shows the fields of another one that it has as well.
    let other = || served().next().filter(|_| !is_converted(spec));
    let found = same.or_else(other)?;
    Some(text(found, "name").to_owned())
}

/// True if a webhook converts objects between versions.
fn is_converted(spec: &Value) -> bool {
    let strategy = spec.pointer("/conversion/strategy").and_then(Value::as_str);
    strategy.is_some_and(|strategy| strategy != "None")
}

/// True if the server has served the kind.
fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| text(it, "type") == "Established" && text(it, "status") == "True")
}

/// True if a field is the value true.
fn is(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}
