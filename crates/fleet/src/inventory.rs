//! The clusters that phases can be delivered into, and the connection to each of them.
//!
//! Each Cluster has a task of its own. If the manager connects to the cluster (`spec.connection:
//! Push`), the task reads the Secret of the same name in the clusters' namespace, connects, and
//! checks the connection every half minute. If an agent connects to the hub (`Pull`), the task
//! waits for the reports of the agent.
//!
//! ```text
//! watch of Clusters ─────────────────► registry ──► one task each: connect ──► ClusterLink, for controllers
//! watch of Secrets (metadata only) ──►                             └► report ──► status of the Cluster
//! ```
//!
//! # Guarantees
//! - A Cluster is [`ClusterLink::Unknown`] only if the API server has reported that there is none.
//! - A [`Target`] stays the same while its Cluster has the same UID and address and its Secret
//!   contains credentials, also if the connection is lost or the credentials are exchanged. Its
//!   caches are not emptied, and requests under way end on the connection on which they began.
//! - Revoked credentials, whose Secret was deleted or which were removed from it, are no longer
//!   used: the Target is dropped. A clone of it continues to use them, so take the Target from
//!   [`Inventory::link`] for each pass.
//! - Of a Secret without a Cluster only the metadata is ever received.
//!
//! # Why not kube's watcher
//! kube's watcher warns of a missing right at every attempt, and resumes a silent watch forever,
//! also that of an API server that was restored from a backup. It hides the version of a list,
//! which counts as the version of a Secret that is missing from the list.
//!
//! # Caveats
//! - If the Secret cannot be read from the manager's own API server, existing connections stay.

mod address;
mod agent_reports;
pub mod agents;
mod check;
mod client;
mod connect;
mod connection;
mod credentials;
mod entry;
mod health;
mod link;
mod paced;
mod registry;
mod report;
mod settings;
mod text;
mod twins;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use baton_apis::{UpgradeWindow, conditions::Reason, kinds, url::escape};
use jiff::Timestamp;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};

use self::{
    agent_reports::Heartbeats,
    entry::{Before, ClusterAttributes, Entry, Usage},
    health::{ConnectionState, Health},
    registry::Registry,
    twins::Twins,
};
pub use self::{
    agents::AgentReport,
    link::{ClusterLink, Contact, InventorySite},
    settings::{ClusterSecrets, Settings},
};
use baton_kubernetes::{
    collection::Extent,
    fence::Fence,
    informers::Task,
    request_metrics::RequestMetrics,
    target::{Target, Watcher},
    watch::{MAX_OBJECTS, WatchSpec, run},
};
use baton_runtime::clock::Clock;
use baton_sites::uptime::Uptime;

/// Number of objects in a page of a list.
const PAGE: u32 = 500;
/// Number of concurrent requests to the manager's own API server, for a start of the manager or the
/// loss of many clusters.
const AT_THE_HUB: usize = 16;

/// The existing clusters; cheap to clone. The tasks end with the last clone.
#[derive(Clone)]
pub struct Inventory {
    shared: Arc<Shared>,
    _tasks: Arc<[Task; 3]>,
}

impl Inventory {
    /// Starts the watches on Clusters and on their Secrets. Must be called within a tokio runtime.
    ///
    /// `changed` is called with the name of a cluster when its link has changed, when it is added
    /// or removed, when it has other labels, and when it turns out not to exist after
    /// [`Inventory::link`] was called for it; it must not block. Agents report in each period
    /// of the settings; an agent that is silent for three times as long is lost. Requests to clusters are counted in
    /// the metrics, and their writes must pass the fence.
    ///
    /// Missing rights and a missing CRD are no errors: they are logged, and the watches are
    /// retried.
    pub fn start(
        client: Client,
        settings: Settings<'_>,
        (metrics, fence): (&RequestMetrics, &Fence),
        clock: Clock,
        children: Watcher,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let heartbeat = settings.heartbeat;
        let ClusterSecrets {
            namespace,
            is_strict,
        } = settings.secrets;
        let shared = Arc::new(Shared {
            hub: client.clone(),
            namespace: namespace.to_owned(),
            metrics: metrics.clone(),
            fence: fence.clone(),
            children,
            changed: Box::new(changed),
            heartbeat,
            is_strict,
            heartbeats: Heartbeats::new(heartbeat),
            links: RwLock::default(),
            created: clock.now(),
            clock,
            requested_early: Mutex::new(Some(BTreeSet::new())),
            permits: Semaphore::new(AT_THE_HUB),
            extent: watch::Sender::new(Extent::Nothing),
            leading: watch::Sender::new(false),
            twins: Twins::new(settings.requires_unique),
        });
        let compared = Arc::clone(&shared);
        let registry = Arc::new(Mutex::new(Registry::new(Arc::clone(&shared))));
        let clusters = Arc::clone(&registry);
        let spec = |path: String, metadata_only| WatchSpec {
            path,
            label_selector: None,
            field_selector: None,
            metadata_only,
            max_objects: MAX_OBJECTS,
            page_size: PAGE,
            resumes: true,
            definition: None,
        };
        let tasks = [
            Task::spawn(run(
                client.clone(),
                WatchSpec {
                    definition: Some(kinds::CLUSTER.definition()),
                    ..spec(kinds::CLUSTER.path(None), false)
                },
                move |event| clusters.lock().cluster_event(&event),
            )),
            Task::spawn(run(
                client,
                spec(
                    format!("/api/v1/namespaces/{}/secrets", escape(namespace)),
                    true,
                ),
                move |event| registry.lock().secret_event(&event),
            )),
            Task::spawn(async move {
                let apply = |name: &str, usage| compared.set_usage(name, usage);
                compared.twins.run(apply).await;
            }),
        ];
        Self {
            shared,
            _tasks: Arc::new(tasks),
        }
    }

    /// Allows writes of the status of Clusters from now on. For the leader only; the other
    /// processes also connect, to be ready when they become the leader.
    pub fn start_reporting(&self) {
        self.shared.leading.send_replace(true);
    }

    /// Sets the UID of the hub, by which clusters are found that have it too.
    pub fn set_hub(&self, uid: &str) {
        self.shared.twins.set_hub(uid);
    }

    /// The present link to a cluster. A cluster that receives nothing because of its UID is
    /// [`ClusterLink::Down`].
    pub fn link(&self, cluster: &str) -> ClusterLink {
        self.shared.link(cluster)
    }

    /// True if an agent delivers in the cluster, or would if the cluster were not refused.
    pub fn has_agent(&self, cluster: &str) -> bool {
        let links = self.shared.links.read();
        let entry = links.get(cluster);
        entry.is_some_and(|entry| matches!(entry.link, ClusterLink::Pull(_)))
    }

    /// All Clusters by name; true if the manager or an agent is connected.
    pub fn connected(&self) -> BTreeMap<String, bool> {
        let links = self.shared.links.read();
        let connected = links
            .iter()
            .map(|(name, entry)| (name.clone(), entry.link.is_reached()));
        connected.collect()
    }

    /// The times since which a cluster has been reached without a break; `None` if it is not reached.
    pub fn uptime(&self, cluster: &str) -> Option<Uptime> {
        self.shared.uptime(cluster)
    }

    /// The labels of a Cluster; empty if there is no such Cluster.
    pub fn labels(&self, cluster: &str) -> Arc<BTreeMap<String, String>> {
        let links = self.shared.links.read();
        let entry = links.get(cluster);
        entry.map_or_else(Arc::default, |entry| Arc::clone(&entry.traits.labels))
    }

    /// The upgrade windows of a site, by its Cluster. A window that cannot be read is included, and
    /// never opens. Without the Cluster there is one such window: a Cluster that disappears in a pass
    /// must not open those that it had.
    pub fn upgrade_windows(&self, cluster: &str) -> Arc<[UpgradeWindow]> {
        let links = self.shared.links.read();
        let entry = links.get(cluster);
        entry.map_or_else(
            || [UpgradeWindow::default()].into(),
            |entry| Arc::clone(&entry.traits.windows),
        )
    }

    /// True if all Clusters were listed, so that a missing one does not exist.
    pub fn is_complete(&self) -> bool {
        *self.shared.extent.borrow() == Extent::All
    }

    /// The reason that the Clusters cannot be listed; `None` if they can. Cached Clusters stay.
    pub fn unreadable(&self) -> Option<String> {
        let extent = self.shared.extent.borrow();
        let cause = extent.failure();
        cause.map(|cause| format!("Clusters cannot be listed: {cause}"))
    }

    /// The labels and the connection of all Clusters, by the names of the Clusters.
    pub fn sites(&self) -> HashMap<String, InventorySite> {
        let links = self.shared.links.read();
        let sites = links.iter().map(|(name, entry)| {
            let site = InventorySite {
                labels: Arc::clone(&entry.traits.labels),
                is_lost: entry.link().is_lost(),
                uptime: entry.uptime,
            };
            (name.clone(), site)
        });
        sites.collect()
    }

    /// Namespace of the Secrets of Clusters.
    pub fn secrets_namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// The period of the agents' reports.
    pub fn heartbeat(&self) -> Duration {
        self.shared.heartbeat
    }

    /// Notes a report of an agent of a cluster. `noted` is the identity of the agent that delivers, as
    /// the manager before this one has noted it.
    pub fn agent_reported(&self, cluster: &str, noted: Option<&str>, report: AgentReport) {
        self.shared
            .heartbeats
            .agent_reported(cluster, noted, report);
    }

    /// Identity of the agent that delivers in a cluster; empty while it is unknown.
    pub fn agent(&self, cluster: &str) -> String {
        self.shared.heartbeats.agent(cluster)
    }

    /// All clusters whose objects are watched: those that are connected, and those that were
    /// connected and are expected to return.
    pub fn targets(&self) -> Vec<Target> {
        let links = self.shared.links.read();
        let entries = links.values();
        entries.filter_map(|entry| entry.target.clone()).collect()
    }

    /// Resolves when the Clusters were listed once, or the list has failed, for instance because
    /// the right or the CRD is missing. After a failure no link is [`ClusterLink::Unknown`] until a
    /// list succeeds.
    pub async fn listed(&self) {
        // The sender exists as long as `self`.
        let mut extent = self.shared.extent.subscribe();
        let _ = extent.wait_for(|extent| *extent != Extent::Nothing).await;
    }
}

/// The state that the tasks of all clusters share.
struct Shared {
    /// Client of the manager's own API server.
    hub: Client,
    /// Namespace of the Secrets.
    namespace: String,
    metrics: RequestMetrics,
    fence: Fence,
    children: Watcher,
    changed: Box<dyn Fn(&str) + Send + Sync>,
    /// The period of the agents' reports.
    heartbeat: Duration,
    /// True if a Secret has to name the server that its credentials are for.
    is_strict: bool,
    heartbeats: Heartbeats,
    links: RwLock<HashMap<String, Entry>>,
    /// Time since which clusters that are not known yet count as connecting.
    created: Timestamp,
    clock: Clock,
    /// Unknown names that were requested before all Clusters are known; `None` once all are known.
    requested_early: Mutex<Option<BTreeSet<String>>>,
    permits: Semaphore,
    /// The extent to which the Clusters are known. Clusters that were listed before a list fails
    /// stay.
    extent: watch::Sender<Extent>,
    leading: watch::Sender<bool>,
    twins: Twins,
}

impl Shared {
    fn link(&self, name: &str) -> ClusterLink {
        let links = self.links.read();
        if let Some(entry) = links.get(name) {
            return entry.link();
        }
        let Some(names) = &mut *self.requested_early.lock() else {
            return ClusterLink::Unknown;
        };
        names.insert(name.to_owned());
        ClusterLink::Down {
            reason: Reason::Connecting,
            message: "the Clusters have not been listed yet".to_owned(),
            since: self.created,
        }
    }

    /// Stores the extent to which the Clusters are known.
    fn set_extent(&self, now: &Extent) {
        let names = {
            let mut names = self.requested_early.lock();
            if *now == Extent::All {
                names.take()
            } else {
                names.get_or_insert_default();
                None
            }
        };
        for name in names.into_iter().flatten() {
            if matches!(self.link(&name), ClusterLink::Unknown) {
                (self.changed)(&name);
            }
        }
        self.extent.send_if_modified(|extent| {
            let changes = extent != now;
            if changes {
                now.clone_into(extent);
            }
            changes
        });
    }

    /// Sends a request to the manager's own API server when a permit is free.
    async fn at_the_hub<T>(&self, request: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        request.await
    }

    /// Adds a link, or replaces that of another entry.
    fn insert(&self, name: &str, id: u64, link: ClusterLink, before: Before) {
        let entry = Entry::new(id, link, before, self.clock.now());
        // The old entry is dropped after the lock is released.
        let old = self.links.write().insert(name.to_owned(), entry);
        drop(old);
        (self.changed)(name);
    }

    fn uptime(&self, name: &str) -> Option<Uptime> {
        let links = self.links.read();
        let entry = links.get(name).filter(|entry| entry.link().is_reached());
        entry.map(|entry| entry.uptime)
    }

    /// Sets the labels and upgrade windows of a Cluster.
    fn set_traits(&self, name: &str, traits: ClusterAttributes) {
        let mut links = self.links.write();
        let entry = links.get_mut(name);
        let Some(entry) = entry.filter(|entry| entry.traits != traits) else {
            return;
        };
        entry.traits = traits;
        drop(links);
        (self.changed)(name);
    }

    /// Sets the use of a cluster, by the UIDs of all clusters.
    fn set_usage(&self, name: &str, usage: Usage) {
        let mut links = self.links.write();
        let Some(entry) = links.get_mut(name) else {
            return;
        };
        let changes = entry.set_usage(usage, self.clock.now());
        drop(links);
        if changes {
            (self.changed)(name);
        }
    }

    /// Forgets the UID of a cluster, which is to connect to another address.
    fn forget_uid(&self, name: &str) {
        if self.twins.forget(name) {
            self.set_usage(name, self.twins.undecided());
        }
    }

    /// Changes the link of an entry. True if the link differs from the one before.
    fn set(&self, name: &str, id: u64, link: ClusterLink, target: Option<Target>) -> bool {
        let mut links = self.links.write();
        let Some(entry) = links.get_mut(name).filter(|entry| entry.id == id) else {
            return false;
        };
        let target = std::mem::replace(&mut entry.target, target);
        if entry.link.is_same(&link) {
            return false;
        }
        if link.is_lost() {
            entry.online_before = None;
        } else if !entry.link.is_reached() {
            let now = self.clock.now();
            entry.uptime = Uptime {
                online_since: Some(entry.online_before.unwrap_or(now)),
                in_touch_since: Some(now),
            };
        }
        if link.is_reached() {
            entry.online_before = None;
        }
        let link = std::mem::replace(&mut entry.link, link);
        drop(links);
        drop((link, target));
        (self.changed)(name);
        true
    }

    /// Publishes the state of a cluster: to the controllers, to the log, and through `health` to
    /// the status.
    fn publish(
        &self,
        (name, id): (&str, u64),
        now: Health,
        (link, target): (ClusterLink, Option<Target>),
        health: &watch::Sender<Health>,
    ) {
        // The attempts to connect fail with different texts.
        let is_new = match (&health.borrow().state, &now.state) {
            (
                ConnectionState::Down { reason: before, .. },
                ConnectionState::Down { reason, .. },
            ) => before != reason,
            _ => true,
        };
        if self.set(name, id, link, target) && is_new {
            match &now.state {
                ConnectionState::Connecting => tracing::info!(cluster = name, "connecting"),
                ConnectionState::Up => tracing::info!(cluster = name, "connected"),
                ConnectionState::Down { reason, message } => {
                    tracing::warn!(cluster = name, %reason, cause = message, "not connected");
                }
            }
        }
        health.send_replace(now);
    }

    fn remove(&self, name: &str) {
        self.twins.remove(name);
        let removed = self.links.write().remove(name);
        if removed.is_some() {
            (self.changed)(name);
        }
    }
}
