//! Decides about the next step of a rollout.

use baton_apis::SiteDeploymentStatus;
use baton_engine::stored_time::end_of;
use jiff::Timestamp;

use super::{
    current::CurrentRollout,
    fleet::{Batch, Fleet},
    latest_rollout::{LatestRollout, RolloutObstacle},
    order::Seed,
    placed::AFTERWARDS,
    strategy::{self, Strategy, Wave},
};

/// The next step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no site.
    NoSites,
    /// The rollout is on hold.
    Held(RolloutObstacle),
    /// No further site gets the version.
    Aborted,
    /// Sites get the version as members of the batch. `sites` are indexes in the list of sites, in
    /// ascending order.
    Give { batch: i32, sites: Vec<usize> },
    /// Sites wait, or have begun.
    Underway,
    /// No site that could continue is reachable.
    OutOfReach,
    /// The sites of the batch have to stay available until this time.
    Soaking(Timestamp),
    /// All reachable sites have the version.
    Complete,
}

/// The input of the next step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    pub(super) status: &'a SiteDeploymentStatus,
    pub(super) rollout: &'a LatestRollout<'a>,
    pub(super) strategy: Result<&'a Strategy, &'a strategy::Error>,
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) current: &'a CurrentRollout<'a>,
    pub(super) seed: Seed,
}

impl Situation<'_> {
    /// True if a batch is current: the status has one until the last batch has passed.
    pub(super) fn is_under_way(&self) -> bool {
        let course = self.rollout;
        course.number > 0 && !course.is_over() && (course.is_new || self.status.batch.is_some())
    }

    /// True if the rollout has ended after this step, and cannot continue.
    ///
    /// An outage of most sites does not end a rollout: when they are back, their batch continues,
    /// and an error among them counts.
    pub(super) fn is_over(&self, step: &Step) -> bool {
        let fleet = self.fleet;
        let is_complete = *step == Step::Complete && fleet.in_reach * 2 >= fleet.placed.len();
        self.rollout.number > 0 && (self.rollout.is_over() || is_complete)
    }

    /// True if all members of the newest batch were chosen. The status lists sites of a batch only
    /// when the batch was observed to be complete, so a batch that was given in part is completed.
    fn is_formed(&self) -> bool {
        let batch = self.status.batch.as_ref().filter(|_| !self.rollout.is_new);
        batch
            .is_some_and(|batch| batch.number == self.fleet.batch.number && !batch.sites.is_empty())
    }

    pub(super) fn next(&self, is_aborted: bool) -> Step {
        let strategy = match (&self.rollout.obstacle, self.strategy) {
            (Some(hold), _) if !hold.allows_abort() || self.rollout.is_behind => {
                return Step::Held(hold.clone());
            }
            (_, Err(error)) => return Step::Held(RolloutObstacle::Invalid(error.clone())),
            (_, Ok(strategy)) => strategy,
        };
        if self.fleet.placed.is_empty() {
            return Step::NoSites;
        }
        if is_aborted {
            return Step::Aborted;
        }
        let step = if self.rollout.is_over() {
            self.afterwards(strategy)
        } else if self.fleet.batch.is_none_yet() {
            self.first(strategy)
        } else if self.is_under_way() {
            self.batch(strategy)
        } else {
            self.following(strategy)
        };
        // A rollout that has ended does not continue. During a pause no rollout ends, so that errors
        // of the last batch can count afterwards.
        match (&self.rollout.obstacle, step) {
            (Some(_), Step::Complete) if self.rollout.is_over() => Step::Complete,
            (Some(hold), _) => Step::Held(hold.clone()),
            (None, step) => step,
        }
    }

    /// The step before the first batch.
    fn first(&self, strategy: &Strategy) -> Step {
        let wave = strategy.wave(1);
        if wave.by_labels && self.fleet.to_come > 0 {
            if self.fleet.canaries == 0 {
                let error = strategy::Error::NoCanary(self.fleet.placed.len());
                return Step::Held(RolloutObstacle::Invalid(error));
            }
            // The first sites may have got the version after the rollout was over, and the status
            // was lost since.
            return self
                .choose_batch(1, wave, 0)
                .unwrap_or_else(|| self.following_after(1, strategy));
        }
        self.choose_batch(1, wave, 0).unwrap_or_else(|| self.rest())
    }

    /// The step while a batch is current.
    fn batch(&self, strategy: &Strategy) -> Step {
        let batch = &self.fleet.batch;
        let wave = strategy.wave(batch.number);
        let is_open = !self.is_formed() || batch.online() == 0 || wave.limit.is_none();
        let more = is_open.then(|| self.choose_batch(batch.number, wave, batch.online()));
        if let Some(more) = more.flatten() {
            return more;
        }
        match health(batch, wave) {
            Health::Pending => Step::Underway,
            Health::OutOfReach => Step::OutOfReach,
            Health::Since(since) => {
                let until = end_of(since, strategy.healthy_time);
                if until > self.current.now {
                    Step::Soaking(until)
                } else {
                    self.following(strategy)
                }
            }
            Health::Passed => self.following(strategy),
        }
    }

    /// The step after the newest batch has passed.
    fn following(&self, strategy: &Strategy) -> Step {
        self.following_after(self.fleet.batch.number, strategy)
    }

    fn following_after(&self, batch: i32, strategy: &Strategy) -> Step {
        // There are never more batches than sites. Only a forged number is the highest: the other sites
        // then join that batch, in waves of the same size.
        let next = batch.saturating_add(1);
        let given = self.choose_batch(next, strategy.wave(next), 0);
        given.unwrap_or_else(|| self.rest())
    }

    /// The step after the rollout is over: as many sites at a time as in a batch of the strategy,
    /// even if they fail.
    fn afterwards(&self, strategy: &Strategy) -> Step {
        let given = self.choose_batch(AFTERWARDS, strategy.others, self.fleet.afterwards);
        given.unwrap_or_else(|| self.rest())
    }

    /// The step when no site can get the version.
    fn rest(&self) -> Step {
        let Fleet {
            late,
            earlier,
            batch,
            ..
        } = self.fleet;
        let waits = late.queued + late.begun + earlier > 0 && self.is_under_way();
        let is_pending = batch.pending() > 0 && !self.rollout.is_over();
        if waits || is_pending || (self.fleet.afterwards > 0 && self.rollout.is_over()) {
            Step::Underway
        } else if self.fleet.to_come_online > 0 {
            // The places of the batch are taken by sites of earlier batches.
            Step::Underway
        } else if batch.is_none_yet() && self.fleet.to_come > 0 {
            Step::OutOfReach
        } else {
            Step::Complete
        }
    }

    /// Chooses sites for a batch in which `taken` places are used by reachable members.
    ///
    /// Offline sites take no place: they join the batch together with the online sites that follow
    /// them in the order. If no online site follows, they wait for one.
    fn choose_batch(&self, batch: i32, wave: Wave, taken: usize) -> Option<Step> {
        if self.fleet.to_come == 0 {
            return None;
        }
        let placed = self.fleet.placed.iter().enumerate();
        let candidates = placed.filter(|(_, placed)| {
            placed.is_to_come(self.current) && (!wave.by_labels || placed.site.is_canary)
        });
        let mut sites: Vec<usize> = match wave.limit {
            None => candidates.map(|(at, _)| at).collect(),
            Some(limit) => {
                let room = limit.saturating_sub(taken + self.fleet.late.begun);
                if room == 0 {
                    return None;
                }
                let drawn = candidates.map(|(at, placed)| (self.seed.sort_key(placed.name), at));
                let mut order: Vec<_> = drawn.collect();
                order.sort_unstable();
                let order = order.into_iter().map(|(_, at)| at);
                self.up_to(order, room)
            }
        };
        sites.sort_unstable();
        (!sites.is_empty()).then_some(Step::Give { batch, sites })
    }

    /// The sites up to the last one of `places` online sites.
    fn up_to(&self, order: impl Iterator<Item = usize>, places: usize) -> Vec<usize> {
        let mut sites = Vec::new();
        let (mut online, mut last) = (0, 0);
        for at in order {
            sites.push(at);
            if self.fleet.placed[at].site.is_online {
                online += 1;
                last = sites.len();
            }
            if online == places {
                break;
            }
        }
        // There are fewer online sites than free places, so offline sites at the end are included.
        if online == 0 || online == places {
            sites.truncate(last);
        }
        sites
    }
}

/// The health of a batch with all of its members.
enum Health {
    Pending,
    /// No reachable site could show that the version works.
    OutOfReach,
    Since(Timestamp),
    /// The batch has no site any more.
    Passed,
}

fn health(batch: &Batch<'_>, wave: Wave) -> Health {
    if batch.pending() > 0 {
        return Health::Pending;
    }
    match batch.since {
        Some(since) => Health::Since(since),
        None if wave.is_canary && batch.failed == 0 => Health::OutOfReach,
        None => Health::Passed,
    }
}
