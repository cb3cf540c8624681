//! The sites of a deployment: their states by wave, and the sites to show first.

use std::collections::BTreeMap;

use baton_sites::{
    placement::Expression,
    rollout::{Site, current::CurrentRollout, standing::SiteState, strategy::canary_expression},
    uptime::Uptime,
};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::{
    cluster::SiteCluster,
    observed::{Observed, status},
    state::{RolloutFacts, SitePicture},
};

/// All sites of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// States of all sites.
    pub counts: Counts,
    /// Waves that have begun, by number.
    pub waves: Vec<Wave>,
    /// States of sites that have the version and are in no wave: they had it before the rollout, or
    /// were added after it.
    pub already: Counts,
    /// States of the other sites without a wave: those to come, and those that are leaving.
    pub later: Counts,
    /// The sites, by name.
    pub sites: Vec<SitePicture>,
    /// Number of the wave that is under way, if any.
    #[serde(skip)]
    pub current: Option<i32>,
}

/// A wave: sites that get a version together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Number of the wave, from 1 on.
    pub number: i32,
    /// States of the sites of the wave.
    pub counts: Counts,
}

/// Number of sites in each state. States without a site are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<SiteState, usize>);

/// Consecutive waves that are shown as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the first wave.
    pub first: i32,
    /// Number of the last wave.
    pub last: i32,
    /// States of the sites of all waves.
    pub counts: Counts,
}

impl Counts {
    fn add(&mut self, state: SiteState, count: usize) {
        if count > 0 {
            *self.0.entry(state).or_default() += count;
        }
    }

    /// Number of sites in a state.
    pub fn of(&self, state: SiteState) -> usize {
        self.0.get(&state).copied().unwrap_or(0)
    }

    /// Number of all sites.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Number of sites in states for which the predicate is true.
    pub fn count(&self, is_meant: fn(SiteState) -> bool) -> usize {
        let meant = self.0.iter().filter(|(state, _)| is_meant(**state));
        meant.map(|(_, count)| count).sum()
    }

    fn are_settled(&self) -> bool {
        self.count(SiteState::is_settled) == self.total()
    }

    /// The states with their numbers of sites, those to show first before others.
    pub fn iter(&self) -> impl Iterator<Item = (SiteState, usize)> {
        self.0.iter().map(|(state, count)| (*state, *count))
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Fleet {
    /// Judges the sites of a deployment.
    #[must_use]
    pub fn of(observed: &Observed, now: Timestamp) -> Self {
        let (spec, status) = (&observed.deployment.spec, status(&observed.deployment));
        let judge = RolloutFacts {
            current: CurrentRollout::reported(spec, &status, now),
            failing: &status.failing,
        };
        let canary = canary_expression(&spec.strategy).ok().flatten();
        let picture = |site: &str| {
            let chain = observed.chains.get(site).map_or(&[][..], Vec::as_slice);
            judge.judge(site, chain, facts(observed, canary.as_ref(), site))
        };
        let sites = observed.sites().into_iter().map(picture).collect();
        let placed = usize::try_from(status.counts.sites).unwrap_or(0);
        Self {
            current: status.batch.as_ref().map(|batch| batch.number),
            ..Self::from_sites(sites, placed)
        }
    }

    /// Sorts sites by waves. `placed` is the number of selected sites; those that are not in
    /// `sites` are to come.
    fn from_sites(sites: Vec<SitePicture>, placed: usize) -> Self {
        let mut fleet = Self::default();
        let mut waves: BTreeMap<i32, Counts> = BTreeMap::new();
        for site in &sites {
            fleet.counts.add(site.state, 1);
            match site.wave {
                Some(number) => waves.entry(number).or_default().add(site.state, 1),
                None if site.state.is_updated() => fleet.already.add(site.state, 1),
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

    /// The waves in order. Consecutive waves become one if they are over and have none of the
    /// `shown` sites.
    pub fn spans(&self, shown: &[&SitePicture]) -> Vec<Span> {
        let mut spans: Vec<(Span, bool)> = Vec::new();
        for wave in &self.waves {
            let is_over = wave.counts.are_settled() && Some(wave.number) != self.current;
            let is_shown = shown.iter().any(|site| site.wave == Some(wave.number));
            let may_be_joined = is_over && !is_shown;
            if let Some((span, true)) = spans.last_mut()
                && may_be_joined
            {
                span.last = wave.number;
                for (state, count) in wave.counts.iter() {
                    span.counts.add(state, count);
                }
                continue;
            }
            let span = Span {
                first: wave.number,
                last: wave.number,
                counts: wave.counts.clone(),
            };
            spans.push((span, may_be_joined));
        }
        spans.into_iter().map(|(span, _)| span).collect()
    }

    /// The first few of the sites that the rollout waits for: failed ones, then those in flight,
    /// the longest first, and so on. Sites that only wait for their turn are not among them.
    pub fn worst(&self, few: usize) -> Vec<&SitePicture> {
        let mut open = self.sorted(|site| site.state.is_open());
        open.truncate(few);
        open
    }

    /// The sites for which the predicate is true, those to show first before others: by state, and
    /// those that have had it the longest first.
    pub fn sorted(&self, is_meant: impl Fn(&SitePicture) -> bool) -> Vec<&SitePicture> {
        let mut meant: Vec<_> = self.sites.iter().filter(|site| is_meant(site)).collect();
        meant.sort_by_key(|site| (site.state, site.since.is_none(), site.since, &site.name));
        meant
    }
}

/// The facts about a site besides its revisions. Without a record or a Cluster, a site counts as
/// selected and as online.
fn facts(observed: &Observed, canary: Option<&Expression>, name: &str) -> Site {
    let clusters = observed.clusters.as_ref().ok();
    let cluster = clusters.and_then(|clusters| clusters.get(name));
    let is_online = cluster.is_some_and(SiteCluster::is_online);
    let placed = observed.placed.as_ref();
    Site {
        is_placed: placed.is_none_or(|all| all.contains(name)),
        is_online: clusters.is_none() || is_online,
        uptime: Uptime {
            online_since: cluster.filter(|_| is_online).and_then(|it| it.since),
            in_touch_since: None,
        },
        is_canary: canary.is_some_and(|it| cluster.is_some_and(|site| it.matches(&site.labels))),
        chain: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::{conditions::Reason, constants::LABEL_SITE};

    use super::*;
    use crate::sites::fixtures::{NOW, SiteRevisionFixture, mid_rollout, observed, ten_thousand};

    fn words(counts: &Counts) -> String {
        let parts = counts.iter();
        let parts: Vec<_> = parts
            .map(|(state, count)| format!("{count} {state:?}"))
            .collect();
        parts.join(", ")
    }

    #[test]
    fn sites_are_counted_by_waves() {
        let fleet = Fleet::of(&observed(&mid_rollout()), NOW);
        let waves: Vec<String> = fleet
            .waves
            .iter()
            .map(|wave| format!("{}: {}", wave.number, words(&wave.counts)))
            .collect();
        assert_eq!(
            waves,
            [
                "1: 2 Updated",
                "2: 1 Failed, 1 InFlight, 1 Offline, 1 Window, 1 Queued, 1 Updated"
            ]
        );
        assert_eq!(words(&fleet.later), "1 Leaving, 2 ToCome");
        assert_eq!(
            (
                fleet.counts.count(SiteState::is_updated),
                fleet.counts.total()
            ),
            (3, 11)
        );
    }

    #[test]
    fn failed_sites_are_listed_before_those_in_flight_the_longest() {
        let fleet = Fleet::of(&observed(&mid_rollout()), NOW);
        let worst = |few| {
            let worst = fleet.worst(few).into_iter();
            worst.map(|site| site.name.as_str()).collect::<Vec<_>>()
        };
        let all = ["eu-4", "eu-5", "eu-6", "eu-7", "eu-8", "us-1"];
        assert_eq!(worst(20), all);
        assert_eq!(worst(3), all[..3]);
    }

    /// After a rollback or a redeployment, most sites have the version from an earlier rollout.
    #[test]
    fn sites_that_have_the_version_already_are_counted_apart() {
        let mut objects = mid_rollout();
        objects.retain(|it| it["metadata"]["labels"][LABEL_SITE] != "eu-1");
        let available = |revision: SiteRevisionFixture| {
            revision
                .started()
                .succeeded()
                .available("True", Reason::Available, "")
        };
        let earlier = SiteRevisionFixture::new("eu-1", 1, "1.2.0").rollout(2, 1);
        objects.push(available(earlier).object());
        let fleet = Fleet::of(&observed(&objects), NOW);
        assert_eq!(words(&fleet.already), "1 Updated");
        assert_eq!(words(&fleet.later), "1 Leaving, 2 ToCome");
        assert_eq!(fleet.counts.count(SiteState::is_updated), 3);
    }

    /// Sites that the status counts, and that have neither a revision nor a record, are to come.
    #[test]
    fn sites_that_only_the_status_counts_are_to_come() {
        let mut observed = observed(&mid_rollout());
        observed.placed = None;
        observed.deployment.status.as_mut().unwrap().counts.sites = 100;
        let fleet = Fleet::of(&observed, NOW);
        assert_eq!(fleet.counts.total(), 100);
        assert_eq!(words(&fleet.later), "92 ToCome");
    }

    /// The spec of the deployment does not state the `successDelaySeconds` of the version.
    #[test]
    fn sites_soak_while_the_deployment_reports_it() {
        let mut observed = observed(&mid_rollout());
        observed.deployment.spec.strategy.healthy_time = None;
        let status = observed.deployment.status.as_mut().unwrap();
        status.conditions[0].reason = Reason::Soaking.to_string();
        let counts = Fleet::of(&observed, NOW).counts;
        assert_eq!(counts.of(SiteState::Soaking), 1);
    }

    #[test]
    fn ten_thousand_sites_are_grouped() {
        let observed = ten_thousand();
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
    }
}
