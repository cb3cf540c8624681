//! The losses on deletion of an object: the data of a claim, the pods of a stateful set, the
//! content of a namespace, all objects of a kind.

mod ask;

use baton_engine::{Gvk, object::text};
use baton_kubernetes::path;
use baton_view::diff::warning::Warning;
use serde_json::Value;

pub use self::ask::warning;

/// An object whose deletion deletes other objects or data as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CascadingDeletion {
    Namespace(String),
    /// A definition of a kind, with the path of the objects of the kind; `None` if no version is
    /// served.
    Definition(Option<String>),
    /// A `PersistentVolumeClaim`, and the volume that it is bound to.
    Claim(Option<String>),
    /// A loss that needs no further request: the live object contains all facts of the warning.
    Complete(Warning),
}

impl CascadingDeletion {
    /// Classifies a live object by its own fields; `None` if nothing is deleted with the object.
    pub fn of(gvk: &Gvk, live: &Value) -> Option<Self> {
        let at = |pointer| live.pointer(pointer);
        let text_at = |pointer| at(pointer).and_then(Value::as_str).map(str::to_owned);
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Namespace") => text_at("/metadata/name").map(Self::Namespace),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                Some(Self::Definition(collection(live)))
            }
            ("", "PersistentVolumeClaim") => {
                let volume = text_at("/spec/volumeName").filter(|name| !name.is_empty());
                Some(Self::Claim(volume))
            }
            ("apps", "StatefulSet") => {
                let templates = at("/spec/volumeClaimTemplates").and_then(Value::as_array);
                let names = templates.into_iter().flatten();
                let names = names.filter_map(|it| it.pointer("/metadata/name")?.as_str());
                let policy = at("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted");
                let pods = at("/status/replicas").or(at("/spec/replicas"));
                Some(Self::Complete(Warning::StatefulSet {
                    pods: pods.and_then(Value::as_u64).unwrap_or(1),
                    templates: names.map(str::to_owned).collect(),
                    with_claims: policy.is_some_and(|policy| policy == "Delete"),
                }))
            }
            _ => None,
        }
    }
}

/// The path of the objects of a kind, in a served version; the storage version is preferred.
fn collection(definition: &Value) -> Option<String> {
    let spec = definition.get("spec")?;
    let is = |version: &&Value, field: &str| version.get(field) == Some(&Value::Bool(true));
    let versions = spec.get("versions")?.as_array()?;
    let served = versions.iter().filter(|version| is(version, "served"));
    let stored = served.clone().find(|version| is(version, "storage"));
    let version = stored.or(served.clone().next())?;
    let prefix = path::group_version(text(spec, "group"), text(version, "name")).ok()?;
    Some(path::everywhere(
        &prefix,
        text(spec.get("names")?, "plural"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_text as text;

    fn of(text: &str) -> Option<CascadingDeletion> {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let field = |name| object[name].as_str().unwrap();
        CascadingDeletion::of(&Gvk::new(field("apiVersion"), field("kind")), &object)
    }

    #[test]
    fn objects_whose_deletion_deletes_others_are_classified() {
        let definition = |versions: &str| {
            of(&format!(
                "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {{group: example.com, \
                     names: {{plural: tools}}, versions: {versions}}}}}"
            ))
        };
        let at = |version: &str| {
            let path = format!("/apis/example.com/{version}/tools");
            Some(CascadingDeletion::Definition(Some(path)))
        };
        let old = "[{name: v1, served: true}, {name: v2, served: true, storage: true}]";
        assert_eq!(definition(old), at("v2"));
        let moved = "[{name: v1, served: true}, {name: v2, served: false, storage: true}]";
        assert_eq!(definition(moved), at("v1"));
        assert_eq!(definition("[]"), Some(CascadingDeletion::Definition(None)));
        // Names that would change the path.
        assert_eq!(
            definition("[{name: .., served: true}]"),
            Some(CascadingDeletion::Definition(None))
        );
        assert_eq!(
            of("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"),
            Some(CascadingDeletion::Namespace("shop".to_owned()))
        );
        assert_eq!(
            of("{apiVersion: v1, kind: PersistentVolumeClaim, spec: {volumeName: ''}}"),
            Some(CascadingDeletion::Claim(None))
        );
        for (text, expected) in [
            (
                "spec: {replicas: 3, volumeClaimTemplates: [{metadata: {name: data}}, {metadata: {name: wal}}]}",
                "its 3 pods are deleted with it; the PersistentVolumeClaims of data, wal stay",
            ),
            (
                "spec: {replicas: 3, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, \
                     volumeClaimTemplates: [{metadata: {name: data}}]}, status: {replicas: 1}",
                "its pod is deleted with it, and the PersistentVolumeClaims of data with their data",
            ),
            ("spec: {replicas: 0}", "it has no pods"),
        ] {
            let set = of(&format!(
                "{{apiVersion: apps/v1, kind: StatefulSet, {text}}}"
            ));
            let Some(CascadingDeletion::Complete(set)) = set else {
                panic!("{set:?}");
            };
            assert_eq!(text::diff::warning::warning(&set), expected);
        }
        for text in [
            "{apiVersion: v1, kind: ConfigMap}",
            "{apiVersion: apps/v1, kind: Deployment}",
            "{apiVersion: example.com/v1, kind: StatefulSet}",
            "{apiVersion: example.com/v1, kind: Namespace, metadata: {name: x}}",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
