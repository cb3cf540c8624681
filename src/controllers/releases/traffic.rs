//! The controller of `TrafficTarget`: decides which pods of a Release get traffic in its clusters.

mod balancer;
mod triggers;
pub(crate) mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{
    TrafficTarget, TrafficTargetStatus,
    constants::shipper::{LABEL_APP, LABEL_RELEASE},
    kinds,
};
use baton_engine::conditions::Requeue;
use baton_records::phase::PhaseKey;
use baton_releases::{
    targets::{
        TrafficOutcome, Update, Updated, is_incomplete, reasons::Vocabulary, traffic as update,
        traffic_unknown,
    },
    texts::Quoted,
    traffic::{Weights, weights},
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

use self::work::divide_traffic;
use super::{
    Context, Error, INCOMPLETE,
    app_clusters::{AppClusters, objects::label},
    debounced::Reported,
    on_custody, on_release,
    pass_outcome::PassOutcome,
    report::report,
    reported,
};

/// Name of the controller in events.
const REPORTER: &str = "traffic-controller";

/// Divides the traffic between the pods of Releases.
pub(crate) struct TrafficTargets {
    context: Context,
    clusters: Arc<AppClusters>,
    debounced: Debounced<Key>,
    /// The pace of the reports of agents.
    reports: Pace<PhaseKey>,
}

impl TrafficTargets {
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

impl Controller for TrafficTargets {
    const NAME: &'static str = "traffictarget";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.traffic_targets.changes, self, |this, change| {
            triggers::on_target(&this.context.stores.traffic_targets, change)
        });
        queue.wake_on(&stores.applications.changes, self, |this, change| {
            on_custody(&this.context.stores.traffic_targets, change)
        });
        queue.wake_on(&self.clusters.changes, self, |this, change| {
            triggers::on_cluster(&this.context.stores.traffic_targets, change)
        });
        queue.wake_on(&stores.releases.changes, self, |this, change| {
            on_release(&this.context.stores.traffic_targets, change)
        });
        let phases = self.context.observed.phases.changes();
        queue.wake_on(phases, self, |this, change| {
            let now = this.context.shared.clock.instant();
            reported::on_report(
                &this.context.stores.traffic_targets,
                (&this.reports, now),
                change,
            )
        });
        queue.wake_on(&self.context.observed.links, self, |this, cluster| {
            triggers::on_clusters(&this.context.stores.traffic_targets, |_, found| {
                found == cluster
            })
        });
        queue.wake_on(&self.context.observed.assignments, self, |this, change| {
            let targets = &this.context.stores.traffic_targets;
            triggers::on_clusters(targets, |namespace, cluster| {
                this.clusters.concerns(change, namespace, cluster)
            })
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let targets = &self.context.stores.traffic_targets;
        // The share of a Release depends on the targets of all others.
        if !targets.is_complete() {
            return Ok(INCOMPLETE);
        }
        let stores = &self.context.stores;
        // An Application that is not known yet may have been given back. The newest Release decides
        // about clusters that are not connected.
        if !stores.applications.was_complete() || !stores.releases.was_complete() {
            return Ok(INCOMPLETE);
        }
        let target = targets.get(&key.namespace, &key.name);
        let target = target.filter(|target| {
            target.metadata.deletion_timestamp.is_none() && !stores.is_given_back(&**target)
        });
        let Some(target) = target else {
            self.clusters.set_clusters(key, BTreeSet::new());
            self.debounced.forget(key);
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        let names: BTreeSet<_> = target
            .spec
            .clusters
            .iter()
            .map(|cluster| cluster.name.clone())
            .collect();
        self.clusters.set_clusters(key, names.clone());
        yield_now().await;
        let shares = match self.shares(key, &target, &names) {
            Ok(shares) => shares,
            Err(message) => {
                let updated = traffic_unknown(&target, &message, self.update(&target));
                let reported = self.report(key, &target, (updated, false)).await?;
                return Ok(reported.with((ReconcileOutcome::Blocked, Requeue::OnEvent)));
            }
        };
        let work = shares
            .iter()
            .map(|(name, weights)| self.work_in(&target, name, weights));
        let mut result = PassOutcome::default();
        let mut outcomes = BTreeMap::new();
        for (name, done, outcome) in join_all(work).await {
            result.add_cluster(done, outcome.as_ref().err());
            outcomes.insert(name, outcome);
        }
        yield_now().await;
        let updated = update(&target, &outcomes, self.update(&target));
        yield_now().await;
        let updated = (updated, is_incomplete(&outcomes));
        let reported = self.report(key, &target, updated).await?;
        Ok(reported.with(result.reconciled()))
    }
}

impl TrafficTargets {
    /// The weights of all Releases of the application, by cluster.
    ///
    /// # Errors
    /// With a text for users, when a target is invalid.
    fn shares(
        &self,
        key: &Key,
        target: &Arc<TrafficTarget>,
        clusters: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Weights>, String> {
        let application = label(&target.metadata, LABEL_APP);
        if application.is_empty() {
            return Err(format!(
                "TrafficTarget {} needs a {} label in order to select resources in the target clusters",
                Quoted(&key.full_name()),
                Quoted(LABEL_APP)
            ));
        }
        let targets = &self.context.stores.traffic_targets;
        let mut all = targets.labelled(&key.namespace, LABEL_APP, application);
        // The own target is that of this pass. If it was deleted meanwhile, its pods keep their
        // traffic.
        all.retain(|other| other.metadata.name != target.metadata.name);
        all.push(Arc::clone(target));
        let shares = weights(all.iter().map(|target| &**target));
        let mut shares = shares.map_err(|error| error.to_string())?;
        shares.retain(|name, _| clusters.contains(name));
        Ok(shares)
    }

    /// Shifts the traffic in one cluster.
    async fn work_in(
        &self,
        target: &TrafficTarget,
        cluster: &str,
        weights: &Weights,
    ) -> (String, PassOutcome, TrafficOutcome) {
        // Other passes get a turn after some clusters.
        consume_budget().await;
        let mut done = PassOutcome::default();
        let outcome = self.try_in(target, cluster, weights, &mut done).await;
        (cluster.to_owned(), done, outcome)
    }

    async fn try_in(
        &self,
        target: &TrafficTarget,
        cluster: &str,
        weights: &Weights,
        done: &mut PassOutcome,
    ) -> TrafficOutcome {
        if let Some(reported) = reported::traffic(&self.context, target, cluster) {
            return reported;
        }
        let meta = &target.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let release = (
            namespace,
            label(meta, LABEL_APP),
            label(meta, LABEL_RELEASE),
        );
        let cluster = self.clusters.reach(namespace, cluster)?;
        divide_traffic(&cluster, release, weights, done).await
    }

    fn update(&self, target: &TrafficTarget) -> Update {
        Update {
            vocabulary: Vocabulary::default(),
            now: self.context.shared.clock.now(),
            ignores_offline: self.context.stores.ignores_offline(target),
        }
    }

    async fn report(
        &self,
        key: &Key,
        target: &TrafficTarget,
        updated: (Updated<TrafficTargetStatus>, bool),
    ) -> Result<Reported, Error> {
        let by = (REPORTER, &self.debounced);
        let on = (&self.context.stores.traffic_targets, key);
        report(&self.context, by, on, target, updated).await
    }
}

/// The key of a target.
fn key(target: &TrafficTarget) -> Key {
    Key::of(kinds::TRAFFIC_TARGET.name, target)
}
