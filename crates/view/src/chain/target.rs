//! References to deployments and revisions, as users type them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::kind::ChainKind;

/// A deployment or a revision, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind of the object; `None` means an `ObjectDeployment` of this name, or else an `ObjectSet`,
    /// or else a `ClusterObjectDeployment`.
    pub kind: Option<ChainKind>,
    /// Name of the object.
    pub name: String,
}

impl Target {
    /// A reference to an object of this kind.
    #[must_use]
    pub fn new(kind: ChainKind, name: &str) -> Self {
        Self {
            kind: Some(kind),
            name: name.to_owned(),
        }
    }

    /// The kinds that the object may have, in order of preference; all have the same scope. Without
    /// a kind, a `ClusterObjectDeployment` follows them.
    pub fn candidates(&self) -> Vec<ChainKind> {
        self.kind.map_or_else(
            || vec![ChainKind::ObjectDeployment, ChainKind::ObjectSet],
            |kind| vec![kind],
        )
    }
}

/// Prints the form that users type: `od/web`, or `web`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{}/{}", kind.shortest(), self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// In the form that users type.
impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
