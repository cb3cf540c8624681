//! The current rollout, and the reasons that it may not continue.

use baton_apis::conditions::{ABORTED, Reason};
use baton_engine::{chain_names::next_in_chain, condition_list::find_true};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Observed, Revision, Site, Target, VersionName, reported, strategy, strategy::Strategy,
};

/// The current rollout, or the last one.
#[derive(Clone, Debug)]
pub(super) struct LatestRollout<'a> {
    /// Number of the rollout; 0 before the first one.
    pub(super) number: i64,
    /// Version of the rollout; empty before the first one.
    pub(super) version: VersionName<'a>,
    /// Version of the rollout before.
    pub(super) previous: Option<VersionName<'a>>,
    /// True if the rollout begins with this plan.
    pub(super) is_new: bool,
    /// True if the previous status reports the rollout as aborted.
    pub(super) was_aborted: bool,
    /// Current batch in the previous status; 0 if there is none.
    pub(super) batch: i32,
    /// Last rollout that is over, as in the previous status.
    pub(super) completed: Option<i64>,
    /// The reason that holds the rollout, and the beginning of another one.
    pub(super) obstacle: Option<RolloutObstacle>,
    /// True if the spec requests another version, whose rollout cannot begin yet.
    pub(super) is_behind: bool,
}

/// The reason that no site gets a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RolloutObstacle {
    NoApplication,
    NoVersion,
    Invalid(strategy::Error),
    Paused,
    /// Rollout blocks apply, or cannot be listed: the reason and the text of the hold.
    Blocked(Reason, String),
    /// The last rollout has the highest number that exists; the text names the place of the number,
    /// and a solution.
    NoNumber(String),
    /// The waiting revisions of an aborted rollout have to be withdrawn before the next one,
    /// because only status and spec contain the abort.
    Ending,
}

impl RolloutObstacle {
    /// True if a rollout that is under way can be aborted, or has ended, in spite of the obstacle.
    pub(super) fn allows_abort(&self) -> bool {
        matches!(self, Self::Paused | Self::Blocked(..))
    }
}

impl<'a> LatestRollout<'a> {
    pub(super) fn of(
        observed: &Observed<'a>,
        strategy: Result<&Strategy, &strategy::Error>,
    ) -> Self {
        let wanted = wanted(observed);
        let mut course = Self::reported(observed);
        course.obstacle = match (&wanted, strategy) {
            (Err(hold), _) => Some(hold.clone()),
            (_, Err(error)) => Some(RolloutObstacle::Invalid(error.clone())),
            _ if observed.spec.paused => Some(RolloutObstacle::Paused),
            _ => {
                let hold = observed.blocks.hold();
                hold.map(|(reason, text)| RolloutObstacle::Blocked(reason, text))
            }
        };
        let Some(wanted) = wanted.ok().filter(|wanted| *wanted != course.version) else {
            return course;
        };
        let is_aborted = course.was_aborted || course.is_to_abort(observed);
        if course.obstacle.is_none() && is_aborted && has_queue(observed, &course) {
            course.obstacle = Some(RolloutObstacle::Ending);
        }
        if course.obstacle.is_none() {
            match course.following(observed, wanted) {
                Ok(next) => return course.next(observed, wanted, next),
                Err(hold) => course.obstacle = Some(hold),
            }
        }
        course.is_behind = true;
        course
    }

    /// The rollout in the previous status.
    fn reported(observed: &Observed<'a>) -> Self {
        let status = observed.status;
        let [version, previous] = reported(observed.spec, status);
        let none = VersionName {
            version: "",
            application: &observed.spec.application,
        };
        let (number, version) = status.rollout.zip(version).unwrap_or((0, none));
        Self {
            number,
            version,
            previous,
            is_new: false,
            was_aborted: aborted(&status.conditions).is_some(),
            batch: status.batch.as_ref().map_or(0, |batch| batch.number),
            completed: status.completed_rollout,
            obstacle: None,
            is_behind: false,
        }
    }

    /// The number of the next rollout, and true if revisions have it already.
    ///
    /// If the status was lost, the newest rollout in the revisions continues if it has the
    /// requested version.
    fn following(
        &self,
        observed: &Observed<'a>,
        wanted: VersionName<'a>,
    ) -> Result<(i64, bool), RolloutObstacle> {
        let chains = observed.sites.values().flat_map(|site| &site.chain);
        let newest = chains.max_by_key(|revision| revision.entry.rollout);
        let is_lost = |revision: &Revision| {
            VersionName::of(&revision.entry) == wanted && !revision.entry.is_rollback
        };
        if let Some(newest) = newest.filter(|newest| self.number == 0 && is_lost(newest)) {
            return Ok((newest.entry.rollout, true));
        }
        let own = ("status.rollout".to_owned(), Some(self.number));
        let newest = newest.map(|it| {
            let name = format!("The rollout of ObjectSet {}", it.name);
            (name, Some(it.entry.rollout))
        });
        let next = next_in_chain(newest.into_iter().chain([own]));
        let next = next.map_err(|highest| {
            RolloutObstacle::NoNumber(format!(
                "{highest}. Delete the ObjectSet, or lower the status."
            ))
        });
        Ok((next?, false))
    }

    /// The next rollout. `is_known` is true if revisions have its number already.
    fn next(
        self,
        observed: &Observed<'a>,
        wanted: VersionName<'a>,
        (number, is_known): (i64, bool),
    ) -> Self {
        // Sites without any revision may have joined since.
        let placed = observed.sites.values().filter(|site| site.is_placed);
        let had = placed.filter_map(|site| Some((site, newest_of(site)?)));
        let mut had = had.peekable();
        let has_got_so_far = |(site, newest): (&Site, &Revision)| {
            let is_so_far = VersionName::of(&newest.entry) == wanted && !newest.is_pending();
            is_so_far || !site.is_online
        };
        // Otherwise a site that has failed since would roll back all of them.
        let is_over = is_known && had.peek().is_some() && had.all(has_got_so_far);
        Self {
            number,
            version: wanted,
            previous: (self.number > 0).then_some(self.version),
            is_new: true,
            was_aborted: false,
            batch: 0,
            completed: if is_over {
                Some(number)
            } else {
                self.completed
            },
            obstacle: None,
            is_behind: false,
        }
    }

    /// True if the spec requests the abort of this rollout.
    pub(super) fn is_to_abort(&self, observed: &Observed<'_>) -> bool {
        self.number > 0 && observed.spec.abort_rollout == Some(self.number)
    }

    /// True if the rollout is over: later sites are in no wave, and their errors have no effect.
    pub(super) fn is_over(&self) -> bool {
        self.number > 0 && self.completed == Some(self.number)
    }

    /// True if an abort of the rollout withdraws a revision.
    ///
    /// The revision has written nothing, and would bring the version to a site that does not have
    /// it. This includes an edit of a revision that has written nothing.
    pub(super) fn withdraws(&self, site: &Site, revision: &Revision) -> bool {
        let entry = &revision.entry;
        let edits_what_wrote = || {
            let is_same = |it: &Revision| {
                it.entry.rollout == entry.rollout
                    && VersionName::of(&it.entry) == VersionName::of(entry)
            };
            let mut chain = site.chain.iter().filter(|it| it.counts());
            entry.is_edit && chain.any(|it| it.may_have_written() && is_same(it))
        };
        revision.counts()
            && !revision.may_have_written()
            && !entry.is_rollback
            && !edits_what_wrote()
            && (entry.rollout == self.number || VersionName::of(entry) == self.version)
    }
}

/// True if the abort of a rollout withdraws a revision; false without an abort.
pub(super) fn is_withdrawn(
    aborted: Option<&LatestRollout<'_>>,
    site: &Site,
    revision: &Revision,
) -> bool {
    aborted.is_some_and(|course| course.withdraws(site, revision))
}

/// The condition that reports an abort, if there is one that is true.
pub(super) fn aborted(conditions: &[Condition]) -> Option<&Condition> {
    find_true(conditions, ABORTED)
}

/// The name of the requested version, or the reason that there is none.
fn wanted<'a>(observed: &Observed<'a>) -> Result<VersionName<'a>, RolloutObstacle> {
    match &observed.target {
        Target::NoApplication => Err(RolloutObstacle::NoApplication),
        Target::NoVersion => Err(RolloutObstacle::NoVersion),
        Target::Version(version) => {
            let application = observed.spec.application.as_str();
            let kept = observed.versions.get(application);
            let found = kept.and_then(|kept| kept.get_key_value(version));
            let named = found.map(|(version, _)| VersionName {
                version,
                application,
            });
            named.ok_or(RolloutObstacle::NoVersion)
        }
    }
}

/// The revision of a site with the highest rank that counts.
fn newest_of(site: &Site) -> Option<&Revision> {
    let counting = site.chain.iter().filter(|revision| revision.counts());
    counting.max_by_key(|revision| revision.rank())
}

fn has_queue(observed: &Observed<'_>, course: &LatestRollout<'_>) -> bool {
    let mut sites = observed.sites.values();
    sites.any(|site| {
        site.chain
            .iter()
            .any(|revision| course.withdraws(site, revision))
    })
}
