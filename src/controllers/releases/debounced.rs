//! Statuses of targets that are put off for a moment.
//!
//! While pods start and end, a target has something new to tell many times in a second: how many there are, and what
//! each waits for. Strategies wait for nothing but that it is ready, or cannot be worked in, which is told at once. So
//! everything else waits for what else comes in that moment. Nothing depends on it: after a restart the same is found
//! out anew.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use parking_lot::Mutex;

use crate::controllers::debounce::at_the_latest;
use crate::controllers::store::Key;

/// How long a status is put off at most.
const MOMENT: Duration = Duration::from_millis(250);

/// Since when the status of each target is put off.
#[derive(Debug, Default)]
pub(crate) struct Debounced(Mutex<HashMap<Key, Instant>>);

impl Debounced {
    /// How long the status of a target may still be put off from `now` on; `None` when it is to be written. It counts
    /// from the first one that was, so that a steady stream of them is told as well.
    pub(crate) fn left(&self, key: &Key, now: Instant) -> Option<Duration> {
        let mut since = self.0.lock();
        let since = *since.entry(key.clone()).or_insert(now);
        let left = MOMENT.checked_sub(now.saturating_duration_since(since));
        left.filter(|left| !left.is_zero())
    }

    /// Notes that no status of a target is put off any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// What became of the status of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// It is as it was.
    Unchanged,
    /// It was written.
    Written,
    /// It is put off for so long.
    Debounced(Duration),
}

impl Reported {
    /// The result of a pass that had this one besides.
    pub(crate) fn with(self, (outcome, requeue): Reconciled) -> Reconciled {
        match self {
            Self::Written if outcome == ReconcileOutcome::Unchanged => {
                (ReconcileOutcome::Changed, requeue)
            }
            Self::Unchanged | Self::Written => (outcome, requeue),
            Self::Debounced(left) => (outcome, at_the_latest(requeue, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_engine::conditions::Requeue;

    use super::*;

    #[test]
    fn a_status_is_put_off_for_a_moment_and_no_longer() {
        let debounced = Debounced::default();
        let start = Instant::now();
        let [one, other] = ["a", "b"].map(|name| Key::new("CapacityTarget", "shop", name));
        let left = |key, after| {
            let left = debounced.left(key, start + Duration::from_millis(after));
            left.map(|left| left.as_millis())
        };
        assert_eq!(left(&one, 0), Some(250));
        assert_eq!(left(&one, 100), Some(150));
        assert_eq!(left(&other, 200), Some(250));
        assert_eq!(left(&one, 250), None);
        assert_eq!(left(&one, 300), None, "until it is written");
        debounced.forget(&one);
        assert_eq!(left(&one, 300), Some(250));
    }

    #[test]
    fn what_is_put_off_is_told_in_time() {
        use ReconcileOutcome::{Changed, Failed, Unchanged};
        let moment = Reported::Debounced(MOMENT);
        for (reported, outcome, requeue, expected) in [
            (
                Reported::Unchanged,
                Unchanged,
                Requeue::OnEvent,
                (Unchanged, Requeue::OnEvent),
            ),
            (
                Reported::Written,
                Unchanged,
                Requeue::OnEvent,
                (Changed, Requeue::OnEvent),
            ),
            (
                Reported::Written,
                Failed,
                Requeue::Backoff,
                (Failed, Requeue::Backoff),
            ),
            (
                moment,
                Changed,
                Requeue::OnEvent,
                (Changed, Requeue::After(MOMENT)),
            ),
            (moment, Failed, Requeue::Backoff, (Failed, Requeue::Backoff)),
        ] {
            assert_eq!(reported.with((outcome, requeue)), expected);
        }
    }
}
