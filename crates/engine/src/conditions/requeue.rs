//! The next reconcile of a revision that no event triggers.

use std::time::Duration;

use baton_apis::conditions::{AVAILABLE, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition_list::{find, find_current};

/// Delay of the requeue after a first refusal or a collision, if no event comes before.
pub const MISCONFIGURATION_RETRY: Duration = Duration::from_secs(30);

/// Time of the next reconcile of a revision without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Only on events.
    OnEvent,
    /// At the latest after this time.
    After(Duration),
    /// After a growing delay: requests failed for a transient reason.
    Backoff,
    /// After a delay that grows to ten minutes: the revision was refused again. A change of the
    /// cause ends the refusal. Most changes trigger a reconcile, but not a change of a webhook or of
    /// a quota.
    Refused,
}

impl Requeue {
    /// The same, but after this time at the latest, if any is given. A retry with a growing delay
    /// comes first, and is followed by another pass.
    pub(super) fn within(self, limit: Option<Duration>) -> Self {
        match (self, limit) {
            (Self::OnEvent, Some(limit)) => Self::After(limit),
            (Self::After(delay), Some(limit)) => Self::After(delay.min(limit)),
            (same, _) => same,
        }
    }
}

/// The requeue after a refusal for this reason.
pub fn requeue_refused(previous: &[Condition], reason: Reason, generation: i64) -> Requeue {
    let stands = find_current(previous, AVAILABLE, generation)
        .is_some_and(|condition| condition.status == "False" && condition.reason == reason);
    if stands {
        Requeue::Refused
    } else {
        Requeue::After(MISCONFIGURATION_RETRY)
    }
}

/// Delay before the cause is first read from the pods of a workload that fails its probes. Most
/// workloads are ready by then.
pub const FIRST_POLL: Duration = Duration::from_secs(10);
/// Longest delay between two such requests.
const MAX_POLL: Duration = Duration::from_mins(10);

/// Delay of the requeue after objects have failed for this time, if no watch reports the cause: see
/// [`fails_unseen`](crate::workload::fails_unseen).
pub fn next_look(failing_for: Duration) -> Duration {
    failing_for.clamp(FIRST_POLL, MAX_POLL)
}

/// Time since which objects have failed their probes, as reported last; `None` if no failure is
/// reported.
pub fn failing_since(previous: &[Condition]) -> Option<Timestamp> {
    let failing = find(previous, AVAILABLE).filter(|condition| {
        condition.status == "False" && condition.reason == Reason::ProbeFailure
    })?;
    Some(failing.last_transition_time.0)
}
