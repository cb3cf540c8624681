//! The observed state of the kinds of objects.

use std::collections::BTreeMap;

use crate::Gvk;

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// The access to objects of a kind, in the version that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// Objects of the kind can be read.
    Served {
        /// Scope of the kind.
        scope: KindScope,
        /// The version to read objects in, if the server does not serve the version that the
        /// manifest names.
        other_version: Option<String>,
        /// True if a watch reports changes of the objects.
        is_watched: bool,
    },
    /// The server does not store objects of the kind, or does not allow listing and watching them.
    Unmanageable,
    /// The kind may exist but cannot be accessed; the text is the reason.
    Unknown(String),
}

impl KindState {
    /// A kind that is served in the version of the manifest, and watched.
    #[must_use]
    pub fn served(scope: KindScope) -> Self {
        Self::Served {
            scope,
            other_version: None,
            is_watched: true,
        }
    }

    /// True if the kind is served in the version that the manifest names.
    pub fn is_served_as_named(&self) -> bool {
        matches!(
            self,
            Self::Served {
                other_version: None,
                ..
            }
        )
    }

    /// The kind in the version to read objects in: that of the manifest, unless another version is
    /// served instead.
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

/// The states of the kinds that a revision names. A missing kind does not exist in any version, and
/// so has no objects.
pub type Kinds = BTreeMap<Gvk, KindState>;
