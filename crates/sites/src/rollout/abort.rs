//! Decides that a rollout ends early, and why.

use baton_apis::{OnError, conditions::Reason};

use super::{Observed, latest_rollout::aborted, step::Situation, strategy::Strategy};

/// Maximum length of the text about the error, in bytes.
const MAX_ERROR: usize = 400;

/// The decision that no further site gets a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Abort {
    /// True if this plan made the decision.
    pub(super) is_new: bool,
    /// A [`Reason`], or the reason of another version of Baton that made the decision.
    pub(super) reason: String,
    pub(super) message: String,
}

impl Abort {
    /// Decides about an abort. The decision stays until another version is requested.
    ///
    /// Failures do not abort a rollout on hold, because its author is working on it; they count
    /// when it continues. Nor do they abort a rollout that is over: later failures are only
    /// reported.
    pub(super) fn of(observed: &Observed<'_>, situation: &Situation<'_>) -> Option<Self> {
        let course = situation.rollout;
        if let Some(before) = aborted(&observed.status.conditions).filter(|_| course.was_aborted) {
            return Some(Self {
                is_new: false,
                reason: before.reason.clone(),
                message: before.message.clone(),
            });
        }
        if course.is_to_abort(observed) {
            let message = format!(
                "Rollout {} was aborted by spec.abortRollout.",
                course.number
            );
            return Some(Self::new(Reason::AbortedByUser, message));
        }
        let strategy = situation
            .strategy
            .ok()
            .filter(|_| course.obstacle.is_none())?;
        situation
            .is_under_way()
            .then(|| Self::of_failures(situation, strategy))
            .flatten()
    }

    fn new(reason: Reason, message: String) -> Self {
        Self {
            is_new: true,
            reason: reason.as_str().to_owned(),
            message,
        }
    }

    /// The abort because of failures. With `Continue`, the failed sites of all batches count, else
    /// those of the newest batch.
    fn of_failures(situation: &Situation<'_>, strategy: &Strategy) -> Option<Self> {
        let fleet = situation.fleet;
        let errors = match strategy.on_error {
            OnError::Abort | OnError::Rollback => fleet.batch.failed,
            OnError::Continue => fleet.failed_members,
        };
        if errors <= strategy.max_failures {
            return None;
        }
        let reason = match strategy.on_error {
            OnError::Rollback => Reason::RolledBack,
            OnError::Abort | OnError::Continue => Reason::SiteFailed,
        };
        let error = match fleet.batch.error.or(fleet.error) {
            Some((site, failure)) => {
                let text = crate::text::failure(failure.message, MAX_ERROR);
                format!(" Site {site}: {}: {text}", failure.reason)
            }
            None => String::new(),
        };
        let message = match strategy.on_error {
            OnError::Continue => {
                format!(
                    "{errors} sites failed, more than {}.{error}",
                    strategy.max_failures
                )
            }
            OnError::Abort | OnError::Rollback => {
                let batch = &fleet.batch;
                format!(
                    "{errors} of {} sites of wave {} failed.{error}",
                    batch.members, batch.number
                )
            }
        };
        Some(Self::new(reason, message))
    }
}
