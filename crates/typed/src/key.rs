//! The kinds of typed objects, and the identities of objects.

use std::{fmt::Debug, sync::Arc};

use baton_runtime::controller::ReconcileKey;
use kube::Resource;
use serde::de::DeserializeOwned;
use tracing::{Span, info_span};

/// A kind that a store can contain.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The identity of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace of the object; empty for Clusters.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

impl Key {
    /// The identity of an object of a kind.
    #[must_use]
    pub fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The identity of an object.
    #[must_use]
    pub fn of<K: Kind>(kind: &'static str, object: &K) -> Self {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Self::new(kind, namespace, meta.name.as_deref().unwrap_or_default())
    }

    /// `namespace/name`, as in messages.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl ReconcileKey for Key {
    fn span(&self) -> Span {
        info_span!(
            "reconcile",
            kind = self.kind,
            namespace = &*self.namespace,
            name = &*self.name
        )
    }

    fn namespace(&self) -> Arc<str> {
        self.namespace.clone()
    }
}
