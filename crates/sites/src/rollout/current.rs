//! The facts about a rollout by which single sites are judged.

use baton_apis::{
    FailingSite, SiteDeploymentSpec, SiteDeploymentStatus,
    conditions::{PROGRESSING, Reason},
};
use baton_engine::condition_list::find;
use jiff::{SignedDuration, Timestamp};

use super::{
    Revision, RevisionState, Site, VersionName,
    failure::Failure,
    reported,
    strategy::{canary_expression, deadline},
};
use crate::uptime::Uptime;

/// The current rollout, as far as single sites are judged by it.
#[derive(Clone, Copy, Debug)]
pub struct CurrentRollout<'a> {
    /// The rollout and its version; 0 and empty before the first one.
    pub(super) rollout: i64,
    pub(super) version: VersionName<'a>,
    /// Current batch in the previous status; 0 if there is none.
    pub(super) batch: i32,
    /// Batch whose sites have to stay available for the healthy time, as in the previous status.
    pub(super) soaking: Option<i32>,
    /// True if labels select the sites of the first batch.
    pub(super) is_first_by_labels: bool,
    /// Time that a revision may take since its beginning, or since its site is back online.
    pub deadline: SignedDuration,
    /// Sites whose failure is in the previous status.
    pub(super) failing: &'a [FailingSite],
    pub(super) now: Timestamp,
}

impl<'a> CurrentRollout<'a> {
    /// Reads the status of a deployment.
    #[must_use]
    pub fn reported(
        spec: &'a SiteDeploymentSpec,
        status: &'a SiteDeploymentStatus,
        now: Timestamp,
    ) -> Self {
        let [version, _] = reported(spec, status);
        let version = version.unwrap_or_default();
        let batch = status.batch.as_ref().map_or(0, |batch| batch.number);
        let progressing = find(&status.conditions, PROGRESSING);
        let soaks = progressing.is_some_and(|it| it.reason == Reason::Soaking);
        Self {
            rollout: status.rollout.unwrap_or(0),
            version,
            batch,
            soaking: soaks.then_some(batch),
            is_first_by_labels: canary_expression(&spec.strategy).is_ok_and(|it| it.is_some()),
            deadline: deadline(&spec.strategy),
            failing: &status.failing,
            now,
        }
    }

    /// True if the rollout brought its version with this revision.
    pub(super) fn has_brought(&self, revision: &Revision) -> bool {
        let entry = &revision.entry;
        entry.rollout == self.rollout
            && !entry.is_rollback
            && VersionName::of(entry) == self.version
    }

    /// True if a revision was refused before it began, and is not requested any more. Such a
    /// revision is removed from the queue, because it would hold those behind it forever.
    pub(super) fn is_stuck(&self, revision: &Revision, site: &Site) -> bool {
        let entry = &revision.entry;
        matches!(revision.state, RevisionState::Failing { .. })
            && !revision.has_begun()
            && site.is_online
            && !entry.is_edit
            && !entry.is_rollback
            && VersionName::of(entry) != self.version
    }

    /// The failure of a revision of a site, if it has failed.
    pub(super) fn failure<'r>(&self, site: &Site, revision: &'r Revision) -> Option<Failure<'r>> {
        let uptime = self.uptime(site, revision);
        revision.state.failure(self.deadline, uptime, self.now)
    }

    /// The time at which the deadline of a revision ends, given the time of its beginning.
    pub(super) fn ends(&self, site: &Site, revision: &Revision, began: Timestamp) -> Timestamp {
        self.uptime(site, revision).end_of(began, self.deadline)
    }

    /// The times of a site for the deadline of one of its revisions. A restart does not take back a
    /// reported failure.
    fn uptime(&self, site: &Site, revision: &Revision) -> Uptime {
        let is_reported = |failing: &FailingSite| {
            failing.name == revision.entry.site
                && failing.revision == Some(revision.number)
                && failing.reason == Reason::ProgressDeadlineExceeded
        };
        if self.failing.iter().any(is_reported) {
            site.uptime.observed_before()
        } else {
            site.uptime
        }
    }
}
