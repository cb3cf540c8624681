//! A model of a deployment, of the manager that carries out its plans, and of the sites, for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{OnError, SiteDeploymentStatus, SiteEntry, conditions::Reason};
use baton_engine::stored_time::end_of;
use jiff::SignedDuration;

use super::{sample::Sample, *};
use crate::gate::is_overtaken;

/// The outcome of a version in a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Works,
    /// The version never becomes available.
    Hangs,
    Refused,
}

/// The real state of a site, independent of the reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Real {
    /// State of each revision by number, except archived ones.
    pub(super) states: BTreeMap<i64, RevisionState>,
    /// Entries of the revisions in the order in which they began.
    pub(super) begun: Vec<SiteEntry>,
    /// Numbers of the revisions that have begun.
    pub(super) numbers_begun: BTreeSet<i64>,
    pub(super) is_window_closed: bool,
    /// Number of the revisions that have begun and were checked.
    pub(super) checked: usize,
}

pub(super) struct World {
    pub(super) sample: Sample,
    pub(super) real: BTreeMap<Arc<str>, Real>,
    /// Outcome of an edit of a version, by `<edit>` or, for a single site, by `<site>/<edit>`;
    /// otherwise the version works.
    pub(super) outcomes: BTreeMap<String, Outcome>,
    /// All given revisions: site and entry, in order.
    pub(super) created: Vec<(Arc<str>, SiteEntry)>,
}

impl World {
    pub(super) fn new(sites: usize) -> Self {
        let sample = Sample::new(sites);
        let real = sample
            .sites
            .keys()
            .map(|name| (Arc::clone(name), Real::default()));
        Self {
            real: real.collect(),
            sample,
            outcomes: BTreeMap::new(),
            created: Vec::new(),
        }
    }

    /// A version of the application in the spec.
    pub(super) fn version(&mut self, version: &str) -> Option<&mut Version> {
        let application = self.sample.spec.application.as_str();
        self.sample.versions.get_mut(application)?.get_mut(version)
    }

    /// Requests another application, in this version and edit.
    pub(super) fn other_application(&mut self, version: &str, edit: &str) {
        "bank".clone_into(&mut self.sample.spec.application);
        self.sample.request_version(version);
        self.version(version).unwrap().edit = edit.into();
    }

    pub(super) fn plan(&self) -> Plan {
        let plan = plan(&self.sample.observed());
        assert_eq!(
            plan,
            super::plan(&self.sample.observed()),
            "it depends on nothing else"
        );
        plan
    }

    /// Carries out a plan up to a number of writes; then the manager ends.
    pub(super) fn carry_out(&mut self, plan: Plan, writes: usize) {
        let mut writes = writes;
        let mut may_write = || {
            let may = writes > 0;
            writes = writes.saturating_sub(1);
            may
        };
        if plan.status_first && may_write() {
            self.sample.status = plan.status.clone();
        } else if plan.status_first {
            return;
        }
        let before = self.doubled();
        for action in plan.actions {
            if !may_write() {
                return;
            }
            self.perform(action);
        }
        let mut new = self.doubled();
        new.retain(|it| !before.contains(it));
        assert!(new.is_empty(), "{new:?} twice in {:#?}", self.sample.sites);
        if may_write() {
            self.sample.status = plan.status;
        }
    }

    /// Each site that is online, with a rollout and an edit that is in its queue twice.
    pub(super) fn doubled(&self) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let sites = self.sample.sites.iter().filter(|(_, site)| site.is_online);
        let waiting = sites.flat_map(|(name, site)| {
            let waiting = site.chain.iter().filter(|it| it.counts());
            let waiting = waiting.filter(|it| !it.has_begun()).map(|it| &it.entry);
            waiting.map(move |it| format!("{name}: {}, {}, {}", it.rollout, it.edit, it.is_edit))
        });
        waiting.filter(|it| !seen.insert(it.clone())).collect()
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Give {
                site,
                number,
                name,
                entry,
                previous,
            } => {
                let entry = entry.to(&site);
                let chain = &mut self.sample.sites.get_mut(&site).unwrap().chain;
                assert!(
                    chain.iter().all(|other| other.number < number),
                    "{name} is not the newest"
                );
                assert!(
                    chain.iter().all(|other| other.name != name),
                    "{name} is taken"
                );
                let newest = chain
                    .iter()
                    .rev()
                    .find(|other| other.state != RevisionState::Archived);
                assert_eq!(
                    previous.first(),
                    newest.map(|newest| &newest.name),
                    "{name}"
                );
                self.created.push((Arc::clone(&site), entry.clone()));
                chain.push(Revision {
                    name,
                    number,
                    entry: Arc::new(entry),
                    state: RevisionState::Queued,
                    beginning: RevisionStart::None,
                    is_deleting: false,
                    is_archiving: false,
                });
                let real = self.real.get_mut(&site).unwrap();
                real.states.insert(number, RevisionState::Queued);
            }
            Action::Withdraw { revision } => {
                let found = self.revision(&revision);
                assert!(!found.has_begun(), "{revision} has begun");
                found.is_deleting = true;
            }
            Action::TearDown { revision } => self.revision(&revision).is_deleting = true,
            Action::Archive { revision } => {
                let site = self
                    .sample
                    .sites
                    .values()
                    .find(|it| it.chain.iter().any(|it| it.name == revision));
                let chain = &site.unwrap().chain;
                let at = chain.iter().position(|it| it.name == revision).unwrap();
                let is_available =
                    |it: &Revision| it.counts() && matches!(it.state, RevisionState::Available(_));
                let is_superseded = chain[at + 1..].iter().any(is_available);
                assert!(
                    is_superseded || chain[at].state == RevisionState::Skipped,
                    "{revision} is needed"
                );
                self.revision(&revision).is_archiving = true;
            }
            Action::Forget { revision } => {
                let found = self.revision(&revision);
                assert_eq!(found.state, RevisionState::Archived, "{revision}");
                found.is_deleting = true;
            }
        }
    }

    fn revision(&mut self, name: &str) -> &mut Revision {
        let mut revisions = self
            .sample
            .sites
            .values_mut()
            .flat_map(|site| &mut site.chain);
        let found = revisions.find(|revision| &*revision.name == name).unwrap();
        assert!(!found.is_deleting, "{name} is being deleted already");
        found
    }

    /// Plans and carries out plans until there is nothing left to do. Returns the number of writes.
    pub(super) fn settle(&mut self) -> usize {
        let mut writes = 0;
        for _ in 0..50 {
            let plan = self.plan();
            let is_same = plan.status == self.sample.status;
            if plan.actions.is_empty() && is_same {
                return writes;
            }
            writes += plan.actions.len() + usize::from(!is_same);
            self.carry_out(plan, usize::MAX);
            self.collect();
        }
        panic!("a plan that does not end: {:#?}", self.plan());
    }

    /// Applies the requests of the hub in the sites that are online, and removes what is deleted.
    pub(super) fn collect(&mut self) {
        for (name, site) in &mut self.sample.sites {
            let real = self.real.get_mut(name).unwrap();
            for revision in site.chain.iter_mut().filter(|_| site.is_online) {
                if revision.is_archiving || revision.is_deleting {
                    real.states.remove(&revision.number);
                    revision.state = RevisionState::Archived;
                }
                // The number may be used again.
                if revision.is_deleting {
                    real.numbers_begun.remove(&revision.number);
                }
            }
            site.chain
                .retain(|it| !it.is_deleting || it.state != RevisionState::Archived);
        }
    }

    /// A site works on its queue: each revision after the one before it, as a gate decides. Then
    /// the site reports to the hub.
    pub(super) fn work(&mut self, site: &str) {
        let (name, state) = self.sample.sites.get_key_value(site).unwrap();
        let name = Arc::clone(name);
        if state.is_online {
            let numbers: Vec<_> = state
                .chain
                .iter()
                .filter(|it| it.counts())
                .map(|it| it.number)
                .collect();
            for number in numbers {
                self.advance(&name, number);
            }
        }
        self.report(&name);
    }

    fn advance(&mut self, site: &Arc<str>, number: i64) {
        let now = self.sample.now;
        let chain = &self.sample.sites[site].chain;
        let revision = chain
            .iter()
            .find(|revision| revision.number == number)
            .unwrap();
        let real = self.real.get_mut(site).unwrap();
        let entry = &*revision.entry;
        let here = self.outcomes.get(&format!("{site}/{}", entry.edit));
        let outcome = here.or_else(|| self.outcomes.get(&entry.edit));
        let outcome = outcome.copied().unwrap_or(Outcome::Works);
        // A revision that was refused before it began is passed over.
        let is_nothing = |it: &Revision| {
            matches!(real.states[&it.number], RevisionState::Failing { .. })
                && !real.numbers_begun.contains(&it.number)
        };
        let mut older = chain
            .iter()
            .rev()
            .filter(|it| it.number < number && it.counts() && !is_nothing(it));
        let state = match (&real.states[&number], outcome) {
            (RevisionState::Queued, _) => {
                let is_first = real.begun.is_empty();
                if real.is_window_closed && !is_first && !entry.is_edit && !entry.is_rollback {
                    return;
                }
                let may_begin =
                    older
                        .next()
                        .is_none_or(|older| match &real.states[&older.number] {
                            // The gate does not wait for a revision that has failed.
                            RevisionState::Available(_) | RevisionState::Failing { .. } => true,
                            RevisionState::Queued => false,
                            RevisionState::Started { since, .. } => {
                                entry.is_edit
                                    || entry.is_rollback
                                    || end_of(*since, DEADLINE) <= now
                            }
                            RevisionState::Skipped
                            | RevisionState::Unknown
                            | RevisionState::Archived => unreachable!(),
                        });
                let before = chain.iter().rev();
                let mut before = before.filter(|it| it.number < number && it.counts());
                let running = before.find(|it| real.numbers_begun.contains(&it.number));
                if !may_begin || running.is_some_and(|it| is_overtaken(entry, &it.entry)) {
                    return;
                }
                if outcome == Outcome::Refused {
                    failing(Reason::CollisionDetected)
                } else {
                    real.begun.push(entry.clone());
                    real.numbers_begun.insert(number);
                    RevisionState::Started {
                        since: now,
                        message: None,
                    }
                }
            }
            (RevisionState::Started { .. } | RevisionState::Failing { .. }, Outcome::Works)
                if real.numbers_begun.contains(&number) =>
            {
                RevisionState::Available(now)
            }
            _ => return,
        };
        real.states.insert(number, state);
    }

    /// Closes the upgrade windows of all sites.
    pub(super) fn close_windows(&mut self) {
        for real in self.real.values_mut() {
            real.is_window_closed = true;
        }
    }

    /// Opens the upgrade windows of all sites.
    pub(super) fn open_windows(&mut self) {
        for real in self.real.values_mut() {
            real.is_window_closed = false;
        }
    }

    /// Makes the running version of a site fail, for now.
    pub(super) fn flap(&mut self, site: &str) {
        let (name, real) = self
            .real
            .iter_mut()
            .find(|(name, _)| &***name == site)
            .unwrap();
        let name = Arc::clone(name);
        for state in real.states.values_mut() {
            if let RevisionState::Available(_) = *state {
                *state = failing(Reason::ProbeFailure);
            }
        }
        self.report(&name);
    }

    /// Adds a new site without revisions.
    pub(super) fn join(&mut self, site: &str) {
        let joined = Site {
            is_placed: true,
            is_online: true,
            ..Site::default()
        };
        self.sample.sites.insert(site.into(), joined);
        self.real.insert(site.into(), Real::default());
    }

    pub(super) fn connect(&mut self, site: &str, is_online: bool) {
        let name: Arc<str> = site.into();
        let now = self.sample.now;
        let site = self.sample.sites.get_mut(&name).unwrap();
        if is_online && !site.is_online {
            site.uptime = Uptime::since(now);
        }
        site.is_online = is_online;
        self.report(&name);
        self.collect();
    }

    /// Reports the state of a site to the hub; unknown if the site is offline.
    fn report(&mut self, name: &Arc<str>) {
        let site = self.sample.sites.get_mut(name).unwrap();
        let real = &self.real[name];
        for revision in &mut site.chain {
            let Some(state) = real.states.get(&revision.number) else {
                continue;
            };
            if site.is_online {
                revision.state = state.clone();
                if real.numbers_begun.contains(&revision.number) {
                    revision.beginning = RevisionStart::Begun;
                }
            } else {
                revision.state = RevisionState::Unknown;
            }
        }
    }

    /// A new process observes the sites. Returns the number of its writes.
    pub(super) fn restart(&mut self) -> usize {
        let sites = self.sample.sites.values_mut();
        sites.for_each(|site| site.uptime.in_touch_since = Some(self.sample.now));
        self.settle()
    }

    pub(super) fn work_all(&mut self) {
        let names: Vec<_> = self.real.keys().cloned().collect();
        for name in names {
            self.work(&name);
        }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.sample.now += SignedDuration::from_secs(seconds);
    }

    /// All sites work, and plans are carried out, until only time can change something.
    pub(super) fn run(&mut self) {
        for _ in 0..400 {
            self.settle();
            let before = format!("{:?}", self.sample.sites);
            self.work_all();
            if self.settle() > 0 || before != format!("{:?}", self.sample.sites) {
                continue;
            }
            let Some(at) = self.plan().again_at else {
                return;
            };
            assert!(at > self.sample.now);
            self.sample.now = at;
        }
        panic!("it does not come to rest");
    }

    pub(super) fn status(&self) -> &SiteDeploymentStatus {
        &self.sample.status
    }

    /// Status and reason of a condition.
    pub(super) fn condition(&self, type_: &str) -> Option<(&str, &str)> {
        let found = self
            .status()
            .conditions
            .iter()
            .find(|it| it.type_ == type_)?;
        Some((&found.status, &found.reason))
    }

    pub(super) fn message(&self, type_: &str) -> &str {
        let found = self.status().conditions.iter().find(|it| it.type_ == type_);
        found.map_or("", |found| &found.message)
    }

    /// The versions that a site has begun, in order.
    pub(super) fn versions(&self, site: &str) -> Vec<&str> {
        let begun = self
            .real
            .iter()
            .find(|(name, _)| &***name == site)
            .unwrap()
            .1
            .begun
            .iter();
        begun.map(|entry| entry.version.as_str()).collect()
    }

    /// The sites that got a batch of the current rollout, in their order.
    pub(super) fn batch(&self, number: i32) -> Vec<&str> {
        let rollout = self.status().rollout.unwrap();
        let given = self
            .created
            .iter()
            .filter(|(_, entry)| (entry.rollout, entry.batch) == (rollout, number));
        given.map(|(site, _)| &**site).collect()
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.sample.sites.keys().cloned().collect()
    }

    pub(super) fn on_error(&mut self, on_error: OnError) {
        self.sample.spec.strategy.on_error = on_error;
    }
}

/// The default progress deadline.
pub(super) const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

fn failing(reason: Reason) -> RevisionState {
    RevisionState::Failing {
        reason,
        message: "why".into(),
    }
}
