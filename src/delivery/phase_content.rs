//! Compares the manifests of a phase with those that were delivered before.

use baton_apis::{
    ControlledObjectReference, ObjectSetObject, ObjectSetPhaseSpec, ObjectSetPhaseStatus,
};
use baton_engine::{
    Gvk,
    diff::content_fingerprint,
    object::{metadata, text},
};
use baton_records::key::{Key, OwnKind};
use serde_json::json;

/// The error for a cluster-scoped owner that names a service account, if it does so: the account
/// would have no namespace, and the manager's own rights would be used.
pub(crate) fn misplaced_account<K: OwnKind>(
    key: &Key<K>,
    account: Option<&String>,
) -> Option<String> {
    let is_misplaced = key.namespace.is_empty() && account.is_some();
    is_misplaced.then(|| {
        let kind = key.kind.kind();
        format!(
            "serviceAccountName: a {kind} has no namespace, so it cannot name a service account"
        )
    })
}

/// The reason that the manifests of a phase are not rolled out: they differ from those in the first
/// pass. `None` if they do not.
pub(crate) fn changed_content(
    spec: &ObjectSetPhaseSpec,
    status: &ObjectSetPhaseStatus,
) -> Option<String> {
    let before = status.content_hash.as_ref()?;
    (*before != content_hash(spec)).then(|| {
        "objects is immutable: the manifests differ from those that were rolled out. Nothing is written; create a new \
         revision instead."
            .to_owned()
    })
}

/// The hash of the manifests of a phase.
pub(crate) fn content_hash(spec: &ObjectSetPhaseSpec) -> String {
    let objects: Vec<_> = spec.objects.iter().map(|entry| &entry.object).collect();
    format!("{:016x}", content_fingerprint(&json!(objects)))
}

/// The objects that a phase controls, by its last report, but that its changed manifests do not
/// name any more. The version is arbitrary; a teardown uses a served one.
pub(super) fn left_out(
    spec: &ObjectSetPhaseSpec,
    status: &ObjectSetPhaseStatus,
) -> Vec<ObjectSetObject> {
    let is_named = |of: &ControlledObjectReference| {
        spec.objects.iter().any(|entry| {
            let gvk = Gvk::new(
                text(&entry.object, "apiVersion"),
                text(&entry.object, "kind"),
            );
            let namespace = of.namespace.as_deref().unwrap_or_default();
            (&gvk.group, &gvk.kind) == (&of.group, &of.kind)
                && metadata(&entry.object, "name") == of.name
                && metadata(&entry.object, "namespace") == namespace
        })
    };
    let left_out = status.controller_of.iter().filter(|of| !is_named(of));
    left_out
        .map(|of| {
            let version = match &*of.group {
                "" => "v1".to_owned(),
                group => format!("{group}/v1"),
            };
            let mut metadata = json!({ "name": of.name });
            if let Some(namespace) = &of.namespace {
                metadata["namespace"] = namespace.as_str().into();
            }
            ObjectSetObject {
                object: json!({ "apiVersion": version, "kind": of.kind, "metadata": metadata }),
                ..ObjectSetObject::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects as `apiVersion Kind namespace/name`; controlled objects without a version.
    #[test]
    fn controlled_objects_missing_from_the_spec_are_torn_down() {
        let manifest = |text: &str| {
            let [api, kind, name] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let (namespace, name) = name.split_once('/').unwrap();
            let object = json!({
                "apiVersion": api, "kind": kind, "metadata": { "name": name, "namespace": namespace },
            });
            ObjectSetObject {
                object,
                ..ObjectSetObject::default()
            }
        };
        let controlled = |group: &str, kind: &str, name: &str, namespace: Option<&str>| {
            ControlledObjectReference {
                kind: kind.to_owned(),
                group: group.to_owned(),
                name: name.to_owned(),
                version: String::new(),
                namespace: namespace.map(ToOwned::to_owned),
            }
        };
        let spec = ObjectSetPhaseSpec {
            objects: vec![
                manifest("v1 ConfigMap shop/kept"),
                manifest("x.io/v1alpha1 Thing shop/moved"),
                manifest("v1 Namespace /cluster"),
            ],
            ..ObjectSetPhaseSpec::default()
        };
        let status = ObjectSetPhaseStatus {
            controller_of: vec![
                controlled("", "ConfigMap", "kept", Some("shop")),
                controlled("x.io", "Thing", "moved", Some("other")),
                controlled("", "ConfigMap", "lost", Some("shop")),
                controlled("", "Namespace", "cluster", None),
                controlled("", "Namespace", "lost", None),
            ],
            ..ObjectSetPhaseStatus::default()
        };
        let left_out = left_out(&spec, &status).into_iter();
        let left_out: Vec<_> = left_out.map(|entry| entry.object.to_string()).collect();
        assert_eq!(
            left_out,
            [
                r#"{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"moved","namespace":"other"}}"#,
                r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"lost","namespace":"shop"}}"#,
                r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"lost"}}"#,
            ]
        );
        assert!(super::left_out(&spec, &ObjectSetPhaseStatus::default()).is_empty());
    }

    #[test]
    fn manifests_have_changed_if_the_recorded_hash_differs() {
        let spec = |text: &str| ObjectSetPhaseSpec {
            objects: vec![ObjectSetObject {
                object: json!({ "kind": text }),
                ..ObjectSetObject::default()
            }],
            ..ObjectSetPhaseSpec::default()
        };
        let first = ObjectSetPhaseStatus {
            content_hash: Some(content_hash(&spec("a"))),
            ..ObjectSetPhaseStatus::default()
        };
        for (now, status, expected) in [
            ("a", &ObjectSetPhaseStatus::default(), false),
            ("a", &first, false),
            ("b", &first, true),
        ] {
            assert_eq!(changed_content(&spec(now), status).is_some(), expected);
        }
        // Fields other than the manifests may change.
        let paused = ObjectSetPhaseSpec {
            paused: true,
            ..spec("a")
        };
        assert_eq!(changed_content(&paused, &first), None);
    }
}
