//! The observed state of the kinds of objects.

use std::collections::BTreeMap;

use super::Desired;
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
    /// The kind may exist but is served in no version; the text is the reason.
    Unknown(String),
    /// The server of the kind does not answer, or its objects cannot be listed; the text is the
    /// reason.
    Away(String),
}

/// The reason that an object is left out of a roll-out, while the other objects of its phase are
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KindProblem {
    /// Its kind is not served in the version of the manifest.
    Unserved(String),
    /// Its kind is [away](KindState::Away).
    Away(String),
}

impl KindProblem {
    /// Returns `None` if the kind is served, or if the object has violations of its own.
    pub fn of(object: &Desired, kinds: &Kinds) -> Option<Self> {
        match kinds.get(&object.gvk) {
            _ if !object.violations.is_empty() => None,
            Some(KindState::Unmanageable) => None,
            Some(state) if state.is_served_as_named() => None,
            Some(KindState::Away(cause)) => Some(Self::Away(cause.clone())),
            Some(KindState::Served { .. } | KindState::Unknown(_)) | None => {
                Some(Self::Unserved(unserved(&object.gvk)))
            }
        }
    }
}

/// The violation of an object whose kind is not served.
pub(super) fn unserved(gvk: &Gvk) -> String {
    format!("{gvk} not registered on the api server.")
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
