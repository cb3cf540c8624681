//! Who writes objects: a revision for its own phases, a delegated phase for itself.

use std::fmt;

use crate::cluster::{phase::PhaseKey, record::RevisionKey};

/// What owns objects, as they name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A revision.
    Set(RevisionKey),
    /// A delegated phase.
    Phase(PhaseKey),
}

/// Prints `ObjectSet shop/web-v2`. Also the name under which an owner uses a target's watches.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(key) => key.fmt(f),
            Self::Phase(key) => key.fmt(f),
        }
    }
}
