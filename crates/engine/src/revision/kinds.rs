//! What is known of the kinds of the objects.

use std::collections::BTreeMap;

use crate::Gvk;

/// Whether a kind lives in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// How the objects of a kind can be got at, in the version that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// Its objects can be read.
    Served {
        /// Whether they live in namespaces.
        scope: KindScope,
        /// The version to look through, if it is not the one that the manifest names: that one is not served.
        other_version: Option<String>,
        /// Whether changes of its objects are seen.
        is_watched: bool,
    },
    /// The server keeps no objects of the kind, or does not let anybody list and watch them.
    Unmanageable,
    /// It may exist, and cannot be looked at; why.
    Unknown(String),
}

impl KindState {
    /// A kind that is served as the manifest names it, and watched.
    #[must_use]
    pub fn served(scope: KindScope) -> Self {
        Self::Served {
            scope,
            other_version: None,
            is_watched: true,
        }
    }

    /// Whether it is served in the version that the manifest names.
    pub fn is_served_as_named(&self) -> bool {
        matches!(
            self,
            Self::Served {
                other_version: None,
                ..
            }
        )
    }

    /// The kind in the version to look through: that of the manifest, unless another one is served in its place.
    pub fn through(&self, gvk: &Gvk) -> Gvk {
        match self {
            Self::Served {
                other_version: Some(version),
                ..
            } => Gvk {
                version: version.clone(),
                ..gvk.clone()
            },
            _ => gvk.clone(),
        }
    }
}

/// What is known of the kinds that a revision names. One that is missing does not exist in any version, and so has no
/// objects.
pub type Kinds = BTreeMap<Gvk, KindState>;
