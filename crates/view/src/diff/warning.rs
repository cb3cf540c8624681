//! Losses that a user may not expect.

use super::outcome::{DiffOutcome, UnreadReason};
use crate::lists::Count;

/// The loss when an object is deleted, or the reason that the object is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The object is not deleted: its outcome is a refusal.
    Stays(DiffOutcome),
    /// The object was not read, and its deletion may delete other objects or data.
    Unseen(UnreadReason),
    /// The content of a namespace is deleted.
    Namespace(Contents),
    /// All objects of a kind are deleted; with their number, if it is known.
    Definition(Option<Count>),
    /// The data of a claim is deleted.
    Claim {
        /// The volume that the claim is bound to.
        volume: Option<String>,
        /// The reclaim policy of the volume, if it is known.
        policy: Option<String>,
    },
    /// The pods of a stateful set are deleted.
    StatefulSet {
        /// Number of pods.
        pods: u64,
        /// Names of the claim templates.
        templates: Vec<String>,
        /// True if the claims are deleted as well.
        with_claims: bool,
    },
}

/// The objects in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of objects by kind; the kind is in the form that `kubectl get` accepts.
    pub counts: Vec<(String, Count)>,
    /// Kinds whose objects could not be counted.
    pub unknown: Vec<String>,
}
