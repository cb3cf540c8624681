//! Statuses of targets that are debounced.
//!
//! While pods start and end, the status of a target changes many times in a second: the number of
//! pods, and the state of each. Strategies wait only for a target that becomes ready or cannot be
//! worked on, and these changes are written at once. All other changes are collected for a moment.
//! A lost one does no harm: after a restart the next pass computes the same status.

use std::time::Duration;

use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::debounce::at_the_latest;

/// The longest time that a status is debounced. It counts from the first debounced status, so that
/// a steady stream of changes is reported as well.
pub(crate) const MOMENT: Duration = Duration::from_secs(1);

/// The result of a status report of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// The status has not changed.
    Unchanged,
    /// The status was written.
    Written,
    /// The status is debounced for this time.
    Debounced(Duration),
}

impl Reported {
    /// Combines this result with the result of the pass.
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
    fn a_debounced_status_is_requeued_in_time() {
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
