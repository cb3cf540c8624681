//! The controller of `CapacityTarget`: sets the number of pods that a Release runs in each cluster.

mod triggers;
pub(crate) mod work;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{CapacityTarget, CapacityTargetStatus, ClusterCapacityTarget, kinds};
use baton_engine::conditions::Requeue;
use baton_records::phase::PhaseKey;
use baton_releases::targets::{
    CapacityOutcome, Update, Updated, capacity as update, is_incomplete, reasons::Vocabulary,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    pace::Pace,
    queue::Queue,
};
use baton_typed::{debounce::Debounced, key::Key};
use futures::future::join_all;
use tokio::task::{coop::consume_budget, yield_now};

use self::work::{WantedCapacity, set_capacity};
use super::{
    Context, Error, INCOMPLETE, app_clusters::AppClusters, debounced::Reported, on_custody,
    on_release, pass_outcome::PassOutcome, report::report, reported,
};

/// Name of the controller in events.
const REPORTER: &str = "capacity-controller";

/// Scales the workloads of Releases, and reports the state of their pods.
pub(crate) struct CapacityTargets {
    context: Context,
    clusters: Arc<AppClusters>,
    debounced: Debounced<Key>,
    /// The pace of the reports of agents.
    reports: Pace<PhaseKey>,
}

impl CapacityTargets {
    /// A controller for these clusters.
    pub(crate) fn new(context: Context, clusters: Arc<AppClusters>) -> Self {
        Self {
            context,
            clusters,
            debounced: Debounced::default(),
            reports: Pace::default(),
        }
    }
}

impl Controller for CapacityTargets {
    const NAME: &'static str = "capacitytarget";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.capacity_targets.changes, self, |_, change| {
            triggers::on_target(change)
        });
        queue.wake_on(&stores.applications.changes, self, |this, change| {
            on_custody(&this.context.stores.capacity_targets, change)
        });
        queue.wake_on(&self.clusters.changes, self, |this, change| {
            triggers::on_cluster(&this.context.stores.capacity_targets, change)
        });
        queue.wake_on(&stores.releases.changes, self, |this, change| {
            on_release(&this.context.stores.capacity_targets, change)
        });
        let phases = self.context.observed.phases.changes();
        queue.wake_on(phases, self, |this, change| {
            let now = this.context.shared.clock.instant();
            reported::on_report(
                &this.context.stores.capacity_targets,
                (&this.reports, now),
                change,
            )
        });
        queue.wake_on(&self.context.observed.links, self, |this, cluster| {
            triggers::on_clusters(&this.context.stores.capacity_targets, |_, found| {
                found == cluster
            })
        });
        queue.wake_on(&self.context.observed.assignments, self, |this, change| {
            let targets = &this.context.stores.capacity_targets;
            triggers::on_clusters(targets, |namespace, cluster| {
                this.clusters.concerns(change, namespace, cluster)
            })
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        // An Application that is not known yet may have been given back. The newest Release decides
        // about clusters that are not connected.
        if !stores.applications.was_complete() || !stores.releases.was_complete() {
            return Ok(INCOMPLETE);
        }
        let target = stores.capacity_targets.get(&key.namespace, &key.name);
        let target = target.filter(|target| {
            target.metadata.deletion_timestamp.is_none() && !stores.is_given_back(&**target)
        });
        let Some(target) = target else {
            self.clusters.set_clusters(key, BTreeSet::new());
            self.debounced.forget(key);
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        let mut wanted = BTreeMap::new();
        for cluster in &target.spec.clusters {
            wanted.entry(&*cluster.name).or_insert(cluster);
        }
        let names = wanted.keys().map(|name| (*name).to_owned());
        self.clusters.set_clusters(key, names.collect());
        let work = wanted
            .into_values()
            .map(|cluster| self.work_in(&target, cluster));
        let mut result = PassOutcome::default();
        let mut outcomes = BTreeMap::new();
        for (name, done, outcome) in join_all(work).await {
            result.add_cluster(done, outcome.as_ref().err());
            outcomes.insert(name, outcome);
        }
        let now = Update {
            vocabulary: Vocabulary::default(),
            now: self.context.shared.clock.now(),
            ignores_offline: stores.ignores_offline(&*target),
        };
        yield_now().await;
        let updated = update(&target, &outcomes, now);
        yield_now().await;
        let updated = (updated, is_incomplete(&outcomes));
        let reported = self.report(key, &target, updated).await?;
        Ok(reported.with(result.reconciled()))
    }
}

impl CapacityTargets {
    /// Scales the workloads of one cluster.
    async fn work_in(
        &self,
        target: &CapacityTarget,
        wanted: &ClusterCapacityTarget,
    ) -> (String, PassOutcome, CapacityOutcome) {
        // Other passes get a turn after some clusters.
        consume_budget().await;
        let mut done = PassOutcome::default();
        let outcome = self.try_in(target, wanted, &mut done).await;
        (wanted.name.clone(), done, outcome)
    }

    async fn try_in(
        &self,
        target: &CapacityTarget,
        cluster: &ClusterCapacityTarget,
        done: &mut PassOutcome,
    ) -> CapacityOutcome {
        if let Some(reported) = reported::capacity(&self.context, target, cluster) {
            return reported;
        }
        let wanted = WantedCapacity::of(target, cluster)?;
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        let shares = (cluster.percent, scaled_to(target, &cluster.name));
        let cluster = self.clusters.reach(namespace, &cluster.name)?;
        set_capacity(&cluster, &wanted, shares, done).await
    }

    async fn report(
        &self,
        key: &Key,
        target: &CapacityTarget,
        updated: (Updated<CapacityTargetStatus>, bool),
    ) -> Result<Reported, Error> {
        let by = (REPORTER, &self.debounced);
        let on = (&self.context.stores.capacity_targets, key);
        report(&self.context, by, on, target, updated).await
    }
}

/// The reported percentage up to which the workloads in a cluster were scaled.
fn scaled_to(target: &CapacityTarget, cluster: &str) -> i32 {
    let status = target.status.as_ref();
    let mut clusters = status.into_iter().flat_map(|status| &status.clusters);
    let status = clusters.find(|status| status.name == cluster);
    status.map_or(0, |status| status.scaled_to)
}

/// The key of a target.
fn key(target: &CapacityTarget) -> Key {
    Key::of(kinds::CAPACITY_TARGET.name, target)
}
