//! The controllers of Shipper's Applications, Releases and targets.
//!
//! Each kind has a controller with a file of its own. What they decide is in `baton-releases`; here they observe, ask
//! and write.
//!
//! ```text
//! Application ──► Release ──► InstallationTarget ──► slices and a revision per cluster ──► objects
//!                    └──────► CapacityTarget, TrafficTarget ──► workloads, pods and Services of the clusters
//! ```
//!
//! Their definitions are a choice: where they are missing, nothing of this runs, and it begins once they are there.

pub(crate) mod app_clusters;
pub(crate) mod application;
pub(crate) mod capacity;
pub(crate) mod charts;
mod content;
pub(crate) mod credentials;
mod debounced;
pub(crate) mod installation;
pub(crate) mod release;
mod report;
mod scalable;
pub(crate) mod traffic;
mod worked;

use std::{sync::Arc, time::Duration};

use baton_apis::{
    Application, CapacityTarget, Cluster, ConditionStatus, InstallationTarget, Release,
    ShipperCondition, TrafficTarget, conditions::reasons, constants::shipper::LABEL_APP, kinds,
};
use baton_fleet::inventory::Inventory;
use baton_kubernetes::events::EventKind;
use baton_releases::{conditions::Conditions, event::Event};
use baton_runtime::source::Source;
use jiff::Timestamp;
use kube::Client;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    extent::Extent,
    requests::Requests,
    store::{Key, Kind, Store},
};
use crate::delivery::{
    observed::Observed,
    shared::{AtStep, Error, Events, Shared},
};

/// Until all kinds were listed, nothing is decided: what is missing may exist.
const INCOMPLETE: Duration = Duration::from_secs(1);

impl<K: Kind> Store<K> {
    /// The objects of an application, sorted by name: those with its label in its namespace.
    pub(crate) fn of_application(&self, namespace: &str, application: &str) -> Vec<Arc<K>> {
        self.labelled(namespace, LABEL_APP, application)
    }
}

/// All objects of the kinds that take part.
pub(crate) struct Stores {
    pub applications: Arc<Store<Application>>,
    pub releases: Arc<Store<Release>>,
    pub installation_targets: Arc<Store<InstallationTarget>>,
    pub capacity_targets: Arc<Store<CapacityTarget>>,
    pub traffic_targets: Arc<Store<TrafficTarget>>,
    pub clusters: Arc<Store<Cluster>>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            applications: Arc::new(Store::new(kinds::APPLICATION.name)),
            releases: Arc::new(Store::new(kinds::RELEASE.name)),
            installation_targets: Arc::new(Store::new(kinds::INSTALLATION_TARGET.name)),
            capacity_targets: Arc::new(Store::new(kinds::CAPACITY_TARGET.name)),
            traffic_targets: Arc::new(Store::new(kinds::TRAFFIC_TARGET.name)),
            clusters: Arc::new(Store::new(kinds::CLUSTER.name)),
        }
    }
}

impl Stores {
    /// Starts to follow all of them. `defined` tells that definitions of the group came or went.
    pub(crate) fn follow(&self, client: &Client, defined: &Arc<Notify>, tasks: &mut JoinSet<()>) {
        fn start<K: Kind>(
            store: &Arc<Store<K>>,
            (client, defined): (&Client, &Arc<Notify>),
            tasks: &mut JoinSet<()>,
        ) {
            let defined = Arc::clone(defined);
            tasks.spawn(Arc::clone(store).follow(client.clone(), defined));
        }
        let Self {
            applications,
            releases,
            installation_targets,
            capacity_targets,
            traffic_targets,
            clusters,
        } = self;
        let one = (client, defined);
        start(applications, one, tasks);
        start(releases, one, tasks);
        start(installation_targets, one, tasks);
        start(capacity_targets, one, tasks);
        start(traffic_targets, one, tasks);
        start(clusters, one, tasks);
    }

    /// Resolves when all were listed once, or could not be, as where their definitions are not installed.
    pub(crate) async fn listed(&self) {
        tokio::join!(
            self.applications.listed(),
            self.releases.listed(),
            self.installation_targets.listed(),
            self.capacity_targets.listed(),
            self.traffic_targets.listed(),
            self.clusters.listed(),
        );
    }

    /// Sources that report that something of them is not known any more.
    fn lost(&self) -> [&Source<()>; 6] {
        [
            &self.applications.lost,
            &self.releases.lost,
            &self.installation_targets.lost,
            &self.capacity_targets.lost,
            &self.traffic_targets.lost,
            &self.clusters.lost,
        ]
    }

    /// How much is known of which objects there are. While it is not all, nothing is made or deleted.
    pub(crate) fn extent(&self) -> Extent {
        let above = self.applications.extent().and(self.releases.extent());
        let targets = (self.installation_targets.extent())
            .and(self.capacity_targets.extent())
            .and(self.traffic_targets.extent());
        above.and(targets).and(self.clusters.extent())
    }
}

/// Conditions of which one says that objects cannot be listed that are decided by, and why.
fn undecided(
    conditions: &[ShipperCondition],
    type_: &str,
    now: Timestamp,
    why: &str,
) -> Vec<ShipperCondition> {
    let mut conditions = Conditions::new(conditions, now);
    conditions.set(type_, ConditionStatus::Unknown, reasons::LIST_FAILED, why);
    conditions.into_list()
}

/// Whether trying again helps only after something has changed (section 9.4).
pub(crate) fn is_permanent(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    match status.code {
        // While its namespace goes, nothing can be created in it; that ends.
        403 => !status.message.contains("because it is being terminated"),
        400 | 404 | 405 | 410 | 422 => true,
        _ => false,
    }
}

impl Events {
    /// Publishes events about an object of Shipper's kinds, as the controller that the contract names (section 9.2).
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

/// What all of these controllers share.
#[derive(Clone)]
pub(crate) struct Base {
    /// Events and the clock.
    pub shared: Shared,
    /// Objects of Shipper's kinds.
    pub stores: Arc<Stores>,
    /// Requests about them.
    pub requests: Requests,
    /// Revisions and slices.
    pub observed: Arc<Observed>,
    /// The way to each cluster.
    pub inventory: Inventory,
}
