//! Containers: objects whose deletion deletes others, namely namespaces and definitions of kinds.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`.

use std::collections::BTreeSet;

use baton_apis::constants::{ANNOTATION_DELETION, DELETION_KEEP};
use serde_json::Value;

use crate::{
    Gvk, ObjectKey,
    names::for_message,
    object::{metadata, text},
};

/// Number of lost objects that a message names.
const MAX_NAMED: usize = 3;

/// An object that contains other objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Container {
    /// All objects of the namespace with this name.
    Namespace(String),
    /// All objects of a kind.
    Definition {
        /// API group of the kind.
        group: String,
        /// Name of the kind.
        kind: String,
    },
}

impl Container {
    /// API group and kind of each type of container.
    pub const KINDS: [(&str, &str); 2] = [
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ];

    /// Returns the container that an object is, if it is one.
    pub fn of(gvk: &Gvk, manifest: &Value) -> Option<Self> {
        let [namespace, definition] = Self::KINDS;
        match (&*gvk.group, &*gvk.kind) {
            kind if kind == namespace => {
                Some(Self::Namespace(metadata(manifest, "name").to_owned()))
            }
            kind if kind == definition => {
                let spec = manifest.get("spec")?;
                Some(Self::Definition {
                    group: text(spec, "group").to_owned(),
                    kind: text(spec.get("names")?, "kind").to_owned(),
                })
            }
            _ => None,
        }
    }

    /// True if the container contains the object.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Namespace(name) => !name.is_empty() && *name == key.namespace,
            Self::Definition { group, kind } => (group, kind) == (&key.group, &key.kind),
        }
    }

    /// True if the container contains at least one of the objects.
    pub(crate) fn contains_any(&self, keys: &BTreeSet<ObjectKey>) -> bool {
        keys.iter().any(|key| self.contains(key))
    }
}

/// A container that a revision manages, and deletes when the revision ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedContainer {
    /// The namespace or the definition.
    pub container: Container,
    /// Identity of the container object.
    pub key: ObjectKey,
    /// Name of the revision.
    pub revision: String,
}

impl ManagedContainer {
    /// The reason why a newer revision must not be rolled out: it leaves the container out, but
    /// contains objects in it. `None` if no object would be lost.
    ///
    /// # Guarantees
    /// The text names the objects and the way out, and quotes none of their content.
    pub fn loss(&self, wants: &BTreeSet<ObjectKey>) -> Option<String> {
        if wants.contains(&self.key) {
            return None;
        }
        let lost = wants.iter().filter(|key| self.container.contains(key));
        let lost: Vec<_> = lost.map(ToString::to_string).collect();
        let named = lost.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
        let named = match lost.len().checked_sub(MAX_NAMED) {
            _ if lost.is_empty() => return None,
            None | Some(0) => named.join(", "),
            Some(more) => format!("{} and {more} more", named.join(", ")),
        };
        let (kind, name) = (&self.key.kind, for_message(&self.key.name));
        let revision = &self.revision;
        Some(format!(
            "{kind} {name} is left out and would be deleted with revision {revision}, and with it {named}: keep it in \
             the revision, or exempt it from deletion with the annotation {ANNOTATION_DELETION}={DELETION_KEEP}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(text: &str) -> ObjectKey {
        let parts: Vec<_> = text.split(' ').collect();
        let [group, kind, namespace, name] = parts.try_into().unwrap();
        ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn held(manifest: &Value) -> Option<ManagedContainer> {
        let gvk = Gvk::new(text(manifest, "apiVersion"), text(manifest, "kind"));
        let container = Container::of(&gvk, manifest)?;
        let name = metadata(manifest, "name").to_owned();
        let (group, kind) = (gvk.group, gvk.kind);
        let key = ObjectKey {
            group,
            kind,
            namespace: String::new(),
            name,
        };
        let revision = "web-1".to_owned();
        Some(ManagedContainer {
            container,
            key,
            revision,
        })
    }

    #[test]
    fn objects_lost_with_a_namespace_or_definition_are_listed_in_the_error() {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "tools.example.com"}, "spec": {"group": "example.com", "names": {"kind": "Tool"}}});
        let others = [
            " ConfigMap other web",
            " ConfigMap  shop",
            "other.com Tool x y",
        ];
        for (manifest, wants, expected) in [
            (
                &namespace,
                &[" ConfigMap shop a"][..],
                Some("ConfigMap shop/a"),
            ),
            (
                &namespace,
                &[
                    " ConfigMap shop a",
                    " ConfigMap shop b",
                    "apps Deployment shop c",
                ],
                Some("ConfigMap shop/a, ConfigMap shop/b, Deployment.apps shop/c"),
            ),
            (
                &namespace,
                &[
                    " A shop a",
                    " A shop b",
                    " A shop c",
                    " A shop d",
                    " A shop e",
                    " A x f",
                ],
                Some("A shop/a, A shop/b, A shop/c and 2 more"),
            ),
            (&namespace, &[" ConfigMap shop a", " Namespace  shop"], None),
            (
                &definition,
                &["example.com Tool x y"],
                Some("Tool.example.com x/y"),
            ),
            (&namespace, &others, None),
            (&definition, &others, None),
            (&definition, &[], None),
        ] {
            let wants = wants.iter().map(|text| key(text)).collect();
            let held = held(manifest).unwrap();
            let expected = expected.map(|lost| {
                format!(
                    "{} {} is left out and would be deleted with revision web-1, and with it {lost}: keep it in the \
                     revision, or exempt it from deletion with the annotation baton.run/deletion=keep",
                    held.key.kind, held.key.name
                )
            });
            assert_eq!(held.loss(&wants), expected);
        }
        for none in [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "other.com/v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {}}),
        ] {
            assert_eq!(held(&none), None);
        }
    }

    /// A manifest without a name contains no object, rather than every object without a namespace.
    #[test]
    fn a_namespace_without_a_name_is_empty() {
        let odd = json!({"apiVersion": "v1", "kind": "Namespace"});
        assert_eq!(held(&odd).unwrap().loss(&[key(" Node  a")].into()), None);
    }
}
