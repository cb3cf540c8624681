//! The parts of [`with_create_only`](super::with_create_only): the owned fields at a path, and
//! edits of a body.

use serde_json::{Map, Value};

use super::fields::{Marker, field, has_keys, is_leaf, same};

/// The node at the keys, or above them if an atomic value there is owned as a whole; `None` if
/// nothing is owned there.
pub(super) fn owned_at<'a>(root: &'a Map<String, Value>, keys: &[String]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    let mut node = field(root, first)?;
    for key in rest {
        let below = node.as_object()?;
        if is_leaf(below) {
            break;
        }
        node = field(below, key)?;
    }
    Some(node)
}

/// A copy of the part of a live value that we own, if any.
pub(super) fn owned_part(node: &Value, live: &Value) -> Option<Value> {
    let owned = node.as_object()?;
    if is_leaf(owned) {
        return Some(live.clone());
    }
    match live {
        Value::Object(live) => {
            let part = owned
                .iter()
                .filter_map(|(text, node)| match Marker::parse(text) {
                    Marker::Field(name) => {
                        Some((name.to_owned(), owned_part(node, live.get(name)?)?))
                    }
                    _ => None,
                });
            Some(Value::Object(part.collect())).filter(|part| part != &Value::Object(Map::new()))
        }
        Value::Array(live) => {
            let markers: Vec<_> = owned
                .iter()
                .map(|(text, node)| (Marker::parse(text), node))
                .collect();
            let part = live.iter().filter_map(|item| {
                markers.iter().find_map(|(marker, node)| match marker {
                    Marker::Item(keys) if has_keys(item, keys) => {
                        owned_part(node, item).map(|part| with_keys(part, keys))
                    }
                    Marker::Element(element) if same(item, element) => Some(item.clone()),
                    _ => None,
                })
            });
            Some(Value::Array(part.collect())).filter(|part| part != &Value::Array(Vec::new()))
        }
        _ => None,
    }
}

/// Adds the keys that identify a list item to a part of it.
///
/// An apply that claims a part contains the keys too, except those with a default. An update, as
/// earlier releases sent them, may have left all keys to the maker of the item.
fn with_keys(mut part: Value, keys: &Map<String, Value>) -> Value {
    if let Value::Object(part) = &mut part
        && !keys.keys().any(|key| part.contains_key(key))
    {
        part.extend(keys.clone());
    }
    part
}

/// Inserts a value and the maps that lead to it. A scalar or list on the way is not replaced.
pub(super) fn set(at: &mut Value, keys: &[String], value: Value) {
    let Some((key, rest)) = keys.split_first() else {
        *at = value;
        return;
    };
    if at.is_null() {
        *at = Value::Object(Map::new());
    }
    if let Value::Object(map) = at {
        set(map.entry(key.as_str()).or_insert(Value::Null), rest, value);
    }
}

/// Removes a value, and the maps above it that become empty.
pub(super) fn remove(at: &mut Value, keys: &[String]) {
    let (Some((key, rest)), Value::Object(map)) = (keys.split_first(), at) else {
        return;
    };
    let emptied = match map.get_mut(key) {
        Some(below) if !rest.is_empty() => {
            let is_empty = |below: &Value| below.as_object().is_some_and(Map::is_empty);
            let was_empty = is_empty(below);
            remove(below, rest);
            !was_empty && is_empty(below)
        }
        _ => true,
    };
    if emptied {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::tests::{live, yaml};
    use crate::diff::{FieldPath, with_create_only};

    fn keys(path: &str) -> Vec<String> {
        path.split('.').skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn values_are_inserted_with_their_parent_maps() {
        for (body, path, expected) in [
            ("{}", ".a", "{a: 7}"),
            ("{a: 1, b: 2}", ".a", "{a: 7, b: 2}"),
            ("{}", ".a.b.c", "{a: {b: {c: 7}}}"),
            ("{a: {x: 1}}", ".a.b", "{a: {b: 7, x: 1}}"),
            ("{a: null}", ".a.b", "{a: {b: 7}}"),
            ("null", ".a", "{a: 7}"),
            ("{a: {b: {c: 1}}}", ".a.b", "{a: {b: 7}}"),
            ("{a: [1]}", ".a.b", "{a: [1]}"),
            ("{a: x}", ".a.b", "{a: x}"),
        ] {
            let mut body = yaml(body);
            set(&mut body, &keys(path), json!(7));
            assert_eq!(body, yaml(expected), "{path}");
        }
    }

    #[test]
    fn values_are_removed_with_maps_that_become_empty() {
        for (body, path, expected) in [
            ("{a: 1, b: 2}", ".a", "{b: 2}"),
            ("{a: 1}", ".a", "{}"),
            ("{a: {b: {c: 1}}, x: 1}", ".a.b.c", "{x: 1}"),
            ("{a: {b: {c: 1}, x: 1}}", ".a.b.c", "{a: {x: 1}}"),
            ("{a: {b: {c: 1}}}", ".a.b", "{}"),
            // If the value is absent, the maps above it stay.
            ("{a: {}}", ".a.b", "{a: {}}"),
            ("{a: {b: {}}}", ".a.b.c", "{a: {b: {}}}"),
            ("{a: {b: 1}}", ".a.c", "{a: {b: 1}}"),
            ("{a: [1]}", ".a.b", "{a: [1]}"),
            ("{a: null}", ".a.b", "{a: null}"),
            ("{}", ".a.b", "{}"),
            ("x", ".a", "x"),
        ] {
            let mut body = yaml(body);
            remove(&mut body, &keys(path));
            assert_eq!(body, yaml(expected), "{path}");
        }
    }

    #[test]
    fn a_path_is_owned_at_itself_or_in_an_atomic_value_above() {
        let owned = yaml("{f:a: {f:b: {f:c: {}}, '.': {}}, f:atomic: {}}");
        let owned = owned.as_object().unwrap();
        for (path, expected) in [
            (".a.b.c", Some("{}")),
            (".a.b", Some("{f:c: {}}")),
            (".a.b.x", None),
            (".a.x", None),
            (".x", None),
            (".atomic", Some("{}")),
            (".atomic.x.y", Some("{}")),
            (".a.b.c.d", Some("{}")),
        ] {
            let found = owned_at(owned, &keys(path)).cloned();
            assert_eq!(found, expected.map(yaml), "{path}");
        }
        assert_eq!(owned_at(&Map::new(), &keys(".a")), None);
    }

    #[test]
    fn the_owned_part_of_a_value() {
        let a = r#"'k:{"n":"a"}'"#;
        for (owned, live, expected) in [
            ("{}", "{b: 1}", Some("{b: 1}")),
            ("{}", "null", Some("null")),
            ("{f:b: {}}", "{b: 1, c: 2}", Some("{b: 1}")),
            (
                "{f:b: {}, f:c: {f:d: {}}}",
                "{b: 1, c: {d: 2, e: 3}}",
                Some("{b: 1, c: {d: 2}}"),
            ),
            (
                "{f:b: {}, f:c: {f:d: {}}}",
                "{b: 1, c: {e: 3}}",
                Some("{b: 1}"),
            ),
            ("{f:b: {}}", "{c: 2}", None),
            ("{f:b: {}}", "7", None),
            ("{f:b: {}}", "[b]", None),
            (
                &format!("{{{a}: {{}}}}"),
                "[{n: x}, {n: a, v: 1}]",
                Some("[{n: a, v: 1}]"),
            ),
            (
                &format!("{{{a}: {{f:n: {{}}}}}}"),
                "[{n: x}, {n: a, v: 1}]",
                Some("[{n: a}]"),
            ),
            (&format!("{{{a}: {{f:n: {{}}}}}}"), "[{n: x}]", None),
            // Ours by an update that left the key to others: the server refuses an item without
            // keys.
            (
                &format!("{{{a}: {{f:v: {{}}}}}}"),
                "[{n: x}, {n: a, v: 1, w: 2}]",
                Some("[{n: a, v: 1}]"),
            ),
            (
                r#"{'k:{"p":80,"q":"U"}': {f:v: {}}}"#,
                "[{p: 80, q: T, v: 0}, {p: 80, q: U, v: 1}]",
                Some("[{p: 80, q: U, v: 1}]"),
            ),
            // An apply that left one key to its default did not claim that key.
            (
                r#"{'k:{"p":80,"q":"T"}': {'.': {}, f:p: {}, f:v: {}}}"#,
                "[{p: 80, q: T, v: 1}]",
                Some("[{p: 80, v: 1}]"),
            ),
            ("{'v:1': {}, 'v:2': {}}", "[3, 2, 1]", Some("[2, 1]")),
            ("{'v:1': {}}", "{b: 1}", None),
            ("7", "7", None),
        ] {
            assert_eq!(
                owned_part(&yaml(owned), &yaml(live)),
                expected.map(yaml),
                "{owned} {live}"
            );
        }
    }

    /// The body, the owned fields, the live object, and the body to be applied if the path is
    /// create-only.
    #[test]
    fn create_only_fields_have_live_values_in_the_applied_body() {
        for (path, body, owned, actual, expected) in [
            // Owned by us: the live value.
            (
                ".spec.replicas",
                "{spec: {replicas: 3, x: 1}}",
                "{f:spec: {f:replicas: {}}}",
                "{spec: {replicas: 3}}",
                "{spec: {replicas: 3, x: 1}}",
            ),
            (
                ".spec.replicas",
                "{spec: {replicas: 5, x: 1}}",
                "{f:spec: {f:replicas: {}}}",
                "{spec: {replicas: 3}}",
                "{spec: {replicas: 3, x: 1}}",
            ),
            // A template without the field must not remove it.
            (
                ".spec.replicas",
                "{spec: {x: 1}}",
                "{f:spec: {f:replicas: {}}}",
                "{spec: {replicas: 3}}",
                "{spec: {replicas: 3, x: 1}}",
            ),
            (
                ".spec.replicas",
                "{}",
                "{f:spec: {f:replicas: {}}}",
                "{spec: {replicas: 3}}",
                "{spec: {replicas: 3}}",
            ),
            // Owned by somebody else: left out.
            (
                ".spec.replicas",
                "{spec: {replicas: 3, x: 1}}",
                "{f:spec: {f:x: {}}}",
                "{spec: {replicas: 7}}",
                "{spec: {x: 1}}",
            ),
            (
                ".spec.replicas",
                "{spec: {replicas: 3}}",
                "{}",
                "{spec: {replicas: 7}}",
                "{}",
            ),
            (
                ".spec.replicas",
                "{spec: {x: 1}}",
                "{f:spec: {f:x: {}}}",
                "{spec: {replicas: 7}}",
                "{spec: {x: 1}}",
            ),
            // Owned, but gone from the object: no value to preserve.
            (
                ".spec.paused",
                "{spec: {paused: false, x: 1}}",
                "{f:spec: {f:paused: {}}}",
                "{spec: {}}",
                "{spec: {x: 1}}",
            ),
            // Of a map only our own keys are included.
            (
                ".data",
                "{data: {a: x, b: y}}",
                "{f:data: {f:a: {}}}",
                "{data: {a: z, b: w, c: v}}",
                "{data: {a: z}}",
            ),
            (
                ".data.a",
                "{data: {a: x, b: y}}",
                "{f:data: {f:a: {}}}",
                "{data: {a: z, b: w, c: v}}",
                "{data: {a: z, b: y}}",
            ),
            (
                ".data.b",
                "{data: {a: x, b: y}}",
                "{f:data: {f:a: {}}}",
                "{data: {a: z, b: w, c: v}}",
                "{data: {a: x}}",
            ),
            // The path leads into an atomic value of ours.
            (
                ".spec.sel.a",
                "{spec: {sel: {a: 1, b: 2}}}",
                "{f:spec: {f:sel: {}}}",
                "{spec: {sel: {a: 9, b: 8}}}",
                "{spec: {sel: {a: 9, b: 2}}}",
            ),
            (
                ".spec.sel.a",
                "{spec: {sel: {a: 1, b: 2}}}",
                "{f:spec: {f:sel: {}}}",
                "{spec: {sel: {b: 8}}}",
                "{spec: {sel: {b: 2}}}",
            ),
        ] {
            let mut applied = yaml(body);
            let paths = [FieldPath::parse(path).unwrap()];
            with_create_only(&mut applied, &live(yaml(actual), &yaml(owned)), &paths);
            assert_eq!(applied, yaml(expected), "{path} {body} {owned}");
        }
    }

    #[test]
    fn several_paths_and_an_object_that_we_never_applied() {
        let paths = [".spec.a", ".spec.b", r".metadata.annotations.x\.y/z"]
            .map(|path| path.parse().unwrap());
        let wanted =
            yaml("{metadata: {name: n, annotations: {x.y/z: '1'}}, spec: {a: 1, b: 2, c: 3}}");
        let mut body = wanted.clone();
        with_create_only(
            &mut body,
            &yaml("{metadata: {}, spec: {a: 8, b: 9}}"),
            &paths,
        );
        assert_eq!(body, yaml("{metadata: {name: n}, spec: {c: 3}}"));

        let live = live(
            yaml("{metadata: {annotations: {x.y/z: '2'}}, spec: {a: 8, b: 9}}"),
            &yaml("{f:metadata: {f:annotations: {f:x.y/z: {}}}, f:spec: {f:a: {}}}"),
        );
        let mut body = wanted.clone();
        with_create_only(&mut body, &live, &paths);
        assert_eq!(
            body,
            yaml("{metadata: {name: n, annotations: {x.y/z: '2'}}, spec: {a: 8, c: 3}}")
        );

        let mut body = wanted.clone();
        with_create_only(&mut body, &live, &[]);
        assert_eq!(body, wanted);
    }

    #[test]
    fn create_only_paths_are_parsed_or_refused() {
        for (text, expected) in [
            (".spec.replicas", Ok(vec!["spec", "replicas"])),
            (".data", Ok(vec!["data"])),
            (r".data.tls\.crt", Ok(vec!["data", "tls.crt"])),
            (r".spec.a\\b", Ok(vec!["spec", r"a\b"])),
            (
                r".metadata.labels.app\.kubernetes\.io/name",
                Ok(vec!["metadata", "labels", "app.kubernetes.io/name"]),
            ),
            (
                ".metadata.annotations.note",
                Ok(vec!["metadata", "annotations", "note"]),
            ),
            (".spec.metadata.name", Ok(vec!["spec", "metadata", "name"])),
            (".spec.status", Ok(vec!["spec", "status"])),
            ("", Err("begin with a dot")),
            ("spec.replicas", Err("begin with a dot")),
            ("$.spec", Err("begin with a dot")),
            (".", Err("single dots")),
            (".spec.", Err("single dots")),
            ("..spec", Err("single dots")),
            (".spec..replicas", Err("single dots")),
            (r".spec.a\b", Err("single dots")),
            (r".spec.a\", Err("single dots")),
            (".spec.containers[0]", Err("leads into a list")),
            (
                ".spec.containers[name=app].resources",
                Err("leads into a list"),
            ),
            (".spec.*", Err("leads into a list")),
            (".status", Err("always managed")),
            (".status.replicas", Err("always managed")),
            (".kind", Err("always managed")),
            (".apiVersion", Err("always managed")),
            (".metadata", Err("always managed")),
            (".metadata.name", Err("always managed")),
            (".metadata.labels", Err("always managed")),
            (".metadata.annotations", Err("always managed")),
            (".metadata.ownerReferences", Err("always managed")),
            (
                ".metadata.labels.app.kubernetes.io/name",
                Err("always managed"),
            ),
            (
                r".metadata.labels.package-operator\.run/cache",
                Err("always managed"),
            ),
            (
                r".metadata.annotations.package-operator\.run/revision",
                Err("always managed"),
            ),
        ] {
            match (FieldPath::parse(text), expected) {
                (Ok(path), Ok(keys)) => {
                    assert_eq!(path.0, keys);
                    assert_eq!(path.to_string(), text);
                    assert_eq!(text.parse(), Ok(path));
                }
                (Err(error), Err(part)) => {
                    let error = error.to_string();
                    assert!(
                        error.contains(part) && error.contains(&format!("{text:?}")),
                        "{error}"
                    );
                }
                (parsed, expected) => panic!("{text}: {parsed:?}, not {expected:?}"),
            }
        }
    }
}
