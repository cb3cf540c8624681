//! The watches on children: one per kind and version in use, shared by all [users](User).
//!
//! # Guarantees
//!
//! - A kind is watched while it has users, and a minute longer, so that it is not listed again when
//!   one revision releases it right before the next one registers it.
//! - A user waits until the first list is complete: an object that is not in the store then did not
//!   exist, or had no label, at the time of the list.
//! - When the kind is no longer served, its store is emptied, and that is reported. When the kind
//!   is served again, its next user starts a new watch at once, without waiting for the next
//!   attempt of the old one.
//! - When the server has refused the watch of a kind for `LOST_AFTER`, the kind is away until its
//!   watch works again. Its users are notified of both.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};
use kube::Client;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    discovery::{Discovery, Resource},
    store::{IsOwner, ObjectChange, Store, budget::Budget},
    user::User,
    watch::{Event, Failing, WatchSpec, run},
};
use baton_engine::{Gvk, ObjectKey};

/// Time for which a kind without users is still watched.
const GRACE: Duration = Duration::from_mins(1);

/// Time for which the server has to refuse a watch before its kind is away. A server that starts
/// refuses requests as well.
const LOST_AFTER: Duration = Duration::from_secs(20);

/// A task that ends when it is dropped.
pub struct Task(JoinHandle<()>);

impl Task {
    /// Starts a task. Must be called within a tokio runtime.
    pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    /// True if the task has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The progress of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The first list is under way.
    Listing,
    /// The store is complete.
    Ready,
    /// There is no complete list, for this reason. The list is retried.
    Failed(Arc<str>),
    /// As [`State::Failed`], because the manager may not list the kind.
    Forbidden(Arc<str>),
    /// The server does not serve the kind.
    Unserved,
}

/// A report of a watch: a change, or the end of the first list.
pub(crate) enum WatchReport {
    /// An object changed.
    Changed(ObjectChange),
    /// The first list of a kind is complete.
    Listed(Gvk),
    /// A kind is away, or back.
    Availability(Gvk),
}

/// The duration for which the server has refused a watch.
#[derive(Default)]
struct Refused(Option<Instant>);

/// The effect of an event on the availability of a kind.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// None.
    Nothing,
    /// The watch was refused for too long.
    Lost,
    /// The watch works.
    Works,
}

impl Refused {
    fn turn(&mut self, event: &Event<'_>, now: Instant) -> Turn {
        match event {
            Event::Refused(_) => {
                let since = *self.0.get_or_insert(now);
                if now.duration_since(since) >= LOST_AFTER {
                    Turn::Lost
                } else {
                    Turn::Nothing
                }
            }
            // Without a response, nothing is known about the kind. A missing right says nothing
            // about its server.
            Event::Failed(_)
            | Event::Forbidden(_)
            | Event::ListStarted
            | Event::Listed(_)
            | Event::Unserved => Turn::Nothing,
            Event::ListDone { .. } | Event::Upsert(_) | Event::Deleted(_) | Event::Bookmark(_) => {
                self.0 = None;
                Turn::Works
            }
        }
    }
}

/// All watches on children of one cluster.
pub(crate) struct Informers {
    client: Client,
    discovery: Arc<Discovery>,
    is_owner: IsOwner,
    budget: Arc<Budget>,
    report: Arc<dyn Fn(WatchReport) + Send + Sync>,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    running: HashMap<Gvk, Informer>,
    /// The kinds that each user uses, served or not.
    users: HashMap<User, Box<[Gvk]>>,
    /// Number of users of each kind.
    uses: HashMap<Gvk, usize>,
}

struct Informer {
    resource: Arc<Resource>,
    store: Arc<Store>,
    state: watch::Receiver<State>,
    idle_since: Option<Instant>,
    _task: Task,
}

/// A watch whose state can be awaited.
pub(crate) type Watched = watch::Receiver<State>;

impl Informers {
    pub fn new(
        client: Client,
        discovery: Arc<Discovery>,
        (is_owner, budget): (IsOwner, Arc<Budget>),
        report: Arc<dyn Fn(WatchReport) + Send + Sync>,
    ) -> Self {
        Self {
            client,
            discovery,
            is_owner,
            budget,
            report,
            registry: Mutex::default(),
        }
    }

    /// Registers exactly these kinds for a user. Starts the watches that are missing for served
    /// kinds.
    pub fn register(
        self: &Arc<Self>,
        user: &User,
        gvks: &BTreeSet<Gvk>,
        served: &[(&Gvk, Arc<Resource>)],
    ) -> Vec<Watched> {
        let mut registry = self.registry.lock();
        let unused = registry.set_uses(user, Some(gvks));
        let mut watched = Vec::with_capacity(served.len());
        for (gvk, resource) in served {
            // A CRD that was created again may have another plural or scope.
            let usable = registry.running.get(gvk).is_some_and(|informer| {
                informer.resource == *resource && *informer.state.borrow() != State::Unserved
            });
            if !usable {
                // The users of a kind that was served before do not wait for its first list.
                let awaited = !registry.running.contains_key(gvk);
                let informer = self.start(gvk, resource, awaited);
                registry.running.insert((*gvk).clone(), informer);
            }
            if let Some(informer) = registry.running.get_mut(gvk) {
                informer.idle_since = None;
                watched.push(informer.state.clone());
            }
        }
        drop(registry);
        self.stop_later(unused);
        watched
    }

    /// Removes a user.
    pub fn release(self: &Arc<Self>, user: &User) {
        let unused = self.registry.lock().set_uses(user, None);
        self.stop_later(unused);
    }

    /// The users of a kind.
    pub fn users_of(&self, gvk: &Gvk) -> Vec<User> {
        let registry = self.registry.lock();
        let users = registry.users.iter();
        let users = users.filter(|(_, gvks)| gvks.contains(gvk));
        users.map(|(user, _)| user.clone()).collect()
    }

    /// The store of a kind that is watched.
    pub fn store(&self, gvk: &Gvk) -> Option<Arc<Store>> {
        self.registry
            .lock()
            .running
            .get(gvk)
            .map(|informer| Arc::clone(&informer.store))
    }

    /// True if an object is in the store of any version of its kind.
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.registry.lock().running.iter().any(|(gvk, informer)| {
            gvk.kind == key.kind
                && gvk.group == key.group
                && informer.store.get(&key.namespace, &key.name).is_some()
        })
    }

    /// True if a kind of this group has users but is not watched, because it is not served.
    pub fn awaited(&self, group: &str) -> bool {
        let registry = self.registry.lock();
        registry
            .uses
            .keys()
            .filter(|gvk| gvk.group == group)
            .any(|gvk| {
                let informer = registry.running.get(gvk);
                informer.is_none_or(|informer| *informer.state.borrow() == State::Unserved)
            })
    }

    /// The watched kinds, each with its number of objects.
    pub fn stats(&self) -> Vec<(Gvk, usize)> {
        let registry = self.registry.lock();
        let mut stats: Vec<_> = registry
            .running
            .iter()
            .map(|(gvk, i)| (gvk.clone(), i.store.len()))
            .collect();
        stats.sort();
        stats
    }

    fn start(&self, gvk: &Gvk, resource: &Arc<Resource>, awaited: bool) -> Informer {
        tracing::debug!(%gvk, "starting to watch");
        let report = Arc::clone(&self.report);
        let store = Store::new(
            Arc::new(gvk.clone()),
            (Arc::clone(&self.is_owner), Arc::clone(&self.budget)),
            move |change| {
                report(WatchReport::Changed(change));
            },
        );
        let store = Arc::new(if awaited {
            store
        } else {
            store.reporting_first_list()
        });
        let (progress, state) = watch::channel(State::Listing);
        let spec = WatchSpec {
            label_selector: Some(format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}")),
            ..WatchSpec::new(resource.path())
        };
        let (sink, gvk) = (Arc::clone(&store), gvk.clone());
        let discovery = Arc::clone(&self.discovery);
        let report = Arc::clone(&self.report);
        let (mut failing, mut refused) = (Failing::default(), Refused::default());
        // True after the kind was available, while it is away.
        let mut lost = false;
        let mut was_over = false;
        let task = Task::spawn(run(self.client.clone(), spec, move |event| {
            sink.on_event(&event);
            let is_over = sink.is_over_budget();
            if is_over && !was_over {
                tracing::warn!(
                    %gvk,
                    "the objects of the cluster take more memory than they may; those beyond the limit are read from \
                     its API server when they are needed"
                );
            }
            was_over = is_over;
            let turn = refused.turn(&event, Instant::now());
            match event {
                Event::ListDone { .. } => {
                    tracing::debug!(%gvk, objects = sink.len(), "listed");
                    if progress.send_replace(State::Ready) != State::Ready {
                        report(WatchReport::Listed(gvk.clone()));
                    }
                }
                Event::Unserved => {
                    discovery.invalidate(&gvk.group);
                    progress.send_replace(State::Unserved);
                }
                Event::Failed(cause) | Event::Refused(cause) | Event::Forbidden(cause) => {
                    // The store is stale while a watch is interrupted. That does no harm: every
                    // write names the version that was decided upon.
                    let is_lost = turn == Turn::Lost;
                    let was_ready = *progress.borrow() == State::Ready;
                    if is_lost || !was_ready {
                        progress.send_replace(match event {
                            Event::Forbidden(_) => State::Forbidden(cause.into()),
                            _ => State::Failed(cause.into()),
                        });
                    }
                    if is_lost && was_ready {
                        lost = true;
                        report(WatchReport::Availability(gvk.clone()));
                    }
                }
                _ => {}
            }
            if turn == Turn::Works && std::mem::take(&mut lost) {
                progress.send_replace(State::Ready);
                report(WatchReport::Availability(gvk.clone()));
            }
            if let Some(cause) = failing.begins(&event) {
                tracing::warn!(%gvk, cause, "watching failed, trying again");
            }
        }));
        Informer {
            resource: Arc::clone(resource),
            store,
            state,
            idle_since: None,
            _task: task,
        }
    }

    fn stop_later(self: &Arc<Self>, unused: Vec<Gvk>) {
        if unused.is_empty() {
            return;
        }
        let informers = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            let Some(informers) = Weak::upgrade(&informers) else {
                return;
            };
            let mut registry = informers.registry.lock();
            for gvk in unused {
                let idle = registry
                    .running
                    .get(&gvk)
                    .and_then(|informer| informer.idle_since);
                if idle.is_some_and(|since| since.elapsed() >= GRACE) {
                    tracing::debug!(%gvk, "unused, no longer watched");
                    registry.running.remove(&gvk);
                }
            }
        });
    }
}

impl Registry {
    /// Replaces the kinds of a user. Returns the watched kinds that no longer have a user.
    fn set_uses(&mut self, user: &User, gvks: Option<&BTreeSet<Gvk>>) -> Vec<Gvk> {
        let is_same = match (self.users.get(user), gvks) {
            (Some(before), Some(gvks)) => before.iter().eq(gvks),
            (before, gvks) => before.is_none() && gvks.is_none(),
        };
        if is_same {
            return Vec::new();
        }
        let before = match gvks {
            Some(gvks) => self
                .users
                .insert(user.clone(), gvks.iter().cloned().collect()),
            None => self.users.remove(user),
        };
        let before = before.unwrap_or_default();
        for gvk in gvks
            .into_iter()
            .flatten()
            .filter(|gvk| !before.contains(*gvk))
        {
            *self.uses.entry(gvk.clone()).or_default() += 1;
        }
        let mut unused = Vec::new();
        for gvk in before {
            if gvks.is_some_and(|gvks| gvks.contains(&gvk)) {
                continue;
            }
            if let Some(uses) = self.uses.get_mut(&gvk) {
                *uses -= 1;
                if *uses == 0 {
                    self.uses.remove(&gvk);
                    if let Some(informer) = self.running.get_mut(&gvk) {
                        informer.idle_since = Some(Instant::now());
                        unused.push(gvk);
                    }
                }
            }
        }
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_away_if_the_server_refuses_its_watch_for_a_while() {
        let (mut refused, start) = (Refused::default(), Instant::now());
        for (seconds, event, expected) in [
            (0, Event::Refused("down"), Turn::Nothing),
            (19, Event::Refused("down"), Turn::Nothing),
            (20, Event::Refused("down"), Turn::Lost),
            (21, Event::ListStarted, Turn::Nothing),
            (22, Event::Forbidden("no right"), Turn::Nothing),
            (23, Event::Bookmark(7), Turn::Works),
            (24, Event::Refused("down"), Turn::Nothing),
            // The whole server is down.
            (60, Event::Failed("no route"), Turn::Nothing),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(refused.turn(&event, now), expected, "{seconds}");
        }
        let mut refused = Refused::default();
        for seconds in [0, 100] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(refused.turn(&Event::Failed("no route"), now), Turn::Nothing);
        }
    }

    fn set(kinds: &[&str]) -> BTreeSet<Gvk> {
        kinds.iter().map(|kind| Gvk::new("v1", kind)).collect()
    }

    #[test]
    fn a_kind_is_in_use_as_long_as_any_user_names_it() {
        let mut registry = Registry::default();
        let uses = |registry: &Registry| {
            let mut uses: Vec<String> = registry
                .uses
                .iter()
                .map(|(gvk, uses)| format!("{}{uses}", gvk.kind))
                .collect();
            uses.sort();
            uses.join(" ")
        };
        let table: [(&str, Option<&[&str]>, &str); 8] = [
            ("a", Some(&["X", "Y"]), "X1 Y1"),
            ("a", Some(&["X", "Y"]), "X1 Y1"),
            ("b", Some(&["Y"]), "X1 Y2"),
            ("a", Some(&["Y", "Z"]), "Y2 Z1"),
            ("b", None, "Y1 Z1"),
            ("b", None, "Y1 Z1"),
            ("a", Some(&[]), ""),
            ("a", None, ""),
        ];
        for (user, kinds, expected) in table {
            let named = User {
                kind: "ObjectSet",
                uid: user.into(),
            };
            registry.set_uses(&named, kinds.map(set).as_ref());
            assert_eq!(uses(&registry), expected, "{user} {kinds:?}");
        }
        assert!(registry.users.is_empty());
    }
}
