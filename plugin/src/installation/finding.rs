//! The findings of `doctor`.

use serde::Serialize;

use crate::error::Error;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum State {
    Fine,
    /// It could not be checked.
    Unknown,
    /// It may be intended.
    Doubtful,
    /// Something does not work.
    Faulty,
}

/// A check, its result, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) subject: String,
    pub(crate) state: State,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) way_out: Option<String>,
}

impl Finding {
    pub(super) fn new(subject: impl Into<String>, state: State, text: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            state,
            text: text.into(),
            way_out: None,
        }
    }

    pub(super) fn way_out(mut self, way_out: impl Into<String>) -> Self {
        self.way_out = Some(way_out.into());
        self
    }

    /// A check that a request prevented.
    pub(super) fn unknown(subject: &str, error: &Error) -> Self {
        Self::new(subject, State::Unknown, format!("not checked: {error}"))
    }
}
