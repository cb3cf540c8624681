//! The outcome of a pass over a target in its clusters, without its status.

use baton_engine::conditions::Requeue;
use baton_releases::targets::reasons::{Cause, Failure};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

/// The outcome of the work in one or more clusters. Of several outcomes the last one in this order
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PassOutcome {
    /// Nothing is to be done, or the change is in progress.
    #[default]
    Nothing,
    /// An object was written.
    Written,
    /// The target waits for another object, whose change wakes the target.
    Blocked,
    /// An object had changed, so the decision has to be repeated.
    Outdated,
    /// A request failed.
    Failed,
}

impl PassOutcome {
    /// Adds an outcome.
    pub(crate) fn add(&mut self, done: Self) {
        *self = (*self).max(done);
    }

    /// Adds the outcome of a cluster, with its failure.
    pub(crate) fn add_cluster(&mut self, done: Self, failure: Option<&Failure>) {
        self.add(done);
        let Some(failure) = failure else {
            return;
        };
        self.add(match failure.cause {
            // No watch reports that a cluster serves a kind by now.
            Cause::Read | Cause::Write | Cause::Discovery | Cause::UnknownKind => Self::Failed,
            Cause::NoCluster
            | Cause::NoClient
            | Cause::AgentLost
            | Cause::NotObserved
            | Cause::Unreported
            | Cause::Missing
            | Cause::Chart
            | Cause::Refused => Self::Blocked,
        });
    }

    /// The result of the pass.
    pub(crate) fn reconciled(self) -> Reconciled {
        match self {
            Self::Nothing => (ReconcileOutcome::Unchanged, Requeue::OnEvent),
            Self::Written => (ReconcileOutcome::Changed, Requeue::OnEvent),
            Self::Blocked => (ReconcileOutcome::Blocked, Requeue::OnEvent),
            Self::Outdated => (ReconcileOutcome::Conflict, Requeue::Backoff),
            Self::Failed => (ReconcileOutcome::Failed, Requeue::Backoff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_requeued_when_no_event_can_be_expected() {
        for (done, cause, expected) in [
            (
                PassOutcome::Nothing,
                None,
                (ReconcileOutcome::Unchanged, Requeue::OnEvent),
            ),
            (
                PassOutcome::Written,
                None,
                (ReconcileOutcome::Changed, Requeue::OnEvent),
            ),
            (
                PassOutcome::Outdated,
                None,
                (ReconcileOutcome::Conflict, Requeue::Backoff),
            ),
            (
                PassOutcome::Written,
                Some(Cause::Write),
                (ReconcileOutcome::Failed, Requeue::Backoff),
            ),
            (
                PassOutcome::Nothing,
                Some(Cause::UnknownKind),
                (ReconcileOutcome::Failed, Requeue::Backoff),
            ),
            (
                PassOutcome::Nothing,
                Some(Cause::Missing),
                (ReconcileOutcome::Blocked, Requeue::OnEvent),
            ),
            (
                PassOutcome::Written,
                Some(Cause::NoClient),
                (ReconcileOutcome::Blocked, Requeue::OnEvent),
            ),
        ] {
            let failure = cause.map(|cause| Failure::new(cause, ""));
            let mut all = PassOutcome::default();
            all.add_cluster(done, failure.as_ref());
            all.add_cluster(PassOutcome::Nothing, None);
            assert_eq!(all.reconciled(), expected, "{done:?} {cause:?}");
        }
    }
}
