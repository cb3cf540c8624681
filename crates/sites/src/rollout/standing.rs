//! How one site is, as far as the rollout under way is concerned.

use std::sync::Arc;

use baton_apis::SiteCounts;
use serde::Serialize;

use super::{
    Revision, RevisionState, Site, current::CurrentRollout, failure::Failure, placed::PlacedSite,
};

/// How a site is. Those that people want to see first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SiteState {
    /// It was refused, took too long, or is not available any more.
    Failed,
    /// It has begun, and is not available yet.
    InFlight,
    /// It has the version in its queue, or nothing of it, and cannot be reached.
    Offline,
    /// First in the queue, and held until an upgrade window opens. Only what is reported of the revision tells that:
    /// [`standing`] says `Queued`.
    Window,
    /// It waits for a version ahead, or nobody has reported on it yet.
    Queued,
    /// It is not placed any more, and its revisions go.
    Leaving,
    /// No revision of the rollout was given to it yet.
    ToCome,
    /// Available, and the healthy time of its wave is not over.
    Soaking,
    /// It has the version from before the rollout again, and is available.
    RolledBack,
    /// Available.
    Updated,
}

impl SiteState {
    /// Whether it has the version, and is available.
    pub fn is_updated(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated)
    }

    /// Whether somebody may want to look at it: something is waited for there, and not only its turn.
    pub fn is_open(self) -> bool {
        !self.is_settled() && self != Self::ToCome
    }

    /// Whether nothing is waited for there any more.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated | Self::RolledBack)
    }
}

/// How a site is, and why.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// In one word.
    pub state: SiteState,
    /// The revision that the state is about: the newest of the rollout, or what has its version from an earlier one.
    pub revision: Option<&'a Revision>,
    /// The wave that it is in; `None` before it is in one.
    pub wave: Option<i32>,
    /// Why that revision failed, if it has.
    pub failure: Option<Failure<'a>>,
}

/// How a site is: seen as the status of its deployment counts it.
pub fn standing<'a>(
    name: &'a Arc<str>,
    site: &'a Site,
    current: &CurrentRollout<'_>,
) -> Standing<'a> {
    let placed = PlacedSite::of(name, site, current);
    let is_own = |revision: &&Revision| {
        revision.counts() && current.rollout > 0 && revision.entry.rollout == current.rollout
    };
    let own = site.chain.iter().rev().find(is_own);
    let membership = placed.membership(current).map(|(_, number)| number);
    let revision = own.or_else(|| placed.earlier(current));
    let failure = revision.and_then(|revision| current.failure(site, revision));
    let is_soaking =
        placed.is_in_reach && current.soaking.is_some() && membership == current.soaking;
    let state = match revision.map(|revision| (revision, &revision.state)) {
        _ if !site.is_placed => SiteState::Leaving,
        None if !site.is_online => SiteState::Offline,
        None => SiteState::ToCome,
        Some((_, RevisionState::Available(_))) if own.is_some_and(|own| own.entry.is_rollback) => {
            SiteState::RolledBack
        }
        Some((_, RevisionState::Available(_))) if is_soaking => SiteState::Soaking,
        Some((_, RevisionState::Available(_))) => SiteState::Updated,
        Some((it, RevisionState::Queued | RevisionState::Unknown)) if !it.has_begun() => {
            if site.is_online {
                SiteState::Queued
            } else {
                SiteState::Offline
            }
        }
        Some(_) if failure.is_some() => SiteState::Failed,
        Some((_, RevisionState::Unknown)) => SiteState::Offline,
        Some(_) if !site.is_online => SiteState::Offline,
        Some(_) => SiteState::InFlight,
    };
    Standing {
        state,
        revision,
        wave: own
            .map(|own| own.entry.batch)
            .or(membership)
            .filter(|wave| *wave > 0),
        failure,
    }
}

/// Adds a placed site to the counts of the status, but for `soaking`.
pub(super) fn count(
    placed: &PlacedSite<'_>,
    current: &CurrentRollout<'_>,
    counts: &mut SiteCounts,
) {
    let is_updated = placed.is_updated(current);
    let is_available = |it: &Revision| matches!(it.state, RevisionState::Available(_));
    let is_healthy = placed.is_in_reach && placed.running.is_some_and(is_available);
    counts.sites += 1;
    counts.updated += i32::from(is_updated);
    counts.healthy += i32::from(is_updated && is_healthy);
    counts.queued += i32::from(!is_updated && !placed.is_to_come(current));
    counts.offline += i32::from(!placed.site.is_online);
    counts.failed += i32::from(placed.failure(current).is_some());
}
