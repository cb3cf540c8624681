//! Losses that should not be a surprise.

use super::fate::{Fate, Unseen};
use crate::lists::Count;

/// Something that goes along with an object, or keeps it from going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It does not go.
    Stays(Fate),
    /// Nobody has looked at it, and others or data may go along.
    Unseen(Unseen),
    /// The content of a namespace.
    Namespace(Contents),
    /// All objects of a kind; their number, if it is known.
    Definition(Option<Count>),
    /// The data of a claim.
    Claim {
        /// The volume that it is bound to.
        volume: Option<String>,
        /// The reclaim policy of the volume, if it is known.
        policy: Option<String>,
    },
    /// The pods of a stateful set.
    StatefulSet {
        /// Their number.
        pods: u64,
        /// Names of its templates of claims.
        templates: Vec<String>,
        /// True if the claims go with it.
        with_claims: bool,
    },
}

/// The objects of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Their number by kind, as `kubectl get` takes it.
    pub counts: Vec<(String, Count)>,
    /// Kinds that could not be counted.
    pub unknown: Vec<String>,
}
