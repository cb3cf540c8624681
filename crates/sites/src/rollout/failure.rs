//! Failures of revisions of sites.

use baton_apis::conditions::Reason;
use jiff::{SignedDuration, Timestamp};

use super::RevisionState;
use crate::uptime::Uptime;

/// The message about a late revision without a message of its own.
const LATE: &str = "It is not available, and has taken longer than its progress deadline.";

/// The failure of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// Reason in one word.
    pub reason: Reason,
    /// Message for people.
    pub message: &'a str,
}

impl RevisionState {
    /// The failure at the time `now`, if the revision has failed.
    ///
    /// A revision fails at once when it is refused or not available any more, else when it takes
    /// longer than `deadline` since its beginning: see [`Uptime::end_of`].
    pub fn failure(
        &self,
        deadline: SignedDuration,
        uptime: Uptime,
        now: Timestamp,
    ) -> Option<Failure<'_>> {
        match self {
            Self::Failing { reason, message } => Some(Failure {
                reason: *reason,
                message,
            }),
            Self::Started { since, message } if uptime.end_of(*since, deadline) <= now => {
                Some(Failure {
                    reason: Reason::ProgressDeadlineExceeded,
                    message: message.as_deref().unwrap_or(LATE),
                })
            }
            _ => None,
        }
    }
}
