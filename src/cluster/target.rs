//! One cluster that holds objects of revisions: the only way to its children.
//!
//! The manager has one [`Target`] for its own cluster. Which revision owns an object, and what is
//! to be done about it, is not known here.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
use kube::Client;
use tokio::{
    sync::{Semaphore, mpsc::UnboundedSender},
    time::timeout,
};

use super::{
    apply::KeyLocks,
    blockers::{Blocker, Blockers},
    crds,
    discovery::{Discovery, DiscoveryError, Resource},
    informers::{Informers, State, Task},
    object::Stored,
    store::ObjectChange,
};
use crate::engine::{
    Gvk, ObjectKey,
    revision::{KindScope, Kinds},
};

/// Child requests side by side; more than this gains nothing.
pub(crate) const IN_FLIGHT: usize = 16;
/// How long a first list may take before its users are told that it hangs.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// Something happened that concerns revisions.
#[derive(Clone, Debug)]
pub enum TargetEvent {
    /// A child changed: its owners are to be looked at again.
    Changed(ObjectChange),
    /// An object that a user waits for has changed in what decides about adoption, or is gone.
    Blocker {
        /// Whoever asked to watch it.
        user: String,
    },
    /// A kind of this group may have appeared, changed or gone.
    KindsChanged {
        /// API group, empty for the core group.
        group: String,
    },
}

/// The kinds of a revision cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// Whether it is served is unknown.
    #[error("{gvk}: {source}")]
    Discover {
        /// The kind.
        gvk: Gvk,
        /// What went wrong.
        source: DiscoveryError,
    },
    /// It is served, but does not keep objects.
    #[error("{gvk} cannot be listed and watched, so its objects cannot be managed")]
    Unwatchable {
        /// The kind.
        gvk: Gvk,
    },
    /// Listing failed, for instance because it is forbidden. It is tried again meanwhile.
    #[error("listing {gvk}: {cause}")]
    List {
        /// The kind.
        gvk: Gvk,
        /// The server's or client's word.
        cause: Arc<str>,
    },
    /// The list takes too long.
    #[error("listing {gvk}: no complete list within {} s", FIRST_LIST.as_secs())]
    Slow {
        /// The kind.
        gvk: Gvk,
    },
}

/// A cluster; cheap to clone.
///
/// # Guarantees
/// - After [`Target::observe`] a child of one of the kinds that [`Target::get`] does not find did
///   not exist with our label when the kind was listed, and no write of ours has created it since.
/// - Every change of a child is sent as an event once, with its owners of before and after.
///
/// # Caveats
/// - Children are seen by their label. An object without it has to be read ([`Target::send`] with a
///   `Get`), and watched as a [`Blocker`].
/// - Must be made and used within a tokio runtime. Its watches end with the last clone.
/// - The client must not retry by itself (`kube::Config::default_retry`, which is on by default):
///   it would hide what a busy server says, and repeat writes that may have happened.
#[derive(Clone)]
pub struct Target(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub client: Client,
    pub discovery: Arc<Discovery>,
    pub informers: Arc<Informers>,
    pub permits: Semaphore,
    pub creating: KeyLocks,
    blockers: Blockers,
    _definitions: Task,
}

impl Target {
    /// Connects to a cluster whose objects name their owners by owner references.
    #[must_use]
    pub fn new(client: Client, events: UnboundedSender<TargetEvent>) -> Self {
        let discovery = Arc::new(Discovery::new(client.clone()));
        let changes = events.clone();
        // The receiver of events is gone when the manager shuts down.
        let informers = Arc::new(Informers::new(
            client.clone(),
            Arc::clone(&discovery),
            Arc::new(move |change| {
                let _ = changes.send(TargetEvent::Changed(change));
            }),
        ));
        let looks = events.clone();
        let blockers = Blockers::new(
            client.clone(),
            Arc::clone(&discovery),
            Arc::new(move |user| {
                let _ = looks.send(TargetEvent::Blocker { user });
            }),
        );
        let definitions = Task::spawn(crds::watch(
            client.clone(),
            Arc::clone(&discovery),
            Arc::downgrade(&informers),
            events,
        ));
        Self(Arc::new(Inner {
            client,
            discovery,
            informers,
            permits: Semaphore::new(IN_FLIGHT),
            creating: KeyLocks::default(),
            blockers,
            _definitions: definitions,
        }))
    }

    /// Makes sure that children of these kinds are seen, for a user that uses exactly these kinds
    /// from now on. Returns those that are served.
    ///
    /// # Errors
    /// When a kind cannot be observed now. The user stays registered, so its watch goes on trying;
    /// the user is to try again later.
    pub async fn observe(&self, user: &str, gvks: &BTreeSet<Gvk>) -> Result<Kinds, ObserveError> {
        let resolved = join_all(
            gvks.iter()
                .map(|gvk| async move { (gvk, self.resolve(gvk).await) }),
        )
        .await;
        let mut served = Vec::new();
        let mut fault = None;
        for (gvk, resource) in resolved {
            match resource {
                Ok(Some(resource)) if resource.watchable => served.push((gvk, resource)),
                Ok(Some(_)) => fault = Some(ObserveError::Unwatchable { gvk: gvk.clone() }),
                Ok(None) => {}
                Err(source) => {
                    fault = Some(ObserveError::Discover {
                        gvk: gvk.clone(),
                        source,
                    });
                }
            }
        }
        // Also when a kind is at fault: the others are in use, and a new one is waited for.
        let watched = self.0.informers.register(user, gvks, &served);
        if let Some(fault) = fault {
            return Err(fault);
        }
        let mut kinds = Kinds::new();
        for ((gvk, resource), mut state) in served.into_iter().zip(watched) {
            let settled = timeout(FIRST_LIST, state.wait_for(|state| *state != State::Listing));
            match settled.await.map(|state| state.map(|state| state.clone())) {
                Ok(Ok(State::Ready)) => {
                    kinds.insert(gvk.clone(), resource.scope);
                }
                Ok(Ok(State::Failed(cause))) => {
                    return Err(ObserveError::List {
                        gvk: gvk.clone(),
                        cause,
                    });
                }
                // The kind has gone since discovery, or is not served everywhere yet.
                Ok(Ok(State::Unserved)) => {}
                // Another caller has started a new watch, as the kind came back.
                Ok(Err(_)) => {
                    return Err(ObserveError::List {
                        gvk: gvk.clone(),
                        cause: "the kind has just come back".into(),
                    });
                }
                Ok(Ok(State::Listing)) | Err(_) => {
                    return Err(ObserveError::Slow { gvk: gvk.clone() });
                }
            }
        }
        Ok(kinds)
    }

    /// Forgets a user, with the blockers it waits for.
    pub fn release(&self, user: &str) {
        self.0.informers.release(user);
        self.watch_blockers(user, []);
    }

    /// A child as the watch or an own write told last.
    #[must_use]
    pub fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.0.informers.store(gvk)?.get(namespace, name)
    }

    /// Remembers fingerprints with a child: of what was wanted, and of the live object that was
    /// found equal to it. They are kept until the object is replaced by another one.
    pub fn settle(&self, gvk: &Gvk, key: &ObjectKey, settled: (u64, u64)) {
        if let Some(store) = self.0.informers.store(gvk) {
            store.set_settled(&key.namespace, &key.name, settled);
        }
    }

    /// Watches exactly these objects for a user that cannot go on because of them; none to stop.
    /// With each comes the version that the user has seen, if any: the user is told at once when
    /// that is not the object's present one.
    pub fn watch_blockers(
        &self,
        user: &str,
        blockers: impl IntoIterator<Item = (Blocker, Option<u64>)>,
    ) {
        self.0.blockers.set(user, blockers);
    }

    /// The kinds that are watched, with their number of objects.
    #[must_use]
    pub fn stats(&self) -> Vec<(Gvk, usize)> {
        self.0.informers.stats()
    }

    /// How a kind is served; `None` when it is not.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, DiscoveryError> {
        self.0.discovery.resolve(gvk).await
    }

    /// Whether a kind is served, and whether its objects have namespaces.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn scope(&self, gvk: &Gvk) -> Result<Option<KindScope>, DiscoveryError> {
        Ok(self.resolve(gvk).await?.map(|resource| resource.scope))
    }
}
