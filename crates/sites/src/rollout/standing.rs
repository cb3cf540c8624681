//! The standing of a site in the current rollout.

use std::sync::Arc;

use baton_apis::SiteCounts;
use serde::Serialize;

use super::{
    Revision, RevisionState, Site, current::CurrentRollout, failure::Failure, placed::PlacedSite,
};

/// The state of a site. The states that people want to see first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SiteState {
    /// The revision was refused, took too long, or is not available any more.
    Failed,
    /// The revision has begun, and is not available yet.
    InFlight,
    /// The site cannot be reached; the version is in its queue, or the site has none of it.
    Offline,
    /// The revision is first in the queue, and waits for an upgrade window. Only the report of the
    /// revision contains this: [`standing`] returns `Queued`.
    Window,
    /// The revision waits for an earlier version, or has no report yet.
    Queued,
    /// The site is not placed any more, and its revisions are being deleted.
    Leaving,
    /// The site has no revision of the rollout yet.
    ToCome,
    /// The revision is available, and the healthy time of its wave is not over.
    Soaking,
    /// The site has its version from before the rollout again, and is available.
    RolledBack,
    /// The revision is available.
    Updated,
}

impl SiteState {
    /// True if the site has the version, and is available.
    pub fn is_updated(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated)
    }

    /// True if the site deserves attention: it waits for something, and not only for its turn.
    pub fn is_open(self) -> bool {
        !self.is_settled() && self != Self::ToCome
    }

    /// True if the site waits for nothing any more.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated | Self::RolledBack)
    }
}

/// The standing of a site, with its reasons.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// State in one word.
    pub state: SiteState,
    /// Revision of the state: the newest of the rollout, or the one with its version from an
    /// earlier rollout.
    pub revision: Option<&'a Revision>,
    /// Wave of the site; `None` if it is in none yet.
    pub wave: Option<i32>,
    /// Failure of that revision.
    pub failure: Option<Failure<'a>>,
}

/// The standing of a site, consistent with the counts in the status of its deployment.
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

/// Adds a placed site to the counts of the status, except `soaking`.
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
