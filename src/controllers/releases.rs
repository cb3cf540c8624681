//! The controllers of Shipper's Applications, Releases and targets.
//!
//! Each kind has a controller with a file of its own. The decisions are in `baton-releases`; the
//! controllers observe, send requests and write.
//!
//! ```text
//! Application ──► Release ──► InstallationTarget ──► slices and a revision per cluster ──► objects
//!                    └──────► CapacityTarget, TrafficTarget ──► workloads, pods and Services of the clusters
//! ```
//!
//! The definitions of these kinds are optional: the controllers start once the definitions exist.

pub(crate) mod app_clusters;
pub(crate) mod application;
pub(crate) mod blocks;
pub(crate) mod capacity;
pub(crate) mod charts;
mod content;
pub(crate) mod credentials;
pub(crate) mod debounced;
pub(crate) mod installation;
pub(crate) mod pass_outcome;
pub(crate) mod release;
mod report;
pub(crate) mod reported;
mod scalable;
pub(crate) mod traffic;

use std::sync::Arc;

use baton_apis::{
    Application, CapacityTarget, Cluster, ConditionStatus, InstallationTarget, OfflineClusters,
    Release, RolloutBlock, ShipperCondition, TrafficTarget, conditions::Reason,
    constants::shipper::LABEL_APP, kinds,
};
use baton_kubernetes::answer::is_namespace_terminating;
use baton_kubernetes::events::EventKind;
use baton_releases::{
    application::history, conditions::Conditions, event::Event, give_back::Custody,
};
use baton_runtime::source::Wake;
use baton_typed::{
    key::{Key, Kind},
    store::{Change, Store},
    stores,
};
use jiff::Timestamp;

use super::INCOMPLETE;
use crate::delivery::{
    rollout_blocks::{RolloutBlocks, applies, begun_or_ended},
    shared::{AtStep, Error, Events},
};

/// Stores of the kinds that take part.
#[derive(Clone)]
pub(crate) struct Stores {
    pub applications: Arc<Store<Application>>,
    pub releases: Arc<Store<Release>>,
    pub installation_targets: Arc<Store<InstallationTarget>>,
    pub capacity_targets: Arc<Store<CapacityTarget>>,
    pub traffic_targets: Arc<Store<TrafficTarget>>,
    pub blocks: RolloutBlocks,
    pub clusters: Arc<Store<Cluster>>,
    /// All of these stores.
    pub all: stores::Stores,
}

impl Default for Stores {
    fn default() -> Self {
        let mut all = stores::Stores::default();
        Self {
            applications: all.defined(Store::new(kinds::APPLICATION.name)),
            releases: all.defined(Store::new(kinds::RELEASE.name)),
            installation_targets: all.defined(Store::new(kinds::INSTALLATION_TARGET.name)),
            capacity_targets: all.defined(Store::new(kinds::CAPACITY_TARGET.name)),
            traffic_targets: all.defined(Store::new(kinds::TRAFFIC_TARGET.name)),
            blocks: RolloutBlocks(all.defined(Store::new(kinds::ROLLOUT_BLOCK.name))),
            clusters: all.defined(Store::new(kinds::CLUSTER.name)),
            all,
        }
    }
}

impl Stores {
    /// True if an object belongs to an Application that was given back to Shipper, by its label.
    fn is_given_back<K: Kind>(&self, object: &K) -> bool {
        self.application_of(object)
            .is_some_and(|application| Custody::of(&application) != Custody::Ours)
    }

    /// True if the newest Release of the application of a target does not wait for clusters whose agents
    /// are not connected. It decides for the Releases that it replaces as well.
    fn ignores_offline<K: Kind>(&self, target: &K) -> bool {
        let metadata = target.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let labels = metadata.labels.as_ref();
        let application = labels.and_then(|labels| labels.get(LABEL_APP));
        let newest = self.newest_release(namespace, application.map_or("", String::as_str));
        newest.is_some_and(|newest| {
            let strategy = newest.spec.environment.strategy.as_ref();
            strategy.is_some_and(|it| it.offline_clusters == OfflineClusters::Ignore)
        })
    }

    /// The newest Release of an application that is not being deleted.
    fn newest_release(&self, namespace: &str, application: &str) -> Option<Arc<Release>> {
        let releases = self.releases.labelled(namespace, LABEL_APP, application);
        let living = releases.into_iter().filter(|it| {
            it.metadata.deletion_timestamp.is_none() && history::generation(it).is_ok()
        });
        living.max_by_key(|it| release::order(it))
    }

    /// The Application that the label of an object names.
    fn application_of<K: Kind>(&self, object: &K) -> Option<Arc<Application>> {
        let metadata = object.meta();
        let name = metadata.labels.as_ref()?.get(LABEL_APP)?;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        self.applications.get(namespace, name)
    }
}

/// Trigger: a block that appears or ends wakes the objects that it applies to.
fn on_block<K: Kind>(store: &Store<K>, change: &Change<RolloutBlock>) -> Vec<Wake<Key>> {
    let Some(of_block) = begun_or_ended(change) else {
        return Vec::new();
    };
    let namespace = |object: &K| object.meta().namespace.clone().unwrap_or_default();
    store.wake(|object| applies(of_block, &namespace(object)))
}

/// Trigger: a Release that appears or ends wakes the targets of its application, see
/// [`Stores::ignores_offline`].
fn on_release<K: Kind>(store: &Store<K>, change: &Change<Release>) -> Vec<Wake<Key>> {
    let is_end = |it: &Option<Arc<Release>>| {
        let living = it.as_ref();
        living.is_none_or(|it| it.metadata.deletion_timestamp.is_some())
    };
    let release = change.object();
    let Some(release) = release.filter(|_| is_end(&change.old) != is_end(&change.new)) else {
        return Vec::new();
    };
    let metadata = &release.metadata;
    let labels = metadata.labels.as_ref();
    let Some(application) = labels.and_then(|labels| labels.get(LABEL_APP)) else {
        return Vec::new();
    };
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let targets = store.labelled(namespace, LABEL_APP, application);
    let keys = targets.iter().map(|it| Key::of(store.kind, &**it));
    keys.map(Wake::now).collect()
}

/// Trigger: an Application that Baton stops to run, or runs again, wakes its objects.
fn on_custody<K: Kind>(store: &Store<K>, change: &Change<Application>) -> Vec<Wake<Key>> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return Vec::new();
    };
    if Custody::of(old) == Custody::of(new) {
        return Vec::new();
    }
    let key = Key::of(kinds::APPLICATION.name, &**new);
    let objects = store.labelled(&key.namespace, LABEL_APP, &key.name);
    let keys = objects.iter().map(|it| Key::of(store.kind, &**it));
    keys.map(Wake::now).collect()
}

/// Sets the condition `type_` to Unknown, because objects that the decision depends on cannot be
/// listed; `why` is the cause. Returns all conditions.
fn undecided(
    conditions: &[ShipperCondition],
    type_: &str,
    now: Timestamp,
    why: &str,
) -> Vec<ShipperCondition> {
    let mut conditions = Conditions::new(conditions, now);
    conditions.set(type_, ConditionStatus::Unknown, Reason::ListFailed, why);
    conditions.into_list()
}

/// True if a retry can only succeed after a change of the object or the cluster.
pub(crate) fn is_permanent(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    match status.code {
        // Nothing can be created in a namespace that is being deleted; this state ends.
        403 => !is_namespace_terminating(status),
        400 | 404 | 405 | 410 | 422 => true,
        _ => false,
    }
}

impl Events {
    /// Publishes events about an object of Shipper's kinds, with the controller name that Shipper
    /// uses.
    pub(crate) fn publish_on<K: Kind>(
        &self,
        reporter: &'static str,
        (key, object): (&Key, &K),
        events: Vec<Event>,
    ) {
        for event in events {
            let kind = if event.warning {
                EventKind::Warning
            } else {
                EventKind::Normal
            };
            self.publish_about(reporter, (key, object), kind, event.reason, event.message);
        }
    }
}

/// The state that these controllers share.
pub(crate) type Context = super::Context<Stores>;
