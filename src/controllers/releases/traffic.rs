//! The controller of `TrafficTarget`: decides which pods of a Release get traffic in its clusters.

mod balancer;
mod triggers;

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
use baton_releases::{
    targets::{
        TrafficOutcome, Update, Updated,
        reasons::{Cause, Failure, Vocabulary},
        traffic as update, traffic_unknown,
    },
    texts::Quoted,
    traffic::{Plan, Weights, plan, selector, weights},
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
};
use baton_typed::{debounce::Debounced, key::Key};
use futures::{StreamExt as _, future::join_all, stream};
use tokio::task::{coop::consume_budget, yield_now};

use self::balancer::Balancer;
use super::{
    Context, Error, INCOMPLETE,
    app_clusters::{AppClusters, cluster::AppCluster, objects::label, requests::RequestError},
    debounced::Reported,
    on_custody,
    pass_outcome::PassOutcome,
    report::report,
};

/// Name of the controller in events.
const REPORTER: &str = "traffic-controller";
/// Number of pods of one target that are relabelled concurrently.
const MAX_CONCURRENT: usize = 16;

/// Divides the traffic between the pods of Releases.
pub(crate) struct TrafficTargets {
    context: Context,
    clusters: Arc<AppClusters>,
    debounced: Debounced<Key>,
}

impl TrafficTargets {
    /// A controller for these clusters.
    pub(crate) fn new(context: Context, clusters: Arc<AppClusters>) -> Self {
        Self {
            context,
            clusters,
            debounced: Debounced::default(),
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
        // An Application that is not known yet may have been given back.
        if !stores.applications.was_complete() {
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
                let updated = traffic_unknown(&target, &message, self.update());
                let reported = self.report(key, &target, updated).await?;
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
        let updated = update(&target, &outcomes, self.update());
        yield_now().await;
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
        target: &TrafficTarget,
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
        let all =
            self.context
                .stores
                .traffic_targets
                .labelled(&key.namespace, LABEL_APP, application);
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
        let meta = &target.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let (application, release) = (label(meta, LABEL_APP), label(meta, LABEL_RELEASE));
        let cluster = self.clusters.reach(namespace, cluster)?;
        let balancer = Balancer::find(&cluster, namespace, application).await?;
        let plan = balancer.decide(weights, |view| plan(release, view));
        shift(&cluster, &balancer, &plan, done).await?;
        // Based on the pods after the change of labels.
        let (wanted, present) = balancer.decide(weights, |view| {
            (selector::wanted(view), view.selector.clone())
        });
        let is_in_charge = selector::in_charge(weights, &present, &wanted) == Some(release);
        if wanted != present && is_in_charge {
            match balancer.select(&cluster, &wanted).await {
                Ok(()) => done.add(PassOutcome::Written),
                Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
                Err(RequestError::Failed(message)) => {
                    let message = format!(
                        "cannot change the selector of Service {}: {message}",
                        Quoted(balancer.name())
                    );
                    return Err(Failure::new(Cause::Write, message));
                }
            }
        }
        Ok(plan)
    }

    fn update(&self) -> Update {
        Update {
            vocabulary: Vocabulary::default(),
            now: self.context.shared.clock.now(),
        }
    }

    async fn report(
        &self,
        key: &Key,
        target: &TrafficTarget,
        updated: Updated<TrafficTargetStatus>,
    ) -> Result<Reported, Error> {
        let by = (REPORTER, &self.debounced, &*self.clusters);
        let on = (&self.context.stores.traffic_targets, key);
        report(&self.context, by, on, target, updated).await
    }
}

/// Writes the wanted labels of pods.
async fn shift(
    cluster: &AppCluster,
    balancer: &Balancer,
    plan: &Plan,
    done: &mut PassOutcome,
) -> Result<(), Failure> {
    let labels = [(&plan.enable, true), (&plan.disable, false)];
    let requests = labels.into_iter().flat_map(|(names, enable)| {
        let names = names.iter().cloned();
        names.map(move |name| async move {
            let answer = balancer.set_traffic(cluster, &name, enable).await;
            (name, answer)
        })
    });
    let requests: Vec<_> = requests.collect();
    let mut requests = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
    let mut failures = BTreeMap::new();
    while let Some((name, answer)) = requests.next().await {
        match answer {
            Ok(()) => done.add(PassOutcome::Written),
            Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
            Err(RequestError::Failed(message)) => {
                failures.insert(name, message);
            }
        }
    }
    // Reports the failure of the first pod by name, so that the message is stable while the failure
    // lasts.
    failures
        .into_iter()
        .next()
        .map_or(Ok(()), |(name, message)| {
            let message = format!(
                "cannot change the labels of pod {}: {message}",
                Quoted(&name)
            );
            Err(Failure::new(Cause::Write, message))
        })
}

/// The key of a target.
fn key(target: &TrafficTarget) -> Key {
    Key::of(kinds::TRAFFIC_TARGET.name, target)
}
