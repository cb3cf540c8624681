//! The typed objects of a kind, as they are on the server.
//!
//! # Guarantees
//! - The store is never older than our own writes, once their answers were handed to [`Store::written`].
//! - An object that is gone does not come back by the answer to a write that was older than its deletion.
//! - An object that cannot be read as its type is logged and left alone; it keeps the state in which it was read last.
//! - What was known stays while the objects cannot be listed, or are not served although their kind is defined; see
//!   [`Store::extent`] for whether it is all there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use baton_kubernetes::{
    metadata::number,
    path,
    watch::{Event, Failing, WatchSpec, run},
};
use baton_runtime::{
    controller::ReconcileKey,
    source::{Source, Wake},
};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tracing::{Span, info_span, warn};

use super::extent::Extent;

/// A kind, as it is stored.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The identity of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty for Clusters.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// The identity of an object of a kind.
    pub(crate) fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The identity of an object.
    pub(crate) fn of<K: Kind>(kind: &'static str, object: &K) -> Self {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Self::new(kind, namespace, meta.name.as_deref().unwrap_or_default())
    }

    /// `namespace/name`, as messages have it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl ReconcileKey for Key {
    fn span(&self) -> Span {
        info_span!(
            "reconcile",
            kind = self.kind,
            namespace = &*self.namespace,
            name = &*self.name
        )
    }

    fn namespace(&self) -> Arc<str> {
        self.namespace.clone()
    }
}

/// A change of an object; at least one side is there.
#[derive(Clone, Debug)]
pub(crate) struct Change<K> {
    /// The object as it was.
    pub old: Option<Arc<K>>,
    /// The object as it is.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it is, or as it was last.
    pub(crate) fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// What is known of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// The server has not answered yet.
    Nothing,
    /// It does not serve the kind, or does not list it; why.
    Unavailable(Arc<str>),
    /// It has listed all of them.
    All,
}

/// The objects of a kind.
pub(crate) struct Store<K> {
    /// The kind, as keys have it.
    pub kind: &'static str,
    /// Changes, our own included.
    pub changes: Source<Change<K>>,
    /// Tells that it is not known any more, or for another reason, which objects there are.
    pub lost: Source<()>,
    table: RwLock<Table<K>>,
    known: watch::Sender<Known>,
    /// Takes away of an object what nobody reads.
    trim: fn(&mut K),
}

struct Table<K> {
    objects: BTreeMap<(Arc<str>, Arc<str>), Arc<K>>,
    /// The newest version that the watch has reported.
    latest: u64,
    /// What the list under way has reported, and what was written meanwhile.
    listing: Option<BTreeSet<(Arc<str>, Arc<str>)>>,
    /// Whether all were listed once.
    was_complete: bool,
}

impl<K: Kind> Store<K> {
    /// An empty one of a kind.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self::trimmed(kind, |_| {})
    }

    /// An empty one of a kind, of whose objects `trim` takes away what nobody reads.
    pub(crate) fn trimmed(kind: &'static str, trim: fn(&mut K)) -> Self {
        Self {
            kind,
            changes: Source::default(),
            lost: Source::default(),
            table: RwLock::new(Table {
                objects: BTreeMap::new(),
                latest: 0,
                listing: None,
                was_complete: false,
            }),
            known: watch::Sender::new(Known::Nothing),
            trim,
        }
    }

    /// Follows the objects on the server for ever. While the kind is not defined nobody asks for it, until `defined`
    /// tells that a definition of its group came or went.
    pub(crate) async fn follow(self: Arc<Self>, client: Client, defined: Arc<Notify>) {
        loop {
            let change = defined.notified();
            tokio::pin!(change);
            // From now on no change is missed.
            change.as_mut().enable();
            let undefined = Notify::new();
            let spec = WatchSpec {
                definition: Some(format!("{}.{}", K::plural(&()), K::group(&()))),
                ..Self::whole()
            };
            tokio::select! {
                () = self.feed(client.clone(), spec, || undefined.notify_one()) => {}
                () = undefined.notified() => {}
            }
            self.empty();
            change.await;
        }
    }

    /// The objects of the kind in all namespaces.
    pub(crate) fn whole() -> WatchSpec {
        WatchSpec::new(path::everywhere(
            &format!("/apis/{}", K::api_version(&())),
            &K::plural(&()),
        ))
    }

    /// Follows the objects that are selected on a server for ever.
    pub(crate) async fn follow_at(self: Arc<Self>, client: Client, spec: WatchSpec) {
        self.feed(client, spec, || {}).await;
    }

    async fn feed(&self, client: Client, spec: WatchSpec, unserved: impl Fn() + Send + Sync) {
        let mut failing = Failing::default();
        run(client, spec, |event| {
            if let Some(cause) = failing.begins(&event) {
                warn!(
                    kind = self.kind,
                    cause, "cannot list or watch, trying again"
                );
            }
            self.on_event(&event);
            if matches!(event, Event::Unserved) {
                unserved();
            }
        })
        .await;
    }

    /// Resolves when all objects were listed once, or could not be.
    pub(crate) async fn listed(&self) {
        // The sender lives as long as `self`.
        let mut known = self.known.subscribe();
        let _ = known.wait_for(|known| *known != Known::Nothing).await;
    }

    /// Resolves when all objects were listed once.
    pub(crate) async fn completed(&self) {
        // The sender lives as long as `self`.
        let mut known = self.known.subscribe();
        let _ = known.wait_for(|known| *known == Known::All).await;
    }

    /// Whether the objects were listed, so that one that is missing here does not exist.
    pub(crate) fn is_complete(&self) -> bool {
        *self.known.borrow() == Known::All
    }

    /// Whether all objects were listed once, be they known now or not.
    pub(crate) fn was_complete(&self) -> bool {
        self.table.read().was_complete
    }

    /// How much is known of which objects there are.
    pub(crate) fn extent(&self) -> Extent {
        match &*self.known.borrow() {
            Known::All => Extent::All,
            Known::Nothing => Extent::Awaited,
            Known::Unavailable(cause) => {
                Extent::Unknown(format!("{}s cannot be listed: {cause}", self.kind))
            }
        }
    }

    /// Why the objects cannot be listed; empty if they can, or nothing is known of that.
    pub(crate) fn cause(&self) -> Arc<str> {
        match &*self.known.borrow() {
            Known::Unavailable(cause) => Arc::clone(cause),
            Known::Nothing | Known::All => Arc::default(),
        }
    }

    /// The object of a name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = (namespace.into(), name.into());
        self.table.read().objects.get(&key).cloned()
    }

    /// All objects of a namespace, sorted by name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let table = self.table.read();
        let from = (Arc::from(namespace), Arc::from(""));
        let objects = table.objects.range(from..);
        let objects = objects.take_while(|((found, _), _)| **found == *namespace);
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The objects of a namespace with a label of this value, sorted by name.
    pub(crate) fn labelled(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<K>> {
        let mut objects = self.in_namespace(namespace);
        objects.retain(|object| object.labels().get(label).map(String::as_str) == Some(value));
        objects
    }

    /// All objects, sorted by namespace and name.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.table.read().objects.values().cloned().collect()
    }

    /// Wakes the objects for which a predicate holds.
    pub(crate) fn wake(&self, is_concerned: impl Fn(&K) -> bool) -> Vec<Wake<Key>> {
        let objects = self.all();
        let objects = objects.iter().filter(|object| is_concerned(object));
        let keys = objects.map(|object| Key::of(self.kind, &**object));
        keys.map(Wake::now).collect()
    }

    /// Takes in the answer to a write of ours.
    pub(crate) fn written(&self, object: K) {
        let version = version(&object);
        let key = key(&object);
        let mut table = self.table.write();
        let is_newer = table
            .objects
            .get(&key)
            .is_none_or(|known| self::version(&**known) < version);
        // What is older than the newest version that was reported was reported too, or is gone already.
        if version <= table.latest || !is_newer {
            return;
        }
        if let Some(listing) = &mut table.listing {
            listing.insert(key.clone());
        }
        let change = table.insert(key, self.trim(object));
        drop(table);
        self.changes.emit(&change);
    }

    /// Takes in the objects of an application as the server has just listed them, before the watch reports them.
    pub(crate) fn listed_now(&self, objects: Vec<K>) {
        for object in objects {
            self.written(object);
        }
    }

    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::ListStarted => {
                let mut table = self.table.write();
                table.listing = Some(BTreeSet::new());
                // A server that was restored from a backup counts from a lower version.
                table.latest = 0;
            }
            Event::Listed(object) => {
                if let Some(object) = self.read(object) {
                    self.observe(object, true);
                }
            }
            Event::ListDone { resource_version } => self.on_list_done(*resource_version),
            Event::Upsert(object) => {
                if let Some(object) = self.read(object) {
                    self.observe(object, false);
                }
            }
            Event::Deleted(object) => {
                let Some(object) = self.read(object) else {
                    return;
                };
                let mut table = self.table.write();
                table.latest = table.latest.max(version(&object));
                let old = table.objects.remove(&key(&object));
                drop(table);
                if old.is_some() {
                    self.changes.emit(&Change { old, new: None });
                }
            }
            Event::Bookmark(version) => {
                let mut table = self.table.write();
                table.latest = table.latest.max(*version);
            }
            Event::Unserved => self.lose("the API server does not serve the kind"),
            Event::Failed(cause) | Event::Forbidden(cause) => {
                // After a list the watch goes on where it was.
                if self.table.read().listing.is_some() {
                    self.lose(cause);
                }
            }
        }
    }

    /// All are known from now on. Whoever was kept waiting while they were not is woken.
    fn on_list_done(&self, version: u64) {
        let mut table = self.table.write();
        let gone = table.end_of_list(version);
        let returns = std::mem::replace(&mut table.was_complete, true) && !self.is_complete();
        let objects: Vec<_> = table.objects.values().cloned().collect();
        drop(table);
        self.known.send_replace(Known::All);
        for old in gone {
            let old = Some(old);
            self.changes.emit(&Change { old, new: None });
        }
        for object in objects.into_iter().filter(|_| returns) {
            let new = Some(object);
            self.changes.emit(&Change { old: None, new });
        }
    }

    /// It is not known any more which objects there are.
    fn lose(&self, cause: &str) {
        self.table.write().listing = None;
        let is_news = self.known.send_if_modified(|known| {
            let now = Known::Unavailable(cause.into());
            let changes = *known != now;
            *known = now;
            changes
        });
        if is_news {
            self.lost.emit(&());
        }
    }

    /// There are no objects, as their kind is not defined.
    fn empty(&self) {
        let mut table = self.table.write();
        table.was_complete = false;
        let gone = std::mem::take(&mut table.objects);
        drop(table);
        for (_, old) in gone {
            let old = Some(old);
            self.changes.emit(&Change { old, new: None });
        }
    }

    fn observe(&self, object: K, is_listed: bool) {
        let (key, version) = (key(&object), version(&object));
        let mut table = self.table.write();
        if !is_listed {
            table.latest = table.latest.max(version);
        }
        let is_listing = table.listing.as_mut();
        let was_written = is_listing.is_some_and(|listing| !listing.insert(key.clone()));
        let known = table.objects.get(&key).map(|known| self::version(&**known));
        // What was written while the list was made may be newer than what is listed.
        let is_outdated = (was_written || !is_listed) && known.is_some_and(|known| known > version);
        if known == Some(version) || is_outdated {
            return;
        }
        let change = table.insert(key, object);
        drop(table);
        self.changes.emit(&change);
    }

    fn trim(&self, mut object: K) -> K {
        // Nobody reads them, and they are half of a small object. A write without them leaves them alone.
        object.meta_mut().managed_fields = None;
        (self.trim)(&mut object);
        object
    }

    fn read(&self, object: &RawValue) -> Option<K> {
        match serde_json::from_str::<K>(object.get()) {
            Ok(object) => Some(self.trim(object)),
            Err(error) => {
                warn!(kind = self.kind, %error, "an object cannot be read, and is left alone");
                None
            }
        }
    }
}

impl<K: Kind> Table<K> {
    fn insert(&mut self, key: (Arc<str>, Arc<str>), object: K) -> Change<K> {
        let new = Arc::new(object);
        let old = self.objects.insert(key, Arc::clone(&new));
        let new = Some(new);
        Change { old, new }
    }

    /// Removes what was not listed; returns it.
    fn end_of_list(&mut self, version: u64) -> Vec<Arc<K>> {
        self.latest = self.latest.max(version);
        let listed = self.listing.take().unwrap_or_default();
        let gone = self.objects.keys().filter(|key| !listed.contains(*key));
        let gone: Vec<_> = gone.cloned().collect();
        gone.iter()
            .filter_map(|key| self.objects.remove(key))
            .collect()
    }
}

fn key<K: Kind>(object: &K) -> (Arc<str>, Arc<str>) {
    let meta = object.meta();
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&meta.namespace), text(&meta.name))
}

/// 0 where the versions of a server are no numbers: then the watch alone counts.
fn version<K: Kind>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.map_or(0, number)
}

#[cfg(test)]
mod tests {
    use baton_apis::Release;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    fn release(name: &str, version: u64) -> Box<RawValue> {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "shop", "resourceVersion": version.to_string(),
                "labels": {"shipper-app": "web"}, "managedFields": [{}],
            },
            "spec": {"targetStep": 0, "environment": {}},
        });
        serde_json::value::to_raw_value(&object).unwrap()
    }

    fn written(store: &Store<Release>, name: &str, version: u64) {
        store.written(serde_json::from_str(release(name, version).get()).unwrap());
    }

    fn names(store: &Store<Release>) -> Vec<String> {
        let found = store.labelled("shop", "shipper-app", "web").into_iter();
        let found = found.map(|it| format!("{}@{}", it.name_any(), version(&*it)));
        found.collect()
    }

    fn store() -> (Store<Release>, Arc<Mutex<u32>>) {
        let store = Store::new("Release");
        let changes = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&changes);
        store.changes.subscribe(move |_| *counted.lock() += 1);
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::Listed(&release("a", 3)));
        store.on_event(&Event::ListDone {
            resource_version: 10,
        });
        (store, changes)
    }

    #[test]
    fn our_own_writes_are_seen_at_once_and_once() {
        let (store, changes) = store();
        written(&store, "b", 11);
        assert_eq!(names(&store), ["a@3", "b@11"]);
        store.on_event(&Event::Upsert(&release("b", 11)));
        written(&store, "a", 12);
        store.on_event(&Event::Upsert(&release("a", 12)));
        assert_eq!(names(&store), ["a@12", "b@11"]);
        assert_eq!(*changes.lock(), 3);
        let all = store.all();
        assert!(all.iter().all(|it| it.metadata.managed_fields.is_none()));
    }

    #[test]
    fn what_is_gone_does_not_come_back_by_an_old_answer() {
        let (store, _) = store();
        store.on_event(&Event::Deleted(&release("a", 12)));
        written(&store, "a", 11);
        assert_eq!(names(&store), [] as [&str; 0]);
        // One of the same name that was created later.
        written(&store, "a", 13);
        assert_eq!(names(&store), ["a@13"]);
    }

    #[test]
    fn an_older_event_does_not_replace_our_write() {
        let (store, _) = store();
        written(&store, "a", 14);
        store.on_event(&Event::Upsert(&release("a", 12)));
        assert_eq!(names(&store), ["a@14"]);
    }

    #[test]
    fn a_new_list_replaces_all_but_what_was_written_meanwhile() {
        let (store, _) = store();
        written(&store, "b", 11);
        store.on_event(&Event::ListStarted);
        written(&store, "c", 21);
        written(&store, "a", 22);
        store.on_event(&Event::Listed(&release("a", 3)));
        store.on_event(&Event::ListDone {
            resource_version: 20,
        });
        assert_eq!(names(&store), ["a@22", "c@21"]);
    }

    /// The versions of a server that was restored from a backup are lower than what was seen before.
    #[test]
    fn a_list_may_be_older_than_what_was_known() {
        let (store, _) = store();
        written(&store, "a", 50);
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::Listed(&release("a", 2)));
        store.on_event(&Event::ListDone {
            resource_version: 5,
        });
        assert_eq!(names(&store), ["a@2"]);
    }

    #[test]
    fn an_unreadable_object_stops_nobody() {
        let (store, _) = store();
        let broken = json!({"metadata": {"name": 7}});
        let broken = serde_json::value::to_raw_value(&broken).unwrap();
        store.on_event(&Event::Upsert(&broken));
        assert_eq!(names(&store), ["a@3"]);
        assert!(store.is_complete());
    }

    /// What is not served, or cannot be listed, may exist all the same.
    #[test]
    fn what_cannot_be_listed_any_more_is_not_known_and_stays() {
        for (event, is_listing) in [(Event::Unserved, false), (Event::Failed("forbidden"), true)] {
            let (store, changes) = store();
            if is_listing {
                // A watch that breaks goes on where it was.
                store.on_event(&Event::Failed("reset"));
                assert!(store.is_complete());
                store.on_event(&Event::ListStarted);
                assert!(store.is_complete());
            }
            store.on_event(&event);
            assert!(!store.is_complete(), "{event:?}");
            assert_eq!(names(&store), ["a@3"], "{event:?}");
            assert_eq!(*changes.lock(), 1, "{event:?}");
            store.on_event(&Event::ListStarted);
            store.on_event(&Event::Listed(&release("a", 3)));
            store.on_event(&Event::ListDone {
                resource_version: 20,
            });
            assert!(store.is_complete());
            // Whoever was kept waiting is woken.
            assert_eq!(*changes.lock(), 2, "{event:?}");
        }
    }

    #[test]
    fn a_first_list_that_fails_tells_nothing() {
        let store = Store::<Release>::new("Release");
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::Failed("forbidden"));
        assert!(!store.is_complete());
        assert_eq!(*store.cause(), *"forbidden");
    }
}
