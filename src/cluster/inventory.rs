//! The clusters that phases can be delivered into, and the way to each of them.
//!
//! A Cluster that the manager connects to (`spec.connection: Push`) has a task of its own, which reads
//! the Secret of the same name in the clusters' namespace, connects, and checks every half minute
//! whether the cluster is still there. The task of a cluster whose agent connects to the hub (`Pull`)
//! waits to hear of the agent instead. No task waits for another one.
//!
//! ```text
//! watch of Clusters ─────────────────► registry ──► one task each: connect ──► Link, for controllers
//! watch of Secrets (metadata only) ──►                             └► report ──► status of the Cluster
//! ```
//!
//! # Guarantees
//! - [`Link::Unknown`] is said of a Cluster only when the API server has said that there is none.
//! - A [`Target`] stays the same while its Cluster has the same uid and address and its Secret holds
//!   credentials: over lost connections and exchanged credentials alike. Its caches are not emptied,
//!   and requests under way end on the connection they began on.
//! - Credentials that are taken back, by deleting the Secret or by taking them out of it, are no
//!   longer used: the Target is given up. Who still holds a clone goes on to use it; it is to be
//!   taken from [`Inventory::link`] anew for each pass.
//! - Of a Secret that belongs to no Cluster nothing but its metadata is ever received.
//!
//! # Caveats
//! - When the manager's own API server cannot be asked for a Secret, what is connected stays so.

mod address;
mod check;
mod client;
mod connect;
mod credentials;
pub(crate) mod delay;
mod health;
mod listen;
mod registry;
mod report;
mod text;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use baton_apis::{conditions::reasons, constants::CLUSTER_API_VERSION};
use jiff::Timestamp;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, mpsc::UnboundedSender, watch};

pub use self::listen::Word;
use self::{
    health::{Health, Standing},
    listen::Beats,
    registry::Registry,
};
use super::{
    informers::Task,
    target::{Target, TargetEvent},
    watch::{WatchSpec, run},
    wire,
};
use crate::telemetry::metrics::Metrics;

/// Objects in a page of a list.
const PAGE: u32 = 500;
/// Requests to the manager's own API server side by side: all clusters are looked at when the
/// manager starts, and many at once can be lost.
const AT_THE_HUB: usize = 16;

/// The clusters there are; cheap to clone. Its tasks end with the last clone.
#[derive(Clone)]
pub struct Inventory {
    shared: Arc<Shared>,
    _watches: Arc<[Task; 2]>,
}

/// The way to a cluster.
#[derive(Clone)]
pub enum Link {
    /// There is no such Cluster.
    Unknown,
    /// An agent serves it.
    Pull(Contact),
    /// The manager connects to it, but not successfully at present.
    Down {
        /// Reason of the condition `Connected`.
        reason: &'static str,
        /// One line for people, with the cause.
        message: String,
        /// Since when it has been so, also over a restart of the manager.
        since: Timestamp,
    },
    /// The manager is connected to it.
    Up(Target),
}

/// How it stands with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// Nothing has been heard of it yet, for a short time.
    Expected,
    /// It was heard of, and can reach its API server.
    Heard,
    /// It is silent, or cannot reach its API server.
    Lost {
        /// One line for people.
        message: String,
        /// Since when it has been so, also over a restart of the manager.
        since: Timestamp,
    },
}

impl Inventory {
    /// Starts the watches, on Clusters and on Secrets in `namespace`. `changed` is called with a
    /// cluster's name when its link has become another one, also when it appears or goes, or turns out
    /// not to exist after [`Inventory::link`] was asked for it; it must not block. Agents are to be heard of
    /// every `heartbeat`; one that is not for three times as long is lost. Must be called within a tokio
    /// runtime.
    ///
    /// Missing rights and a missing CRD are no errors: they are logged, and the watches go on trying.
    pub fn start(
        client: Client,
        namespace: &str,
        metrics: &Metrics,
        heartbeat: Duration,
        events: UnboundedSender<TargetEvent>,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            hub: client.clone(),
            namespace: namespace.to_owned(),
            metrics: metrics.clone(),
            events,
            changed: Box::new(changed),
            heartbeat,
            beats: Beats::default(),
            links: RwLock::default(),
            asked_early: Mutex::new(Some(BTreeSet::new())),
            permits: Semaphore::new(AT_THE_HUB),
            known: watch::Sender::new(Known::Nothing),
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
        };
        let watches = [
            Task::spawn(run(
                client.clone(),
                spec(format!("/apis/{CLUSTER_API_VERSION}/clusters"), false),
                move |event| clusters.lock().cluster_event(&event),
            )),
            Task::spawn(run(
                client,
                spec(
                    format!("/api/v1/namespaces/{}/secrets", wire::escape(namespace)),
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
    /// connects too, and is ready when it comes to lead.
    pub fn start_reporting(&self) {
        self.shared.leading.send_replace(true);
    }

    /// The way to a cluster, as it is now.
    #[must_use]
    pub fn link(&self, cluster: &str) -> Link {
        self.shared.link(cluster)
    }

    /// How often agents are to be heard of.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.shared.heartbeat
    }

    /// The agent of a cluster was heard of now, and perhaps what it says of its API server.
    pub fn heard(&self, cluster: &str, word: Option<Word>) {
        self.shared.beats.heard(cluster, word);
    }

    /// All clusters whose objects are watched: those that are connected, and those that were and are
    /// expected back.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let links = self.shared.links.read();
        let entries = links.by_name.values();
        entries.filter_map(|entry| entry.target.clone()).collect()
    }

    /// Resolves when the Clusters were listed once, or could not be, for want of the right or the CRD
    /// for instance. In the latter case no link is [`Link::Unknown`] until they could.
    pub async fn listed(&self) {
        // The sender lives as long as `self`.
        let mut known = self.shared.known.subscribe();
        let _ = known.wait_for(|known| *known != Known::Nothing).await;
    }
}

/// How much is known of which Clusters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// The API server has not answered yet.
    Nothing,
    /// It does not tell.
    Untold,
    /// It has told all of them.
    All,
}

/// What the tasks of all clusters have in common.
struct Shared {
    /// For the manager's own API server.
    hub: Client,
    /// Where the Secrets are.
    namespace: String,
    metrics: Metrics,
    events: UnboundedSender<TargetEvent>,
    changed: Box<dyn Fn(&str) + Send + Sync>,
    /// How often agents are to be heard of.
    heartbeat: Duration,
    beats: Beats,
    links: RwLock<Links>,
    /// Names that were asked for before all Clusters were known, and are not among those that were;
    /// `None` from then on.
    asked_early: Mutex<Option<BTreeSet<String>>>,
    permits: Semaphore,
    known: watch::Sender<Known>,
    leading: watch::Sender<bool>,
}

struct Links {
    by_name: HashMap<String, Entry>,
    created: Timestamp,
}

struct Entry {
    /// Only the task of this number may change it: one that was told to end may still have a word to
    /// say.
    id: u64,
    link: Link,
    /// What is watched, also while the link is down.
    target: Option<Target>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            created: Timestamp::now(),
        }
    }
}

impl Shared {
    fn link(&self, name: &str) -> Link {
        let links = self.links.read();
        if let Some(entry) = links.by_name.get(name) {
            return entry.link.clone();
        }
        let Some(asked) = &mut *self.asked_early.lock() else {
            return Link::Unknown;
        };
        asked.insert(name.to_owned());
        Link::Down {
            reason: reasons::CONNECTING,
            message: "the Clusters are not known yet".to_owned(),
            since: links.created,
        }
    }

    /// More is known of which Clusters there are.
    fn set_known(&self, now: Known) {
        if now == Known::All {
            let asked = self.asked_early.lock().take();
            for name in asked.into_iter().flatten() {
                if matches!(self.link(&name), Link::Unknown) {
                    (self.changed)(&name);
                }
            }
        }
        self.known.send_if_modified(|known| {
            let is_more = *known < now;
            *known = now.max(*known);
            is_more
        });
    }

    /// Makes a request to the manager's own API server when its turn has come.
    async fn at_the_hub<T>(&self, request: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        request.await
    }

    /// Adds a link, or replaces that of another entry.
    fn insert(&self, name: &str, id: u64, link: Link) {
        let entry = Entry {
            id,
            link,
            target: None,
        };
        // What was there is dropped when the lock is free again.
        let old = self.links.write().by_name.insert(name.to_owned(), entry);
        drop(old);
        (self.changed)(name);
    }

    /// Changes a link of an entry. Returns whether it has become another one.
    fn set(&self, name: &str, id: u64, link: Link, target: Option<Target>) -> bool {
        let mut links = self.links.write();
        let Some(entry) = links.by_name.get_mut(name).filter(|entry| entry.id == id) else {
            return false;
        };
        let target = std::mem::replace(&mut entry.target, target);
        if entry.link.is_same(&link) {
            return false;
        }
        let link = std::mem::replace(&mut entry.link, link);
        drop(links);
        drop((link, target));
        (self.changed)(name);
        true
    }

    /// Tells how it stands with a cluster: to the controllers, to the log, and by `health` to the status.
    fn tell(
        &self,
        (name, id): (&str, u64),
        now: Health,
        (link, target): (Link, Option<Target>),
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
        let removed = self.links.write().by_name.remove(name);
        if removed.is_some() {
            (self.changed)(name);
        }
    }
}

impl Link {
    /// The link to a cluster that an agent serves.
    fn pull(health: &Health) -> Self {
        Self::Pull(match &health.standing {
            Standing::Connecting => Contact::Expected,
            Standing::Up => Contact::Heard,
            Standing::Down { message, .. } => Contact::Lost {
                message: message.clone(),
                since: health.since,
            },
        })
    }

    /// The link to a cluster that is not up.
    fn down(health: &Health) -> Self {
        let (reason, message) = match &health.standing {
            Standing::Down { reason, message } => (*reason, message.clone()),
            Standing::Connecting | Standing::Up => {
                (reasons::CONNECTING, "there is no answer yet".to_owned())
            }
        };
        Self::Down {
            reason,
            message,
            since: health.since,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, Self::Unknown) => true,
            (Self::Pull(one), Self::Pull(other)) => one == other,
            (Self::Up(one), Self::Up(other)) => Arc::ptr_eq(&one.0, &other.0),
            (
                Self::Down {
                    reason,
                    message,
                    since,
                },
                Self::Down {
                    reason: other_reason,
                    message: other_message,
                    since: other_since,
                },
            ) => (reason, message, since) == (other_reason, other_message, other_since),
            _ => false,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Pull(Contact::Expected) => f.write_str("Pull"),
            Self::Pull(Contact::Heard) => f.write_str("Pull(heard)"),
            Self::Pull(Contact::Lost { message, .. }) => write!(f, "Pull(lost: {message})"),
            Self::Down {
                reason, message, ..
            } => write!(f, "Down({reason}: {message})"),
            Self::Up(_) => f.write_str("Up"),
        }
    }
}
