//! Whether a revision of a site failed.

use baton_apis::conditions::reasons;
use jiff::{SignedDuration, Timestamp};

use super::RevisionState;

/// What is said of a revision that is late and has said nothing itself.
const LATE: &str = "It is not available, and has taken longer than its progress deadline.";

/// Why a revision failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: &'a str,
}

impl RevisionState {
    /// Why it failed by `now`, if it has: at once when it was refused or is not available any more, else when it takes
    /// longer than `deadline` from its beginning on. While its site is offline nobody can tell how it does, so it has
    /// as long again when the site is back, at `online_since`.
    pub fn failure(
        &self,
        deadline: SignedDuration,
        online_since: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Failure<'_>> {
        match self {
            Self::Failing { reason, message } => Some(Failure { reason, message }),
            Self::Started { since, message } if ends(*since, online_since, deadline) <= now => {
                Some(Failure {
                    reason: reasons::PROGRESS_DEADLINE_EXCEEDED,
                    message: message.as_deref().unwrap_or(LATE),
                })
            }
            _ => None,
        }
    }
}

/// When a revision that began then, in a site that is online since then, has taken too long.
pub(super) fn ends(
    began: Timestamp,
    online_since: Option<Timestamp>,
    deadline: SignedDuration,
) -> Timestamp {
    let counts = online_since.map_or(began, |online| online.max(began));
    counts.checked_add(deadline).unwrap_or(Timestamp::MAX)
}
