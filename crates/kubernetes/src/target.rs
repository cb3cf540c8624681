//! One cluster that contains objects of revisions, and the only access to its children.
//!
//! The manager has one [`Target`] for its own cluster. A target does not decide which revision owns
//! an object, or which requests are sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::future::join_all;
use kube::Client;
use tokio::{sync::mpsc::UnboundedSender, time::timeout};

use crate::{
    account::rights::Rights,
    apply::post::Applicable,
    blockers::{Blocker, Blockers, LastObserved},
    discovery::{Discovery, DiscoveryError, Location, Resource},
    informers::{Informers, State, Task, WatchReport},
    key_locks::KeyLocks,
    kind_watch,
    object::Stored,
    permits::Permits,
    storage_classes::{StorageClasses, storage_class},
    store::{IsOwner, ObjectChange, budget::Budget},
    user::User,
};
use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    revision::{KindScope, KindState, Kinds},
};

/// Number of concurrent requests about children; more gain nothing.
pub(crate) const IN_FLIGHT: usize = 16;
/// Time limit of a first list for a caller of [`Target::observe`].
const FIRST_LIST: Duration = Duration::from_secs(30);

/// A change that concerns revisions.
#[derive(Clone, Debug)]
pub enum TargetEvent {
    /// A child changed.
    Changed(ObjectChange),
    /// The first list of a kind is complete. Its objects are not reported one by one.
    Listed {
        /// Kind and version.
        gvk: Gvk,
    },
    /// An object that blocks a user was deleted, or a part of it changed that decides about
    /// adoption.
    Blocker {
        /// The user that is blocked.
        user: User,
    },
    /// The server of a kind does not answer any more, or answers again.
    Availability {
        /// Kind and version.
        gvk: Gvk,
        /// The users of the kind.
        users: Vec<User>,
    },
    /// A kind of this group may have been added, changed or removed.
    KindsChanged {
        /// API group, empty for the core group.
        group: String,
    },
}

/// Limit of the bytes of the stored objects of another cluster: about 20,000 objects.
pub const OTHER_CLUSTER: usize = 64 << 20;

/// The receiver of changes in clusters.
#[derive(Clone)]
pub struct Watcher {
    /// Receives the changes.
    pub events: UnboundedSender<TargetEvent>,
    /// Accepts the UIDs of owners: an object is stored with its text only if it has one of them.
    pub is_owner: IsOwner,
}

/// The kinds of a revision cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// It is unknown if the kind is served.
    #[error("{0}: {1}")]
    Discover(Gvk, #[source] DiscoveryError),
    /// Listing failed. The list is retried in the background.
    #[error("listing {0}: {1}")]
    List(Gvk, Arc<str>),
    /// The manager may not list the kind.
    #[error("listing {0}: {1}")]
    Forbidden(Gvk, Arc<str>),
    /// The list takes too long.
    #[error("listing {0}: no complete list within {secs} s", secs = FIRST_LIST.as_secs())]
    Slow(Gvk),
}

/// The state of the kinds that a user registered.
#[derive(Debug, Default)]
pub struct Observation {
    /// The kinds that exist.
    pub kinds: Kinds,
    /// The kinds that are not watched though they should be, with the reasons. The failures may be
    /// temporary.
    pub failures: BTreeMap<Gvk, ObserveError>,
}

impl Observation {
    /// Notes the reason that a kind is not watched; `state` is its state if that is known
    /// nevertheless.
    fn fail(&mut self, gvk: &Gvk, state: Option<KindState>, error: ObserveError) {
        let state = state.unwrap_or_else(|| KindState::Away(error.to_string()));
        self.kinds.insert(gvk.clone(), state);
        self.failures.insert(gvk.clone(), error);
    }
}

/// A cluster; cheap to clone.
///
/// # Guarantees
/// - After [`Target::observe`], a child of an observed kind that [`Target::get`] does not find did
///   not exist with our label when the kind was listed, and no write of ours has created it since.
/// - Every change of a child is sent as an event once, with its present and former owners.
///
/// # Caveats
/// - Children are observed by their label. An object without it has to be read ([`Target::send`]
///   with a `Get`), and watched as a [`Blocker`].
/// - Must be made and used within a tokio runtime. Its watches end with the last clone.
/// - The client must not retry by itself (`kube::Config::default_retry`, which is on by default):
///   retries would hide that a server is busy, and repeat writes that may have been carried out.
#[derive(Clone)]
pub struct Target(pub(super) Arc<Inner>);

/// Identifies a [`Target`] without keeping its watches running.
pub struct TargetId(Weak<Inner>);

impl TargetId {
    /// True if this is the ID of the target or of a clone of it.
    pub fn is_of(&self, target: &Target) -> bool {
        // The address is not used again while this reference exists.
        Weak::as_ptr(&self.0) == Arc::as_ptr(&target.0)
    }

    /// True if a clone of the target still exists.
    pub fn is_in_use(&self) -> bool {
        self.0.strong_count() > 0
    }
}

pub(super) struct Inner {
    pub client: Client,
    pub discovery: Arc<Discovery>,
    pub informers: Arc<Informers>,
    pub permits: Arc<Permits>,
    pub creating: KeyLocks,
    pub applicable: Applicable,
    pub rights: Rights,
    pub storage_classes: StorageClasses,
    blockers: Arc<Blockers>,
    /// Names of the custom resource definitions that exist.
    definitions: Arc<kind_watch::Names>,
    _definitions: Task,
}

impl Inner {
    /// True if a resource has a custom resource definition. False also as long as that is unknown.
    pub(super) fn is_defined(&self, resource: &Resource, group: &str) -> bool {
        let name = format!("{}.{group}", resource.plural);
        self.definitions
            .borrow()
            .as_ref()
            .is_some_and(|names| names.contains(&name))
    }
}

impl Target {
    /// Connects to the cluster in which the process runs.
    #[must_use]
    pub fn new(client: Client, watcher: Watcher) -> Self {
        Self::within(client, watcher, usize::MAX)
    }

    /// Connects to a cluster of which the stored objects take at most [`OTHER_CLUSTER`] bytes.
    #[must_use]
    pub fn of_other_cluster(client: Client, watcher: Watcher) -> Self {
        Self::within(client, watcher, OTHER_CLUSTER)
    }

    fn within(client: Client, Watcher { events, is_owner }: Watcher, most: usize) -> Self {
        let discovery = Arc::new(Discovery::new(client.clone()));
        let blocked = events.clone();
        let blockers = Arc::new(Blockers::new(
            client.clone(),
            Arc::clone(&discovery),
            Arc::new(move |user| {
                let _ = blocked.send(TargetEvent::Blocker { user });
            }),
        ));
        let changes = events.clone();
        // A write that is under way keeps its store, which must not keep the watches on blockers.
        let blocking = Arc::downgrade(&blockers);
        // The receiver of events is dropped when the manager shuts down.
        let informers = Arc::new_cyclic(|informers: &Weak<Informers>| {
            let informers = informers.clone();
            let report = move |informed| {
                if let (WatchReport::Changed(change), Some(blockers)) =
                    (&informed, blocking.upgrade())
                {
                    blockers.cache_changed(&change.key);
                }
                let _ = changes.send(match informed {
                    WatchReport::Changed(change) => TargetEvent::Changed(change),
                    WatchReport::Listed(gvk) => TargetEvent::Listed { gvk },
                    WatchReport::Availability(gvk) => {
                        let informers = informers.upgrade();
                        let users = informers.map_or_else(Vec::new, |it| it.users_of(&gvk));
                        TargetEvent::Availability { gvk, users }
                    }
                });
            };
            let discovery = Arc::clone(&discovery);
            let stored = (is_owner, Budget::new(most));
            Informers::new(client.clone(), discovery, stored, Arc::new(report))
        });
        let names = Arc::new(kind_watch::Names::new(None));
        let definitions = Task::spawn(kind_watch::watch(
            client.clone(),
            Arc::clone(&discovery),
            Arc::downgrade(&informers),
            Arc::clone(&names),
            Arc::new(move |group| {
                let _ = events.send(TargetEvent::KindsChanged { group });
            }),
        ));
        Self(Arc::new(Inner {
            client,
            discovery,
            informers,
            permits: Permits::new(IN_FLIGHT),
            creating: KeyLocks::default(),
            applicable: Applicable::default(),
            rights: Rights::default(),
            storage_classes: StorageClasses::default(),
            blockers,
            definitions: names,
            _definitions: definitions,
        }))
    }

    /// Reports if a storage class does not exist; false also if that cannot be found out.
    ///
    /// One request; none for some minutes after the class was found.
    pub async fn lacks_storage_class(&self, name: &str) -> bool {
        let (classes, now) = (&self.0.storage_classes, Instant::now());
        if classes.is_there(name, now) {
            return false;
        }
        let Blocker { gvk, key } = storage_class(name);
        match self.send(None, &gvk, &key, &Request::Get).await {
            Answer::NotFound => true,
            Answer::Object(_) => {
                classes.add(name, now);
                false
            }
            _ => false,
        }
    }

    /// The client of the API server, for requests about other objects than children. Its requests
    /// are counted, and its writes fenced, as those on children.
    pub fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Watches children of these kinds for a user. The set replaces the kinds that the user
    /// registered before.
    ///
    /// A kind that is not served in the named version is observed through another version. If a
    /// kind cannot be observed now the user stays registered, so the watch is retried; the user has
    /// to try again later.
    pub async fn observe(&self, user: &User, gvks: &BTreeSet<Gvk>) -> Observation {
        let locate = |gvk| async move { (gvk, self.0.discovery.locate(gvk).await) };
        let mut observation = Observation::default();
        let mut served = Vec::new();
        for (gvk, location) in join_all(gvks.iter().map(locate)).await {
            let (through, resource) = match location {
                Ok(Location::Here(resource)) => (gvk.clone(), resource),
                Ok(Location::Elsewhere(other, resource)) => (other, resource),
                Ok(Location::Nowhere) => {
                    if let Some(state) = self.unserved(gvk).await {
                        observation.kinds.insert(gvk.clone(), state);
                    }
                    continue;
                }
                Err(source) => {
                    observation.fail(gvk, None, ObserveError::Discover(gvk.clone(), source));
                    continue;
                }
            };
            if resource.watchable {
                served.push((gvk, through, resource));
            } else {
                let kinds = &mut observation.kinds;
                kinds.insert(gvk.clone(), KindState::Unmanageable);
            }
        }
        // Kinds that are not served are registered as well, because the user waits for them.
        let mut in_use = gvks.clone();
        in_use.extend(served.iter().map(|(_, through, _)| through.clone()));
        let watchable: Vec<_> = served
            .iter()
            .map(|(_, through, resource)| (through, Arc::clone(resource)))
            .collect();
        let watched = self.0.informers.register(user, &in_use, &watchable);
        for ((gvk, through, resource), mut state) in served.into_iter().zip(watched) {
            let settled = timeout(FIRST_LIST, state.wait_for(|state| *state != State::Listing));
            let other_version = (through != *gvk).then(|| through.version.clone());
            let as_served = |is_watched| KindState::Served {
                scope: resource.scope,
                other_version: other_version.clone(),
                is_watched,
            };
            let error = match settled.await.map(|state| state.map(|state| state.clone())) {
                Ok(Ok(State::Ready)) => {
                    observation.kinds.insert(gvk.clone(), as_served(true));
                    continue;
                }
                Ok(Ok(State::Failed(cause))) => ObserveError::List(through, cause),
                Ok(Ok(State::Forbidden(cause))) => ObserveError::Forbidden(through, cause),
                // Discovery is behind. Nothing is known until it is asked again.
                Ok(Ok(State::Unserved)) => {
                    let cause =
                        "the kind is not served any more, or not by all API servers yet".into();
                    observation.fail(gvk, None, ObserveError::List(through, cause));
                    continue;
                }
                // Another caller has started a new watch, because the kind is served again.
                Ok(Err(_)) => {
                    ObserveError::List(through, "the kind has just been served again".into())
                }
                Ok(Ok(State::Listing)) | Err(_) => ObserveError::Slow(through),
            };
            observation.fail(gvk, Some(as_served(false)), error);
        }
        observation
    }

    /// The state of a kind that is served in no version; `None` if the kind does not exist.
    async fn unserved(&self, gvk: &Gvk) -> Option<KindState> {
        match kind_watch::defining(&self.0.client, &self.0.definitions, gvk).await {
            Ok(None) => None,
            Ok(Some(definition)) => Some(KindState::Unknown(format!(
                "{gvk}: CustomResourceDefinition {definition} serves no version of it"
            ))),
            Err(cause) => Some(KindState::Away(format!("{gvk}: {cause}"))),
        }
    }

    /// The ID of this target.
    pub fn id(&self) -> TargetId {
        TargetId(Arc::downgrade(&self.0))
    }

    /// True if both are clones of the same target.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Removes a user and its blockers.
    pub fn release(&self, user: &User) {
        self.0.informers.release(user);
        self.watch_blockers(user, []);
    }

    /// The current state of a child, see [`crate::store`].
    pub fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.0.informers.store(gvk)?.get(namespace, name)
    }

    /// The last state of a child that has ended and is gone, see [`crate::store`].
    pub fn ended(&self, gvk: &Gvk, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.0.informers.store(gvk)?.ended(namespace, name)
    }

    /// The children of a kind that have an owner whose UID `by` accepts, each with that UID.
    pub fn owned(&self, gvk: &Gvk, by: impl Fn(&str) -> bool) -> Vec<(ObjectKey, Box<str>)> {
        let store = self.0.informers.store(gvk);
        store.map_or_else(Vec::new, |store| store.owned(by))
    }

    /// Stores fingerprints with a child: of the wanted object, and of the live object that was
    /// found equal to it. They are dropped when another object replaces the child.
    pub fn store_fingerprints(&self, gvk: &Gvk, key: &ObjectKey, settled: (u64, u64)) {
        if let Some(store) = self.0.informers.store(gvk) {
            store.set_fingerprints(&key.namespace, &key.name, settled);
        }
    }

    /// Watches exactly these objects, which block a user; none to stop. Each has the state in which
    /// the user observed it: if the present state differs, an event is sent at once.
    pub fn watch_blockers(
        &self,
        user: &User,
        blockers: impl IntoIterator<Item = (Blocker, LastObserved)>,
    ) {
        self.0.blockers.set(user, blockers);
    }

    /// The watched kinds, each with its number of objects.
    pub fn stats(&self) -> Vec<(Gvk, usize)> {
        self.0.informers.stats()
    }

    /// The resource that serves a kind; `None` if the kind is not served.
    ///
    /// # Errors
    /// If the request to the server fails.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, DiscoveryError> {
        self.0.discovery.resolve(gvk).await
    }

    /// The scope of a kind; `None` if the kind is not served.
    ///
    /// # Errors
    /// If the request to the server fails.
    pub async fn scope(&self, gvk: &Gvk) -> Result<Option<KindScope>, DiscoveryError> {
        Ok(self.resolve(gvk).await?.map(|resource| resource.scope))
    }
}
