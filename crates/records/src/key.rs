//! The identities of objects of our own kinds, for queues, indexes and URLs.

use std::{fmt, hash::Hash, sync::Arc};

use baton_apis::kinds::Kind;
use baton_kubernetes::{
    collection::NamespacedName,
    path::{self, NameError},
};
use baton_runtime::controller::ReconcileKey;
use tracing::{Span, info_span};

/// One of the kinds that Baton serves ("ours"), in one of its two scopes.
pub trait OwnKind: Copy + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// The row of the kind in the table of our kinds.
    fn names(self) -> &'static Kind;

    /// The name of the kind, as in objects.
    fn kind(self) -> &'static str {
        self.names().name
    }
}

/// The identity of an object of a kind of ours, such as a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<R> {
    /// Kind.
    pub kind: R,
    /// Namespace, empty for the cluster scope.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl<R: OwnKind> Key<R> {
    /// The identity of an object of a kind.
    #[must_use]
    pub fn new(kind: R, (namespace, name): NamespacedName) -> Self {
        Self {
            kind,
            namespace,
            name,
        }
    }

    /// The key of an object of the same kind and namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        self.in_same_namespace(self.kind, name)
    }

    /// As [`Key::sibling`], sharing the memory of the name.
    #[must_use]
    pub fn named(&self, name: &Arc<str>) -> Self {
        Self {
            name: name.clone(),
            ..self.clone()
        }
    }

    /// The key of an object of another kind in the same namespace.
    pub fn in_same_namespace<S>(&self, kind: S, name: &str) -> Key<S> {
        Key {
            kind,
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }

    /// URL path of the object.
    ///
    /// # Errors
    /// If the name is not valid for an object; names are from manifests.
    pub fn path(&self) -> Result<String, NameError> {
        path::object(&self.collection()?, &self.name)
    }

    /// URL path of the objects of the kind in the namespace.
    ///
    /// # Errors
    /// If the name is not valid for a namespace.
    pub fn collection(&self) -> Result<String, NameError> {
        let kind = self.kind.names();
        if self.namespace.is_empty() {
            return Ok(kind.path(None));
        }
        path::within(&kind.prefix(), &self.namespace, kind.plural)
    }
}

impl<R: OwnKind> ReconcileKey for Key<R> {
    fn span(&self) -> Span {
        info_span!(
            "reconcile",
            kind = self.kind.kind(),
            namespace = &*self.namespace,
            name = &*self.name
        )
    }

    fn namespace(&self) -> Arc<str> {
        self.namespace.clone()
    }
}

/// Prints `ObjectSet shop/web-v2`.
impl<R: OwnKind> fmt::Display for Key<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind(), self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::RevisionKind::{ClusterObjectSet, ObjectSet};

    #[test]
    fn paths_are_those_of_the_api() {
        const GROUP_VERSION: &str = "/apis/package-operator.run/v1alpha1";
        let key = |kind, namespace: &str, name: &str| Key {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        };
        let namespaced = key(ObjectSet, "shop", "?watch=1");
        assert_eq!(
            namespaced.path().unwrap(),
            format!("{GROUP_VERSION}/namespaces/shop/objectsets/%3Fwatch%3D1")
        );
        assert_eq!(
            namespaced.slice("a b").path().unwrap(),
            format!("{GROUP_VERSION}/namespaces/shop/objectslices/a%20b")
        );
        assert!(namespaced.slice("../configmaps/a").path().is_err());
        let cluster = key(ClusterObjectSet, "", "a");
        assert_eq!(
            cluster.path().unwrap(),
            format!("{GROUP_VERSION}/clusterobjectsets/a")
        );
        assert!(key(ObjectSet, "shop", "..").path().is_err());
    }
}
