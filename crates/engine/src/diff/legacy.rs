//! Fields that are ours by another entry than that of our applies.
//!
//! Package Operator has written objects in several ways: by a POST or an update under the same name
//! as our applies, and by updates and applies under the names in [`LEGACY_FIELD_MANAGERS`]. The
//! server has one entry of `managedFields` per name and operation, and an apply removes a field
//! that it leaves out only if no other entry has it. So fields of such a *legacy entry* would stay
//! forever. Before an object is written, its legacy entries are therefore united with the entry of
//! our applies ([`migrated`]); the apply that follows prunes unwanted fields.
//!
//! The same holds for an object that is taken over from a tool with which people apply: the fields
//! of its *former* managers become ours. Otherwise a field that a later revision drops would stay
//! forever.
//!
//! A comparison needs no migration: a wanted field of a legacy entry counts as one that we applied.
//! Other fields of a legacy entry do not count, because an update owns the server's defaults as
//! well.

use std::borrow::Cow;
use std::iter;

use baton_apis::constants::{
    ANNOTATION_FORMER_MANAGERS, ANNOTATION_LAST_APPLIED, ANNOTATIONS_OF_TOOLS, FIELD_MANAGER,
    FORMER_FIELD_MANAGERS, GROUP, LEGACY_FIELD_MANAGERS,
};
use serde_json::{Map, Value, json};

pub use super::fields::entries;
use super::fields::{Marker, fields_of, is_leaf, may_have_keys, subtract, unite};
use super::leftovers::Leftovers;
use super::texts::{as_data, is_secret, owns_texts, stored_fields};
use super::{apply_entry, is_apply};
use crate::object::{annotation, owner_references, text};
use crate::owners;

/// True if an entry of `managedFields` is a legacy one, by its manager, operation and subresource.
pub fn is_legacy(manager: &str, operation: &str, subresource: &str) -> bool {
    subresource.is_empty()
        && (LEGACY_FIELD_MANAGERS.contains(&manager)
            || (manager == FIELD_MANAGER && operation == "Update"))
}

/// The managers whose entries become ours when an object is taken over, according to its manifest.
pub fn former_managers(manifest: &Value) -> Vec<String> {
    let named = annotation(manifest, ANNOTATION_FORMER_MANAGERS).split(',');
    let named = named.map(str::trim).filter(|it| !it.is_empty());
    let former = FORMER_FIELD_MANAGERS.into_iter();
    former.chain(named).map(ToOwned::to_owned).collect()
}

/// True if entries of an object have to be united ([`migrated`]) before it is written.
///
/// A legacy entry that owns only the annotation of owners is no reason: it is left by a release in
/// another cluster. Every apply sets the annotation, whose value changes as owners are added and
/// removed, and so becomes its owner.
pub fn needs_migration(live: &Value, former: &[String]) -> bool {
    apply_entry(live).is_some_and(|entry| owns_texts(entry, live))
        || mergeable(live, former)
            .any(|entry| !is_legacy_entry(entry) || !is_of_release(entry, live))
}

/// True if an entry owns only owners that the annotation lists; in an object that was read these
/// are among its references.
fn is_of_release(entry: &Value, live: &Value) -> bool {
    let only = |map: &Map<String, Value>, child: &str| {
        let child = map.get(child).filter(|_| map.len() == 1)?;
        child.as_object().cloned()
    };
    let references = fields_of(entry)
        .and_then(|fields| only(fields, "f:metadata"))
        .and_then(|metadata| only(&metadata, "f:ownerReferences"));
    let remote: Vec<String> = owner_references(live)
        .iter()
        .filter(|reference| owners::is_remote(reference))
        .map(owners::marker)
        .collect();
    references
        .is_some_and(|owned| !owned.is_empty() && owned.keys().all(|key| remote.contains(key)))
}

/// Returns the `managedFields` of an object with its legacy entries, and those of `former`
/// managers, united with the entry of our applies; `None` if there is nothing to unite.
///
/// # Guarantees
///
/// Entries of other managers and of subresources do not change, and only fields of the united
/// entries become ours. There is one exception: fields of kubectl's last apply that another command
/// of kubectl owns become ours too; an apply of kubectl would have removed them as well. The
/// annotations of [`ANNOTATIONS_OF_TOOLS`] have no owner afterwards, so that they stay.
///
/// # Caveats
///
/// `live` must have all of its entries, because the result replaces the whole list.
///
/// Texts of a Secret that we applied become fields of its `data`.
///
/// Paths are those of one version, so entries of another version than that of our applies do not
/// change. `status` is never pruned: if a legacy entry owns it, it has no owner afterwards.
///
/// Objects of our own API group do not change either. Controllers write to them under the same
/// names, and own finalizers and lifecycle states there, not the content of an earlier revision.
pub fn migrated(live: &Value, former: &[String]) -> Option<Vec<Value>> {
    migrated_with(live, former, &Leftovers::default())
}

/// Like [`migrated`]; the leftovers that no manager owns become ours as well.
pub fn migrated_with(live: &Value, former: &[String], leftovers: &Leftovers) -> Option<Vec<Value>> {
    let legacy: Vec<&Value> = mergeable(live, former).collect();
    let applied = apply_entry(live);
    let of_texts = applied.filter(|entry| owns_texts(entry, live));
    let first = legacy.first().copied().or(of_texts);
    let mut fields = applied.and_then(fields_of).cloned().unwrap_or_default();
    for entry in &legacy {
        let Some(added) = fields_of(entry) else {
            continue;
        };
        let mut added = added.clone();
        added.remove("f:status");
        if !is_legacy_entry(entry) {
            forget_records(&mut added);
        }
        unite(&mut fields, &added);
    }
    let others = entries(live)
        .iter()
        .filter(|entry| !is_apply(entry) && !legacy.contains(entry));
    let mut others: Vec<Value> = others.cloned().collect();
    if let Some((first, last)) = first.zip(last_applied(live).filter(|_| !former.is_empty())) {
        let version = first.get("apiVersion");
        let split = others
            .iter_mut()
            .filter(|entry| is_of_kubectl(entry) && entry.get("apiVersion") == version);
        for entry in split {
            let Some(theirs) = entry.get_mut("fieldsV1").and_then(Value::as_object_mut) else {
                continue;
            };
            if let Some(part) = wanted_part(theirs, &last) {
                subtract(theirs, &part);
                unite(&mut fields, &part);
            }
        }
    }
    if is_secret(live) {
        fields = as_data(fields);
    }
    let theirs: Vec<_> = others.iter().filter_map(fields_of).collect();
    if !leftovers.claim(&mut fields, &theirs) {
        first?;
    }
    let new = || json!({"apiVersion": live.get("apiVersion")});
    let mut united = applied.or(first).cloned().unwrap_or_else(new);
    united["manager"] = FIELD_MANAGER.into();
    united["operation"] = "Apply".into();
    united["fieldsType"] = "FieldsV1".into();
    united["fieldsV1"] = fields.into();
    Some(iter::once(united).chain(others).collect())
}

/// True if two states of an object have the same content, whoever owns its fields. The annotation
/// of kubectl's last apply does not count, because the children's cache drops it.
pub fn same_content(one: &Value, other: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
            if let Some(annotations) = metadata.get_mut("annotations") {
                if let Some(annotations) = annotations.as_object_mut() {
                    annotations.remove(ANNOTATION_LAST_APPLIED);
                }
                if *annotations == json!({}) {
                    metadata.remove("annotations");
                }
            }
        }
        object
    };
    rest(one) == rest(other)
}

/// The fields that we own in an object, by applies and by legacy entries.
pub(super) struct OwnedFields<'a> {
    /// Version of the paths.
    pub version: Option<&'a Value>,
    applied: Option<Cow<'a, Map<String, Value>>>,
    legacy: Vec<Cow<'a, Map<String, Value>>>,
}

impl<'a> OwnedFields<'a> {
    /// Returns `None` if no entry is ours.
    pub(super) fn of(live: &'a Value) -> Option<Self> {
        let fields = |entry| stored_fields(entry, live);
        let applied = apply_entry(live).and_then(fields);
        let legacy: Vec<_> = mergeable(live, &[]).filter_map(fields).collect();
        (applied.is_some() || !legacy.is_empty()).then(|| Self {
            version: version(live, &[]),
            applied,
            legacy,
        })
    }

    /// All owned fields.
    pub(super) fn fields(&self) -> Cow<'a, Map<String, Value>> {
        self.with(|legacy| Some(legacy.clone()))
    }

    /// The fields that we applied, and of the legacy fields those that are wanted.
    pub(super) fn fields_for(&self, wanted: &Value) -> Cow<'a, Map<String, Value>> {
        self.with(|legacy| wanted_part(legacy, wanted))
    }

    fn with(
        &self,
        part: impl Fn(&Map<String, Value>) -> Option<Map<String, Value>>,
    ) -> Cow<'a, Map<String, Value>> {
        match (&self.applied, self.legacy.is_empty()) {
            (Some(applied), true) => applied.clone(),
            (applied, _) => {
                let mut fields = applied.as_deref().cloned().unwrap_or_default();
                for legacy in self.legacy.iter().filter_map(|legacy| part(legacy)) {
                    unite(&mut fields, &legacy);
                }
                Cow::Owned(fields)
            }
        }
    }
}

pub(super) fn is_legacy_entry(entry: &Value) -> bool {
    is_legacy(
        text(entry, "manager"),
        text(entry, "operation"),
        text(entry, "subresource"),
    )
}

/// True if an entry becomes ours: a legacy one, or that of a former manager.
fn is_migrated(entry: &Value, former: &[String]) -> bool {
    let of_former = || {
        let manager = text(entry, "manager");
        text(entry, "subresource").is_empty() && former.iter().any(|name| name == manager)
    };
    is_legacy_entry(entry) || (!is_apply(entry) && of_former())
}

/// True if an entry is that of a kubectl command other than a server-side apply, such as `create`
/// or `edit`.
fn is_of_kubectl(entry: &Value) -> bool {
    text(entry, "subresource").is_empty() && text(entry, "manager").starts_with("kubectl-")
}

/// The object of kubectl's last apply, from its annotation.
fn last_applied(live: &Value) -> Option<Value> {
    serde_json::from_str(annotation(live, ANNOTATION_LAST_APPLIED)).ok()
}

/// Removes the annotations that tools need from a set of owned fields.
fn forget_records(fields: &mut Map<String, Value>) {
    let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.get_mut("f:annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    annotations.retain(|marker, _| {
        let name = marker.strip_prefix("f:");
        name.is_none_or(|name| !ANNOTATIONS_OF_TOOLS.contains(&name))
    });
    // A node without children would own all annotations, whoever has set them.
    if is_leaf(annotations) {
        metadata.remove("f:annotations");
        if metadata.is_empty() {
            fields.remove("f:metadata");
        }
    }
}

/// The entries that can be united with the entry of our applies.
fn mergeable<'v>(live: &'v Value, former: &[String]) -> impl Iterator<Item = &'v Value> {
    let own_api = text(live, "apiVersion")
        .strip_prefix(GROUP)
        .is_some_and(|rest| rest.starts_with('/'));
    let entries = if own_api { &[] } else { entries(live) };
    let version = version(live, former);
    entries
        .iter()
        .filter(move |entry| is_migrated(entry, former) && entry.get("apiVersion") == version)
}

/// The version of our applies: that of their entry, else that of the object, else that of the first
/// entry that becomes ours.
fn version<'v>(live: &'v Value, former: &[String]) -> Option<&'v Value> {
    if let Some(entry) = apply_entry(live) {
        return entry.get("apiVersion");
    }
    let versions = || {
        let migrated = entries(live)
            .iter()
            .filter(|entry| is_migrated(entry, former));
        migrated.filter_map(|entry| entry.get("apiVersion"))
    };
    versions()
        .find(|version| Some(*version) == live.get("apiVersion"))
        .or_else(|| versions().next())
}

/// The part of an owned set whose paths lead to wanted values.
pub(super) fn wanted_part(
    owned: &Map<String, Value>,
    wanted: &Value,
) -> Option<Map<String, Value>> {
    if is_leaf(owned) {
        return Some(owned.clone());
    }
    let part = owned.iter().filter_map(|(text, node)| {
        let marker = Marker::parse(text);
        let below = match (&marker, wanted) {
            (Marker::This, _) => return Some((text.clone(), node.clone())),
            (Marker::Item(keys), Value::Array(items)) => {
                let fits = || items.iter().find(|item| may_have_keys(item, keys));
                marker.find(wanted).or_else(fits)?
            }
            _ => marker.find(wanted)?,
        };
        Some((text.clone(), wanted_part(node.as_object()?, below)?.into()))
    });
    let part: Map<_, _> = part.collect();
    (!is_leaf(&part)).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::tests::{show, yaml};
    use crate::diff::{compare, live_fingerprint};

    fn entry(manager: &str, operation: &str, version: &str, fields: &str) -> Value {
        json!({
            "manager": manager,
            "operation": operation,
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": yaml(fields),
        })
    }

    /// An object in version `v1` with these entries.
    fn object(spec: &str, entries: &[Owns<'_>]) -> Value {
        let entries: Vec<Value> = entries
            .iter()
            .map(|[manager, operation, version, fields]| {
                entry(
                    manager,
                    operation,
                    version,
                    &format!("{{f:spec: {fields}}}"),
                )
            })
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Test",
            "metadata": {"name": "n", "managedFields": entries},
            "spec": yaml(spec),
        })
    }

    const OURS: [&str; 3] = ["package-operator", "Apply", "v1"];
    const POST: [&str; 3] = ["package-operator", "Update", "v1"];
    const OLD_UPDATE: [&str; 3] = ["package-operator-manager", "Update", "v1"];
    const OLD_APPLY: [&str; 3] = ["remote-phase-manger", "Apply", "v1"];
    const USER: [&str; 3] = ["kubectl-edit", "Update", "v1"];
    const OTHER_VERSION: [&str; 3] = ["package-operator", "Update", "v1beta1"];

    /// An entry: manager, operation, version, fields.
    type Owns<'a> = [&'a str; 4];

    const fn with<'a>(who: [&'a str; 3], fields: &'a str) -> Owns<'a> {
        [who[0], who[1], who[2], fields]
    }

    #[test]
    fn entries_are_legacy_by_manager_operation_and_subresource() {
        for (manager, operation, subresource, expected) in [
            ("package-operator", "Update", "", true),
            ("package-operator", "Apply", "", false),
            ("package-operator-manager", "Update", "", true),
            ("package-operator-manager", "Apply", "", true),
            ("remote-phase-manger", "Update", "", true),
            ("remote-phase-manger", "Apply", "", true),
            ("remote-phase-manager", "Apply", "", false),
            ("package-operator", "Update", "status", false),
            ("package-operator-manager", "Update", "status", false),
            ("package-operator-manager", "Apply", "scale", false),
            ("kubectl", "Update", "", false),
            ("kube-controller-manager", "Apply", "", false),
            ("", "", "", false),
        ] {
            assert_eq!(
                is_legacy(manager, operation, subresource),
                expected,
                "{manager} {operation} {subresource}"
            );
        }
    }

    #[test]
    fn field_sets_are_merged_path_by_path() {
        let (a, b) = (r#"'k:{"n":"a"}'"#, r#"'k:{"n":"b"}'"#);
        for (one, other, union) in [
            ("{}", "{}", "{}"),
            ("{f:a: {}}", "{}", "{f:a: {}}"),
            ("{f:a: {}}", "{f:b: {}}", "{f:a: {}, f:b: {}}"),
            ("{f:a: {}}", "{f:a: {}}", "{f:a: {}}"),
            (
                "{f:a: {f:b: {}}}",
                "{f:a: {f:c: {}}, f:d: {}}",
                "{f:a: {f:b: {}, f:c: {}}, f:d: {}}",
            ),
            // A map that is owned itself stays owned when a path below it is added.
            ("{f:a: {}}", "{f:a: {f:b: {}}}", "{f:a: {'.': {}, f:b: {}}}"),
            (
                "{f:a: {'.': {}, f:b: {}}}",
                "{f:a: {f:c: {}}}",
                "{f:a: {'.': {}, f:b: {}, f:c: {}}}",
            ),
            (
                "{f:a: {f:b: {}}}",
                "{f:a: {'.': {}}}",
                "{f:a: {'.': {}, f:b: {}}}",
            ),
            // Items of keyed lists, and elements of sets.
            (
                &format!("{{f:a: {{{a}: {{'.': {{}}, f:n: {{}}}}}}}}"),
                &format!("{{f:a: {{{a}: {{f:v: {{}}}}, {b}: {{'.': {{}}}}}}}}"),
                &format!(
                    "{{f:a: {{{a}: {{'.': {{}}, f:n: {{}}, f:v: {{}}}}, {b}: {{'.': {{}}}}}}}}"
                ),
            ),
            (
                "{f:a: {'v:1': {}}}",
                "{f:a: {'.': {}, 'v:1': {}, 'v:2': {}}}",
                "{f:a: {'.': {}, 'v:1': {}, 'v:2': {}}}",
            ),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let mut united = yaml(one).as_object().unwrap().clone();
                unite(&mut united, yaml(other).as_object().unwrap());
                assert_eq!(Value::from(united), yaml(union), "{one} {other}");
            }
        }
    }

    /// References of another cluster's owners are no reason for a migration.
    #[test]
    fn a_release_in_another_cluster_leaves_nothing_to_migrate() {
        let object = |fields: &str| {
            let entries = [entry("package-operator", "Update", "v1", fields)];
            json!({"apiVersion": "v1", "metadata": {"managedFields": entries}})
        };
        let released = |annotations: &str| {
            let fields = format!("{{f:metadata: {{f:annotations: {{{annotations}}}}}}}");
            let mut live = object(&fields);
            let owners = r#"[{"apiVersion":"v1","kind":"K","name":"n","namespace":"","uid":"u"}]"#;
            live["metadata"]["annotations"] = json!({ "package-operator.run/owners": owners });
            owners::decode(&mut live);
            needs_migration(&live, &[])
        };
        let owners = "'f:package-operator.run/owners': {}";
        assert!(!released(owners));
        assert!(released(&format!("{owners}, f:a: {{}}")), "more than that");
        let reference = r#"{f:metadata: {f:ownerReferences: {'k:{"uid":"u"}': {}}}}"#;
        let mut live = object(reference);
        live["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        assert!(needs_migration(&live, &[]), "a reference of this cluster");
    }

    /// The entries before and after a migration: manager, operation, version and fields; empty if
    /// there is nothing to migrate.
    #[test]
    fn legacy_entries_are_migrated_to_our_apply_entry() {
        let (ab, bc) = ("{f:a: {}, f:b: {}}", "{f:b: {}, f:c: {}}");
        let abc = "{f:a: {}, f:b: {}, f:c: {}}";
        let table: [(&[Owns<'_>], &[Owns<'_>]); 12] = [
            (&[], &[]),
            (&[with(OURS, ab)], &[]),
            (&[with(USER, ab), with(OURS, ab)], &[]),
            (&[with(POST, ab)], &[with(OURS, ab)]),
            (&[with(OLD_UPDATE, ab)], &[with(OURS, ab)]),
            (&[with(OLD_APPLY, ab)], &[with(OURS, ab)]),
            (&[with(OURS, ab), with(POST, bc)], &[with(OURS, abc)]),
            (
                &[with(OLD_APPLY, ab), with(USER, bc), with(OLD_UPDATE, bc)],
                &[with(OURS, abc), with(USER, bc)],
            ),
            (
                &[
                    with(USER, ab),
                    with(OLD_UPDATE, "{f:b: {}}"),
                    with(OURS, "{f:a: {}}"),
                    with(POST, "{f:c: {}}"),
                ],
                &[with(OURS, abc), with(USER, ab)],
            ),
            // Entries of another version than that of our applies do not change.
            (&[with(OURS, ab), with(OTHER_VERSION, bc)], &[]),
            (
                &[with(OTHER_VERSION, bc), with(POST, ab)],
                &[with(OURS, ab), with(OTHER_VERSION, bc)],
            ),
            (
                &[with(OTHER_VERSION, ab), with(USER, bc)],
                &[["package-operator", "Apply", "v1beta1", ab], with(USER, bc)],
            ),
        ];
        for (before, after) in table {
            let before = object("{}", before);
            let expected = object("{}", after);
            let expected = &expected["metadata"]["managedFields"];
            assert_eq!(needs_migration(&before, &[]), !after.is_empty(), "{before}");
            let Some(entries) = migrated(&before, &[]) else {
                assert!(after.is_empty(), "{before}");
                continue;
            };
            assert_eq!(Value::from(entries.clone()), *expected, "{before}");
            let mut once = before.clone();
            once["metadata"]["managedFields"] = entries.into();
            assert_eq!(migrated(&once, &[]), None, "{before}");
        }
    }

    const APPLIED: [&str; 3] = ["kubectl-client-side-apply", "Update", "v1"];
    const KUBECTL: [&str; 3] = ["kubectl", "Apply", "v1"];
    const HELM: [&str; 3] = ["helm", "Update", "v1"];
    const FLUX: [&str; 3] = ["flux", "Apply", "v1"];

    /// Entries before a take-over, the object of kubectl's last apply, and the entries after the
    /// take-over.
    #[test]
    fn fields_of_former_managers_become_ours() {
        let (ab, bc) = ("{f:a: {}, f:b: {}}", "{f:b: {}, f:c: {}}");
        let abc = "{f:a: {}, f:b: {}, f:c: {}}";
        let items = r#"{f:l: {'k:{"n":"x"}': {'.': {}, f:n: {}, f:v: {}}, 'k:{"n":"y"}': {'.': {}, f:n: {}}}}"#;
        let ax = r#"{f:a: {}, f:l: {'k:{"n":"x"}': {'.': {}, f:n: {}, f:v: {}}}}"#;
        let y = r#"{f:l: {'k:{"n":"y"}': {'.': {}, f:n: {}}}}"#;
        let table: [(&[Owns<'_>], &str, &[Owns<'_>]); 11] = [
            (&[with(APPLIED, ab)], "", &[with(OURS, ab)]),
            (&[with(KUBECTL, ab)], "", &[with(OURS, ab)]),
            (&[with(HELM, ab)], "", &[with(OURS, ab)]),
            (&[with(FLUX, ab)], "", &[with(OURS, ab)]),
            (&[with(HELM, ab), with(APPLIED, bc)], "", &[with(OURS, abc)]),
            (&[with(OURS, ab), with(HELM, bc)], "", &[with(OURS, abc)]),
            // Other managers keep their fields.
            (
                &[with(APPLIED, ab), with(USER, bc)],
                "",
                &[with(OURS, ab), with(USER, bc)],
            ),
            (&[with(USER, ab)], "{a: 1}", &[]),
            // Fields of kubectl's last apply become ours, whichever kubectl command owns them.
            (
                &[with(APPLIED, ab), with(USER, bc)],
                "{a: 1, b: 1, z: 1}",
                &[with(OURS, ab), with(USER, "{f:c: {}}")],
            ),
            (
                &[with(APPLIED, "{f:a: {}}"), with(USER, items)],
                "{a: 1, l: [{n: x, v: 2}]}",
                &[with(OURS, ax), with(USER, y)],
            ),
            // The annotation is malformed, so it has no effect.
            (
                &[with(APPLIED, ab), with(USER, bc)],
                "oops",
                &[with(OURS, ab), with(USER, bc)],
            ),
        ];
        let manifest =
            json!({"metadata": {"annotations": {ANNOTATION_FORMER_MANAGERS: " argo,flux ,"}}});
        let former = former_managers(&manifest);
        for (before, last, after) in table {
            let mut before = object("{}", before);
            if !last.is_empty() {
                let last = match last {
                    "oops" => "{".to_owned(),
                    spec => json!({ "spec": yaml(spec) }).to_string(),
                };
                before["metadata"]["annotations"] = json!({ ANNOTATION_LAST_APPLIED: last });
            }
            assert_eq!(
                needs_migration(&before, &former),
                !after.is_empty(),
                "{before}"
            );
            assert!(!needs_migration(&before, &[]), "{before}");
            let expected = object("{}", after);
            let expected = &expected["metadata"]["managedFields"];
            let entries = migrated(&before, &former).unwrap_or_default();
            assert_eq!(Value::from(entries.clone()), *expected, "{before}");
            before["metadata"]["managedFields"] = entries.into();
            assert!(!needs_migration(&before, &former), "{before}");
        }
    }

    #[test]
    fn annotations_that_tools_write_for_themselves_become_unowned() {
        let fields = |names: &str| format!("{{f:metadata: {{f:annotations: {{{names}}}}}}}");
        let helm = "f:meta.helm.sh/release-name: {}, f:meta.helm.sh/release-namespace: {}";
        let kubectl = "f:kubectl.kubernetes.io/last-applied-configuration: {}";
        let theirs = fields(&format!("'.': {{}}, f:own: {{}}, {helm}, {kubectl}"));
        let mut live = object("{}", &[]);
        live["metadata"]["managedFields"] = json!([entry("helm", "Update", "v1", &theirs)]);
        let ours = entry(
            "package-operator",
            "Apply",
            "v1",
            &fields("'.': {}, f:own: {}"),
        );
        let former = former_managers(&json!({}));
        assert_eq!(former, FORMER_FIELD_MANAGERS);
        assert_eq!(migrated(&live, &former).unwrap(), [ours]);
        // A node without children owns the whole value.
        for (labels, left) in [
            ("", "{}"),
            (
                ", f:labels: {f:x: {}}",
                "{f:metadata: {f:labels: {f:x: {}}}}",
            ),
        ] {
            let theirs =
                format!("{{f:metadata: {{f:annotations: {{'.': {{}}, {helm}}}{labels}}}}}");
            live["metadata"]["managedFields"] = json!([entry("helm", "Update", "v1", &theirs)]);
            let ours = entry("package-operator", "Apply", "v1", left);
            assert_eq!(migrated(&live, &former).unwrap(), [ours]);
        }
    }

    #[test]
    fn status_fields_of_legacy_entries_become_unowned() {
        let fields = "{f:spec: {f:a: {}}, f:status: {f:b: {}}}";
        let mut live = object("{a: 1}", &[]);
        live["metadata"]["managedFields"] = json!([
            entry("package-operator-manager", "Update", "v1", fields),
            entry(
                "package-operator",
                "Update",
                "v1",
                "{f:metadata: {f:labels: {f:x: {}}}}"
            ),
        ]);
        let ours = "{f:spec: {f:a: {}}, f:metadata: {f:labels: {f:x: {}}}}";
        assert_eq!(
            migrated(&live, &[]).unwrap(),
            [entry("package-operator", "Apply", "v1", ours)]
        );
        // An entry of a subresource does not change.
        live["metadata"]["managedFields"][0]["subresource"] = "status".into();
        let entries = migrated(&live, &[]).unwrap();
        assert_eq!(entries[1], live["metadata"]["managedFields"][0]);
        // An entry without fields is removed.
        live["metadata"]["managedFields"] =
            json!([{"manager": "remote-phase-manger", "operation": "Apply", "apiVersion": "v1"}]);
        assert_eq!(
            migrated(&live, &[]).unwrap(),
            [entry("package-operator", "Apply", "v1", "{}")]
        );
    }

    /// Controllers write finalizers and lifecycle states of these objects under the same names.
    #[test]
    fn objects_of_our_own_api_are_left_alone() {
        let mut live = object("{a: 1}", &[with(POST, "{f:a: {}}")]);
        live["apiVersion"] = "package-operator.run/v1alpha1".into();
        live["metadata"]["managedFields"][0]["apiVersion"] = "package-operator.run/v1alpha1".into();
        assert!(!needs_migration(&live, &[]));
        assert_eq!(migrated(&live, &[]), None);
        assert_eq!(live_fingerprint(&live), None);
        live["apiVersion"] = "package-operator.runner/v1".into();
        assert!(needs_migration(&live, &[]));
    }

    const AB: &str = "{a: 1, b: {c: x}}";
    const OWNED: &str = "{f:a: {}, f:b: {'.': {}, f:c: {}}, f:default: {}}";
    const ACTUAL: &str = "{a: 1, b: {c: x}, default: 7}";
    const LIST: &str = r#"{f:l: {'.': {},
        'k:{"n":"x","p":"TCP"}': {'.': {}, f:n: {}, f:p: {}, f:v: {}},
        'k:{"n":"x","p":"UDP"}': {'.': {}, f:n: {}, f:p: {}}}}"#;
    const ITEMS: &str = "{l: [{n: x, p: TCP, v: 1}, {n: x, p: UDP}, {n: theirs}]}";
    const SET: &str = "{f:s: {'.': {}, 'v:1': {}, 'v:2': {}}}";

    /// The wanted body, the entries, the live object, and the difference.
    const TABLE: [(&str, &[Owns<'_>], &str, &str); 26] = [
        (AB, &[with(POST, OWNED)], ACTUAL, "none"),
        (AB, &[with(OLD_UPDATE, OWNED)], ACTUAL, "none"),
        (AB, &[with(OLD_APPLY, OWNED)], ACTUAL, "none"),
        (AB, &[with(USER, OWNED)], ACTUAL, "not owned ."),
        (
            AB,
            &[with(OTHER_VERSION, OWNED)],
            ACTUAL,
            "not owned .apiVersion",
        ),
        // Some fields are ours, others are not.
        (
            AB,
            &[with(OURS, "{f:a: {}}"), with(POST, OWNED)],
            ACTUAL,
            "none",
        ),
        (
            AB,
            &[with(OURS, "{f:a: {}}"), with(OLD_APPLY, "{f:b: {f:c: {}}}")],
            ACTUAL,
            "none",
        ),
        (
            AB,
            &[with(OURS, "{f:a: {}}"), with(USER, "{f:b: {f:c: {}}}")],
            ACTUAL,
            "not owned .spec.b.c",
        ),
        // A map that is owned without its keys counts as an atomic value.
        (
            AB,
            &[with(POST, "{f:a: {}, f:b: {'.': {}}}")],
            ACTUAL,
            "none",
        ),
        (
            AB,
            &[with(POST, "{f:a: {}, f:b: {'.': {}}}")],
            "{a: 1, b: {c: y}}",
            "fields .spec.b",
        ),
        // An unwanted field that we applied differs from a default of the server.
        (
            "{a: 1}",
            &[with(OURS, "{f:a: {}, f:old: {}}"), with(POST, OWNED)],
            "{a: 1, old: 1, default: 7}",
            "surplus .spec.old",
        ),
        ("{a: 1}", &[with(POST, OWNED)], ACTUAL, "none"),
        // Other values.
        (
            AB,
            &[with(POST, OWNED)],
            "{a: 2, b: {c: x}}",
            "fields .spec.a",
        ),
        (
            AB,
            &[with(POST, OWNED)],
            "{a: 1, b: {c: y}}",
            "fields .spec.b.c",
        ),
        (AB, &[with(POST, OWNED)], "{a: 1}", "fields .spec.b.c"),
        (
            "{a: 1, z: 1}",
            &[with(POST, OWNED)],
            "{a: 1, z: 1}",
            "not owned .spec.z",
        ),
        // Values of another shape than the wanted one.
        (
            "{a: 1, b: x}",
            &[with(POST, OWNED)],
            ACTUAL,
            "not owned .spec.b",
        ),
        (
            "{a: 1, b: {}}",
            &[with(POST, OWNED)],
            ACTUAL,
            "not owned .spec.b",
        ),
        // Keyed lists and sets.
        (
            "{l: [{n: x, v: 1}, {n: x, p: UDP}]}",
            &[with(POST, LIST)],
            ITEMS,
            "none",
        ),
        (
            "{l: [{n: x, p: TCP, v: 1}]}",
            &[with(POST, LIST)],
            ITEMS,
            "none",
        ),
        // Only the schema shows which of the two items is meant; a dry run decides.
        (
            "{l: [{n: x, v: 1}]}",
            &[with(POST, LIST)],
            ITEMS,
            "fields .spec.l[0]",
        ),
        (
            "{l: [{n: x, v: 2}, {n: x, p: UDP}]}",
            &[with(POST, LIST)],
            ITEMS,
            r#"fields .spec.l[{"n":"x","p":"TCP"}].v"#,
        ),
        (
            "{l: [{n: theirs}]}",
            &[with(POST, LIST)],
            ITEMS,
            "not owned .spec.l",
        ),
        ("{s: [2]}", &[with(POST, SET)], "{s: [1, 2]}", "none"),
        (
            "{s: [2, 3]}",
            &[with(POST, SET)],
            "{s: [1, 2, 3]}",
            "not owned .spec.s",
        ),
        (
            "{s: [3]}",
            &[with(POST, SET)],
            "{s: [1, 3]}",
            "not owned .spec.s",
        ),
    ];

    #[test]
    fn a_legacy_entry_is_compared_like_an_apply_entry() {
        for (wanted, entries, actual, expected) in TABLE {
            let mut body = object(wanted, &[]);
            body["metadata"] = json!({"name": "n"});
            let difference = show(&compare(&body, &object(actual, entries)));
            assert_eq!(difference, expected, "{wanted} of {entries:?} in {actual}");
        }
    }

    macro_rules! recorded {
        ($name:literal) => {{
            let text = include_str!(concat!("fixtures/", $name, ".json"));
            let mut both: Value = serde_json::from_str(text).unwrap();
            (both["wanted"].take(), both["live"].take())
        }};
    }

    /// Objects that a 1.36 server made from a POST of Package Operator.
    #[test]
    fn posted_objects_have_no_surplus_until_they_are_migrated() {
        for (default, (wanted, mut live)) in [
            (
                "surplus .spec.internalTrafficPolicy",
                recorded!("posted_service"),
            ),
            (
                "surplus .spec.progressDeadlineSeconds",
                recorded!("posted_deployment"),
            ),
        ] {
            assert_eq!(show(&compare(&wanted, &live)), "none");
            let print = live_fingerprint(&live);
            assert!(print.is_some());
            live["metadata"]["managedFields"] = migrated(&live, &[]).unwrap().into();
            // The same fields, owned by another entry.
            assert_eq!(live_fingerprint(&live), print);
            assert_eq!(show(&compare(&wanted, &live)), default);
        }
    }

    #[test]
    fn the_fingerprint_covers_fields_of_legacy_entries_too() {
        let shapes: [&[Owns<'_>]; 4] = [
            &[with(OURS, "{f:a: {}, f:b: {}}")],
            &[with(POST, "{f:a: {}, f:b: {}}")],
            &[with(OURS, "{f:a: {}}"), with(POST, "{f:b: {}}")],
            &[
                with(OLD_APPLY, "{f:a: {}, f:b: {}}"),
                with(POST, "{f:b: {}}"),
            ],
        ];
        let prints = shapes.map(|entries| live_fingerprint(&object("{a: 1, b: 2}", entries)));
        assert!(prints[0].is_some());
        assert!(prints.iter().all(|print| *print == prints[0]), "{prints:?}");
        for entries in shapes {
            let drifted = object("{a: 1, b: 3}", entries);
            assert_ne!(live_fingerprint(&drifted), prints[0], "{entries:?}");
        }
        let fewer = object("{a: 1, b: 2}", &[with(POST, "{f:a: {}}")]);
        assert_ne!(live_fingerprint(&fewer), prints[0]);
    }

    #[test]
    fn content_is_compared_without_its_owners() {
        let base = object("{a: 1}", &[with(POST, "{f:a: {}}")]);
        let change = |pointer: &str, value: Value| {
            let (above, key) = pointer.rsplit_once('/').unwrap();
            let mut changed = base.clone();
            changed.pointer_mut(above).unwrap()[key] = value;
            changed
        };
        for (other, expected) in [
            (base.clone(), true),
            (change("/metadata/managedFields", json!([])), true),
            (change("/metadata/resourceVersion", json!("7")), true),
            (change("/metadata/annotations", json!({})), true),
            (
                change(
                    "/metadata/annotations",
                    json!({ANNOTATION_LAST_APPLIED: "{}"}),
                ),
                true,
            ),
            (change("/metadata/annotations", json!({"x": "1"})), false),
            (change("/metadata/labels", json!({"x": "1"})), false),
            (change("/metadata/uid", json!("u")), false),
            (change("/spec/a", json!(2)), false),
            (change("/spec/b", json!(null)), false),
            (change("/status", json!({})), false),
            (json!(null), false),
        ] {
            assert_eq!(same_content(&base, &other), expected, "{other}");
            assert_eq!(same_content(&other, &base), expected, "{other}");
        }
    }
}
