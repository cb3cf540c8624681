//! A survey of all placed sites.

use std::sync::Arc;

use baton_apis::{FailingSite, SiteCounts};
use jiff::Timestamp;

use super::{
    Observed, Revision, RevisionState,
    current::CurrentRollout,
    failure::Failure,
    placed::{AFTERWARDS, PlacedSite},
    standing::count,
};
use crate::text;

/// Most sites that a list in a status names.
pub(super) const MAX_LISTED: usize = 20;
/// Maximum length of the message of a failing site, in bytes.
const MAX_FAILURE: usize = 160;

/// The facts about all sites together.
#[derive(Clone, Debug)]
pub(super) struct Fleet<'a> {
    /// The placed sites, by name.
    pub(super) placed: Vec<PlacedSite<'a>>,
    /// All counts except `soaking`.
    pub(super) counts: SiteCounts,
    pub(super) failing: Vec<FailingSite>,
    /// Newest batch of the rollout: the highest number in the revisions of sites and in the
    /// previous status.
    pub(super) batch: Batch<'a>,
    /// Reachable sites of earlier batches that have neither become available nor failed.
    pub(super) late: LateSites,
    /// Reachable sites in no batch that have the version from an earlier rollout, and have neither
    /// become available nor failed.
    pub(super) earlier: usize,
    /// Reachable sites that got the version after the rollout was over, and have neither become
    /// available nor failed.
    pub(super) afterwards: usize,
    /// Sites that do not have the version yet.
    pub(super) to_come: usize,
    /// Sites that do not have the version yet, and are online.
    pub(super) to_come_online: usize,
    /// Sites that labels select as the first ones.
    pub(super) canaries: usize,
    /// Members of the rollout that failed, in any batch.
    pub(super) failed_members: usize,
    /// First member of the rollout that failed.
    pub(super) error: Option<(&'a Arc<str>, Failure<'a>)>,
    pub(super) in_reach: usize,
    pub(super) available: usize,
    /// Next time at which the deadline of a revision ends.
    pub(super) deadline: Option<Timestamp>,
}

/// The sites of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch<'a> {
    /// Number of the batch; 0 if there is none.
    pub(super) number: i32,
    /// First sites of the batch.
    pub(super) listed: Vec<&'a Arc<str>>,
    pub(super) members: usize,
    /// Reachable sites that wait, have begun, are available, or failed.
    pub(super) queued: usize,
    pub(super) begun: usize,
    pub(super) available: usize,
    pub(super) failed: usize,
    /// First site that failed.
    pub(super) error: Option<(&'a Arc<str>, Failure<'a>)>,
    /// Last time at which a site became available.
    pub(super) since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LateSites {
    pub(super) queued: usize,
    pub(super) begun: usize,
}

impl<'a> Fleet<'a> {
    pub(super) fn survey(observed: &Observed<'a>, current: &CurrentRollout<'a>) -> Self {
        let mut fleet = Self {
            placed: Vec::with_capacity(observed.sites.len()),
            counts: SiteCounts::default(),
            failing: Vec::new(),
            // A batch has passed if a later one was current, even if the later one has no sites any
            // more.
            batch: Batch {
                number: current.batch,
                ..Batch::default()
            },
            late: LateSites::default(),
            earlier: 0,
            afterwards: 0,
            to_come: 0,
            to_come_online: 0,
            canaries: 0,
            failed_members: 0,
            error: None,
            in_reach: 0,
            available: 0,
            deadline: None,
        };
        for (name, site) in observed.sites.iter().filter(|(_, site)| site.is_placed) {
            fleet.add(PlacedSite::of(name, site, current), current);
        }
        fleet
    }

    fn add(&mut self, placed: PlacedSite<'a>, current: &CurrentRollout<'a>) {
        let PlacedSite {
            site, is_in_reach, ..
        } = placed;
        count(&placed, current, &mut self.counts);
        self.canaries += usize::from(site.is_canary);
        if placed.is_to_come(current) {
            self.to_come += 1;
            self.to_come_online += usize::from(site.is_online);
        }
        if is_in_reach {
            self.in_reach += 1;
            self.available += usize::from(placed.available.is_some());
            self.add_failure(&placed, current);
            self.add_deadline(&placed, current);
        }
        self.add_member(&placed, current);
        self.placed.push(placed);
    }

    fn add_failure(&mut self, placed: &PlacedSite<'a>, current: &CurrentRollout<'_>) {
        if let Some((revision, failure)) = placed.failure(current)
            && self.failing.len() < MAX_LISTED
        {
            self.failing.push(FailingSite {
                name: placed.name.to_string(),
                revision: Some(revision.number),
                reason: failure.reason.to_string(),
                message: text::failure(failure.message, MAX_FAILURE),
            });
        }
    }

    fn add_deadline(&mut self, placed: &PlacedSite<'a>, current: &CurrentRollout<'_>) {
        for revision in placed.running.into_iter().chain(placed.tail) {
            if let RevisionState::Started { since, .. } = revision.state {
                let ends = Some(current.ends(placed.site, revision, since))
                    .filter(|ends| *ends > current.now);
                self.deadline = earlier(self.deadline, ends);
            }
        }
    }

    fn add_member(&mut self, placed: &PlacedSite<'a>, current: &CurrentRollout<'_>) {
        let is_awaited = |revision: &Revision| {
            let is_done = matches!(revision.state, RevisionState::Available(_))
                || current.failure(placed.site, revision).is_some();
            placed.is_in_reach && !is_done
        };
        let Some((member, number)) = placed.membership(current) else {
            let earlier = placed.earlier(current);
            self.earlier += usize::from(earlier.is_some_and(is_awaited));
            return;
        };
        if number == AFTERWARDS {
            self.afterwards += usize::from(is_awaited(member));
            return;
        }
        if number > self.batch.number {
            let before = std::mem::take(&mut self.batch);
            self.late.queued += before.queued;
            self.late.begun += before.begun;
            self.batch.number = number;
        }
        let is_current = number == self.batch.number;
        let batch = &mut self.batch;
        if is_current {
            batch.members += 1;
            if batch.listed.len() < MAX_LISTED {
                batch.listed.push(placed.name);
            }
        }
        if !placed.is_in_reach {
            return;
        }
        if let Some(failure) = current.failure(placed.site, member) {
            self.failed_members += 1;
            self.error.get_or_insert((placed.name, failure));
            if is_current {
                batch.failed += 1;
                batch.error.get_or_insert((placed.name, failure));
            }
            return;
        }
        match (&member.state, is_current) {
            (RevisionState::Available(since), true) => {
                batch.available += 1;
                batch.since = batch.since.max(Some(*since));
            }
            (RevisionState::Available(_), false) => {}
            (_, true) if member.has_begun() => batch.begun += 1,
            (_, true) => batch.queued += 1,
            (_, false) if member.has_begun() => self.late.begun += 1,
            (_, false) => self.late.queued += 1,
        }
    }
}

impl Batch<'_> {
    /// True if no batch has had a site, or the sites of the first batch are gone.
    pub(super) fn is_none_yet(&self) -> bool {
        self.number <= 1 && self.members == 0
    }

    /// Number of reachable sites.
    pub(super) fn online(&self) -> usize {
        self.queued + self.begun + self.available + self.failed
    }

    /// Number of sites that the batch waits for.
    pub(super) fn pending(&self) -> usize {
        self.queued + self.begun
    }
}

/// The earlier of two optional times.
pub(super) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
