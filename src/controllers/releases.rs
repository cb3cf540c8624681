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
pub(crate) mod capacity;
pub(crate) mod charts;
mod content;
pub(crate) mod credentials;
mod debounced;
pub(crate) mod installation;
mod pass_outcome;
pub(crate) mod release;
mod report;
mod scalable;
pub(crate) mod traffic;

use std::sync::Arc;

use baton_apis::{
    Application, CapacityTarget, Cluster, ConditionStatus, InstallationTarget, Release,
    ShipperCondition, TrafficTarget, conditions::Reason, constants::shipper::LABEL_APP, kinds,
};
use baton_kubernetes::answer::is_namespace_terminating;
use baton_kubernetes::events::EventKind;
use baton_releases::{conditions::Conditions, event::Event, give_back::Custody};
use baton_runtime::source::Wake;
use baton_typed::{
    key::{Key, Kind},
    store::{Change, Store},
    stores,
};
use jiff::Timestamp;

use super::INCOMPLETE;
use crate::delivery::shared::{AtStep, Error, Events};

/// Stores of the kinds that take part.
#[derive(Clone)]
pub(crate) struct Stores {
    pub applications: Arc<Store<Application>>,
    pub releases: Arc<Store<Release>>,
    pub installation_targets: Arc<Store<InstallationTarget>>,
    pub capacity_targets: Arc<Store<CapacityTarget>>,
    pub traffic_targets: Arc<Store<TrafficTarget>>,
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

    /// The Application that the label of an object names.
    fn application_of<K: Kind>(&self, object: &K) -> Option<Arc<Application>> {
        let metadata = object.meta();
        let name = metadata.labels.as_ref()?.get(LABEL_APP)?;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        self.applications.get(namespace, name)
    }
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
