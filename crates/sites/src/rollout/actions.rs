//! Derives the actions in the sites from the next step of a rollout.

use std::sync::Arc;

use baton_apis::{OnError, conditions::Reason};

use super::{
    Action, Observed, Revision, RevisionState, Site, VersionName,
    abort::Abort,
    latest_rollout::{LatestRollout, is_withdrawn},
    placed::PlacedSite,
    queue::{Queue, QueuedRevision, SharedEntries},
    step::{Situation, Step},
};

/// The actions of a plan, in the order in which they are carried out. The actions of a site are
/// consecutive, so that an edit overtakes the waiting revisions of a site in one round.
#[derive(Debug, Default)]
struct Actions(Vec<Action>);

/// The actions for the next step, and a reason if some of them are impossible.
pub(super) fn of(
    observed: &Observed<'_>,
    situation: &Situation<'_>,
    step: &Step,
    abort: Option<&Abort>,
) -> (Vec<Action>, Option<String>) {
    let mut actions = Actions::default();
    let mut hindrance = None;
    let may_give = situation.rollout.obstacle.is_none() && !matches!(step, Step::Held(_));
    let (batch, sites) = match step {
        Step::Give { batch, sites } => (*batch, sites.as_slice()),
        _ => (0, [].as_slice()),
    };
    let mut given = SharedEntries::new();
    let mut chosen = sites.iter().copied().peekable();
    let aborted = abort.map(|_| situation.rollout);
    for (at, placed) in situation.fleet.placed.iter().enumerate() {
        let batch = chosen.next_if_eq(&at).map(|_| batch);
        if abort.is_some() {
            actions.withdraw_aborted(placed.site, situation);
        }
        if may_give {
            let queue = Queue {
                observed,
                placed,
                current: situation.current,
                aborted,
                last: last(placed, situation, abort, batch),
            };
            if let Err(highest) = queue.bring_up_to_date(&mut given, &mut actions.0) {
                let text = || format!("Site {}: ObjectSet {highest}. Delete it.", placed.name);
                hindrance.get_or_insert_with(text);
            }
        }
        actions.archive_superseded(placed, aborted);
        actions.forget_surplus(placed, observed, situation);
    }
    let is_held = observed.is_held();
    for site in observed.sites.values().filter(|site| !site.is_placed) {
        if !is_held {
            actions.tear_down(site);
        } else if abort.is_some() {
            actions.withdraw_aborted(site, situation);
        }
    }
    (actions.0, hindrance)
}

impl Actions {
    /// Withdraws the waiting revisions of an aborted rollout, so that they never begin; also while
    /// the deployment is paused.
    fn withdraw_aborted(&mut self, site: &Site, situation: &Situation<'_>) {
        let chain = site.chain.iter().rev();
        let waiting = chain.filter(|revision| situation.rollout.withdraws(site, revision));
        self.0.extend(waiting.map(|revision| Action::Withdraw {
            revision: Arc::clone(&revision.name),
        }));
    }

    /// Archives the revisions before an available one, and those that were skipped in the queue.
    fn archive_superseded(&mut self, placed: &PlacedSite<'_>, aborted: Option<&LatestRollout<'_>>) {
        let available = placed
            .available
            .map_or(i64::MIN, |available| available.number);
        let chain = placed.site.chain.iter();
        let left = chain.filter(|revision| !is_withdrawn(aborted, placed.site, revision));
        let superseded = left.filter(|revision| {
            let is_skipped = revision.state == RevisionState::Skipped;
            (revision.counts() && revision.number < available)
                || (is_skipped && !revision.is_deleting && !revision.is_archiving)
        });
        self.0.extend(superseded.map(|revision| Action::Archive {
            revision: Arc::clone(&revision.name),
        }));
    }

    /// Deletes archived revisions beyond the history limit, the oldest first. While a rollback of
    /// the rollout is possible, the revision before the rollout is kept.
    fn forget_surplus(
        &mut self,
        placed: &PlacedSite<'_>,
        observed: &Observed<'_>,
        situation: &Situation<'_>,
    ) {
        let archived = || {
            placed
                .site
                .chain
                .iter()
                .filter(|revision| revision.is_history())
        };
        let room = usize::try_from(observed.spec.revision_history_limit).unwrap_or(0);
        let Some(surplus) = archived()
            .count()
            .checked_sub(room)
            .filter(|surplus| *surplus > 0)
        else {
            return;
        };
        let may_go_back =
            observed.spec.strategy.on_error == OnError::Rollback && situation.is_under_way();
        let before = before(placed, situation)
            .filter(|_| may_go_back)
            .map(|before| before.number);
        let surplus = archived()
            .take(surplus)
            .filter(|revision| Some(revision.number) != before);
        self.0.extend(surplus.map(|revision| Action::Forget {
            revision: Arc::clone(&revision.name),
        }));
    }

    /// Deletes all revisions of a site.
    ///
    /// Those that have written nothing are deleted first, from the newest, so that none begins
    /// because the one before is being deleted. Then the others are deleted from the oldest, so
    /// that no older revision is left to get objects back.
    fn tear_down(&mut self, site: &Site) {
        let revisions = site.chain.iter().filter(|revision| !revision.is_deleting);
        let (written, waiting): (Vec<_>, Vec<_>) =
            revisions.partition(|revision| revision.may_have_written());
        let order = waiting.into_iter().rev().chain(written);
        self.0.extend(order.map(|revision| Action::TearDown {
            revision: Arc::clone(&revision.name),
        }));
    }
}

impl Revision {
    fn is_history(&self) -> bool {
        self.state == RevisionState::Archived && !self.is_deleting
    }
}

/// The last revision that the queue of a site needs besides those that wait: with the version of
/// the rollout, or with the version before.
fn last<'a>(
    placed: &PlacedSite<'a>,
    situation: &Situation<'a>,
    abort: Option<&Abort>,
    batch: Option<i32>,
) -> Option<QueuedRevision<'a>> {
    let course = situation.rollout;
    if let Some(batch) = batch {
        return Some(QueuedRevision::new(course.version, course.number, batch));
    }
    let (member, before) = goes_back(placed, situation, abort)?;
    Some(QueuedRevision {
        is_rollback: true,
        ..QueuedRevision::new(before?, course.number, member.entry.batch)
    })
}

/// The sites that keep the version of a rollout that was taken back: they had nothing before, or
/// their old version is not kept any more.
pub(super) fn left_behind<'a>(
    observed: &Observed<'_>,
    situation: &Situation<'a>,
    abort: Option<&Abort>,
) -> impl Iterator<Item = &'a Arc<str>> {
    let placed = situation.fleet.placed.iter();
    let left = placed.filter(move |placed| {
        let back = goes_back(placed, situation, abort);
        back.is_some_and(|(_, before)| before.and_then(|it| observed.version(it)).is_none())
    });
    left.map(|placed| placed.name)
}

/// The revision of the rollout in a site that has to go back, and the version to restore, if any.
/// `None` if the site need not go back.
fn goes_back<'a>(
    placed: &PlacedSite<'a>,
    situation: &Situation<'a>,
    abort: Option<&Abort>,
) -> Option<(&'a Revision, Option<VersionName<'a>>)> {
    abort.filter(|abort| abort.reason == Reason::RolledBack)?;
    let course = situation.rollout;
    // An edit may wait behind this revision, and is deleted with it.
    let member = placed.site.chain.iter().rev().find(|revision| {
        situation.current.has_brought(revision) && revision.counts() && revision.may_have_written()
    })?;
    let is_back = |revision: &Revision| {
        revision.entry.is_rollback && revision.entry.rollout == course.number && revision.counts()
    };
    if placed.site.chain.iter().any(is_back) {
        return None;
    }
    // There is no other source than the history: the deployment's version before may have been
    // aborted before it reached this site.
    let before = before(placed, situation).map(|before| VersionName::of(&before.entry));
    Some((member, before))
}

/// The revision that a site had before the rollout.
fn before<'a>(placed: &PlacedSite<'a>, situation: &Situation<'_>) -> Option<&'a Revision> {
    let course = situation.rollout;
    placed.site.chain.iter().rev().find(|revision| {
        revision.entry.rollout < course.number
            && VersionName::of(&revision.entry) != course.version
            && !revision.is_deleting
            && revision.has_begun()
    })
}
