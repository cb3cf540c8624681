//! The fields that a live object loses when it is taken over: former tools applied them, and the
//! revision leaves them out.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields::{Marker, OnPath, below, has_keys, is_leaf, same, subtract};
use super::legacy::{migrated, wanted_part};
use super::texts::stored_fields;

/// Fields of a live object that become ours with the take-over and are not wanted.
///
/// # Caveats
/// A tool that does not use server-side apply owns the server's defaults as well. These are removed
/// with the others, and the server sets them again. Only the server knows its defaults: a dry run
/// with the object [without](Dropped::remove_from) the fields shows [which of them](Dropped::gone)
/// are really gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dropped {
    fields: Map<String, Value>,
    /// Fields of the other managers, which stay theirs.
    others: Vec<Map<String, Value>>,
}

impl Dropped {
    /// The fields that an apply of `wanted` drops once the fields of the `former` managers are
    /// ours.
    #[must_use]
    pub fn of(live: &Value, wanted: &Value, former: &[String]) -> Self {
        let entries = migrated(live, former).unwrap_or_default();
        let mut sets = entries
            .iter()
            .map(|entry| stored_fields(entry, live).map(Cow::into_owned));
        let Some(mut fields) = sets.next().flatten() else {
            return Self::default();
        };
        let others: Vec<_> = sets.flatten().collect();
        if let Some(part) = wanted_part(&fields, wanted) {
            subtract(&mut fields, &part);
        }
        for other in &others {
            subtract(&mut fields, other);
        }
        // Owner references are managed separately.
        if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) {
            metadata.remove("f:ownerReferences");
        }
        Self { fields, others }
    }

    /// True if there are no such fields.
    pub fn is_empty(&self) -> bool {
        is_leaf(&self.fields)
    }

    /// Removes the fields from a state of the object.
    pub fn remove_from(&self, object: &mut Value) {
        prune(
            &self.fields,
            &self.others.iter().collect::<Vec<_>>(),
            object,
        );
    }

    /// The paths of the fields whose values differ afterwards.
    pub fn gone(&self, live: &Value, after: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let others: Vec<_> = self.others.iter().collect();
        list(
            OnPath::ROOT,
            &self.fields,
            &others,
            live,
            Some(after),
            &mut found,
        );
        found
    }
}

/// True if a node is removed with everything below it.
fn is_whole(node: &Map<String, Value>, others: &[&Map<String, Value>]) -> bool {
    others.is_empty() && (is_leaf(node) || node.contains_key("."))
}

fn prune(node: &Map<String, Value>, others: &[&Map<String, Value>], value: &mut Value) {
    let children = node
        .iter()
        .filter_map(|(marker, node)| Some((marker, node.as_object()?)));
    for (marker, node) in children {
        let others = below(others, marker);
        let is_whole = is_whole(node, &others);
        match (Marker::parse(marker), &mut *value) {
            (Marker::Field(name), Value::Object(fields)) => {
                let Some(field) = fields.get_mut(name) else {
                    continue;
                };
                prune(node, &others, field);
                let is_empty = match field {
                    Value::Object(fields) => fields.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    _ => false,
                };
                if is_whole || is_empty {
                    fields.remove(name);
                }
            }
            (Marker::Item(keys), Value::Array(items)) => {
                let Some(at) = items.iter().position(|item| has_keys(item, &keys)) else {
                    continue;
                };
                if is_whole {
                    items.remove(at);
                } else {
                    prune(node, &others, &mut items[at]);
                }
            }
            (Marker::Element(element), Value::Array(items)) if is_whole => {
                items.retain(|item| !same(item, &element));
            }
            _ => {}
        }
    }
}

fn list(
    path: OnPath<'_>,
    node: &Map<String, Value>,
    others: &[&Map<String, Value>],
    live: &Value,
    after: Option<&Value>,
    found: &mut Vec<String>,
) {
    let children = node
        .iter()
        .filter_map(|(marker, node)| Some((marker, node.as_object()?)));
    for (marker, node) in children {
        let others = below(others, marker);
        let parsed = Marker::parse(marker);
        let path = match parsed {
            Marker::This => continue,
            Marker::Field(name) => path.field(name),
            _ => path.marker(marker),
        };
        let at = |value| parsed.find(value);
        let Some(live) = at(live) else { continue };
        match after.and_then(at) {
            Some(after) if same(live, after) => {}
            None if is_whole(node, &others) => found.push(path.in_full().to_string()),
            Some(_) if is_leaf(node) => found.push(path.in_full().to_string()),
            after => list(path, node, &others, live, after, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::tests::yaml;

    const KUBECTL: &str = "kubectl-client-side-apply";

    /// A live object with these fields, owned by these managers.
    fn live(object: &str, owned: &[(&str, &str, &str)]) -> Value {
        let mut object = yaml(object);
        object["apiVersion"] = "v1".into();
        object["kind"] = "Test".into();
        let entries = owned.iter().map(|(manager, operation, fields)| {
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": yaml(fields)})
        });
        object["metadata"]["managedFields"] = entries.collect::<Vec<_>>().into();
        object
    }

    /// The remaining `spec`, and the paths that are reported as gone.
    fn dropped(live: &Value, wanted: &str) -> (Value, Vec<String>) {
        let dropped = Dropped::of(live, &yaml(wanted), &[KUBECTL.to_owned()]);
        let mut after = live.clone();
        dropped.remove_from(&mut after);
        let gone = dropped.gone(live, &after);
        assert_eq!(gone.is_empty(), dropped.is_empty());
        (after["spec"].take(), gone)
    }

    #[test]
    fn only_unwanted_fields_of_a_former_tool_without_other_owners_are_dropped() {
        let (a, b) = (r#"'k:{"name":"a"}'"#, r#"'k:{"name":"b"}'"#);
        let item = "{.: {}, f:name: {}, f:v: {}}";
        for (spec, theirs, others, wanted, left, gone) in [
            (
                "{x: 1, z: 2}",
                "{f:x: {}, f:z: {}}",
                "{}",
                "{x: 1}",
                "{x: 1}",
                &[".spec.z"][..],
            ),
            (
                "{x: 1, z: 2}",
                "{f:x: {}, f:z: {}}",
                "{f:z: {}}",
                "{x: 1}",
                "{x: 1, z: 2}",
                &[],
            ),
            (
                "{x: 1, z: 2}",
                "{f:x: {}}",
                "{}",
                "{x: 3}",
                "{x: 1, z: 2}",
                &[],
            ),
            // The map is removed as a whole, with fields that no manager owns, except for the fields of
            // others.
            (
                "{m: {x: 1, z: 2}, n: 1}",
                "{f:m: {.: {}, f:x: {}}}",
                "{}",
                "{n: 1}",
                "{n: 1}",
                &[".spec.m"],
            ),
            (
                "{m: {x: 1, z: 2}, n: 1}",
                "{f:m: {.: {}, f:x: {}}}",
                "{f:m: {f:z: {}}}",
                "{n: 1}",
                "{m: {z: 2}, n: 1}",
                &[".spec.m.x"],
            ),
            (
                "{l: [{name: a, v: 1}, {name: b, v: 2}]}",
                &format!("{{f:l: {{.: {{}}, {a}: {item}, {b}: {item}}}}}"),
                "{}",
                "{l: [{name: a, v: 1}]}",
                "{l: [{name: a, v: 1}]}",
                &[r#".spec.l[{"name":"b"}]"#],
            ),
            (
                "{l: [{name: a, v: 1, w: 2}]}",
                &format!("{{f:l: {{{a}: {item}}}}}"),
                "{}",
                "{l: [{name: a}]}",
                "{l: [{name: a, w: 2}]}",
                &[r#".spec.l[{"name":"a"}].v"#],
            ),
            (
                "{l: [x, z]}",
                r#"{f:l: {'v:"x"': {}, 'v:"z"': {}}}"#,
                "{}",
                "{l: [x]}",
                "{l: [x]}",
                &[r#".spec.l["z"]"#],
            ),
        ] {
            let (theirs, others) = (
                format!("{{f:spec: {theirs}}}"),
                format!("{{f:spec: {others}}}"),
            );
            let object = format!("{{metadata: {{}}, spec: {spec}}}");
            let mut owned = vec![(KUBECTL, "Update", &*theirs), ("edit", "Update", &*others)];
            owned.retain(|(.., fields)| *fields != "{f:spec: {}}");
            let live = live(&object, &owned);
            let wanted = format!("{{apiVersion: v1, kind: Test, spec: {wanted}}}");
            let (after, found) = dropped(&live, &wanted);
            assert_eq!(after, yaml(left), "{spec} {theirs}");
            assert_eq!(found, gone, "{spec} {theirs}");
        }
    }

    #[test]
    fn no_field_without_a_former_tool_is_dropped() {
        let fields = "{f:spec: {f:x: {}, f:z: {}}}";
        for manager in ["edit", "package-operator"] {
            let live = live(
                "{metadata: {}, spec: {x: 1, z: 2}}",
                &[(manager, "Apply", fields)],
            );
            assert_eq!(
                Dropped::of(&live, &yaml("{spec: {}}"), &[]),
                Dropped::default()
            );
        }
    }

    /// Fields that the server sets again are not reported as gone.
    #[test]
    fn defaults_that_the_server_restores_are_not_reported() {
        let fields = "{f:spec: {f:policy: {}, f:size: {}, f:old: {}}}";
        let live = live(
            "{metadata: {}, spec: {policy: Always, size: 2, old: x}}",
            &[(KUBECTL, "Update", fields)],
        );
        let dropped = Dropped::of(&live, &yaml("{spec: {}}"), &[KUBECTL.to_owned()]);
        let after = yaml("{spec: {policy: Always, size: 1}}");
        assert_eq!(dropped.gone(&live, &after), [".spec.old", ".spec.size"]);
    }

    #[test]
    fn the_texts_of_a_secret_are_its_data() {
        let mut secret = live(
            "{metadata: {}, data: {a: eA==, b: eA==}}",
            &[(KUBECTL, "Update", "{f:data: {.: {}, f:a: {}, f:b: {}}}")],
        );
        secret["kind"] = "Secret".into();
        let wanted = yaml("{apiVersion: v1, kind: Secret, data: {a: eA==}}");
        let dropped = Dropped::of(&secret, &wanted, &[KUBECTL.to_owned()]);
        let mut after = secret.clone();
        dropped.remove_from(&mut after);
        assert_eq!(dropped.gone(&secret, &after), [".data.b"]);
    }
}
