//! The sites of a deployment: how many are in which state, by waves, and those that people want to see first.

use std::collections::BTreeMap;

use baton_sites::{
    placement::Expression,
    rollout::{Site, lens::Lens, standing::SiteState, strategy::canary_expression},
};
use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::{
    cluster::SiteCluster,
    read::{Observed, status},
    state::{Rollout, SitePicture, words},
};

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
            .map(|(state, count)| format!("{count} {}", words(*state)))
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
        let (spec, status) = (&observed.deployment.spec, status(&observed.deployment));
        let rollout = Rollout {
            lens: Lens::reported(spec, &status, now),
            failing: &status.failing,
        };
        let canary = canary_expression(&spec.strategy).ok().flatten();
        let judge = |site: &str| {
            let chain = observed.chains.get(site).map_or(&[][..], Vec::as_slice);
            rollout.judge(site, chain, known(observed, canary.as_ref(), site))
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

/// The facts about a site besides its revisions. Where nobody can tell, it counts as placed and as online.
fn known(observed: &Observed, canary: Option<&Expression>, name: &str) -> Site {
    let clusters = observed.clusters.as_ref().ok();
    let cluster = clusters.and_then(|clusters| clusters.get(name));
    let is_online = cluster.is_some_and(SiteCluster::is_online);
    let placed = observed.placed.as_ref();
    Site {
        is_placed: placed.is_none_or(|all| all.contains(name)),
        is_online: clusters.is_none() || is_online,
        online_since: cluster.filter(|_| is_online).and_then(|it| it.since),
        is_canary: canary.is_some_and(|it| cluster.is_some_and(|site| it.matches(&site.labels))),
        chain: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use baton_apis::conditions::reasons;

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
                "2: 1 failed, 1 in flight, 1 offline, 1 waiting for a window, 1 queued, 1 updated"
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

    /// Also for the `successDelaySeconds` of the version, of which the spec of the deployment says nothing.
    #[test]
    fn sites_soak_as_long_as_the_deployment_says() {
        let mut observed = observed(&mid_rollout());
        observed.deployment.spec.strategy.healthy_time = None;
        let status = observed.deployment.status.as_mut().unwrap();
        status.conditions[0].reason = reasons::SOAKING.to_owned();
        let counts = Fleet::of(&observed, NOW).counts;
        assert_eq!(counts.of(SiteState::Soaking), 1);
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
