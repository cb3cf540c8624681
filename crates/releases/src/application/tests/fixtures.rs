//! A world without a server: an Application, its Releases, and a chart repository.

use std::collections::BTreeMap;

use baton_apis::{
    Application, ApplicationSpec, Chart, ClusterRequirements, ConditionStatus, RegionRequirement,
    Release, ReleaseEnvironment, ReleaseStatus, RolloutStep, RolloutStrategy, ShipperCondition,
    StepCapacity, StepTraffic,
    conditions::shipper::COMPLETE,
    constants::shipper::{
        ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW, ANNOTATION_CHART_VERSION_RESOLVED,
        ANNOTATION_HIGHEST_OBSERVED_GENERATION,
    },
};
use baton_engine::rollout_blocks::Blocks;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::super::{
    Answers, Observed, Outcome, Step, decide,
    error::Refusal,
    history::{CleanUp, History},
    release,
};
use crate::{hash::environment_hash, resolution::resolve};

/// An Application with everything that its syncs need.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub application: Application,
    pub releases: Vec<Release>,
    pub blocks: Blocks,
    /// The versions of each chart.
    pub index: BTreeMap<String, Vec<String>>,
    /// The error of the creation of a Release.
    pub refusal: Option<Refusal>,
    pub now: Timestamp,
    /// Requests of the last sync.
    pub log: Vec<String>,
}

pub(super) fn environment(version: &str) -> ReleaseEnvironment {
    ReleaseEnvironment {
        chart: Chart {
            name: "simple".into(),
            version: version.into(),
            repo_url: "https://charts".into(),
        },
        values: None,
        cluster_requirements: ClusterRequirements {
            regions: Some(vec![RegionRequirement {
                name: "local".into(),
                replicas: None,
            }]),
            capabilities: Vec::new(),
        },
        strategy: Some(RolloutStrategy {
            steps: vec![RolloutStep {
                name: "full on".into(),
                capacity: StepCapacity {
                    incumbent: 0,
                    contender: 100,
                },
                traffic: StepTraffic {
                    incumbent: 0,
                    contender: 100,
                },
            }],
            ..RolloutStrategy::default()
        }),
    }
}

/// The environment with a region of another name.
pub(super) fn in_region(name: &str) -> ReleaseEnvironment {
    let mut environment = environment("0.0.1");
    environment.cluster_requirements.regions = Some(vec![RegionRequirement {
        name: name.into(),
        replicas: None,
    }]);
    environment
}

impl World {
    /// A new Application without Releases; its chart is available.
    pub(super) fn new(template: ReleaseEnvironment) -> Self {
        Self {
            application: Application {
                metadata: ObjectMeta {
                    name: Some("app".into()),
                    namespace: Some("ns".into()),
                    uid: Some("app-uid".into()),
                    ..ObjectMeta::default()
                },
                spec: ApplicationSpec {
                    revision_history_limit: Some(20),
                    template,
                },
                status: None,
            },
            releases: Vec::new(),
            blocks: Blocks::default(),
            index: [("simple".into(), vec!["0.0.1".into()])].into(),
            refusal: None,
            now: Timestamp::UNIX_EPOCH,
            log: Vec::new(),
        }
    }

    /// An Application in which the chart of the template is resolved.
    pub(super) fn resolved(template: ReleaseEnvironment) -> Self {
        let mut world = Self::new(template);
        let Chart { name, version, .. } = world.application.spec.template.chart.clone();
        world.annotate(ANNOTATION_CHART_NAME, &name);
        world.annotate(ANNOTATION_CHART_VERSION_RAW, &version);
        world.annotate(ANNOTATION_CHART_VERSION_RESOLVED, &version);
        world
    }

    /// The same with Releases of some environments; true means complete. All of them are recorded.
    pub(super) fn with(mut self, releases: &[(ReleaseEnvironment, bool)]) -> Self {
        for (environment, complete) in releases {
            let mut application = self.application.clone();
            application.spec.template = environment.clone();
            let history = History::read(&self.releases).unwrap();
            let generation = history.newest().map_or(0, |newest| newest.generation + 1);
            let release = release::next(&application, &history, generation);
            self.annotate(
                ANNOTATION_HIGHEST_OBSERVED_GENERATION,
                &generation.to_string(),
            );
            self.releases.push(release);
            if *complete {
                self.complete(self.releases.len() - 1);
            }
        }
        self
    }

    /// Rolls out a Release to its last step.
    pub(super) fn complete(&mut self, index: usize) {
        self.releases[index].status = Some(ReleaseStatus {
            conditions: vec![ShipperCondition {
                type_: COMPLETE.into(),
                status: ConditionStatus::True,
                last_transition_time: Some(Time(self.now)),
                ..ShipperCondition::default()
            }],
            ..ReleaseStatus::default()
        });
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let annotations = self
            .application
            .metadata
            .annotations
            .get_or_insert_default();
        annotations.insert(key.into(), value.into());
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.application.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Runs a sync and carries out its steps. The requests are in the log.
    pub(super) fn sync(&mut self) -> Outcome {
        self.log.clear();
        let mut answers = Answers::default();
        let mut created = None;
        loop {
            let observed = Observed {
                application: &self.application,
                releases: &self.releases,
                blocks: &self.blocks,
                answers: &answers,
                now: self.now,
            };
            match decide(&observed) {
                Step::Resolve(chart) => {
                    self.log.push(format!("resolve {}", chart.version));
                    let versions = self.index.get(&chart.name);
                    let versions: Option<Vec<_>> =
                        versions.map(|versions| versions.iter().map(String::as_str).collect());
                    let answer = resolve(&chart, versions.as_deref()).map(str::to_owned);
                    answers.versions.push((chart, answer));
                }
                Step::List => {
                    assert!(!answers.listed);
                    self.log.push("list".into());
                    answers.listed = true;
                }
                Step::Create(release) => {
                    let name = release.metadata.name.clone().unwrap();
                    self.log.push(format!("create {name}"));
                    let answer = self.refusal.clone().map_or(Ok(()), Err);
                    created = answer.is_ok().then_some(*release);
                    answers.created = Some(answer);
                }
                Step::Finish(outcome) => {
                    self.releases.extend(created);
                    self.carry_out(&outcome);
                    return *outcome;
                }
            }
        }
    }

    fn carry_out(&mut self, outcome: &Outcome) {
        let CleanUp {
            unfinished,
            surplus,
        } = &outcome.clean_up;
        for name in unfinished.iter().chain(surplus) {
            self.log.push(format!("delete {name}"));
            let others = self.releases.len();
            self.releases
                .retain(|release| release.metadata.name.as_ref() != Some(name));
            assert_eq!(self.releases.len() + 1, others, "{name}");
        }
        let writes = [
            (outcome.changes_main(&self.application), "update"),
            (outcome.changes_status(&self.application), "status"),
        ];
        self.log.extend(
            writes
                .iter()
                .filter(|(differs, _)| *differs)
                .map(|(_, what)| (*what).to_owned()),
        );
        self.application = outcome.application.clone();
    }

    /// Conditions as `Type=Status/Reason message`.
    pub(super) fn conditions(&self) -> Vec<String> {
        let status = self.application.status.clone().unwrap_or_default();
        let text = |condition: &ShipperCondition| {
            let ShipperCondition {
                type_,
                status,
                reason,
                message,
                ..
            } = condition;
            let text = format!("{type_}={status}/{reason} {message}");
            text.trim_end_matches([' ', '/']).to_owned()
        };
        status.conditions.iter().map(text).collect()
    }

    pub(super) fn history(&self) -> Vec<String> {
        let status = self.application.status.clone();
        status.unwrap_or_default().history
    }
}

/// Name of the Release of an environment.
pub(super) fn name_of(environment: &ReleaseEnvironment, iteration: i64) -> String {
    format!("app-{}-{iteration}", environment_hash(environment))
}
