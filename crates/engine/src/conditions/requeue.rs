//! When a revision is reconciled again although nothing has changed.

use std::time::Duration;

use baton_apis::conditions::{AVAILABLE, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition_list::{find, find_current};

/// How long a revision that is refused for the first time, or collides, waits without an event before it is requeued.
pub const MISCONFIGURATION_RETRY: Duration = Duration::from_secs(30);

/// When a revision is reconciled again without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Only on events.
    OnEvent,
    /// At the latest after this time.
    After(Duration),
    /// After a growing delay: the requests failed for a reason that may pass.
    Backoff,
    /// After a delay that grows to ten minutes: what was refused before was refused again. It stays so until something
    /// changes; most of what may change triggers a reconcile, and some does not, as a webhook or a quota.
    Refused,
}

/// The requeue of something that is refused for this reason.
pub fn requeue_refused(previous: &[Condition], reason: &str, generation: i64) -> Requeue {
    let stands = find_current(previous, AVAILABLE, generation)
        .is_some_and(|condition| condition.status == "False" && condition.reason == reason);
    if stands {
        Requeue::Refused
    } else {
        Requeue::After(MISCONFIGURATION_RETRY)
    }
}

/// After how long the pods of a workload that fails its probes are asked why for the first time. Most come up by then.
pub const FIRST_LOOK: Duration = Duration::from_secs(10);
/// How long it takes at most until they are asked again.
const LAST_LOOK: Duration = Duration::from_mins(10);

/// When a revision is reconciled again without an event whose objects have failed unseen for so long: see
/// [`fails_unseen`](crate::workload::fails_unseen).
pub fn next_look(failing_for: Duration) -> Duration {
    failing_for.clamp(FIRST_LOOK, LAST_LOOK)
}

/// Since when objects have failed their probes, as it was reported last.
pub fn failing_since(previous: &[Condition]) -> Option<Timestamp> {
    let failing = find(previous, AVAILABLE).filter(|condition| {
        condition.status == "False" && condition.reason == reasons::PROBE_FAILURE
    })?;
    Some(failing.last_transition_time.0)
}
