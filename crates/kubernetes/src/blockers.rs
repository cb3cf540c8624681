//! Watches on single objects that block a revision: foreign objects without our label, which no
//! other watch reports.
//!
//! # Guarantees
//!
//! - A [user](User) is notified when a blocker is deleted, or when a part of it changes that
//!   decides about adoption: its UID, owners, labels, annotations, or the start of its deletion.
//!   Changes of its status or content are not reported.
//! - If the blocker is also in the cache of children, and the cache is later than this watch, the
//!   user is notified again when the cache has changed.
//!
//! # Caveats
//!
//! - At most `MAX_WATCHED` blockers are watched. For the others, and while a watch fails, the timer of the
//!   caller is the only trigger.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::Client;
use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::{
    discovery::Discovery,
    informers::Task,
    metadata::Metadata,
    user::User,
    watch::{Event, WatchSpec, run},
};
use baton_engine::{Gvk, ObjectKey};

/// Number of blockers that are watched at a time; each takes a connection.
const MAX_WATCHED: usize = 256;

/// An object that a revision waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocker {
    /// Kind and version of the object.
    pub gvk: Gvk,
    /// Identity of the object.
    pub key: ObjectKey,
}

/// The state of a blocker that its [user](User) observed before the watch began. The user is
/// notified if the first list of the watch has another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastObserved {
    /// The blocker did not exist.
    Absent,
    /// The blocker had this `resourceVersion`.
    Version(u64),
    /// The blocker existed, in any state.
    Exists,
}

impl LastObserved {
    /// True if the first list differs from this state. The list has the object in version `listed`,
    /// or not at all.
    fn differs(self, listed: Option<u64>) -> bool {
        match self {
            Self::Absent => listed.is_some(),
            Self::Version(last) => listed != Some(last),
            Self::Exists => listed.is_none(),
        }
    }
}

/// All watches on blockers of one cluster.
pub(crate) struct Blockers {
    client: Client,
    discovery: Arc<Discovery>,
    report: Arc<dyn Fn(User) + Send + Sync>,
    watched: Mutex<HashMap<User, HashMap<Blocker, Watched>>>,
}

/// The watch on a blocker.
struct Watched {
    task: Task,
    /// True if the user was notified, and the cache of children has not reported a change of the
    /// blocker since.
    is_ahead: Arc<AtomicBool>,
}

impl Blockers {
    pub fn new(
        client: Client,
        discovery: Arc<Discovery>,
        report: Arc<dyn Fn(User) + Send + Sync>,
    ) -> Self {
        Self {
            client,
            discovery,
            report,
            watched: Mutex::default(),
        }
    }

    /// Watches exactly these objects for a user. Watches of objects that were watched before
    /// continue.
    pub fn set(&self, user: &User, blockers: impl IntoIterator<Item = (Blocker, LastObserved)>) {
        let mut watched = self.watched.lock();
        let mut before = watched.remove(user).unwrap_or_default();
        let elsewhere: usize = watched.values().map(HashMap::len).sum();
        let mut after = HashMap::new();
        for (blocker, last) in blockers {
            if elsewhere + after.len() >= MAX_WATCHED {
                tracing::debug!(%user, key = %blocker.key, "too many blockers, not watched");
                break;
            }
            let watch = before
                .remove(&blocker)
                // A task ends if the kind could not be looked up.
                .filter(|watched| !watched.task.is_finished())
                .unwrap_or_else(|| self.start(user.clone(), blocker.clone(), last));
            after.insert(blocker, watch);
        }
        if !after.is_empty() {
            watched.insert(user.clone(), after);
        }
    }

    /// Notifies the users of a blocker that was reported before its change was in the cache of
    /// children. Their passes may have decided by the former state. Call it after each change of the
    /// cache.
    pub fn cache_changed(&self, key: &ObjectKey) {
        for (user, blockers) in &*self.watched.lock() {
            let mut blockers = blockers.iter().filter(|(blocker, _)| blocker.key == *key);
            if blockers.any(|(_, watched)| watched.is_ahead.swap(false, Ordering::Relaxed)) {
                (self.report)(user.clone());
            }
        }
    }

    fn start(&self, user: User, blocker: Blocker, last_observed: LastObserved) -> Watched {
        let client = self.client.clone();
        let (discovery, report) = (Arc::clone(&self.discovery), Arc::clone(&self.report));
        let is_ahead = Arc::new(AtomicBool::new(false));
        let ahead = Arc::clone(&is_ahead);
        let task = Task::spawn(async move {
            let Blocker { gvk, key } = blocker;
            let Ok(Some(resource)) = discovery.resolve(&gvk).await else {
                return;
            };
            // The object was read a moment ago, so it has a path.
            let Ok(path) = resource.path_in(&key.namespace) else {
                return;
            };
            let spec = WatchSpec {
                field_selector: Some(format!("metadata.name={}", key.name)),
                metadata_only: true,
                page_size: 1,
                ..WatchSpec::new(path)
            };
            let mut state = Observed::new(last_observed);
            run(client, spec, move |event| {
                if state.changed_by(&event) {
                    ahead.store(true, Ordering::Relaxed);
                    report(user.clone());
                }
            })
            .await;
        });
        Watched { task, is_ahead }
    }
}

/// The observed state of a blocker.
struct Observed {
    /// The state that the user had observed before the watch began.
    last: LastObserved,
    /// Fingerprint; `None` if the blocker does not exist.
    now: Option<u64>,
    listing: Option<(u64, u64)>,
    listed: bool,
}

impl Observed {
    fn new(last: LastObserved) -> Self {
        Self {
            last,
            now: None,
            listing: None,
            listed: false,
        }
    }

    fn changed_by(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::ListStarted => {
                self.listing = None;
                false
            }
            Event::Listed(object) => {
                self.listing = fingerprint(object);
                false
            }
            Event::ListDone { .. } => {
                let now = self.listing.map(|(_, print)| print);
                let before = std::mem::replace(&mut self.now, now);
                if std::mem::replace(&mut self.listed, true) {
                    before != now
                } else {
                    self.last.differs(self.listing.map(|(version, _)| version))
                }
            }
            Event::Upsert(object) => {
                let now = fingerprint(object).map(|(_, print)| print);
                std::mem::replace(&mut self.now, now) != now
            }
            Event::Deleted(_) | Event::Unserved => self.now.take().is_some(),
            Event::Bookmark(_) | Event::Failed(_) | Event::Refused(_) | Event::Forbidden(_) => {
                false
            }
        }
    }
}

/// The version, and a hash of all parts that decide about adoption.
fn fingerprint(object: &RawValue) -> Option<(u64, u64)> {
    let metadata = Metadata::of(object.get()).ok()?;
    let mut hasher = DefaultHasher::new();
    let maps = [
        metadata.owner_references,
        metadata.labels,
        metadata.annotations,
    ];
    (
        &metadata.uid,
        metadata.deletion_timestamp,
        maps.map(|raw| raw.map(RawValue::get)),
    )
        .hash(&mut hasher);
    Some((metadata.version(), hasher.finish()))
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;

    /// The cache of children is another watch, and may be later.
    #[tokio::test]
    async fn users_are_notified_again_when_the_cache_has_the_change() {
        let silent = |_: Request<Body>| pending::<Result<Response<Body>, Infallible>>();
        let client = Client::new(tower::service_fn(silent), "default");
        let discovery = Arc::new(Discovery::new(client.clone()));
        let (notify, mut notified) = mpsc::unbounded_channel();
        let report = Arc::new(move |user: User| notify.send(user.uid).unwrap());
        let blockers = Blockers::new(client, discovery, report);
        let [one, other] = ["one", "other"].map(|uid| User {
            kind: "ObjectSet",
            uid: uid.into(),
        });
        let blocker = Blocker {
            gvk: Gvk::new("v1", "ConfigMap"),
            key: Gvk::new("v1", "ConfigMap").key("a", "b"),
        };
        for user in [&one, &other] {
            blockers.set(user, [(blocker.clone(), LastObserved::Exists)]);
        }
        blockers.cache_changed(&blocker.key);
        let ahead = Arc::clone(&blockers.watched.lock()[&one][&blocker].is_ahead);
        ahead.store(true, Ordering::Relaxed);
        // The pass that follows decides by the cache, and is still blocked.
        blockers.set(&one, [(blocker.clone(), LastObserved::Exists)]);
        blockers.cache_changed(&Gvk::new("v1", "Secret").key("a", "b"));
        blockers.cache_changed(&blocker.key);
        blockers.cache_changed(&blocker.key);
        assert_eq!(notified.try_recv().as_deref(), Ok("one"));
        notified.try_recv().unwrap_err();
    }

    fn object(version: u64, extra: &Value) -> Box<RawValue> {
        let mut object =
            json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": version.to_string()}});
        for (key, value) in extra.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        RawValue::from_string(object.to_string()).unwrap()
    }

    fn listed(last: LastObserved, found: Option<u64>) -> (Observed, bool) {
        let mut observed = Observed::new(last);
        assert!(!observed.changed_by(&Event::ListStarted));
        if let Some(found) = found {
            assert!(!observed.changed_by(&Event::Listed(&object(found, &json!({})))));
        }
        let changed = observed.changed_by(&Event::ListDone {
            resource_version: 9,
        });
        (observed, changed)
    }

    #[test]
    fn the_first_list_reports_changes_since_the_observed_version() {
        for (last, found, expected) in [
            (LastObserved::Version(5), Some(5), false),
            (LastObserved::Version(5), Some(6), true),
            (LastObserved::Version(5), None, true),
            (LastObserved::Exists, Some(5), false),
            (LastObserved::Exists, None, true),
            (LastObserved::Absent, Some(5), true),
            (LastObserved::Absent, None, false),
        ] {
            assert_eq!(listed(last, found).1, expected, "{last:?} {found:?}");
        }
    }

    #[test]
    fn only_changes_that_affect_adoption_are_reported() {
        let (mut observed, _) = listed(LastObserved::Version(5), Some(5));
        let labels = json!({"labels": {"x": "y"}});
        let steps = [
            (
                object(6, &json!({"managedFields": [{}], "generation": 2})),
                false,
            ),
            (object(7, &labels), true),
            (object(8, &labels), false),
            (object(9, &json!({"ownerReferences": [{}]})), true),
            (
                object(
                    10,
                    &json!({"ownerReferences": [{}], "deletionTimestamp": "2026-01-01T00:00:00Z"}),
                ),
                true,
            ),
        ];
        for (object, expected) in steps {
            assert_eq!(
                observed.changed_by(&Event::Upsert(&object)),
                expected,
                "{}",
                object.get()
            );
        }
        let last = object(11, &json!({}));
        assert!(observed.changed_by(&Event::Deleted(&last)));
        assert!(!observed.changed_by(&Event::Unserved));
        assert!(observed.changed_by(&Event::Upsert(&last)));
        assert!(!observed.changed_by(&Event::ListStarted));
        assert!(!observed.changed_by(&Event::Listed(&last)));
        assert!(!observed.changed_by(&Event::ListDone {
            resource_version: 12
        }));
        assert!(observed.changed_by(&Event::Unserved));
    }
}
