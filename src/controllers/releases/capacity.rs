//! The controller of `CapacityTarget`: sets the number of pods that a Release runs in each cluster.

mod triggers;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{CapacityTarget, CapacityTargetStatus, ClusterCapacityTarget, kinds};
use baton_engine::conditions::Requeue;
use baton_releases::{
    capacity::{Plan, Scale, plan},
    targets::{
        CapacityOutcome, Update, Updated, capacity as update,
        reasons::{Cause, Failure, Vocabulary},
    },
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
};
use baton_typed::{debounce::Debounced, key::Key};
use futures::future::join_all;
use tokio::task::{coop::consume_budget, yield_now};

use self::workloads::{FoundWorkload, WantedCapacity};
use super::{
    Context, Error, INCOMPLETE,
    app_clusters::{AppClusters, cluster::AppCluster, requests::RequestError},
    debounced::Reported,
    on_custody,
    pass_outcome::PassOutcome,
    report::report,
};

/// Name of the controller in events.
const REPORTER: &str = "capacity-controller";

/// Scales the workloads of Releases, and reports the state of their pods.
pub(crate) struct CapacityTargets {
    context: Context,
    clusters: Arc<AppClusters>,
    debounced: Debounced<Key>,
}

impl CapacityTargets {
    /// A controller for these clusters.
    pub(crate) fn new(context: Context, clusters: Arc<AppClusters>) -> Self {
        Self {
            context,
            clusters,
            debounced: Debounced::default(),
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
        // An Application that is not known yet may have been given back.
        if !stores.applications.was_complete() {
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
        };
        yield_now().await;
        let updated = update(&target, &outcomes, now);
        yield_now().await;
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
        let wanted = WantedCapacity::of(target, cluster)?;
        let cluster_name = &cluster.name;
        let percent = cluster.percent;
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        let cluster = self.clusters.reach(namespace, cluster_name)?;
        let found = workloads::find(&cluster, &wanted).await?;
        let scaled_to = scaled_to(target, cluster_name);
        let parts = found.iter().map(|found| found.part(scaled_to));
        let parts: Vec<_> = parts.collect();
        let plan = plan(percent, &parts);
        self.scale(&cluster, &found, &plan, done).await?;
        Ok(plan)
    }

    /// Scales the workloads whose number of pods has to change.
    async fn scale(
        &self,
        cluster: &AppCluster,
        found: &[FoundWorkload],
        plan: &Plan,
        done: &mut PassOutcome,
    ) -> Result<(), Failure> {
        let requests = plan.scale.iter().map(|Scale { index, replicas }| {
            let found = &found[*index];
            async move { (found, found.scale(cluster, *replicas).await) }
        });
        let mut failure = None;
        for (found, answer) in join_all(requests).await {
            match answer {
                Ok(()) => done.add(PassOutcome::Written),
                Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
                Err(RequestError::Failed(message)) => {
                    let message = format!("cannot scale {}: {message}", found.title());
                    failure = Some(Failure::new(Cause::Write, message));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn report(
        &self,
        key: &Key,
        target: &CapacityTarget,
        updated: Updated<CapacityTargetStatus>,
    ) -> Result<Reported, Error> {
        let by = (REPORTER, &self.debounced, &*self.clusters);
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
