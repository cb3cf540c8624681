//! The facts about a site for decisions about a rollout.

use std::sync::Arc;

use super::{
    Revision, RevisionStart, RevisionState, Site, VersionName, current::CurrentRollout,
    failure::Failure,
};

/// The batch of sites that get the version after the rollout is over: they are in no wave.
pub(super) const AFTERWARDS: i32 = 0;

/// A placed site.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedSite<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) site: &'a Site,
    /// Revision with the highest rank that counts, except those that are stuck.
    pub(super) tail: Option<&'a Revision>,
    /// Newest revision that has begun.
    pub(super) running: Option<&'a Revision>,
    /// Newest revision by which the rollout brought its version. A rollback does not count.
    pub(super) member: Option<&'a Revision>,
    /// Newest revision that failed, unless a newer one has begun.
    pub(super) failed: Option<&'a Revision>,
    /// Newest revision that is available.
    pub(super) available: Option<&'a Revision>,
    /// True if the cached state is current: the site is online, and the state of its newest
    /// revision is known.
    pub(super) is_in_reach: bool,
}

impl<'a> PlacedSite<'a> {
    pub(super) fn of(name: &'a Arc<str>, site: &'a Site, current: &CurrentRollout<'_>) -> Self {
        let mut placed = Self {
            name,
            site,
            tail: None,
            running: None,
            member: None,
            failed: None,
            available: None,
            is_in_reach: site.is_online,
        };
        for revision in site.chain.iter().rev().filter(|revision| revision.counts()) {
            let is_higher = |tail: &Revision| revision.rank() > tail.rank();
            if placed.tail.is_none_or(is_higher) && !current.is_stuck(revision, site) {
                placed.tail = Some(revision);
            }
            // A revision followed by a newer one that has begun does not fail: it stops, or has
            // lost its objects.
            let makes_way = placed.running.is_some();
            if revision.has_begun() {
                placed.running.get_or_insert(revision);
            }
            if placed.member.is_none() && current.has_brought(revision) {
                placed.member = Some(revision);
            }
            if placed.available.is_none() {
                if matches!(revision.state, RevisionState::Available(_)) {
                    placed.available = Some(revision);
                } else if placed.failed.is_none()
                    && !makes_way
                    && current.failure(site, revision).is_some()
                {
                    placed.failed = Some(revision);
                }
            }
        }
        let newest = placed.running.or(placed.tail);
        let is_unknown = |revision: &Revision| revision.state == RevisionState::Unknown;
        placed.is_in_reach &= !newest.is_some_and(is_unknown);
        placed
    }

    /// The revision that makes the site a member of a batch, and the number of the batch.
    ///
    /// A site of the canary has to show that the version works, even if it has the version from an
    /// earlier rollout.
    pub(super) fn membership(&self, current: &CurrentRollout<'_>) -> Option<(&'a Revision, i32)> {
        let own = self.member.map(|member| (member, member.entry.batch));
        let is_first = current.is_first_by_labels && self.site.is_canary;
        own.or_else(|| Some((self.earlier(current).filter(|_| is_first)?, 1)))
    }

    /// The revision with the version of the rollout, if it is from an earlier rollout.
    pub(super) fn earlier(&self, current: &CurrentRollout<'_>) -> Option<&'a Revision> {
        let is_earlier = self.member.is_none() && !self.is_to_come(current);
        self.tail.filter(|_| is_earlier)
    }

    /// True if the site does not have the version of the rollout yet.
    pub(super) fn is_to_come(&self, current: &CurrentRollout<'_>) -> bool {
        self.tail
            .is_none_or(|tail| VersionName::of(&tail.entry) != current.version)
    }

    /// True if the version of the rollout runs in the site, as far as observed.
    pub(super) fn is_updated(&self, current: &CurrentRollout<'_>) -> bool {
        self.running
            .is_some_and(|running| VersionName::of(&running.entry) == current.version)
    }

    /// The revision that failed and its failure, if the cached state is current.
    pub(super) fn failure(
        &self,
        current: &CurrentRollout<'_>,
    ) -> Option<(&'a Revision, Failure<'a>)> {
        let failed = self.failed.filter(|_| self.is_in_reach)?;
        Some((failed, current.failure(self.site, failed)?))
    }

    /// The revisions that wait, the oldest first.
    pub(super) fn queue(&self) -> impl Iterator<Item = &'a Revision> + use<'a> {
        let running = self.running.map_or(i64::MIN, |running| running.number);
        let chain = self.site.chain.iter();
        chain.filter(move |revision| revision.number > running && revision.counts())
    }
}

impl Revision {
    /// True if the revision takes part in its chain.
    pub(super) fn counts(&self) -> bool {
        let is_final = matches!(self.state, RevisionState::Archived | RevisionState::Skipped);
        !self.is_deleting && !self.is_archiving && !is_final
    }

    /// The order in which a site gets its revisions, except edits: by rollout, and the revision that
    /// restores the version before an aborted rollout last. It is that of the numbers, except while
    /// an edit overtakes waiting revisions.
    pub(super) fn rank(&self) -> (i64, bool) {
        (self.entry.rollout, self.entry.is_rollback)
    }

    /// True if the revision has begun, as far as observed.
    pub(super) fn has_begun(&self) -> bool {
        self.beginning != RevisionStart::None
    }

    /// True if the wave of the revision waits for it.
    pub(super) fn is_pending(&self) -> bool {
        let is_under_way = matches!(
            self.state,
            RevisionState::Queued | RevisionState::Started { .. }
        );
        is_under_way && self.entry.batch != AFTERWARDS
    }

    /// True if the revision may have written objects, as far as observed. A revision that has written
    /// nothing can be taken back without a trace: workloads that stopped for it start again.
    pub(super) fn may_have_written(&self) -> bool {
        self.beginning == RevisionStart::Begun
    }
}
