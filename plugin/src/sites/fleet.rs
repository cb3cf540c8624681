//! The sites of a deployment: how many are in which state, by waves, and those that people want to see first.

use std::collections::BTreeMap;

use baton_apis::conditions::PROGRESSING;
use baton_engine::condition_list::find;
use baton_sites::rollout::strategy::deadline;
use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::{
    cluster::SiteCluster,
    read::{Observed, status},
    state::{Known, Rollout, SitePicture, SiteState},
};
use crate::args::timeout;

/// All sites of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fleet {
    pub(crate) counts: Counts,
    /// Those that have begun, by number.
    pub(crate) waves: Vec<Wave>,
    /// Sites that are in no wave: not yet, or since they came when the rollout was over.
    pub(crate) later: Counts,
    /// By name.
    pub(crate) sites: Vec<SitePicture>,
}

/// Sites that get a version side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wave {
    pub(crate) number: i32,
    pub(crate) counts: Counts,
}

/// How many sites are in which state; none is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<SiteState, usize>);

/// Waves that follow one another and are shown as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) counts: Counts,
}

impl Span {
    /// `wave 3`, `waves 1 to 40`
    pub(crate) fn title(&self) -> String {
        if self.first == self.last {
            format!("wave {}", self.first)
        } else {
            format!("waves {} to {}", self.first, self.last)
        }
    }
}

impl Counts {
    fn add(&mut self, state: SiteState, count: usize) {
        if count > 0 {
            *self.0.entry(state).or_default() += count;
        }
    }

    pub(crate) fn of(&self, state: SiteState) -> usize {
        self.0.get(&state).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// How many have the version, and are available.
    pub(crate) fn updated(&self) -> usize {
        self.sum(SiteState::is_updated)
    }

    /// At how many nothing is waited for any more.
    pub(crate) fn settled(&self) -> usize {
        self.sum(SiteState::is_settled)
    }

    /// At how many something is waited for, and not only their turn.
    pub(crate) fn open(&self) -> usize {
        self.sum(SiteState::is_open)
    }

    /// Whether at all of them nothing is waited for any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled() == self.total()
    }

    fn sum(&self, is_meant: fn(SiteState) -> bool) -> usize {
        let meant = self.0.iter().filter(|(state, _)| is_meant(**state));
        meant.map(|(_, count)| count).sum()
    }

    /// `2 failed, 3 in flight, 4 updated`
    pub(crate) fn words(&self) -> String {
        let parts = self.0.iter();
        let parts: Vec<String> = parts
            .map(|(state, count)| format!("{count} {}", state.words()))
            .collect();
        parts.join(", ")
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Fleet {
    pub(crate) fn of(observed: &Observed, now: Timestamp) -> Self {
        let status = status(&observed.deployment);
        let rollout = Rollout {
            number: status.rollout,
            soaking: soaking(observed),
            deadline: deadline(&observed.deployment.spec.strategy),
            failing: &status.failing,
            now,
        };
        let judge = |site: &str| {
            let chain = observed.chains.get(site).map_or(&[][..], Vec::as_slice);
            rollout.judge(site, chain, known(observed, site))
        };
        let sites = observed.sites().into_iter().map(judge).collect();
        let placed = usize::try_from(status.counts.sites).unwrap_or(0);
        Self::from_sites(sites, placed)
    }

    /// Sorts sites by waves. Of `placed` sites in all those that nothing else is known of are still to come.
    fn from_sites(sites: Vec<SitePicture>, placed: usize) -> Self {
        let mut fleet = Self::default();
        let mut waves: BTreeMap<i32, Counts> = BTreeMap::new();
        for site in &sites {
            fleet.counts.add(site.state, 1);
            match site.wave {
                Some(number) => waves.entry(number).or_default().add(site.state, 1),
                None => fleet.later.add(site.state, 1),
            }
        }
        let here = sites.len() - fleet.counts.of(SiteState::Leaving);
        let unseen = placed.saturating_sub(here);
        fleet.counts.add(SiteState::ToCome, unseen);
        fleet.later.add(SiteState::ToCome, unseen);
        let waves = waves.into_iter();
        fleet.waves = waves
            .map(|(number, counts)| Wave { number, counts })
            .collect();
        fleet.sites = sites;
        fleet
    }

    /// The waves, in order; neighbours that may be shown as one are.
    pub(crate) fn spans(&self, is_dull: impl Fn(&Wave) -> bool) -> Vec<Span> {
        let mut spans: Vec<(Span, bool)> = Vec::new();
        for wave in &self.waves {
            let dull = is_dull(wave);
            if let Some((span, true)) = spans.last_mut()
                && dull
            {
                span.last = wave.number;
                for (state, count) in &wave.counts.0 {
                    span.counts.add(*state, *count);
                }
                continue;
            }
            let span = Span {
                first: wave.number,
                last: wave.number,
                counts: wave.counts.clone(),
            };
            spans.push((span, dull));
        }
        spans.into_iter().map(|(span, _)| span).collect()
    }

    /// The first few of the sites at which something is waited for, and not only their turn: those that failed, then
    /// those that are in flight the longest, and so on.
    pub(crate) fn worst(&self, few: usize) -> Vec<&SitePicture> {
        let is_open = |site: &&SitePicture| site.state.is_open();
        let mut open: Vec<&SitePicture> = self.sites.iter().filter(is_open).collect();
        open.sort_by_key(|site| (site.state, site.since.is_none(), site.since, &site.name));
        open.truncate(few);
        open
    }
}

fn known(observed: &Observed, site: &str) -> Known {
    let clusters = observed.clusters.as_ref().ok();
    let is_online = |clusters: &BTreeMap<String, SiteCluster>| {
        clusters.get(site).is_some_and(SiteCluster::is_online)
    };
    Known {
        is_online: clusters.map(is_online),
        online_since: clusters.and_then(|clusters| {
            let cluster = clusters.get(site).filter(|it| it.is_online())?;
            cluster.since
        }),
        is_placed: observed.placed.as_ref().map(|all| all.contains(site)),
    }
}

/// The wave whose sites have to stay available for a while, if there is one.
fn soaking(observed: &Observed) -> Option<i32> {
    let status = observed.deployment.status.as_ref()?;
    let healthy_time = observed.deployment.spec.strategy.healthy_time.as_deref()?;
    let progressing = find(&status.conditions, PROGRESSING)?;
    let soaks = timeout(healthy_time).is_ok_and(|time| !time.is_zero());
    let goes_on = soaks && progressing.status != "False";
    goes_on.then_some(status.batch.as_ref()?.number)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sites::fixtures::{NOW, mid_rollout, observed, ten_thousand};

    #[test]
    fn sites_are_counted_by_waves() {
        let fleet = Fleet::of(&observed(&mid_rollout()), NOW);
        let waves: Vec<String> = fleet
            .waves
            .iter()
            .map(|wave| format!("{}: {}", wave.number, wave.counts.words()))
            .collect();
        assert_eq!(
            waves,
            [
                "1: 2 updated",
                "2: 1 failed, 1 in flight, 1 offline, 1 waiting for a window, 1 queued, 1 soaking"
            ]
        );
        assert_eq!(fleet.later.words(), "1 leaving, 2 to come");
        assert_eq!((fleet.counts.updated(), fleet.counts.total()), (3, 11));
    }

    #[test]
    fn those_that_failed_come_first_and_then_those_in_flight_the_longest() {
        let fleet = Fleet::of(&observed(&mid_rollout()), NOW);
        let worst = |few| {
            let worst = fleet.worst(few).into_iter();
            worst.map(|site| site.name.as_str()).collect::<Vec<_>>()
        };
        let all = ["eu-4", "eu-5", "eu-6", "eu-7", "eu-8", "us-1"];
        assert_eq!(worst(20), all);
        assert_eq!(worst(3), all[..3]);
    }

    /// Sites that nobody has said anything of are those that are placed and not among the others.
    #[test]
    fn what_the_status_counts_and_nobody_names_is_to_come() {
        let mut observed = observed(&mid_rollout());
        observed.placed = None;
        observed.deployment.status.as_mut().unwrap().counts.sites = 100;
        let fleet = Fleet::of(&observed, NOW);
        assert_eq!(fleet.counts.total(), 100);
        assert_eq!(fleet.later.words(), "92 to come");
    }

    #[test]
    fn ten_thousand_sites_are_grouped_at_once() {
        let observed = ten_thousand();
        let begun = Instant::now();
        let fleet = Fleet::of(&observed, NOW);
        assert_eq!((fleet.counts.total(), fleet.waves.len()), (10_000, 41));
        let worst = fleet.worst(20);
        let failed = fleet.counts.of(SiteState::Failed);
        assert_eq!(failed, 7);
        assert!(
            worst[..failed]
                .iter()
                .all(|one| one.state == SiteState::Failed)
        );
        let flying = &worst[failed..];
        assert!(flying.iter().all(|one| one.state == SiteState::InFlight));
        assert!(flying.is_sorted_by_key(|one| one.since));
        // Grouping is no part of the wait for the lists.
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}
