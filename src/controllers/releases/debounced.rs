//! Statuses of targets that are put off for a moment.
//!
//! While pods start and end, a target has something new to tell many times in a second: how many there are, and what
//! each waits for. Strategies wait for nothing but that it is ready, or cannot be worked in, which is told at once. So
//! everything else waits for what else comes in that moment. Nothing depends on it: after a restart the same is found
//! out anew.

use std::time::Duration;

use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::debounce::at_the_latest;

/// How long a status is put off at most. It counts from the first one that was, so that a steady stream of them is told
/// as well.
pub(crate) const MOMENT: Duration = Duration::from_millis(250);

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
