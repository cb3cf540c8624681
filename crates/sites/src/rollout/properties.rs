//! Properties that hold for rollouts in any order of events: a model of a fleet with random
//! disturbances, and of a manager that ends between any two of its writes.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    AfterCanary, CanaryStrategy, OnError, RollingStrategy, SiteCounts, SiteDeploymentStatus,
    SiteStrategy, StrategyType, conditions::Reason,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;

use super::{
    Action, Plan, Revision, RevisionState, Site, Target,
    current::CurrentRollout,
    latest_rollout::aborted,
    placed::PlacedSite,
    standing::{SiteState, Standing, count, standing},
    world::{self, Outcome, World},
};

const SITES: usize = 5;
const VERSIONS: [&str; 4] = ["1", "2", "3", "4"];

#[derive(Clone, Debug)]
enum Event {
    /// A plan is made, and the manager ends after this number of writes.
    Plan(usize),
    Work(usize),
    WorkAll,
    Connect(usize, bool),
    Flap(usize),
    Window(usize, bool),
    Place(usize, bool),
    Bring(usize),
    /// The deployment names another application, with versions of the same names, if true; else the
    /// first one.
    Application(bool),
    Edit(usize),
    Pause(bool),
    Block(bool),
    Abort,
    Pass(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let site = || 0..SITES;
    let version = || 0..VERSIONS.len();
    prop_oneof![
        6 => prop_oneof![Just(usize::MAX), 0..6_usize].prop_map(Event::Plan),
        4 => site().prop_map(Event::Work),
        3 => Just(Event::WorkAll),
        2 => (site(), any::<bool>()).prop_map(|(site, online)| Event::Connect(site, online)),
        1 => site().prop_map(Event::Flap),
        2 => (site(), any::<bool>()).prop_map(|(site, closed)| Event::Window(site, closed)),
        1 => (site(), any::<bool>()).prop_map(|(site, placed)| Event::Place(site, placed)),
        2 => version().prop_map(Event::Bring),
        1 => any::<bool>().prop_map(Event::Application),
        1 => version().prop_map(Event::Edit),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => any::<bool>().prop_map(Event::Block),
        1 => Just(Event::Abort),
        2 => prop_oneof![Just(60), Just(600)].prop_map(Event::Pass),
    ]
}

/// An event that changes the order of queues.
fn queue_event() -> impl Strategy<Value = Event> {
    let site = || 0..SITES;
    let version = || 0..VERSIONS.len();
    prop_oneof![
        6 => prop_oneof![Just(usize::MAX), 0..6_usize].prop_map(Event::Plan),
        3 => site().prop_map(Event::Work),
        2 => (site(), any::<bool>()).prop_map(|(site, online)| Event::Connect(site, online)),
        3 => (site(), any::<bool>()).prop_map(|(site, closed)| Event::Window(site, closed)),
        3 => version().prop_map(Event::Bring),
        3 => version().prop_map(Event::Edit),
    ]
}

fn strategy() -> impl Strategy<Value = SiteStrategy> {
    let on_error = prop::sample::select(vec![OnError::Abort, OnError::Rollback, OnError::Continue]);
    let then = prop::sample::select(vec![AfterCanary::AllAtOnce, AfterCanary::Rolling]);
    let shape = (0..3_usize, 1..3_i32, any::<bool>(), then);
    (shape, any::<bool>(), on_error, prop::option::of(0..2_i32)).prop_map(
        |((type_, number, by_labels, then), soaks, on_error, most)| SiteStrategy {
            type_: [
                StrategyType::AllAtOnce,
                StrategyType::Canary,
                StrategyType::Rolling,
            ][type_],
            canary: Some(CanaryStrategy {
                sites: Some(number),
                match_site_labels: by_labels.then(|| "canary exists".to_owned()),
                then,
            }),
            rolling: Some(RollingStrategy {
                sites_in_parallel: IntOrString::Int(number),
            }),
            healthy_time: soaks.then(|| "2m".to_owned()),
            progress_deadline: None,
            on_error,
            max_failures: most,
        },
    )
}

fn outcomes() -> impl Strategy<Value = Vec<(usize, Outcome)>> {
    let outcome = prop::sample::select(vec![Outcome::Hangs, Outcome::Refused]);
    prop::collection::vec((1..VERSIONS.len(), outcome), 0..2)
}

struct Checked {
    world: World,
    /// Rollouts that were aborted, and whose waiting revisions were withdrawn.
    ended: BTreeSet<i64>,
    edits: usize,
}

impl Checked {
    fn new(strategy: SiteStrategy, outcomes: &[(usize, Outcome)]) -> Self {
        let mut world = World::new(SITES);
        world.sample.spec.strategy = strategy;
        world.sample.sites.get_mut("site-00003").unwrap().is_canary = true;
        for (version, outcome) in outcomes {
            world
                .outcomes
                .insert(format!("{}-a", VERSIONS[*version]), *outcome);
        }
        Self {
            world,
            ended: BTreeSet::new(),
            edits: 0,
        }
    }

    fn happen(&mut self, event: &Event) {
        let name = |site: usize| format!("site-{site:05}");
        let world = &mut self.world;
        match *event {
            Event::Plan(writes) => self.plan(writes),
            Event::Work(site) => world.work(&name(site)),
            Event::WorkAll => world.work_all(),
            Event::Connect(site, is_online) => world.connect(&name(site), is_online),
            Event::Flap(site) => world.flap(&name(site)),
            Event::Window(site, is_closed) => {
                world.real.get_mut(&*name(site)).unwrap().is_window_closed = is_closed;
            }
            Event::Place(site, is_placed) => {
                world.sample.sites.get_mut(&*name(site)).unwrap().is_placed = is_placed;
            }
            Event::Bring(version) => world.sample.request_version(VERSIONS[version]),
            Event::Application(is_other) => {
                let name = if is_other { "bank" } else { "shop" };
                name.clone_into(&mut world.sample.spec.application);
                if let Target::Version(version) = world.sample.target.clone() {
                    world.sample.request_version(&version);
                }
            }
            Event::Edit(version) => {
                self.edits += 1;
                let version = world.version(VERSIONS[version]);
                if let Some(version) = version {
                    version.edit = format!("{}-{}", version.version, self.edits).into();
                }
            }
            Event::Pause(paused) => world.sample.spec.paused = paused,
            Event::Block(blocked) => world.sample.block(blocked),
            Event::Abort => world.sample.spec.abort_rollout = world.status().rollout,
            Event::Pass(seconds) => world.pass(seconds),
        }
        self.check_begun();
    }

    fn plan(&mut self, writes: usize) {
        let plan = self.world.plan();
        self.check_gives(&plan);
        let before = self.world.status();
        let was_aborted = aborted(&before.conditions).is_some();
        let (rollout, is_next) = (before.rollout, before.rollout != plan.status.rollout);
        // Only the user can abort a rollout that is over.
        let is_over = before.completed_rollout.is_some() && before.completed_rollout == rollout;
        let is_new = aborted(&plan.status.conditions).filter(|_| !was_aborted && !is_next);
        let by_failures = is_new.filter(|it| it.reason != Reason::AbortedByUser);
        assert_eq!(by_failures.filter(|_| is_over), None);
        // A rollout that is not over keeps its batch, and never returns to an earlier one.
        if !is_next && plan.status.completed_rollout != rollout {
            let number = |status: &SiteDeploymentStatus| status.batch.as_ref().map(|it| it.number);
            assert!(
                number(&plan.status) >= number(before),
                "{:?}",
                plan.status.batch
            );
        }
        let given = self.world.created.len();
        self.world.carry_out(plan, writes);
        // An abort is complete when the plan was carried out in full, or when another rollout
        // begins.
        let is_to_abort = rollout.is_some() && self.world.sample.spec.abort_rollout == rollout;
        let ends = (was_aborted || is_to_abort) && (is_next || writes == usize::MAX);
        if let Some(rollout) = rollout.filter(|_| ends) {
            self.ended.insert(rollout);
        }
        for (site, entry) in &self.world.created[given..] {
            let is_late =
                self.ended.contains(&entry.rollout) && !entry.is_edit && !entry.is_rollback;
            assert!(!is_late, "{site} gets {entry:?} after the end");
        }
        self.world.collect();
    }

    /// Checks that sites that get the version have a place in their batch, and that the batch
    /// before has passed.
    fn check_gives(&self, plan: &Plan) {
        let sample = &self.world.sample;
        let rollout = plan.status.rollout.unwrap_or(0);
        let member = |site: &Site| {
            let mut live = site.chain.iter().rev().filter(|it| it.counts());
            live.find(|it| it.entry.rollout == rollout && !it.entry.is_rollback)
                .cloned()
        };
        let in_reach = |site: &Site, member: &Revision| {
            site.is_online && site.is_placed && member.state != RevisionState::Unknown
        };
        let mut online = BTreeSet::new();
        let mut batch = None;
        for action in &plan.actions {
            let Action::Give { site, entry, .. } = action else {
                continue;
            };
            let entry = entry.to(site);
            let state = &sample.sites[site];
            assert!(state.is_placed, "{site} is not placed");
            assert!(
                !sample.observed().is_held(),
                "{site} gets something during a pause or block"
            );
            let is_new = entry.rollout == rollout && !entry.is_edit && !entry.is_rollback;
            if is_new && member(state).is_none() {
                assert!(
                    batch.is_none_or(|batch| batch == entry.batch),
                    "one batch at a time"
                );
                batch = Some(entry.batch);
                if state.is_online {
                    online.insert(Arc::clone(site));
                }
            }
        }
        let Some(batch) = batch else { return };
        // A batch that was given in part is completed, even if the batch before got an edit in the
        // meantime, or its sites are gone.
        let mut members = sample.sites.values().filter_map(member);
        let reported = sample.status.batch.as_ref().map_or(0, |it| it.number);
        let was_under_way = sample.status.rollout == Some(rollout) && reported == batch;
        let begins = !was_under_way && !members.any(|member| member.entry.batch == batch);
        for (name, site) in &sample.sites {
            let Some(member) = member(site).filter(|member| in_reach(site, member)) else {
                continue;
            };
            let is_done = matches!(
                member.state,
                RevisionState::Available(_) | RevisionState::Failing { .. }
            ) || matches!(member.state, RevisionState::Started { since, .. }
                    if baton_engine::stored_time::end_of(since, world::DEADLINE) <= sample.now);
            // A site that gets the version after the rollout is over has a place until it is
            // available or has failed.
            if member.entry.batch == batch && (batch > 0 || !is_done) {
                online.insert(Arc::clone(name));
            } else if begins && member.entry.batch + 1 == batch {
                assert!(
                    is_done,
                    "batch {batch} begins while {name} is at {member:?}"
                );
            }
        }
        if let Some(limit) = self.limit(batch) {
            assert!(online.len() <= limit, "{online:?} in batch {batch}");
        }
    }

    fn limit(&self, batch: i32) -> Option<usize> {
        let spec = &self.world.sample.spec.strategy;
        let (canary, rolling) = (spec.canary.as_ref()?, spec.rolling.as_ref()?);
        let limit = match (spec.type_, batch) {
            (StrategyType::Canary, 1) if canary.match_site_labels.is_some() => Some(1),
            (StrategyType::Canary, 1) => canary.sites,
            (StrategyType::Canary, _) if canary.then == AfterCanary::AllAtOnce => None,
            (StrategyType::AllAtOnce, _) => None,
            (StrategyType::Canary | StrategyType::Rolling, _) => match rolling.sites_in_parallel {
                IntOrString::Int(number) => Some(number),
                IntOrString::String(_) => None,
            },
        };
        usize::try_from(limit?).ok()
    }

    /// Checks that sites begin revisions in the order in which they were given, and none of an
    /// aborted rollout.
    fn check_begun(&mut self) {
        for (name, real) in &mut self.world.real {
            let begun = &real.begun;
            assert!(
                begun.is_sorted_by_key(|entry| entry.rollout),
                "{name}: {begun:?}"
            );
            if real.checked < begun.len() {
                for entry in &begun[real.checked..] {
                    let is_late =
                        self.ended.contains(&entry.rollout) && !entry.is_edit && !entry.is_rollback;
                    assert!(!is_late, "{name} begins {entry:?} after the end");
                }
                real.checked = begun.len();
            }
        }
    }

    /// Checks that the states of single sites, derived from the status, agree with the counts in
    /// the status.
    fn check_standings(&self) {
        let sample = &self.world.sample;
        let current = CurrentRollout::reported(&sample.spec, &sample.status, sample.now);
        let mut counts = SiteCounts::default();
        for (name, site) in &sample.sites {
            let Standing {
                state, revision, ..
            } = standing(name, site, &current);
            assert_eq!(state == SiteState::Leaving, !site.is_placed, "{site:#?}");
            if !site.is_placed {
                continue;
            }
            let before = counts;
            count(&PlacedSite::of(name, site, &current), &current, &mut counts);
            counts.soaking += i32::from(state == SiteState::Soaking);
            let (updated, queued) = (
                counts.updated - before.updated,
                counts.queued - before.queued,
            );
            match state {
                SiteState::Updated | SiteState::Soaking => {
                    assert_eq!((updated, queued), (1, 0), "{site:#?}");
                }
                SiteState::Queued if revision.is_some_and(|it| !it.entry.is_rollback) => {
                    assert_eq!(updated + queued, 1, "{site:#?}");
                }
                SiteState::Failed => assert_eq!(counts.failed, before.failed + 1, "{site:#?}"),
                _ => {}
            }
        }
        assert_eq!(counts, sample.status.counts);
    }

    /// Checks that plans end when nothing changes, for any offline sites and failures. Only a pause
    /// or a rollout block keeps a queue that a manager left in between.
    fn check_plans_end(&mut self) {
        for _ in 0..20 {
            let plan = self.world.plan();
            if plan.actions.is_empty() && plan.status == *self.world.status() {
                self.check_standings();
                let doubled = self.world.doubled();
                assert!(
                    self.world.sample.observed().is_held() || doubled.is_empty(),
                    "{doubled:?} twice"
                );
                return;
            }
            self.plan(usize::MAX);
        }
        panic!("a plan that does not end: {:#?}", self.world.plan());
    }

    /// Ends all disturbances: all sites are online, and nothing fails any more.
    fn end_disturbances(&mut self) {
        let world = &mut self.world;
        world.outcomes.clear();
        world.sample.spec.paused = false;
        world.sample.block(false);
        world.sample.spec.abort_rollout = None;
        for name in world.names() {
            world.real.get_mut(&name).unwrap().is_window_closed = false;
            world.connect(&name, true);
        }
        world.work_all();
        // Only this site has the label of a canary. A strategy that finds no first site is an
        // error.
        world.sample.sites.get_mut("site-00003").unwrap().is_placed = true;
        world.sample.request_version("5");
        world.run();
    }

    /// Checks that each site has run all versions that it was given, and no content twice.
    fn check_each_has_run_once(&self) {
        for (name, real) in &self.world.real {
            let given = self.world.created.iter();
            let given = given.filter(|(site, entry)| site == name && !entry.is_edit);
            let given: BTreeSet<_> = given.map(|(_, entry)| entry.rollout).collect();
            let begun = &real.begun;
            let rollouts: BTreeSet<_> = begun.iter().map(|entry| entry.rollout).collect();
            assert_eq!(rollouts, given, "{name}: {begun:?}");
            let contents: BTreeSet<_> = begun.iter().map(|it| (it.rollout, &it.edit)).collect();
            assert_eq!(contents.len(), begun.len(), "{name}: {begun:?}");
        }
    }

    fn check_end(&self) {
        for (name, site) in &self.world.sample.sites {
            let live: Vec<_> = site
                .chain
                .iter()
                .filter(|it| it.state != RevisionState::Archived)
                .collect();
            if !site.is_placed {
                assert!(site.chain.is_empty(), "{name}: {:?}", site.chain);
                continue;
            }
            let [only] = live[..] else {
                panic!("{name}: {live:?}")
            };
            assert_eq!(only.entry.version, "5", "{name}");
            assert!(
                matches!(only.state, RevisionState::Available(_)),
                "{name}: {only:?}"
            );
            assert!(site.chain.len() <= 3, "{name}: {:?}", site.chain);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_fleet_is_safe_on_the_way_and_ends_at_the_version(
        strategy in strategy(),
        outcomes in outcomes(),
        first in any::<bool>(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut checked = Checked::new(strategy, &outcomes);
        if first {
            checked.world.run();
        }
        for event in &events {
            checked.happen(event);
        }
        checked.check_plans_end();
        checked.end_disturbances();
        checked.check_begun();
        checked.check_end();
    }

    /// Nothing fails, and nobody aborts.
    #[test]
    fn a_queue_loses_no_version_and_runs_none_twice(
        events in prop::collection::vec(queue_event(), 0..80),
    ) {
        let mut checked = Checked::new(SiteStrategy::default(), &[]);
        checked.world.run();
        checked.world.close_windows();
        for event in &events {
            checked.happen(event);
        }
        checked.check_plans_end();
        checked.end_disturbances();
        checked.check_begun();
        checked.check_each_has_run_once();
    }

    /// A manager that repeatedly ends after a few writes has the same result as one that never
    /// ends. A new one has nothing to write at rest.
    #[test]
    fn restarts_change_nothing(
        strategy in strategy(),
        outcomes in outcomes(),
        ends in prop::collection::vec(1..4_usize, 1..40),
        versions in prop::collection::vec(0..VERSIONS.len(), 1..4),
    ) {
        let play = |ends: &[usize]| {
            let mut world = Checked::new(strategy.clone(), &outcomes).world;
            world.run();
            for version in &versions {
                world.sample.request_version(VERSIONS[*version]);
                for end in ends {
                    let plan = world.plan();
                    world.carry_out(plan, *end);
                    world.collect();
                }
                world.run();
                assert_eq!(world.restart(), 0, "{:#?}", world.status());
            }
            // The numbers of withdrawn revisions are free again at different times.
            let chains = world.sample.sites.into_values().map(|site| {
                let entries = site.chain.into_iter().map(|it| (it.entry, it.state));
                entries.collect::<Vec<_>>()
            });
            (chains.collect::<Vec<_>>(), world.sample.status)
        };
        prop_assert_eq!(play(&ends), play(&[]));
    }
}
