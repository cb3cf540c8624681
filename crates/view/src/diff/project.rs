//! The part of a live object that a revision decides about.
//!
//! A live object has more fields than its revision wants: defaults, a status, fields of other
//! controllers. [`project`] keeps the wanted fields, and the fields that the manager owns and that
//! are not wanted any more. Lists are split into items if `managedFields` describes the items: the
//! markers of *any* field manager show if the items have keys, form a set, or are one value
//! together.

use baton_engine::diff::{Marker, legacy::entries, owned_fields};
use serde_json::{Map, Value};

/// The wanted and the owned part of a live object.
pub fn project(live: &Value, wanted: &Value) -> Value {
    let all = entries(live).iter();
    let ours = owned_fields(live);
    let at = OwnedAt {
        // An empty map would be a leaf, and a leaf owns the whole value.
        ours: ours
            .as_deref()
            .filter(|fields| fields.as_object().is_some_and(|f| !f.is_empty())),
        all: all.filter_map(|entry| entry.get("fieldsV1")).collect(),
    };
    at.part(live, Some(wanted)).unwrap_or_default()
}

/// The owned fields at a place in an object, in the `fieldsV1` form.
struct OwnedAt<'a> {
    /// The fields of the manager's applies; `None` if there are none.
    ours: Option<&'a Value>,
    all: Vec<&'a Value>,
}

/// The way in which items of a list are identified.
enum Items {
    Keys(Vec<String>),
    Values,
    /// No marker describes the items, so the list is one value.
    Nothing,
}

impl OwnedAt<'_> {
    /// Moves to the field or item of a marker, such as `f:spec`.
    fn below(&self, marker: &str) -> Self {
        Self {
            ours: self.ours.and_then(|node| node.get(marker)),
            all: self
                .all
                .iter()
                .filter_map(|node| node.get(marker))
                .collect(),
        }
    }

    /// The part of a value that is wanted or owned by the manager; `None` if nothing is.
    fn part(&self, live: &Value, wanted: Option<&Value>) -> Option<Value> {
        let is_leaf = |node: &Value| node.as_object().is_none_or(Map::is_empty);
        if wanted.is_none() && self.ours.is_none() {
            return None;
        }
        if self.ours.is_some_and(is_leaf) {
            return Some(live.clone());
        }
        match (live, wanted) {
            (Value::Object(fields), None | Some(Value::Object(_))) => {
                let part = fields.iter().filter_map(|(name, value)| {
                    let wanted = wanted.and_then(|wanted| wanted.get(name));
                    let part = self.below(&format!("f:{name}")).part(value, wanted)?;
                    Some((name.clone(), part))
                });
                let part: Map<String, Value> = part.collect();
                (wanted.is_some() || !part.is_empty()).then_some(Value::Object(part))
            }
            (Value::Array(items), None | Some(Value::Array(_))) => {
                let wanted_items = wanted
                    .and_then(Value::as_array)
                    .map_or(&[][..], |list| list);
                let part: Vec<Value> = match self.items() {
                    Items::Nothing => return Some(live.clone()),
                    Items::Keys(keys) => {
                        let part = |item| self.keyed(&keys, item, wanted_items);
                        items.iter().filter_map(part).collect()
                    }
                    Items::Values => {
                        let ours = |item: &&Value| {
                            wanted_items.contains(item)
                                || self
                                    .ours
                                    .is_some_and(|node| node.get(format!("v:{item}")).is_some())
                        };
                        items.iter().filter(ours).cloned().collect()
                    }
                };
                (wanted.is_some() || !part.is_empty()).then_some(Value::Array(part))
            }
            // Scalars, and values of another type than wanted.
            _ => Some(live.clone()),
        }
    }

    /// The wanted or owned part of a list item that is identified by key fields.
    fn keyed(&self, keys: &[String], item: &Value, wanted: &[Value]) -> Option<Value> {
        // A key that a manifest omits has a default, such as the protocol of a port.
        let matches = |wanted: &&Value| {
            keys.iter().all(|key| {
                wanted
                    .get(key)
                    .is_none_or(|value| item.get(key) == Some(value))
            })
        };
        let wanted = wanted.iter().find(matches);
        let marker = self
            .all
            .iter()
            .filter_map(|node| node.as_object())
            .flat_map(Map::keys)
            .find(|marker| Marker::parse(marker).is_of(item));
        let below = match marker {
            Some(marker) => self.below(marker),
            None => Self {
                ours: None,
                all: Vec::new(),
            },
        };
        below.part(item, wanted)
    }

    fn items(&self) -> Items {
        let markers = self.all.iter().filter_map(|node| node.as_object());
        for marker in markers.flat_map(Map::keys) {
            match Marker::parse(marker) {
                Marker::Item(keys) => return Items::Keys(keys.keys().cloned().collect()),
                Marker::Element(_) => return Items::Values,
                _ => {}
            }
        }
        Items::Nothing
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    /// Checks the projection of `live` if the manager owns `ours` and another manager owns
    /// `theirs`.
    fn check(wanted: &str, ours: &str, theirs: &str, live: &str, expected: &str) {
        let mut object = yaml(live);
        let entry = |manager: &str, operation: &str, fields: &str| {
            json!({"manager": manager,
            "operation": operation, "fieldsV1": yaml(fields)})
        };
        object["metadata"]["managedFields"] = json!([
            entry("kubelet", "Update", theirs),
            entry("package-operator", "Apply", ours),
        ]);
        assert_eq!(
            project(&object, &yaml(wanted)),
            yaml(expected),
            "{wanted} of {live}"
        );
    }

    #[test]
    fn maps_keep_wanted_and_owned_fields() {
        // Defaults and fields of other managers are left out.
        check(
            "{a: 1, m: {x: 1}}",
            "{f:a: {}, f:m: {f:x: {}}}",
            "{f:b: {}}",
            "{a: 2, b: 3, m: {x: 4, y: 5}, status: {}}",
            "{a: 2, m: {x: 4}}",
        );
        // Missing in the live object.
        check("{a: 1, m: {x: 1}}", "{}", "{}", "{m: {y: 5}}", "{m: {}}");
        // Of another type.
        check(
            "{a: 1, b: {c: 1}}",
            "{f:a: {}}",
            "{}",
            "{a: {x: 1}, b: text}",
            "{a: {x: 1}, b: text}",
        );
        // Applied before, not wanted any more.
        check(
            "{a: 1}",
            "{f:a: {}, f:old: {f:x: {}}}",
            "{}",
            "{a: 1, old: {x: 1, y: 2}}",
            "{a: 1, old: {x: 1}}",
        );
        // Never applied by the manager.
        check("{a: 1}", "{}", "{f:a: {}}", "{a: 2, b: 1}", "{a: 2}");
    }

    #[test]
    fn items_of_keyed_lists_are_matched_by_their_keys() {
        let ours = r#"{f:l: {'k:{"name":"a"}': {f:v: {}}}}"#;
        check(
            "{l: [{name: a, v: 1}]}",
            ours,
            "{}",
            "{l: [{name: x, v: 9}, {name: a, v: 2, w: 3}]}",
            "{l: [{name: a, v: 2}]}",
        );
        // The markers of another manager name the keys as well.
        let theirs = r#"{f:l: {'k:{"name":"x"}': {f:v: {}}}}"#;
        check(
            "{l: [{name: a, v: 1}]}",
            "{}",
            theirs,
            "{l: [{name: x, v: 9}, {name: a, v: 2}]}",
            "{l: [{name: a, v: 2}]}",
        );
        // An item that is not wanted any more, and an item that does not exist.
        check(
            "{l: [{name: b, v: 1}]}",
            ours,
            "{}",
            "{l: [{name: a, v: 2, w: 3}]}",
            "{l: [{v: 2}]}",
        );
        // A key with a default.
        let port = r#"{f:l: {'k:{"port":80,"protocol":"TCP"}': {f:port: {}}}}"#;
        check(
            "{l: [{port: 80}]}",
            port,
            "{}",
            "{l: [{port: 80, protocol: TCP}]}",
            "{l: [{port: 80}]}",
        );
    }

    #[test]
    fn sets_keep_wanted_values_and_atomic_lists_all() {
        check(
            "{l: [a]}",
            "{f:l: {'v:\"a\"': {}, 'v:\"old\"': {}}}",
            "{f:l: {'v:\"b\"': {}}}",
            "{l: [b, a, old]}",
            "{l: [a, old]}",
        );
        check("{l: [a]}", "{f:l: {}}", "{}", "{l: [b, a]}", "{l: [b, a]}");
        check("{l: [a]}", "{}", "{}", "{l: [b, a]}", "{l: [b, a]}");
        check(
            "{l: []}",
            "{}",
            "{f:l: {'v:\"b\"': {}}}",
            "{l: [b]}",
            "{l: []}",
        );
    }
}
