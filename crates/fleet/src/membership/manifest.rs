//! A manifest, and its difference from the object on a server.

use k8s_openapi::ByteString;
use kube::{
    Resource as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::rights::Right;

/// Field manager of the fields that joining a cluster writes.
pub(super) const FIELD_MANAGER: &str = "baton-cluster";

/// The text at a JSON pointer; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The UID of an object.
pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// A value of a Secret's `data`; `None` if it is missing, empty, or no base64.
pub(super) fn secret_value(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let encoded = secret.get("data")?.get(key)?.clone();
    let ByteString(bytes) = serde_json::from_value(encoded).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

/// The desired state of an object, with `apiVersion`, `kind`, and its identity.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest(pub Value);

impl Manifest {
    /// The resource that serves the kind.
    pub fn resource(&self) -> ApiResource {
        let api_version = text(&self.0, "/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        ApiResource::from_gvk(&GroupVersionKind::gvk(
            group,
            version,
            text(&self.0, "/kind"),
        ))
    }

    /// URL path of the objects of the kind: in the namespace of the manifest, if it has one.
    pub fn collection(&self) -> String {
        let namespace = Some(self.namespace()).filter(|namespace| !namespace.is_empty());
        DynamicObject::url_path(&self.resource(), namespace)
    }

    /// URL path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name())
    }

    pub fn kind(&self) -> &str {
        text(&self.0, "/kind")
    }

    pub fn name(&self) -> &str {
        text(&self.0, "/metadata/name")
    }

    /// Namespace; empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        text(&self.0, "/metadata/namespace")
    }

    /// Kind and name for messages: `cluster role baton-hub`. The title of a role binding includes
    /// the namespace, because role bindings may be in any.
    pub fn title(&self) -> String {
        let mut kind = String::new();
        for (index, letter) in self.kind().char_indices() {
            if index > 0 && letter.is_uppercase() {
                kind.push(' ');
            }
            kind.extend(letter.to_lowercase());
        }
        match self.kind() {
            "RoleBinding" => format!("{kind} {} in namespace {}", self.name(), self.namespace()),
            _ => format!("{kind} {}", self.name()),
        }
    }

    /// The right to use a verb on the object.
    pub fn right(&self, verb: &'static str) -> Right {
        let resource = self.resource();
        Right {
            verb,
            group: resource.group,
            resource: resource.plural,
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// The change that makes the live object as desired.
    pub fn compare(&self, live: Option<&Value>) -> Change {
        let Some(live) = live else {
            return Change::Create;
        };
        // An existing namespace may have other users, and of a claim only the size can be changed;
        // neither is changed here.
        if matches!(self.kind(), "Namespace" | "PersistentVolumeClaim") || holds(live, &self.0) {
            return Change::Keep;
        }
        if self
            .0
            .get("rules")
            .is_some_and(|rules| live.get("rules") != Some(rules))
            && let Some(manager) = foreign_manager(live, "f:rules")
        {
            return Change::Leave { manager };
        }
        Change::Update
    }
}

/// The change that makes an object as desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    /// The object differs from its manifest.
    Update,
    /// The object is to be deleted.
    Delete,
    /// The object is to be deleted, and created again with another UID.
    Replace,
    /// The object is as desired.
    Keep,
    /// The object has other rules, which another user has chosen: narrowed rights are not widened
    /// again.
    Leave {
        /// The field manager of that user.
        manager: String,
    },
}

impl Change {
    /// True if a request has to be sent.
    pub fn is_write(&self) -> bool {
        !self.verbs().is_empty()
    }

    /// The verbs that the request needs. For a create, server-side apply checks both.
    pub fn verbs(&self) -> &'static [&'static str] {
        match self {
            Self::Create => &["create", "patch"],
            Self::Update => &["patch"],
            Self::Delete => &["delete"],
            Self::Replace => &["delete", "create", "patch"],
            Self::Keep | Self::Leave { .. } => &[],
        }
    }
}

/// True if an object contains all desired fields. Its other fields are ignored.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            match (live.get(key), wanted) {
                // Servers do not store empty maps and lists.
                (None, Value::Object(map)) => map.is_empty(),
                (None, Value::Array(list)) => list.is_empty(),
                (None, _) => false,
                // A list by key: other users may have added entries.
                (Some(Value::Array(live)), Value::Array(wanted)) if key == "ownerReferences" => {
                    let is_there = |wanted| live.iter().any(|live| holds(live, wanted));
                    wanted.iter().all(is_there)
                }
                (Some(live), wanted) => holds(live, wanted),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| holds(live, wanted))
        }
        // A server stores 0.0 as 0.
        (Value::Number(live), Value::Number(wanted)) => live.as_f64() == wanted.as_f64(),
        _ => live == wanted,
    }
}

/// The manager of a top-level field of an object; `None` if it is ours.
fn foreign_manager(live: &Value, field: &str) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let mut managers = entries
        .iter()
        .filter(|entry| entry.pointer(&format!("/fieldsV1/{field}")).is_some())
        .map(|entry| text(entry, "/manager"));
    let first = managers.clone().next()?;
    let ours = managers.any(|manager| manager == FIELD_MANAGER);
    (!ours).then(|| first.to_owned())
}

/// True if a field of the spec is ours by server-side apply, so that leaving it out would remove
/// it.
pub(super) fn owns_spec_field(live: &Value, field: &str) -> bool {
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries
        .filter(|entry| {
            text(entry, "/manager") == FIELD_MANAGER && text(entry, "/operation") == "Apply"
        })
        .any(|entry| {
            entry
                .pointer(&format!("/fieldsV1/f:spec/f:{field}"))
                .is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn role(rules: &Value) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "baton-hub", "labels": { "a": "b" } },
            "rules": rules,
        })
    }

    fn managed(mut object: Value, manager: &str, field: &str) -> Value {
        object["metadata"]["managedFields"] = json!([
            { "manager": manager, "operation": "Apply", "fieldsV1": { field: {} } },
        ]);
        object
    }

    #[test]
    fn missing_objects_are_created_and_matching_ones_are_kept() {
        let wanted = Manifest(role(&json!([{ "verbs": ["get"] }])));
        assert_eq!(wanted.compare(None), Change::Create);
        let mut live = wanted.0.clone();
        assert_eq!(wanted.compare(Some(&live)), Change::Keep);
        live["metadata"]["labels"]["mine"] = "too".into();
        live["aggregationRule"] = json!({});
        assert_eq!(wanted.compare(Some(&live)), Change::Keep);
        live["metadata"]["labels"]["a"] = "c".into();
        assert_eq!(wanted.compare(Some(&live)), Change::Update);
    }

    #[test]
    fn rules_with_another_field_manager_are_not_changed() {
        let wanted = Manifest(role(&json!([{ "verbs": ["get", "list"] }])));
        let narrow = role(&json!([{ "verbs": ["get"] }]));
        assert_eq!(wanted.compare(Some(&narrow)), Change::Update);
        let ours = managed(narrow.clone(), FIELD_MANAGER, "f:rules");
        assert_eq!(wanted.compare(Some(&ours)), Change::Update);
        let other = managed(narrow, "kubectl-edit", "f:rules");
        let manager = "kubectl-edit".to_owned();
        assert_eq!(wanted.compare(Some(&other)), Change::Leave { manager });
        // The manager of equal rules does not matter.
        let same = managed(wanted.0.clone(), "kubectl-edit", "f:rules");
        assert_eq!(wanted.compare(Some(&same)), Change::Keep);
    }

    #[test]
    fn existing_namespaces_and_claims_are_not_changed() {
        let claim = |size: &str| {
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "a" },
                "spec": { "resources": { "requests": { "storage": size } } },
            })
        };
        let live = claim("1Gi");
        assert_eq!(Manifest(claim("1Mi")).compare(Some(&live)), Change::Keep);
        let namespace = |level| {
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": "a", "labels": { "pod-security.kubernetes.io/enforce": level } },
            })
        };
        let live = namespace("baseline");
        assert_eq!(
            Manifest(namespace("restricted")).compare(Some(&live)),
            Change::Keep
        );
    }

    #[test]
    fn lists_are_compared_by_their_items_and_numbers_by_value() {
        let owners = |uids: &[&str]| {
            let owners: Vec<Value> = uids.iter().map(|uid| json!({ "uid": uid })).collect();
            json!({ "ownerReferences": owners, "a": uids })
        };
        for (live, wanted, expected) in [
            (owners(&["1"]), owners(&["1"]), true),
            (
                json!({ "ownerReferences": [{ "uid": "1" }, { "uid": "2" }] }),
                json!({ "ownerReferences": [{ "uid": "2" }] }),
                true,
            ),
            (owners(&["1"]), json!({ "a": ["1", "2"] }), false),
            (
                owners(&["1"]),
                json!({ "ownerReferences": [{ "uid": "2" }] }),
                false,
            ),
            (json!({}), json!({ "capabilities": [] }), true),
            (json!({}), json!({ "capabilities": ["gpu"] }), false),
            (
                json!({ "v": [{ "a": 1, "default": 2 }] }),
                json!({ "v": [{ "a": 1 }] }),
                true,
            ),
            (json!({ "a": 0 }), json!({ "a": 0.0 }), true),
            (json!({ "a": 1 }), json!({ "a": 0.0 }), false),
        ] {
            assert_eq!(holds(&live, &wanted), expected, "{live} {wanted}");
        }
    }

    #[test]
    fn only_fields_in_our_managed_fields_entry_are_owned() {
        let mut live = json!({});
        assert!(!owns_spec_field(&live, "region"));
        live["metadata"]["managedFields"] = json!([
            { "manager": "kubectl-edit", "operation": "Update", "fieldsV1": { "f:spec": { "f:region": {} } } },
            { "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": { "f:spec": { "f:apiMaster": {} } } },
        ]);
        assert!(!owns_spec_field(&live, "region"));
        assert!(owns_spec_field(&live, "apiMaster"));
    }

    #[test]
    fn titles_and_rights() {
        let role = Manifest(role(&json!([])));
        assert_eq!(role.title(), "cluster role baton-hub");
        assert_eq!(role.resource().plural, "clusterroles");
        let binding = Manifest(json!({
            "kind": "RoleBinding", "metadata": { "name": "a", "namespace": "n" },
        }));
        assert_eq!(binding.title(), "role binding a in namespace n");
        let claim = Manifest(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "a", "namespace": "n" },
        }));
        assert_eq!(claim.title(), "persistent volume claim a");
        assert_eq!(
            claim.right("create").object(),
            "persistentvolumeclaims in namespace n"
        );
    }

    #[test]
    fn values_of_secrets() {
        let secret = json!({ "data": { "token": "YWJj", "empty": "", "broken": "*" } });
        assert_eq!(secret_value(&secret, "token"), Some(b"abc".to_vec()));
        for key in ["empty", "broken", "none"] {
            assert_eq!(secret_value(&secret, key), None, "{key}");
        }
    }
}
