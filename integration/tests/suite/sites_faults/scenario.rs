//! Rollouts that are derived from a seed, and the end of each as the planner predicts it without
//! faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_integration::prelude::*;
use baton_sites::rollout::sample::Sample;
use baton_sites::rollout::{Action, Observed, Plan, RevisionState, Site, plan};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The installed version and the new version.
pub(super) const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

/// The event that disturbs the rollout of the second version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    None,
    /// The second version does not become available in this site, even after its progress deadline.
    Breaks(usize),
    /// The author aborts the rollout in the healthy time of this wave.
    Abort(i32),
    /// The author requests the first version again in the healthy time of this wave.
    Back(i32),
}

/// A rollout of two versions.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    /// The strategy for the second version.
    pub(super) strategy: Value,
    pub(super) trouble: Disturbance,
}

/// A revision as the planner created it: version, rollout, wave, and true for a rollback.
pub(super) type PlannedRevision = (String, i64, i32, bool);

/// The end of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) rollout: i64,
    /// The reason of the abort.
    pub(super) aborted: Option<String>,
    /// The revisions that each site got, in order.
    pub(super) planned: BTreeMap<String, Vec<PlannedRevision>>,
    /// The version of each site, and all versions whose own objects are in the site.
    pub(super) has: BTreeMap<String, (String, BTreeSet<String>)>,
}

impl Scenario {
    /// Returns the scenario of a seed, for this number of sites.
    pub(super) fn new(seed: u64, sites: usize, healthy_time: Duration, deadline: Duration) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let parallel = random.random_range(1..=2);
        let rolling = json!({ "sitesInParallel": parallel });
        let canary = json!({ "sites": 1, "then": "AllAtOnce" });
        // The strategy, and the least number of its waves.
        let (mut strategy, waves) = match random.random_range(0..3) {
            0 => (
                json!({ "type": "Rolling", "rolling": rolling }),
                sites.div_ceil(parallel),
            ),
            1 => (json!({ "type": "Canary", "canary": canary }), 2),
            _ => {
                let canary = json!({ "sites": 1, "then": "Rolling" });
                (
                    json!({ "type": "Canary", "canary": canary, "rolling": rolling }),
                    2,
                )
            }
        };
        strategy["healthyTime"] = format!("{}s", healthy_time.as_secs()).into();
        let waves = i32::try_from(waves).unwrap();
        let trouble = match random.random_range(0..6) {
            0 => Disturbance::None,
            1 => Disturbance::Abort(random.random_range(1..=waves)),
            2 => Disturbance::Back(random.random_range(1..=waves)),
            _ => {
                strategy["progressDeadline"] = format!("{}s", deadline.as_secs()).into();
                let (on_error, most) = [
                    ("Abort", None),
                    ("Rollback", None),
                    ("Continue", Some(0)),
                    ("Continue", Some(1)),
                ][random.random_range(0..4)];
                strategy["onError"] = on_error.into();
                strategy["maxFailures"] = most.map_or(Value::Null, Value::from);
                Disturbance::Breaks(random.random_range(0..sites))
            }
        };
        Self {
            seed,
            strategy,
            trouble,
        }
    }

    /// Returns the name of the deployment.
    pub(super) fn deployment(&self) -> String {
        format!("web-{}", self.seed)
    }

    /// Returns the end for a deployment of this UID, with these sites.
    pub(super) fn end(&self, uid: &str, sites: &[String]) -> End {
        let mut model = Model::new(self, uid, sites);
        model.run(|_| false);
        model.sample.spec.strategy = serde_json::from_value(self.strategy.clone()).unwrap();
        model.sample.request_version(VERSIONS[1]);
        match self.trouble {
            Disturbance::None | Disturbance::Breaks(_) => {}
            Disturbance::Abort(wave) => {
                model.run(|model| model.is_in(wave));
                model.sample.spec.abort_rollout = model.sample.status.rollout;
            }
            Disturbance::Back(wave) => {
                model.run(|model| model.is_in(wave));
                model.sample.request_version(VERSIONS[0]);
            }
        }
        model.run(|_| false);
        model.end()
    }
}

/// A model of sites that apply every revision at once.
struct Model {
    sample: Sample,
    name: String,
    uid: String,
    broken: Option<String>,
    planned: BTreeMap<String, Vec<PlannedRevision>>,
}

impl Model {
    fn new(scenario: &Scenario, uid: &str, sites: &[String]) -> Self {
        let mut sample = Sample::new(0);
        let site = Site {
            is_placed: true,
            is_online: true,
            ..Site::default()
        };
        let placed = sites
            .iter()
            .map(|name| (Arc::from(name.as_str()), site.clone()));
        sample.sites = placed.collect();
        sample.request_version(VERSIONS[0]);
        Self {
            sample,
            name: scenario.deployment(),
            uid: uid.to_owned(),
            broken: match scenario.trouble {
                Disturbance::Breaks(at) => Some(sites[at].clone()),
                _ => None,
            },
            planned: BTreeMap::new(),
        }
    }

    /// True if a wave of the current rollout is under way.
    fn is_in(&self, wave: i32) -> bool {
        self.sample
            .status
            .batch
            .as_ref()
            .is_some_and(|batch| batch.number == wave)
    }

    /// Plans and carries out each plan. If a plan has no action, returns if `until` holds, and
    /// otherwise advances the clock to the time of the next plan.
    fn run(&mut self, until: impl Fn(&Self) -> bool) {
        for round in 0.. {
            let state = &self.sample.status;
            assert!(round < 200, "{} does not end: {state:#?}", self.name);
            let made = plan(&Observed {
                name: &self.name,
                uid: &self.uid,
                ..self.sample.observed()
            });
            let is_quiet = made.actions.is_empty() && made.status == self.sample.status;
            let again_at = made.again_at;
            self.carry_out(made);
            match again_at {
                _ if !is_quiet => {}
                _ if until(self) => return,
                Some(at) => self.sample.now = at,
                None => return,
            }
        }
    }

    /// Carries out a plan, and records the revisions. Revisions of the broken version do not become
    /// available.
    fn carry_out(&mut self, plan: Plan) {
        let mut broken = BTreeSet::new();
        for action in &plan.actions {
            let Action::Give {
                site, name, entry, ..
            } = action
            else {
                continue;
            };
            let entry = entry.to(site);
            if Some(&**site) == self.broken.as_deref() && entry.version == VERSIONS[1] {
                broken.insert(Arc::clone(name));
            }
            let given = (entry.version, entry.rollout, entry.batch, entry.is_rollback);
            self.planned
                .entry(site.to_string())
                .or_default()
                .push(given);
        }
        self.sample.carry_out(plan);
        let since = self.sample.now;
        let sites = self.sample.sites.values_mut();
        let revisions = sites.flat_map(|site| &mut site.chain);
        for revision in revisions.filter(|it| broken.contains(&it.name)) {
            revision.state = RevisionState::Started {
                since,
                message: None,
            };
        }
    }

    fn end(self) -> End {
        let status = &self.sample.status;
        let aborted = status
            .conditions
            .iter()
            .find(|it| it.type_ == "Aborted" && it.status == "True");
        let has = self.sample.sites.iter().map(|(name, site)| {
            let there = site
                .chain
                .iter()
                .filter(|it| it.state != RevisionState::Archived);
            let versions: Vec<_> = there.map(|it| it.entry.version.clone()).collect();
            let newest = versions.last().unwrap().clone();
            (name.to_string(), (newest, versions.into_iter().collect()))
        });
        End {
            rollout: status.rollout.unwrap(),
            aborted: aborted.map(|it| it.reason.clone()),
            has: has.collect(),
            planned: self.planned,
        }
    }
}
