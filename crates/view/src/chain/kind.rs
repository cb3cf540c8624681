//! The kinds that chains consist of.

use std::ops::Deref;

use baton_apis::kinds::{self, Kind};
use serde_json::Value;

/// A kind of a chain: deployments and revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainKind {
    /// A deployment in a namespace.
    ObjectDeployment,
    /// A cluster-scoped deployment.
    ClusterObjectDeployment,
    /// A revision in a namespace.
    ObjectSet,
    /// A cluster-scoped revision.
    ClusterObjectSet,
}

impl ChainKind {
    /// All kinds of chains.
    pub const ALL: [Self; 4] = [
        Self::ObjectDeployment,
        Self::ClusterObjectDeployment,
        Self::ObjectSet,
        Self::ClusterObjectSet,
    ];

    /// The kind of an object that the server returned; `None` for any other kind.
    pub fn of(object: &Value) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.is_of(object))
    }

    /// True for deployments, false for revisions.
    pub fn is_deployment(self) -> bool {
        self == self.deployment()
    }

    /// The kind of the revisions of a deployment of this kind, or of the same chain.
    #[must_use]
    pub fn revision(self) -> Self {
        if self.is_namespaced {
            Self::ObjectSet
        } else {
            Self::ClusterObjectSet
        }
    }

    /// The kind of deployments of the same scope.
    #[must_use]
    pub fn deployment(self) -> Self {
        if self.is_namespaced {
            Self::ObjectDeployment
        } else {
            Self::ClusterObjectDeployment
        }
    }

    /// The kind of slices of the same scope.
    pub fn slice(self) -> &'static Kind {
        if self.is_namespaced {
            &kinds::OBJECT_SLICE
        } else {
            &kinds::CLUSTER_OBJECT_SLICE
        }
    }
}

/// Gives access to the row of the kind in the table of all kinds.
impl Deref for ChainKind {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::ObjectDeployment => &kinds::OBJECT_DEPLOYMENT,
            Self::ClusterObjectDeployment => &kinds::CLUSTER_OBJECT_DEPLOYMENT,
            Self::ObjectSet => &kinds::OBJECT_SET,
            Self::ClusterObjectSet => &kinds::CLUSTER_OBJECT_SET,
        }
    }
}
