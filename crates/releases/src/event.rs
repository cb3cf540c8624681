//! An event to be recorded.

/// An event about the object that was decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether its type is Warning; Normal otherwise.
    pub warning: bool,
    /// What happened, in one word for programs.
    pub reason: &'static str,
    /// What happened, for people.
    pub message: String,
}

impl Event {
    /// An event of type Normal.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
        }
    }

    /// An event of type Warning.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }
}
