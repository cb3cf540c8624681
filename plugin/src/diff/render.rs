//! Differences as text: a heading per object and a unified diff of YAML below it.

use std::fmt::Write as _;

use serde::Serialize as _;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Pair, Section, Tone};

/// Lines around a change that are shown as well.
const CONTEXT: usize = 3;

/// What the two sides are called, such as `revision 1` and `revision 2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The first side.
    pub before: String,
    /// The second side.
    pub after: String,
}

impl Labels {
    /// Two labels.
    #[must_use]
    pub fn new(before: impl Into<String>, after: impl Into<String>) -> Self {
        Self {
            before: before.into(),
            after: after.into(),
        }
    }
}
