//! Values that no manager owns, and because of which the server refuses an apply.
//!
//! A manifest that changes from one branch of a union to another one, such as from the strategy
//! `RollingUpdate` to `Recreate`, leaves out the fields of the old branch. An apply removes only
//! fields that it owned before. The server's defaults of the old branch belong to nobody, so they
//! stay, and the server refuses the two branches together. Such *leftovers* become ours by a
//! [migration](super::legacy::migrated), and the apply that follows removes them.
//!
//! A field that another manager owns is never a leftover.
//!
//! There is no list of unions. Candidates are found next to the fields that the manifest changes,
//! if the message of the refusal names one of these fields, the candidate, or, for a custom
//! resource, the map of both. A dry run with [`Leftovers::merge_patch`] then shows if the server
//! accepts the object without them.

use serde_json::{Map, Value, json};

use super::fields::{Marker, below, entries, field, is_leaf, may_have_keys, same, unite};
use super::texts::stored_fields;
use super::{UNOWNED_ROOT, apply_entry, is_custom, owned_fields};
use crate::object::text;

/// Unowned fields that an apply has to remove, in the form `fieldsV1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leftovers(Map<String, Value>);

impl Leftovers {
    /// The fields of a live object that may be the reason for the refusal of an apply.
    ///
    /// # Caveats
    /// Fields of other managers are excluded only if `live` has the entries of all managers. A
    /// cached object has ours alone; a migration reads the object first.
    #[must_use]
    pub fn of(wanted: &Value, live: &Value, refusal: &str) -> Self {
        let is_one_version = |of: Option<&Value>| of == wanted.get("apiVersion");
        let has_paths = apply_entry(live).is_none_or(|it| is_one_version(it.get("apiVersion")));
        if !has_paths || !is_one_version(live.get("apiVersion")) {
            return Self::default();
        }
        let sets: Vec<_> = entries(live)
            .iter()
            .filter_map(|entry| stored_fields(entry, live))
            .collect();
        let owned: Vec<&Map<String, Value>> = sets.iter().map(AsRef::as_ref).collect();
        let mut search = Search {
            refusal: without_indexes(refusal),
            is_custom: is_custom(text(wanted, "apiVersion")),
            path: String::new(),
        };
        let mut found = Map::new();
        for (name, values) in shared(wanted, live) {
            if !UNOWNED_ROOT.contains(&name.as_str()) {
                let owned = below(&owned, &format!("f:{name}"));
                search.descend(name, values, &owned, &mut found);
            }
        }
        Self(found)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the fields that may be the reason for the refusal of the [merge
    /// patch](Self::merge_patch): rules are not checked while an object does not fit its schema.
    /// `None` if there are no further ones.
    #[must_use]
    pub fn with_more(&self, patch: &Value, live: &Value, refusal: &str) -> Option<Self> {
        let mut all = self.0.clone();
        unite(&mut all, &Self::of(patch, live, refusal).0);
        (all != self.0).then_some(Self(all))
    }

    /// Adds the fields that nobody owns in `others` to a set of owned fields. Returns whether there
    /// are any.
    pub(super) fn claim(
        &self,
        fields: &mut Map<String, Value>,
        others: &[&Map<String, Value>],
    ) -> bool {
        let mut owners = others.to_vec();
        let before = fields.clone();
        owners.push(&before);
        let claimed = unowned(&self.0, &owners);
        unite(fields, &claimed);
        !claimed.is_empty()
    }

    /// A merge patch whose dry run shows if the server accepts the body of an apply without the
    /// leftovers.
    ///
    /// It also removes the fields that we own and the body leaves out, as an apply does.
    ///
    /// # Caveats
    /// A merge patch replaces lists, so items of other managers are missing in the answer.
    #[must_use]
    pub fn merge_patch(&self, mut body: Value, live: &Value) -> Value {
        let mut removed = self.0.clone();
        if let Some(owned) = owned_fields(live).as_deref().and_then(Value::as_object) {
            unite(&mut removed, owned);
        }
        removed.retain(|marker, _| {
            let name = marker.strip_prefix("f:").unwrap_or_default();
            !UNOWNED_ROOT.contains(&name)
        });
        if let Some(body) = body.as_object_mut() {
            add_nulls(body, &removed);
        }
        body
    }
}

/// Removes the nulls from the body of an apply in whose place we own fields.
///
/// A `null` in an apply keeps a map and its content. The removal of the fields is what the
/// manifest means, and an apply without the `null` removes them.
pub(super) fn remove_nulls(body: &mut Value, owned: &Map<String, Value>) {
    match body {
        Value::Object(fields) => fields.retain(|name, value| {
            let node = field(owned, name).and_then(Value::as_object);
            let Some(node) = node.filter(|node| !is_leaf(node)) else {
                return true;
            };
            remove_nulls(value, node);
            !value.is_null()
        }),
        Value::Array(items) => {
            for (marker, node) in owned {
                let (Marker::Item(keys), Some(node)) = (Marker::parse(marker), node.as_object())
                else {
                    continue;
                };
                let mut items = items.iter_mut();
                if let Some(item) = items.find(|item| may_have_keys(item, &keys)) {
                    remove_nulls(item, node);
                }
            }
        }
        _ => {}
    }
}

/// A search for leftovers in one object.
struct Search {
    /// The message of the refusal, without the indexes of lists.
    refusal: String,
    is_custom: bool,
    /// The path of the present map, in the notation of the message.
    path: String,
}

impl Search {
    /// Searches a field of the present map.
    fn descend(
        &mut self,
        name: &str,
        (wanted, live): (&Value, &Value),
        owned: &[&Map<String, Value>],
        found: &mut Map<String, Value>,
    ) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let mut inside = Map::new();
        match (wanted, live) {
            // An owner of the whole map owns what is in it.
            (Value::Object(_), Value::Object(_)) if !owned.iter().any(|node| is_leaf(node)) => {
                self.map(wanted, live, owned, &mut inside);
            }
            (Value::Array(items), Value::Array(_)) => {
                self.path.push_str("[]");
                self.list(items, live, owned, &mut inside);
            }
            _ => {}
        }
        if !inside.is_empty() {
            found.insert(format!("f:{name}"), inside.into());
        }
        self.path.truncate(length);
    }

    fn list(
        &mut self,
        wanted: &[Value],
        live: &Value,
        owned: &[&Map<String, Value>],
        found: &mut Map<String, Value>,
    ) {
        for text in owned.iter().flat_map(|node| node.keys()) {
            let marker = Marker::parse(text);
            let Marker::Item(_) = marker else { continue };
            let item = wanted.iter().find(|item| marker.may_be_of(item));
            if let Some((wanted, live)) = item.zip(marker.find(live)) {
                let mut inside = Map::new();
                self.map(wanted, live, &below(owned, text), &mut inside);
                if !inside.is_empty() {
                    found.insert(text.clone(), inside.into());
                }
            }
        }
    }

    fn map(
        &mut self,
        wanted: &Value,
        live: &Value,
        owned: &[&Map<String, Value>],
        found: &mut Map<String, Value>,
    ) {
        for (name, values) in shared(wanted, live) {
            self.descend(name, values, &below(owned, &format!("f:{name}")), found);
        }
        let changed = changed(wanted, live);
        if changed.is_empty() {
            return;
        }
        let is_blamed = changed.iter().any(|name| self.is_named(Some(name)))
            || (self.is_custom && self.is_named(None));
        let left = live.as_object().into_iter().flatten().filter(|(name, _)| {
            wanted.get(name.as_str()).is_none_or(Value::is_null)
                && owned.iter().all(|node| field(node, name).is_none())
                && (is_blamed || self.is_named(Some(name)))
        });
        found.extend(left.map(|(name, value)| (format!("f:{name}"), with_fields(value))));
    }

    /// True if the refusal names a field of the present map, or the map itself.
    fn is_named(&self, field: Option<&str>) -> bool {
        let path = match field {
            Some(field) => format!("{}.{field}", self.path),
            None => self.path.clone(),
        };
        let is_boundary =
            |char: char| !char.is_alphanumeric() && !matches!(char, '.' | '_' | '-' | '[');
        self.refusal.match_indices(&path).any(|(at, path)| {
            let before = self
                .refusal
                .get(..at)
                .and_then(|text| text.chars().next_back());
            let after = self
                .refusal
                .get(at + path.len()..)
                .and_then(|text| text.chars().next());
            before.is_none_or(|char| char == '[' || is_boundary(char))
                && after.is_none_or(is_boundary)
        })
    }
}

/// The fields that both maps have.
fn shared<'v>(
    wanted: &'v Value,
    live: &'v Value,
) -> impl Iterator<Item = (&'v String, (&'v Value, &'v Value))> {
    let fields = wanted.as_object().into_iter().flatten();
    fields.filter_map(|(name, wanted)| Some((name, (wanted, live.get(name)?))))
}

/// The fields that an apply adds to a map, or replaces as a whole.
fn changed<'v>(wanted: &'v Value, live: &Value) -> Vec<&'v str> {
    let fields = wanted.as_object().into_iter().flatten();
    let changed = fields.filter(|(name, wanted)| match (wanted, live.get(name.as_str())) {
        (Value::Null, _)
        | (Value::Object(_), Some(Value::Object(_)))
        | (Value::Array(_), Some(Value::Array(_))) => false,
        (wanted, live) => live.is_none_or(|live| !same(wanted, live)),
    });
    changed.map(|(name, _)| name.as_str()).collect()
}

/// The set of a leftover: the field itself, and its own fields.
fn with_fields(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let fields = fields.map(|(name, _)| (format!("f:{name}"), json!({})));
    let itself = (".".to_owned(), json!({}));
    Value::Object(fields.chain([itself]).collect())
}

/// The leftovers of which no other set has any field. Those with fields are represented by these,
/// since an apply that contains the field as a `null` would keep the field itself.
fn unowned(set: &Map<String, Value>, others: &[&Map<String, Value>]) -> Map<String, Value> {
    let parts = set.iter().filter_map(|(marker, node)| {
        let node = node.as_object()?;
        let others = below(others, marker);
        let part = if node.contains_key(".") {
            let mut fields = node.clone();
            fields.remove(".");
            others.is_empty().then_some(fields)
        } else {
            Some(unowned(node, &others)).filter(|part| !part.is_empty())
        };
        Some((marker.clone(), part?.into()))
    });
    parts.collect()
}

/// Adds a `null` for each field of a set that a map does not have.
fn add_nulls(body: &mut Map<String, Value>, set: &Map<String, Value>) {
    for (marker, node) in set {
        let Marker::Field(name) = Marker::parse(marker) else {
            continue;
        };
        match (body.get_mut(name), node.as_object()) {
            (None, _) => {
                body.insert(name.to_owned(), Value::Null);
            }
            (Some(Value::Object(inside)), Some(node)) => add_nulls(inside, node),
            _ => {}
        }
    }
}

/// A message without the indexes and keys of lists: `spec.volumes[].configMap: Forbidden`.
fn without_indexes(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut is_in_index = false;
    for char in text.chars() {
        match char {
            '[' if result.ends_with(|before: char| before.is_alphanumeric()) => {
                is_in_index = true;
                result.push('[');
            }
            ']' if is_in_index => {
                is_in_index = false;
                result.push(']');
            }
            _ if is_in_index => {}
            _ => result.push(char),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::tests::{live as object, yaml};
    use crate::diff::{legacy::migrated_with, with_nulls_removed};

    const SETS: &str =
        "{f:spec: {f:size: {}, f:volumes: {'k:{\"name\":\"e\"}': {.: {}, f:name: {}}}}}";
    const LIVE: &str = "{apiVersion: VERSION, spec: {size: 1, strategy: {type: Rolling, rolling: {max: 1, min: 2}}, \
         volumes: [{name: e, emptyDir: {}}, {name: f, emptyDir: {}}], set: [a]}}";

    fn live(version: &str) -> Value {
        let mut live = yaml(&LIVE.replace("VERSION", version));
        live["metadata"] = json!({"managedFields": [{
            "manager": "package-operator", "operation": "Apply", "apiVersion": version, "fieldsV1": yaml(SETS),
        }]});
        live
    }

    fn found(version: &str, spec: &str, refusal: &str) -> Value {
        let wanted = yaml(&format!("{{apiVersion: {version}, spec: {spec}}}"));
        Leftovers::of(&wanted, &live(version), refusal).0.into()
    }

    #[test]
    fn leftovers_are_next_to_changed_fields_that_the_refusal_names() {
        let rolling = yaml("{f:spec: {f:strategy: {f:rolling: {.: {}, f:max: {}, f:min: {}}}}}");
        let empty = yaml("{f:spec: {f:volumes: {'k:{\"name\":\"e\"}': {f:emptyDir: {.: {}}}}}}");
        let none = yaml("{}");
        let strategy = "{strategy: {type: Recreate}}";
        let volumes = "{volumes: [{name: x}, {name: e, configMap: {name: c}}]}";
        for (version, spec, refusal, expected) in [
            (
                "apps/v1",
                strategy,
                "is invalid: spec.strategy.rolling: Forbidden: no",
                &rolling,
            ),
            (
                "apps/v1",
                strategy,
                "is invalid: [spec.x: Required value, spec.strategy.rolling: Forbidden: no]",
                &rolling,
            ),
            (
                "apps/v1",
                strategy,
                "spec.strategy.type: Unsupported value",
                &rolling,
            ),
            (
                "apps/v1",
                "{strategy: {type: Recreate, rolling: null}}",
                "spec.strategy.rolling: Forbidden",
                &rolling,
            ),
            // Not named, not changed, or wanted.
            ("apps/v1", strategy, "spec.strategy: Invalid value", &none),
            (
                "apps/v1",
                strategy,
                "spec.strategy.rollingUpdate: Forbidden",
                &none,
            ),
            (
                "apps/v1",
                strategy,
                "other.spec.strategy.rolling: Forbidden",
                &none,
            ),
            (
                "apps/v1",
                "{strategy: {type: Rolling}}",
                "spec.strategy.rolling: Forbidden",
                &none,
            ),
            (
                "apps/v1",
                "{strategy: {type: Recreate, rolling: {max: 1}}}",
                "spec.strategy.rolling: Forbidden",
                &none,
            ),
            // A custom resource, by the rules of its schema.
            (
                "example.com/v1",
                strategy,
                "<nil>: Invalid value: \"\": \"spec.strategy\" must validate one",
                &rolling,
            ),
            (
                "example.com/v1",
                strategy,
                "spec.strategy: Invalid value: one excludes the other",
                &rolling,
            ),
            (
                "example.com/v1",
                strategy,
                "spec: Invalid value: one excludes the other",
                &none,
            ),
            // An item of a list. The index in the message is not that of the live list.
            (
                "apps/v1",
                volumes,
                "spec.volumes[1].configMap: Forbidden: may not specify more than 1 volume type",
                &empty,
            ),
            (
                "apps/v1",
                volumes,
                "spec.volumes[1].secret: Forbidden",
                &none,
            ),
        ] {
            assert_eq!(&found(version, spec, refusal), expected, "{spec} {refusal}");
        }
    }

    #[test]
    fn leftovers_of_another_version_are_unknown() {
        let wanted = yaml("{apiVersion: apps/v1, spec: {strategy: {type: Recreate}}}");
        let refusal = "spec.strategy.rolling: Forbidden";
        let mut live = live("apps/v1");
        assert!(!Leftovers::of(&wanted, &live, refusal).is_empty());
        live["metadata"]["managedFields"][0]["apiVersion"] = "apps/v1beta1".into();
        assert!(Leftovers::of(&wanted, &live, refusal).is_empty());
    }

    #[test]
    fn only_fields_without_an_owner_become_ours() {
        let wanted = yaml("{apiVersion: apps/v1, spec: {strategy: {type: Recreate}}}");
        let mut live = live("apps/v1");
        let leftovers = Leftovers::of(&wanted, &live, "spec.strategy.rolling: Forbidden");
        let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.push(yaml(
            "{manager: kubectl-edit, operation: Update, apiVersion: apps/v1, \
                 fieldsV1: {f:spec: {f:strategy: {f:rolling: {f:max: {}}}}}}",
        ));
        assert_eq!(migrated_with(&live, &[], &leftovers), None);
        live["metadata"]["managedFields"][1]["fieldsV1"] =
            yaml("{f:spec: {f:strategy: {f:type: {}}}}");
        let entries = migrated_with(&live, &[], &leftovers).unwrap();
        let rolling = yaml("{f:rolling: {f:max: {}, f:min: {}}}");
        assert_eq!(entries[0]["fieldsV1"]["f:spec"]["f:strategy"], rolling);
        assert_eq!(entries[1], live["metadata"]["managedFields"][1]);
        // Also in an object that we never applied.
        live["metadata"]["managedFields"] = json!([]);
        let entries = migrated_with(&live, &[], &leftovers).unwrap();
        let ours = yaml(
            "{manager: package-operator, operation: Apply, apiVersion: apps/v1, fieldsType: FieldsV1, \
                 fieldsV1: {f:spec: {f:strategy: {f:rolling: {f:max: {}, f:min: {}}}}}}",
        );
        assert_eq!(entries, [ours]);
        assert_eq!(migrated_with(&live, &[], &Leftovers::default()), None);
    }

    #[test]
    fn the_merge_patch_removes_leftovers_and_fields_that_are_no_longer_wanted() {
        let wanted = yaml(
            "{apiVersion: apps/v1, kind: A, metadata: {uid: u}, spec: {strategy: {type: Recreate}}}",
        );
        let live = live("apps/v1");
        let leftovers = Leftovers::of(&wanted, &live, "spec.strategy.rolling: Forbidden");
        let expected = yaml(
            "{apiVersion: apps/v1, kind: A, metadata: {uid: u}, spec: {strategy: {type: Recreate, rolling: null}, \
                 size: null, volumes: null}}",
        );
        assert_eq!(leftovers.merge_patch(wanted, &live), expected);
    }

    #[test]
    fn nulls_over_owned_fields_are_removed() {
        for (owned, body, expected) in [
            ("{f:a: {f:b: {}}}", "{a: null, c: null}", "{c: null}"),
            ("{f:a: {}}", "{a: null}", "{a: null}"),
            (
                "{f:a: {f:b: {f:c: {}}}}",
                "{a: {b: null, d: 1}}",
                "{a: {d: 1}}",
            ),
            (
                "{f:a: {'k:{\"name\":\"x\"}': {f:b: {f:c: {}}}}}",
                "{a: [{name: y, b: null}, {name: x, b: null}]}",
                "{a: [{name: y, b: null}, {name: x}]}",
            ),
        ] {
            let mut body = yaml(body);
            with_nulls_removed(&mut body, &object(yaml("{}"), &yaml(owned)));
            assert_eq!(body, yaml(expected), "{owned}");
        }
    }
}
