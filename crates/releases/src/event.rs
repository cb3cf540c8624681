//! Events to record.

use baton_apis::conditions::EventReason;

/// An event about the object of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True for the type Warning, false for Normal.
    pub warning: bool,
    /// Reason of the event, in one word for programs.
    pub reason: EventReason,
    /// Message for people.
    pub message: String,
}

impl Event {
    /// An event of type Normal.
    #[must_use]
    pub fn normal(reason: EventReason, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
        }
    }

    /// An event of type Warning.
    #[must_use]
    pub fn warning(reason: EventReason, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }
}
