//! The clusters that phases can be delivered into, and the way to each of them.
//!
//! Each Cluster has a task of its own. Where the manager connects to it (`spec.connection: Push`), the task reads the
//! Secret of the same name in the clusters' namespace, connects, and checks the connection every half minute. Where an
//! agent connects to the hub (`Pull`), it waits for the reports of the agent.
//!
//! ```text
//! watch of Clusters ─────────────────► registry ──► one task each: connect ──► ClusterLink, for controllers
//! watch of Secrets (metadata only) ──►                             └► report ──► status of the Cluster
//! ```
//!
//! # Guarantees
//! - A Cluster is [`ClusterLink::Unknown`] only when the API server has said that there is none.
//! - A [`Target`] stays the same while its Cluster has the same uid and address and its Secret holds
//!   credentials: over lost connections and exchanged credentials alike. Its caches are not emptied,
//!   and requests under way end on the connection they began on.
//! - Credentials that are taken back, by deleting the Secret or by taking them out of it, are no
//!   longer used: the Target is given up. A clone of it goes on to use them, so take it from
//!   [`Inventory::link`] for each pass.
//! - Of a Secret that belongs to no Cluster nothing but its metadata is ever received.
//!
//! # Why not kube's watcher
//! It warns of a missing right at every attempt, and resumes a silent watch for ever, also that of an API server that
//! was restored from a backup; of Secrets it hides the version of a list, by which one that is gone counts as changed.
//!
//! # Caveats
//! - When the manager's own API server cannot be asked for a Secret, what is connected stays so.

mod address;
mod agent_reports;
mod check;
mod client;
mod connect;
mod connection;
mod credentials;
mod health;
mod link;
mod registry;
mod report;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use baton_apis::{UpgradeWindow, conditions::reasons, kinds, url::escape};
use jiff::Timestamp;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};

pub use self::{
    agent_reports::AgentReport,
    link::{ClusterLink, Contact, InventorySite},
};
use self::{
    agent_reports::Heartbeats,
    health::{Health, Standing},
    registry::{Registry, Traits},
};
use baton_kubernetes::{
    collection::Extent,
    fence::Fence,
    informers::Task,
    request_metrics::RequestMetrics,
    target::{Target, Watcher},
    watch::{WatchSpec, run},
};
use baton_runtime::clock::Clock;

/// Objects in a page of a list.
const PAGE: u32 = 500;
/// Requests to the manager's own API server side by side: when the manager starts, or many clusters are lost at once.
const AT_THE_HUB: usize = 16;

/// The clusters there are; cheap to clone. Its tasks end with the last clone.
#[derive(Clone)]
pub struct Inventory {
    shared: Arc<Shared>,
    _watches: Arc<[Task; 2]>,
}

/// The Secrets with the credentials of clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSecrets<'a> {
    /// Where they are.
    pub namespace: &'a str,
    /// Whether each has to name the server that its credentials are for.
    pub is_strict: bool,
}

impl Inventory {
    /// Starts the watches, on Clusters and on their Secrets. `changed` is called with a
    /// cluster's name when its link has become another one, also when it appears or goes, or turns out
    /// not to exist after [`Inventory::link`] was asked for it, and when it has other labels; it must not block. Agents
    /// report every `heartbeat`; one that is silent for three times as long is lost. Requests to clusters are counted
    /// in the metrics, and their writes let through by the fence. Must be called within a tokio runtime.
    ///
    /// Missing rights and a missing CRD are no errors: they are logged, and the watches go on trying.
    pub fn start(
        client: Client,
        secrets: ClusterSecrets<'_>,
        (metrics, fence): (&RequestMetrics, &Fence),
        clock: Clock,
        heartbeat: Duration,
        children: Watcher,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let ClusterSecrets {
            namespace,
            is_strict,
        } = secrets;
        let shared = Arc::new(Shared {
            hub: client.clone(),
            namespace: namespace.to_owned(),
            metrics: metrics.clone(),
            fence: fence.clone(),
            children,
            changed: Box::new(changed),
            heartbeat,
            is_strict,
            heartbeats: Heartbeats::default(),
            links: RwLock::default(),
            created: clock.now(),
            clock,
            asked_early: Mutex::new(Some(BTreeSet::new())),
            permits: Semaphore::new(AT_THE_HUB),
            known: watch::Sender::new(Extent::Nothing),
            leading: watch::Sender::new(false),
        });
        let registry = Arc::new(Mutex::new(Registry::new(Arc::clone(&shared))));
        let clusters = Arc::clone(&registry);
        let spec = |path: String, metadata_only| WatchSpec {
            path,
            label_selector: None,
            field_selector: None,
            metadata_only,
            page_size: PAGE,
            resumes: true,
            definition: None,
        };
        let watches = [
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
        ];
        Self {
            shared,
            _watches: Arc::new(watches),
        }
    }

    /// Lets the status of Clusters be written from now on. For the leader alone; everybody else
    /// connects too, and is ready when it becomes the leader.
    pub fn start_reporting(&self) {
        self.shared.leading.send_replace(true);
    }

    /// The way to a cluster, as it is now.
    pub fn link(&self, cluster: &str) -> ClusterLink {
        self.shared.link(cluster)
    }

    /// All Clusters by name, and whether the manager or an agent is connected to each.
    pub fn connected(&self) -> BTreeMap<String, bool> {
        let links = self.shared.links.read();
        let connected = links.iter().map(|(name, entry)| {
            let link = &entry.link;
            let is_up = matches!(
                link,
                ClusterLink::Up(_) | ClusterLink::Pull(Contact::Reported)
            );
            (name.clone(), is_up)
        });
        connected.collect()
    }

    /// Since when a cluster has been reached without a break in this process; the present time if it is not.
    pub fn in_touch_since(&self, cluster: &str) -> Timestamp {
        self.shared.in_touch_since(cluster)
    }

    /// The labels of a Cluster; none if there is no such Cluster.
    pub fn labels(&self, cluster: &str) -> Arc<BTreeMap<String, String>> {
        let links = self.shared.links.read();
        let entry = links.get(cluster);
        entry.map_or_else(Arc::default, |entry| Arc::clone(&entry.traits.labels))
    }

    /// When the applications of a site may be upgraded, as far as its Cluster says; none if there is no such Cluster.
    /// One that cannot be read is there all the same, and never opens.
    pub fn upgrade_windows(&self, cluster: &str) -> Arc<[UpgradeWindow]> {
        let links = self.shared.links.read();
        let entry = links.get(cluster);
        entry.map_or_else(Arc::default, |entry| Arc::clone(&entry.traits.windows))
    }

    /// Whether all Clusters were listed, so that one that is missing does not exist.
    pub fn is_complete(&self) -> bool {
        *self.shared.known.borrow() == Extent::All
    }

    /// Why it is not known which Clusters there are: they cannot be listed, and the cause. What was known stays.
    pub fn unreadable(&self) -> Option<String> {
        let known = self.shared.known.borrow();
        let cause = known.failure();
        cause.map(|cause| format!("Clusters cannot be listed: {cause}"))
    }

    /// All Clusters by name, as places that revisions are brought to.
    pub fn sites(&self) -> HashMap<String, InventorySite> {
        let links = self.shared.links.read();
        let sites = links.iter().map(|(name, entry)| {
            let site = InventorySite {
                labels: Arc::clone(&entry.traits.labels),
                is_lost: entry.link.is_lost(),
                online_since: entry.online_since,
            };
            (name.clone(), site)
        });
        sites.collect()
    }

    /// How often agents report.
    pub fn heartbeat(&self) -> Duration {
        self.shared.heartbeat
    }

    /// The agent of a cluster has reported now, perhaps also about its API server.
    pub fn agent_reported(&self, cluster: &str, report: Option<AgentReport>) {
        self.shared.heartbeats.agent_reported(cluster, report);
    }

    /// All clusters whose objects are watched: those that are connected, and those that were and are
    /// expected back.
    pub fn targets(&self) -> Vec<Target> {
        let links = self.shared.links.read();
        let entries = links.values();
        entries.filter_map(|entry| entry.target.clone()).collect()
    }

    /// Resolves when the Clusters were listed once, or could not be, for want of the right or the CRD
    /// for instance. In the latter case no link is [`ClusterLink::Unknown`] until they could.
    pub async fn listed(&self) {
        // The sender lives as long as `self`.
        let mut known = self.shared.known.subscribe();
        let _ = known.wait_for(|known| *known != Extent::Nothing).await;
    }
}

/// What the tasks of all clusters have in common.
struct Shared {
    /// For the manager's own API server.
    hub: Client,
    /// Where the Secrets are.
    namespace: String,
    metrics: RequestMetrics,
    fence: Fence,
    children: Watcher,
    changed: Box<dyn Fn(&str) + Send + Sync>,
    /// How often agents report.
    heartbeat: Duration,
    /// Whether a Secret has to name the server that its credentials are for.
    is_strict: bool,
    heartbeats: Heartbeats,
    links: RwLock<HashMap<String, Entry>>,
    /// Since when clusters that are not known yet count as about to be connected to.
    created: Timestamp,
    clock: Clock,
    /// Names that were asked for while not all Clusters are known, and are not among those that are;
    /// `None` while all are.
    asked_early: Mutex<Option<BTreeSet<String>>>,
    permits: Semaphore,
    /// How much is known of which Clusters there are. What was listed before a list fails stays.
    known: watch::Sender<Extent>,
    leading: watch::Sender<bool>,
}

struct Entry {
    /// Only the task of this number may change it: one that was ended may still be running.
    id: u64,
    link: ClusterLink,
    /// See [`InventorySite::online_since`].
    online_since: Timestamp,
    /// What is watched, also while the link is down.
    target: Option<Target>,
    traits: Traits,
}

impl Shared {
    fn link(&self, name: &str) -> ClusterLink {
        let links = self.links.read();
        if let Some(entry) = links.get(name) {
            return entry.link.clone();
        }
        let Some(asked) = &mut *self.asked_early.lock() else {
            return ClusterLink::Unknown;
        };
        asked.insert(name.to_owned());
        ClusterLink::Down {
            reason: reasons::CONNECTING,
            message: "the Clusters are not known yet".to_owned(),
            since: self.created,
        }
    }

    /// Notes how much is known of which Clusters there are.
    fn set_known(&self, now: &Extent) {
        let asked = {
            let mut asked = self.asked_early.lock();
            if *now == Extent::All {
                asked.take()
            } else {
                asked.get_or_insert_default();
                None
            }
        };
        for name in asked.into_iter().flatten() {
            if matches!(self.link(&name), ClusterLink::Unknown) {
                (self.changed)(&name);
            }
        }
        self.known.send_if_modified(|known| {
            let changes = known != now;
            if changes {
                now.clone_into(known);
            }
            changes
        });
    }

    /// Makes a request to the manager's own API server when its turn has come.
    async fn at_the_hub<T>(&self, request: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        request.await
    }

    /// Adds a link, or replaces that of another entry.
    fn insert(&self, name: &str, id: u64, link: ClusterLink, traits: Traits) {
        let entry = Entry {
            id,
            link,
            online_since: self.clock.now(),
            target: None,
            traits,
        };
        // What was there is dropped when the lock is free again.
        let old = self.links.write().insert(name.to_owned(), entry);
        drop(old);
        (self.changed)(name);
    }

    fn in_touch_since(&self, name: &str) -> Timestamp {
        let links = self.links.read();
        let entry = links.get(name).filter(|entry| entry.link.is_reached());
        entry.map_or_else(|| self.clock.now(), |entry| entry.online_since)
    }

    /// Gives a Cluster other labels or upgrade windows.
    fn set_traits(&self, name: &str, traits: Traits) {
        let mut links = self.links.write();
        let entry = links.get_mut(name);
        let Some(entry) = entry.filter(|entry| entry.traits != traits) else {
            return;
        };
        entry.traits = traits;
        drop(links);
        (self.changed)(name);
    }

    /// Changes a link of an entry. Returns whether it has become another one.
    fn set(&self, name: &str, id: u64, link: ClusterLink, target: Option<Target>) -> bool {
        let mut links = self.links.write();
        let Some(entry) = links.get_mut(name).filter(|entry| entry.id == id) else {
            return false;
        };
        let target = std::mem::replace(&mut entry.target, target);
        if entry.link.is_same(&link) {
            return false;
        }
        if !link.is_lost() && !entry.link.is_reached() {
            entry.online_since = self.clock.now();
        }
        let link = std::mem::replace(&mut entry.link, link);
        drop(links);
        drop((link, target));
        (self.changed)(name);
        true
    }

    /// Publishes the state of a cluster: to the controllers, to the log, and by `health` to the status.
    fn publish(
        &self,
        (name, id): (&str, u64),
        now: Health,
        (link, target): (ClusterLink, Option<Target>),
        health: &watch::Sender<Health>,
    ) {
        if self.set(name, id, link, target) {
            match &now.standing {
                Standing::Connecting => tracing::info!(cluster = name, "connecting"),
                Standing::Up => tracing::info!(cluster = name, "connected"),
                Standing::Down { reason, message } => {
                    tracing::warn!(cluster = name, reason, cause = message, "not connected");
                }
            }
        }
        health.send_replace(now);
    }

    fn remove(&self, name: &str) {
        let removed = self.links.write().remove(name);
        if removed.is_some() {
            (self.changed)(name);
        }
    }
}
