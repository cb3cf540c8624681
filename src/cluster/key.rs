//! How objects of our own kinds are named, in queues, indexes and URLs.

use std::{fmt, hash::Hash, sync::Arc};

/// A kind of ours in one of its two scopes.
pub trait Resource: Copy + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// The kind as objects name it.
    fn kind(self) -> &'static str;

    /// The resource in URLs.
    fn plural(self) -> &'static str;
}

/// The identity of an object of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<R> {
    /// Kind.
    pub kind: R,
    /// Namespace, empty for the cluster scope.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl<R: Resource> Key<R> {
    /// An object of the same kind and namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        self.beside(self.kind, name)
    }

    /// An object of another kind in the same namespace.
    #[must_use]
    pub fn beside<S>(&self, kind: S, name: &str) -> Key<S> {
        Key {
            kind,
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }

    /// URL path of the object.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// URL path of the objects of its kind in its namespace.
    #[must_use]
    pub fn collection(&self) -> String {
        collection(self.kind.plural(), &self.namespace)
    }
}

/// Prints `ObjectSet shop/web-v2`.
impl<R: Resource> fmt::Display for Key<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind(), self.namespace, self.name)
    }
}

/// URL path of a resource of ours, in one namespace or in all.
#[must_use]
pub fn collection(plural: &str, namespace: &str) -> String {
    let group = baton_apis::constants::API_VERSION;
    if namespace.is_empty() {
        format!("/apis/{group}/{plural}")
    } else {
        format!("/apis/{group}/namespaces/{namespace}/{plural}")
    }
}
