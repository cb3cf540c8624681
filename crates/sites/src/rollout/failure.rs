//! Failures of revisions of sites.

use baton_apis::conditions::Reason;
use jiff::{SignedDuration, Timestamp};

use super::RevisionState;

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
    /// longer than `deadline` since its beginning. The state is not known while the site is
    /// offline, so the deadline starts again when the site is back, at `online_since`.
    pub fn failure(
        &self,
        deadline: SignedDuration,
        online_since: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Failure<'_>> {
        match self {
            Self::Failing { reason, message } => Some(Failure {
                reason: *reason,
                message,
            }),
            Self::Started { since, message } if ends(*since, online_since, deadline) <= now => {
                Some(Failure {
                    reason: Reason::ProgressDeadlineExceeded,
                    message: message.as_deref().unwrap_or(LATE),
                })
            }
            _ => None,
        }
    }
}

/// The time at which the deadline of a revision ends, in a site that is online since
/// `online_since`.
pub(super) fn ends(
    began: Timestamp,
    online_since: Option<Timestamp>,
    deadline: SignedDuration,
) -> Timestamp {
    let counts = online_since.map_or(began, |online| online.max(began));
    counts.checked_add(deadline).unwrap_or(Timestamp::MAX)
}
