//! Concurrent rollouts. Each has its own application, deployment and objects in a common
//! namespace.

use std::collections::{BTreeMap, BTreeSet};

use baton_integration::application::{condition, name, reason};
use baton_integration::fleet::{Fleet, entry, spec};
use baton_integration::prelude::*;

use super::super::configmaps;
use super::super::scenario::{Disturbance, End, PlannedRevision, Scenario, VERSIONS};
use crate::agent::remote_owners;
use crate::site_rollouts::Sites;

pub(super) struct Rollouts<'a> {
    ns: &'a TestNamespace,
    all: Vec<Rollout>,
}

/// A rollout and its expected end.
pub(super) struct Rollout {
    pub(super) scenario: Scenario,
    pub(super) end: End,
    /// True if the author has an action left.
    is_due: bool,
}

/// The rollouts that have not reached their expected end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) texts: Vec<String>,
    /// True if all of them only wait for a version that has begun and does not become available.
    pub(super) is_late: bool,
}

/// Returns the content of a version.
///
/// The first phase has the object that both versions share, the second phase an object of this
/// version only. An annotation of the settings in a site names the version whose probe fails there.
fn content(seed: u64, version: &str) -> Value {
    let settings = configmap(&format!("settings-{seed}")).data("version", version);
    let own = configmap(&format!("own-{seed}-{version}")).into_json();
    let mut content = spec(version, &[settings]);
    let template = &mut content["template"]["spec"];
    let phases = template["phases"].as_array_mut().unwrap();
    phases.push(json!({ "name": "own", "objects": [own] }));
    let rule =
        "!has(self.data) || self.metadata.?annotations['breaks'].orValue('') != self.data.version";
    template["availabilityProbes"] = json!([cel_probe("", "ConfigMap", rule, "broken")]);
    content
}

impl<'a> Rollouts<'a> {
    /// Rolls the first version out to all sites, and marks the sites in which the second version
    /// fails.
    pub(super) async fn install(
        ns: &'a TestNamespace,
        sites: &Sites,
        scenarios: Vec<Scenario>,
    ) -> Self {
        let names: Vec<_> = sites
            .all
            .iter()
            .map(|site| site.name().to_owned())
            .collect();
        let placement = json!({ "matchSiteLabels": Fleet::new(ns).expression() });
        let mut all = Vec::new();
        for scenario in scenarios {
            apply(ns, scenario.seed, VERSIONS[0]).await;
            let application = format!("shop-{}", scenario.seed);
            let spec = json!({ "application": application, "placement": placement });
            let entry = Fleet::kind("SiteDeployment", &scenario.deployment()).with("/spec", spec);
            let live = ns.create(&entry).await;
            let end = scenario.end(uid(&live), &names);
            let is_due = matches!(
                scenario.trouble,
                Disturbance::Abort(_) | Disturbance::Back(_)
            );
            all.push(Rollout {
                scenario,
                end,
                is_due,
            });
        }
        let rollouts = Self { ns, all };
        rollouts
            .until("complete", |live| {
                reason(live, "Progressing")[0] == "Complete"
                    && live["status"]["counts"]["healthy"] == 3
            })
            .await;
        for Rollout { scenario, .. } in &rollouts.all {
            if let Disturbance::Breaks(at) = scenario.trouble {
                let settings = configmap(&format!("settings-{}", scenario.seed));
                let cluster = cluster_of(ns, sites, at).await;
                let breaks = json!({ "metadata": { "annotations": { "breaks": VERSIONS[1] } } });
                cluster
                    .merge(&ns.reference(&settings), &breaks)
                    .await
                    .unwrap();
            }
        }
        rollouts
    }

    /// Requests the second version with the strategy of each scenario.
    pub(super) async fn request_second_version(&self) {
        for Rollout { scenario, .. } in &self.all {
            let entry = Fleet::kind("SiteDeployment", &scenario.deployment());
            let strategy = json!({ "spec": { "strategy": scenario.strategy } });
            self.ns.merge(&entry, &strategy).await;
        }
        // Otherwise the version could be observed before its strategy.
        self.until("observed", |live| {
            live["status"]["observedGeneration"] == live["metadata"]["generation"]
        })
        .await;
        for Rollout { scenario, .. } in &self.all {
            apply(self.ns, scenario.seed, VERSIONS[1]).await;
        }
    }

    async fn deployments(&self) -> BTreeMap<String, Value> {
        let like = self.ns.reference(&Fleet::kind("SiteDeployment", "any"));
        let found = self.ns.cluster().list(&like, "").await;
        found
            .into_iter()
            .map(|live| (name(&live).to_owned(), live))
            .collect()
    }

    /// Returns the revisions by the name of their deployment, the oldest first.
    async fn revisions(&self) -> BTreeMap<String, Vec<Value>> {
        let like = object("package-operator.run/v1alpha1", "ObjectSet", "any");
        let mut found = self.ns.cluster().list(&self.ns.reference(&like), "").await;
        found.sort_by_key(|it| it["spec"]["revision"].as_i64());
        let mut by_deployment = BTreeMap::<_, Vec<_>>::new();
        for revision in found {
            let deployment = entry(&revision)["deployment"].as_str().unwrap().to_owned();
            by_deployment.entry(deployment).or_default().push(revision);
        }
        by_deployment
    }

    async fn until(&self, text: &str, holds: impl Fn(&Value) -> bool) {
        let are = async || self.deployments().await.values().all(&holds);
        self.ns.eventually(&format!("all to be {text}"), are).await;
    }

    /// Performs the actions of authors that are due, and returns the rollouts that have not reached
    /// their end.
    pub(super) async fn look_and_act(&mut self) -> Left {
        let (deployments, revisions) = (self.deployments().await, self.revisions().await);
        let mut left = Left {
            texts: Vec::new(),
            is_late: true,
        };
        for rollout in &mut self.all {
            let name = rollout.scenario.deployment();
            let revisions = revisions.get(&name).map_or(&[][..], Vec::as_slice);
            if rollout.is_due {
                rollout.is_due = !rollout.act(self.ns, revisions).await;
                let text = format!("{name}: {:?}", rollout.scenario.trouble);
                left.texts.push(text);
                left.is_late = false;
                continue;
            }
            let live = &deployments[&name];
            let found = found(live, revisions);
            let is_over = reason(live, "Progressing")[0] == "Complete" || found.aborted.is_some();
            if !is_over || found != rollout.end {
                left.texts.push(format!(
                    "{name}: {:?}\n{found:?}\n{:?}",
                    rollout.scenario, rollout.end
                ));
                left.is_late &= found.aborted.is_none() && revisions.iter().any(is_late);
            }
        }
        left
    }

    /// Fails unless each site has exactly the expected objects, each with one controller.
    pub(super) async fn assert_objects(&self, sites: &Sites) {
        for (at, site) in sites.all.iter().enumerate() {
            let cluster = cluster_of(self.ns, sites, at).await;
            let mut expected = BTreeMap::new();
            for Rollout { scenario, end, .. } in &self.all {
                let (version, own) = &end.has[site.name()];
                expected.insert(format!("settings-{}", scenario.seed), version.clone());
                // The second phase waits for the first phase, which is not available.
                let is_broken = scenario.trouble == Disturbance::Breaks(at);
                let own = own
                    .iter()
                    .filter(|version| !is_broken || *version == VERSIONS[0]);
                for version in own {
                    expected.insert(format!("own-{}-{version}", scenario.seed), String::new());
                }
            }
            let live = configmaps(&cluster, self.ns).await;
            let found: BTreeMap<_, _> = live
                .iter()
                .map(|it| {
                    let version = it["data"]["version"].as_str().unwrap_or_default();
                    (name(it).to_owned(), version.to_owned())
                })
                .collect();
            assert_eq!(found, expected, "{}", site.name());
            for live in &live {
                let controllers = remote_owners(live)
                    .into_iter()
                    .filter(|(_, is_controller)| *is_controller);
                assert_eq!(controllers.count(), 1, "{live:#}");
            }
        }
    }

    /// Deletes the deployments and waits until all revisions are gone.
    pub(super) async fn delete(self) {
        for rollout in &self.all {
            self.ns
                .delete(&Fleet::kind(
                    "SiteDeployment",
                    &rollout.scenario.deployment(),
                ))
                .await;
        }
        let is_gone = async || self.revisions().await.is_empty();
        self.ns.eventually("all revisions to go", is_gone).await;
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Rollout> {
        self.all.iter()
    }
}

impl Rollout {
    /// Performs the author's action if the wave is in its healthy time. Returns true if nothing is
    /// left to do.
    async fn act(&self, ns: &TestNamespace, revisions: &[Value]) -> bool {
        let (wave, change) = match self.scenario.trouble {
            Disturbance::Abort(wave) => (wave, json!({ "spec": { "abortRollout": 2 } })),
            Disturbance::Back(wave) => (
                wave,
                json!({ "spec": { "applicationVersion": VERSIONS[0] } }),
            ),
            Disturbance::None | Disturbance::Breaks(_) => return true,
        };
        let is_of_wave = |(_, rollout, batch, _): &PlannedRevision| (*rollout, *batch) == (2, wave);
        let members = self
            .end
            .planned
            .values()
            .flatten()
            .filter(|it| is_of_wave(it))
            .count();
        let is_ready = |it: &&Value| is_of_wave(&given(it)) && condition(it, "Available") == "True";
        if revisions.iter().filter(is_ready).count() < members {
            return false;
        }
        ns.merge(
            &Fleet::kind("SiteDeployment", &self.scenario.deployment()),
            &change,
        )
        .await;
        true
    }
}

async fn apply(ns: &TestNamespace, seed: u64, version: &str) {
    let spec = content(seed, version);
    let entry = Fleet::kind("SiteApplication", &format!("shop-{seed}")).with("/spec", spec);
    ns.cluster()
        .apply(&ns.reference(&entry), "tests")
        .await
        .unwrap();
}

/// Returns the cluster of a site. The first site is the hub.
async fn cluster_of(ns: &TestNamespace, sites: &Sites, at: usize) -> Cluster {
    match at {
        0 => ns.cluster().clone(),
        _ => sites.all[at].site().cluster().await,
    }
}

/// Returns the entry of a revision.
pub(super) fn given(revision: &Value) -> PlannedRevision {
    let entry = entry(revision);
    (
        entry["version"].as_str().unwrap().to_owned(),
        entry["rollout"].as_i64().unwrap(),
        entry["batch"].as_i64().unwrap().try_into().unwrap(),
        entry["isRollback"] == true,
    )
}

/// True if a revision has begun, and is neither available nor replaced.
fn is_late(revision: &Value) -> bool {
    condition(revision, "baton.run/Started") == "True"
        && reason(revision, "Available")[0] == "ProbeFailure"
        && condition(revision, "Archived") != "True"
}

/// Returns the current state of a rollout.
fn found(live: &Value, revisions: &[Value]) -> End {
    let mut end = End {
        rollout: live["status"]["rollout"].as_i64().unwrap_or_default(),
        aborted: (condition(live, "Aborted") == "True")
            .then(|| reason(live, "Aborted")[0].to_owned()),
        ..End::default()
    };
    for revision in revisions {
        let site = entry(revision)["site"].as_str().unwrap().to_owned();
        let given = given(revision);
        if condition(revision, "Archived") != "True" {
            let has = end
                .has
                .entry(site.clone())
                .or_insert((String::new(), BTreeSet::new()));
            has.0.clone_from(&given.0);
            has.1.insert(given.0.clone());
        }
        end.planned.entry(site).or_default().push(given);
    }
    end
}
