//! Deployments and revisions as they can be typed.

use std::fmt;

use serde::{Serialize, Serializer};

use super::kind::ChainKind;

/// A deployment or a revision, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind; `None` means an `ObjectDeployment` of that name, else an `ObjectSet`.
    pub kind: Option<ChainKind>,
    /// Its name.
    pub name: String,
}

impl Target {
    /// One of a kind.
    #[must_use]
    pub fn new(kind: ChainKind, name: &str) -> Self {
        Self {
            kind: Some(kind),
            name: name.to_owned(),
        }
    }

    /// The kinds that it may be of, in order of preference; all of the same scope.
    pub fn candidates(&self) -> Vec<ChainKind> {
        self.kind.map_or_else(
            || vec![ChainKind::ObjectDeployment, ChainKind::ObjectSet],
            |kind| vec![kind],
        )
    }
}

/// As it can be typed: `od/web`, or `web`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{}/{}", kind.shortest(), self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// As it can be typed.
impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
