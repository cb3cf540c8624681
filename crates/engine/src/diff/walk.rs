//! The walk behind [`compare`](super::compare): through the wanted body, the owned fields and the
//! live object in parallel.

mod lists;

use serde_json::{Map, Value};

use self::lists::compare_set;
use super::fields::{Marker, OnPath, field, is_leaf, same};
use super::legacy::OwnedFields;
use super::{Difference, UNOWNED_METADATA, UNOWNED_ROOT, is_custom};

/// The result of a comparison. The first difference ends it.
pub(super) type Walk = Result<(), Difference>;

pub(super) fn compare_roots(wanted: &Value, live: &Value) -> Walk {
    let root = OnPath::ROOT;
    let ownership = OwnedFields::of(live).ok_or_else(|| not_owned(root))?;
    let owned = ownership.fields_for(wanted);
    let owned = owned.as_ref();
    let wanted = wanted.as_object().ok_or_else(|| differs(root))?;
    // The paths of an entry are those of the version that was applied; fields may have other names
    // in another version.
    if wanted.get("apiVersion") != ownership.version {
        return Err(not_owned(root.field("apiVersion")));
    }
    // Items of a list may lack these fields.
    for name in ["apiVersion", "kind"] {
        if live
            .get(name)
            .is_some_and(|live| Some(live) != wanted.get(name))
        {
            return Err(differs(root.field(name)));
        }
    }
    let none = Map::new();
    Types::GO.compare_fields(
        root.field("metadata"),
        map(wanted.get("metadata"), &none),
        map(field(owned, "metadata"), &none),
        live.get("metadata"),
        &UNOWNED_METADATA,
    )?;
    Types::of(wanted).compare_fields(root, wanted, owned, Some(live), &UNOWNED_ROOT)
}

/// Returns the map of a value, or an empty map.
fn map<'a>(value: Option<&'a Value>, none: &'a Map<String, Value>) -> &'a Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(none)
}

/// The way in which the server stores the objects of a kind, if that changes the meaning of an
/// absent field.
#[derive(Clone, Copy)]
pub(super) struct Types {
    /// True if the server decodes the objects into Go structs.
    ///
    /// These omit empty lists and nulls when they are encoded. So such a value counts as present if
    /// it is wanted (and owned, where the server records that), although the object lacks the
    /// field. A custom resource stores all values, so there the absence is a difference.
    go: bool,
}

impl Types {
    /// The built-in kinds of the server, and the metadata of all kinds.
    const GO: Self = Self { go: true };

    fn of(wanted: &Map<String, Value>) -> Self {
        let version = wanted.get("apiVersion").and_then(Value::as_str);
        Self {
            go: !is_custom(version.unwrap_or_default()),
        }
    }

    /// Compares a map key by key: first the owned keys, then the other wanted ones.
    fn compare_fields(
        self,
        path: OnPath<'_>,
        wanted: &Map<String, Value>,
        owned: &Map<String, Value>,
        live: Option<&Value>,
        skipped: &[&str],
    ) -> Walk {
        let live = live.and_then(Value::as_object);
        let mut covered = 0;
        for (text, node) in owned {
            let name = match Marker::parse(text) {
                Marker::Field(name) if skipped.contains(&name) => continue,
                Marker::Field(name) => name,
                Marker::This => continue,
                _ => return Err(differs(path.marker(text))),
            };
            let below = path.field(name);
            let live = live.and_then(|live| live.get(name));
            let Some(wanted) = wanted.get(name) else {
                // The claim to a field that does not exist has no effect.
                if live.is_none() && node.as_object().is_some_and(is_leaf) {
                    continue;
                }
                return Err(surplus(below));
            };
            self.compare_node(below, wanted, node, live)?;
            covered += 1;
        }
        if covered == wanted.len() {
            return Ok(());
        }
        wanted
            .iter()
            .filter(|(name, _)| !skipped.contains(&name.as_str()) && field(owned, name).is_none())
            .try_for_each(|(name, wanted)| {
                self.compare_unowned(
                    path.field(name),
                    wanted,
                    live.and_then(|live| live.get(name)),
                )
            })
    }

    pub(super) fn compare_node(
        self,
        path: OnPath<'_>,
        wanted: &Value,
        node: &Value,
        live: Option<&Value>,
    ) -> Walk {
        match (node.as_object(), wanted) {
            (Some(owned), _) if is_leaf(owned) => {
                if self.is_present(live, wanted) {
                    Ok(())
                } else {
                    Err(differs(path))
                }
            }
            (Some(owned), Value::Object(wanted)) => {
                self.compare_fields(path, wanted, owned, live, &[])
            }
            (Some(owned), Value::Array(wanted)) => {
                let live = live
                    .and_then(Value::as_array)
                    .map_or(&[][..], Vec::as_slice);
                if owned.keys().any(|marker| marker.starts_with("v:")) {
                    compare_set(path, wanted, owned, live)
                } else {
                    self.compare_keyed(path, wanted, owned, live)
                }
            }
            _ => Err(differs(path)),
        }
    }

    /// Compares a wanted value that no owned field records: an empty list may be keyed, and then
    /// has no items to own; a `null` may ask for a field to be absent that is.
    fn compare_unowned(self, path: OnPath<'_>, wanted: &Value, live: Option<&Value>) -> Walk {
        match wanted {
            Value::Array(items) if items.is_empty() && self.is_present(live, wanted) => Ok(()),
            Value::Null if self.go && live.is_none() => Ok(()),
            Value::Object(wanted) if !wanted.is_empty() => {
                wanted.iter().try_for_each(|(name, wanted)| {
                    self.compare_unowned(
                        path.field(name),
                        wanted,
                        live.and_then(|live| live.get(name)),
                    )
                })
            }
            _ => Err(not_owned(path)),
        }
    }

    /// True if a live value equals the wanted one.
    fn is_present(self, live: Option<&Value>, wanted: &Value) -> bool {
        live.map_or_else(|| self.go && is_nothing(wanted), |live| same(wanted, live))
    }
}

/// True for a value that Go does not distinguish from an absent one. Zeros, empty texts and empty
/// structs may be distinct: they are stored if the field is a pointer, which only the schema shows.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

pub(super) fn differs(path: OnPath<'_>) -> Difference {
    Difference::Fields(path.to_string())
}

pub(super) fn not_owned(path: OnPath<'_>) -> Difference {
    Difference::NotOwned(path.to_string())
}

pub(super) fn surplus(path: OnPath<'_>) -> Difference {
    Difference::Surplus(path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::compare;
    use crate::diff::tests::{check_spec, difference, live, show, yaml};

    #[test]
    fn maps_are_compared_key_by_key() {
        let ab = r#"{"f:a": {}, "f:b": {"f:c": {}}}"#;
        for (wanted, live, expected) in [
            ("{a: 1, b: {c: x}}", "{a: 1, b: {c: x}}", "none"),
            ("{a: 1.0, b: {c: x}}", "{a: 1, b: {c: x}}", "none"),
            ("{a: 1, b: {c: x}}", "{z: 0, a: 1, b: {z: 0, c: x}}", "none"),
            ("{a: 2, b: {c: x}}", "{a: 1, b: {c: x}}", "fields .spec.a"),
            ("{a: '1', b: {c: x}}", "{a: 1, b: {c: x}}", "fields .spec.a"),
            ("{a: 1, b: {c: x}}", "{b: {c: x}}", "fields .spec.a"),
            (
                "{a: 1, b: {c: x}}",
                "{a: null, b: {c: x}}",
                "fields .spec.a",
            ),
            ("{a: 1, b: {c: x}}", "{a: 1, b: {c: y}}", "fields .spec.b.c"),
            ("{a: 1, b: {c: x}}", "{a: 1}", "fields .spec.b.c"),
            ("{a: 1, b: {c: x}}", "{a: 1, b: [c]}", "fields .spec.b.c"),
            ("{a: 1, b: {c: x}}", "null", "fields .spec.a"),
            ("{a: 1, b: {}}", "{a: 1, b: {c: x}}", "surplus .spec.b.c"),
            ("{a: 1}", "{a: 1, b: {c: x}}", "surplus .spec.b"),
            ("{b: {c: x}}", "{a: 1, b: {c: x}}", "surplus .spec.a"),
            ("{}", "{a: 1, b: {c: x}}", "surplus .spec.a"),
            (
                "{a: 1, b: {c: x}, d: 0}",
                "{a: 1, b: {c: x}, d: 0}",
                "not owned .spec.d",
            ),
            (
                "{a: 1, b: {c: x, d: {e: 0}}}",
                "{a: 1, b: {c: x, d: {e: 0}}}",
                "not owned .spec.b.d.e",
            ),
            ("{a: 1, b: x}", "{a: 1, b: x}", "fields .spec.b"),
            ("{a: 1, b: null}", "{a: 1, b: {c: x}}", "fields .spec.b"),
            ("{a: 1, b: [c]}", "{a: 1, b: {c: x}}", "fields .spec.b.c"),
            ("7", "7", "fields .spec"),
        ] {
            check_spec(wanted, ab, live, expected);
        }
    }

    #[test]
    fn a_leaf_is_the_whole_value() {
        for (wanted, live, expected) in [
            ("{a: {b: 1}}", "{a: {b: 1}}", "none"),
            ("{a: {b: 1, c: [2]}}", "{a: {c: [2], b: 1}}", "none"),
            // An added field may be a default or drift.
            ("{a: {b: 1}}", "{a: {b: 1, c: 2}}", "fields .spec.a"),
            ("{a: {b: 1}}", "{a: {}}", "fields .spec.a"),
            ("{a: [1, 2]}", "{a: [1, 2]}", "none"),
            ("{a: [1, 2]}", "{a: [2, 1]}", "fields .spec.a"),
            ("{a: [{b: 1}]}", "{a: [{b: 1, c: TCP}]}", "fields .spec.a"),
            // Quantities are not interpreted.
            ("{a: 1000m}", "{a: '1'}", "fields .spec.a"),
            ("{a: 0.5Gi}", "{a: 512Mi}", "fields .spec.a"),
            ("{a: 80}", "{a: '80'}", "fields .spec.a"),
            ("{a: null}", "{a: null}", "none"),
            ("{a: null}", "{a: auto}", "fields .spec.a"),
            ("{a: {}}", "{a: {}}", "none"),
            ("{a: {}}", "{a: {b: 1}}", "fields .spec.a"),
        ] {
            check_spec(wanted, r#"{"f:a": {}}"#, live, expected);
            check_spec(wanted, r#"{"f:a": {".": {}}}"#, live, expected);
            check_spec(wanted, r#"{".": {}, "f:a": {}}"#, live, expected);
        }
        // An empty set of fields owns nothing, rather than everything.
        check_spec("{a: 1}", "{f:b: {}}", "{a: 1, b: 2}", "surplus .spec.b");
    }

    /// Wanted value, live value, and the result for a built-in kind and for a custom resource, if
    /// `.spec.a` is owned.
    #[test]
    fn built_in_kinds_lose_empty_lists_and_nulls() {
        for (wanted, live, built_in, custom) in [
            ("[]", "{}", "none", "fields .spec.a"),
            ("null", "{}", "none", "fields .spec.a"),
            // The server drops some of these values and stores others, such as an optional `false`.
            // The owned value may be an earlier `null`, which left the field absent.
            ("false", "{}", "fields .spec.a", "fields .spec.a"),
            ("0", "{}", "fields .spec.a", "fields .spec.a"),
            ("''", "{}", "fields .spec.a", "fields .spec.a"),
            ("{}", "{}", "fields .spec.a", "fields .spec.a"),
            ("true", "{}", "fields .spec.a", "fields .spec.a"),
            ("1", "{}", "fields .spec.a", "fields .spec.a"),
            ("'0'", "{}", "fields .spec.a", "fields .spec.a"),
            ("[0]", "{}", "fields .spec.a", "fields .spec.a"),
            ("{b: 0}", "{}", "fields .spec.a", "fields .spec.a"),
            // A live value is not an absent one.
            ("false", "{a: true}", "fields .spec.a", "fields .spec.a"),
            ("null", "{a: x}", "fields .spec.a", "fields .spec.a"),
            ("[]", "{a: null}", "fields .spec.a", "fields .spec.a"),
            ("''", "{a: null}", "fields .spec.a", "fields .spec.a"),
            ("[]", "{a: {}}", "fields .spec.a", "fields .spec.a"),
            ("0", "{a: ''}", "fields .spec.a", "fields .spec.a"),
        ] {
            let wanted = format!("{{a: {wanted}}}");
            for (group, expected) in [
                ("v1", built_in),
                ("apps/v1", built_in),
                ("diff.test/v1", custom),
                ("networking.k8s.io/v1", custom),
            ] {
                assert_eq!(
                    of_group(group, &wanted, r#"{"f:a": {}}"#, live),
                    expected,
                    "{group} {wanted} {live}"
                );
            }
        }
    }

    fn of_group(group: &str, wanted: &str, owned: &str, spec: &str) -> String {
        let mut wanted = yaml(&format!("{{kind: Test, spec: {wanted}}}"));
        wanted["apiVersion"] = group.into();
        let mut live = live(
            yaml(&format!("{{kind: Test, spec: {spec}}}")),
            &yaml(&format!("{{'f:spec': {owned}}}")),
        );
        live["apiVersion"] = group.into();
        live["metadata"]["managedFields"][0]["apiVersion"] = group.into();
        show(&compare(&wanted, &live))
    }

    #[test]
    fn empty_keyed_lists_leave_no_trace() {
        for (wanted, live, built_in, custom) in [
            ("{a: []}", "{a: []}", "none", "none"),
            ("{a: []}", "{}", "none", "not owned .spec.a"),
            ("{b: {a: []}}", "{}", "none", "not owned .spec.b.a"),
            (
                "{b: {a: [], c: {d: []}}}",
                "{b: {a: [], c: {d: []}}}",
                "none",
                "none",
            ),
            // Items of others in a keyed list, or another manager's atomic list: unknown.
            (
                "{a: []}",
                "{a: [{n: x}]}",
                "not owned .spec.a",
                "not owned .spec.a",
            ),
            (
                "{a: [1]}",
                "{a: [1]}",
                "not owned .spec.a",
                "not owned .spec.a",
            ),
            // Any other empty value would be owned.
            (
                "{a: {}}",
                "{a: {}}",
                "not owned .spec.a",
                "not owned .spec.a",
            ),
            ("{a: null}", "{}", "none", "not owned .spec.a"),
            (
                "{a: null}",
                "{a: {b: 1}}",
                "not owned .spec.a",
                "not owned .spec.a",
            ),
            ("{a: ''}", "{}", "not owned .spec.a", "not owned .spec.a"),
        ] {
            for (group, expected) in [("v1", built_in), ("diff.test/v1", custom)] {
                let wanted = wanted.replacen('{', "{x: 1, ", 1);
                let live = live.replacen('{', "{x: 1, ", 1);
                assert_eq!(
                    of_group(group, &wanted, r#"{"f:x": {}}"#, &live),
                    expected,
                    "{group} {wanted}"
                );
            }
        }
    }

    #[test]
    fn markers_that_do_not_belong_to_a_map_are_reported() {
        for marker in ["i:0", "v:1", "k:{}", "?", "f"] {
            let owned = format!("{{'{marker}': {{}}, 'f:a': {{}}}}");
            let difference = difference("{a: 1}", &owned, "{a: 1}");
            assert!(
                difference.starts_with("fields .spec["),
                "{marker}: {difference}"
            );
        }
        check_spec("{a: 1}", r#"{"f:a": []}"#, "{a: 1}", "fields .spec.a");
        check_spec("{a: 1}", r#"{"f:a": 1}"#, "{a: 1}", "fields .spec.a");
    }

    #[test]
    fn the_root_is_compared_with_its_version_and_kind() {
        let wanted = yaml("{apiVersion: v1, kind: Test, metadata: {name: n}, spec: {a: 1}}");
        let same = live(wanted.clone(), &yaml("{f:spec: {f:a: {}}}"));
        assert_eq!(compare(&wanted, &same), Difference::None);
        for (pointer, value, expected) in [
            ("/apiVersion", "v2", "fields .apiVersion"),
            ("/kind", "Toast", "fields .kind"),
            (
                "/metadata/managedFields/0/apiVersion",
                "v2",
                "not owned .apiVersion",
            ),
            ("/metadata/managedFields/0/manager", "other", "not owned ."),
            // An update by Package Operator counts as an apply.
            ("/metadata/managedFields/0/operation", "Update", "none"),
            ("/metadata/managedFields/0/fieldsV1", "x", "not owned ."),
            ("/metadata/managedFields", "[]", "not owned ."),
            ("/metadata", "x", "not owned ."),
        ] {
            let mut live = same.clone();
            *live.pointer_mut(pointer).unwrap() = yaml(value);
            assert_eq!(show(&compare(&wanted, &live)), expected, "{pointer}");
        }
        // Items of a list lack `apiVersion` and `kind`.
        let mut item = same.clone();
        item.as_object_mut()
            .unwrap()
            .retain(|name, _| name != "apiVersion" && name != "kind");
        assert_eq!(compare(&wanted, &item), Difference::None);
        // An apply through a subresource has its own entry.
        let mut scaled = same.clone();
        scaled["metadata"]["managedFields"][0]["subresource"] = "".into();
        assert_eq!(compare(&wanted, &scaled), Difference::None);
        scaled["metadata"]["managedFields"][0]["subresource"] = "scale".into();
        assert_eq!(show(&compare(&wanted, &scaled)), "not owned .");
        for value in [Value::Null, Value::from("x"), Value::Array(Vec::new())] {
            assert_eq!(show(&compare(&value, &same)), "fields .");
            assert_eq!(show(&compare(&wanted, &value)), "not owned .");
        }
    }

    #[test]
    fn metadata_without_managed_fields_is_not_compared() {
        let owned = yaml("{f:metadata: {f:labels: {f:a: {}}}, f:status: {f:b: {}}}");
        let live = live(
            yaml(
                "{apiVersion: v1, kind: Test, metadata: {name: n, labels: {a: x}, uid: u}, status: {b: 1}}",
            ),
            &owned,
        );
        for (wanted, expected) in [
            ("{name: n, labels: {a: x}}", "none"),
            ("{labels: {a: x}}", "none"),
            ("{name: other, namespace: other, labels: {a: x}}", "none"),
            (
                "{labels: {a: x}, resourceVersion: '1', uid: v, generation: 3, selfLink: x}",
                "none",
            ),
            (
                "{labels: {a: x}, creationTimestamp: null, managedFields: []}",
                "none",
            ),
            (
                "{labels: {a: x}, finalizers: [], ownerReferences: []}",
                "none",
            ),
            (
                "{labels: {a: x}, finalizers: [a]}",
                "not owned .metadata.finalizers",
            ),
            ("{labels: {a: y}}", "fields .metadata.labels.a"),
            ("{labels: {a: x, b: y}}", "not owned .metadata.labels.b"),
            (
                "{labels: {a: x}, annotations: {a: x}}",
                "not owned .metadata.annotations.a",
            ),
            (
                "{labels: {a: x}, annotations: {}}",
                "not owned .metadata.annotations",
            ),
            ("{labels: {}}", "surplus .metadata.labels.a"),
            ("{name: n}", "surplus .metadata.labels"),
            ("null", "surplus .metadata.labels"),
        ] {
            let with_status = yaml(&format!(
                "{{apiVersion: v1, kind: Test, metadata: {wanted}, status: {{b: 2, c: 3}}}}"
            ));
            assert_eq!(show(&compare(&with_status, &live)), expected, "{wanted}");
            let mut without = with_status.clone();
            without.as_object_mut().unwrap().remove("status");
            assert_eq!(show(&compare(&without, &live)), expected, "{wanted}");
        }
    }

    #[test]
    fn owner_references_of_others_are_ignored() {
        let ours = "{apiVersion: v1, kind: ObjectSet, name: ours, uid: '1', controller: true}";
        let theirs = "{apiVersion: v1, kind: ObjectSet, name: theirs, uid: '2'}";
        let live = |references: &str| {
            live(
                yaml(&format!(
                    "{{apiVersion: v1, kind: Test, metadata: {{ownerReferences: [{references}]}}}}"
                )),
                &yaml(r#"{f:metadata: {f:ownerReferences: {'k:{"uid":"1"}': {}}}}"#),
            )
        };
        let both = format!("{theirs}, {ours}");
        let not_controlling = ours.replace("controller: true", "controller: false");
        for (wanted, actual, expected) in [
            (ours, ours, "none"),
            (ours, &both, "none"),
            (
                ours,
                theirs,
                r#"fields .metadata.ownerReferences[{"uid":"1"}]"#,
            ),
            (
                ours,
                &not_controlling,
                r#"fields .metadata.ownerReferences[{"uid":"1"}]"#,
            ),
            (&both, &both, "not owned .metadata.ownerReferences[0]"),
            (theirs, &both, "not owned .metadata.ownerReferences[0]"),
            (
                "",
                &both,
                r#"surplus .metadata.ownerReferences[{"uid":"1"}]"#,
            ),
        ] {
            let wanted = yaml(&format!(
                "{{apiVersion: v1, kind: Test, metadata: {{ownerReferences: [{wanted}]}}}}"
            ));
            assert_eq!(
                show(&compare(&wanted, &live(actual))),
                expected,
                "{wanted} {actual}"
            );
        }
    }
}
