//! The typed objects of a kind, as they are on the server.
//!
//! # Guarantees
//! - The store is never older than our own writes, once their answers were passed to
//!   [`Store::written`], and such an answer does not add a deleted object again: see
//!   [`baton_kubernetes::freshness`].
//! - An object that cannot be read as its type is logged and skipped. The store keeps the state
//!   that was last readable, until the object is deleted.
//! - The objects stay in the store while they cannot be listed, or are not served although their
//!   kind is defined. [`Store::extent`] reports if the store has all objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_engine::redact::without_values;
use baton_kubernetes::{
    collection::{Extent, Fold, NamespacedName, Step, Unserved},
    freshness::Freshness,
    metadata::number,
    path,
    watch::{Event, Failing, WatchSpec, run},
};
use baton_runtime::source::{Source, Wake};
use kube::{Client, ResourceExt as _};
use parking_lot::RwLock;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::key::{Key, Kind};

/// A change of an object; at least one of the two states is present.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// The state before the change; `None` if the object was added.
    pub old: Option<Arc<K>>,
    /// The state after the change; `None` if the object was removed.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object after the change, or before it if the object was removed.
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// The objects of a kind.
pub struct Store<K> {
    /// Name of the kind, as in keys.
    pub kind: &'static str,
    /// Changes, also those by our own writes.
    pub changes: Source<Change<K>>,
    /// Emits when the set of objects becomes unknown, or is unknown for another reason.
    pub lost: Source<()>,
    /// Emits when the set of objects becomes known or unknown, or is unknown for another reason.
    pub extents: Source<()>,
    table: RwLock<Table<K>>,
    extent: watch::Sender<Extent>,
    /// Removes the parts of an object that are not read.
    trim: fn(&mut K),
}

struct Table<K> {
    objects: BTreeMap<NamespacedName, Arc<K>>,
    fold: Fold<NamespacedName>,
    freshness: Freshness<NamespacedName>,
}

impl<K: Kind> Store<K> {
    /// An empty store of a kind.
    #[must_use]
    pub fn new(kind: &'static str) -> Self {
        Self::trimmed(kind, |_| {})
    }

    /// An empty store of a kind. `trim` removes the parts of each object that are not read.
    #[must_use]
    pub fn trimmed(kind: &'static str, trim: fn(&mut K)) -> Self {
        Self {
            kind,
            changes: Source::default(),
            lost: Source::default(),
            extents: Source::default(),
            table: RwLock::new(Table {
                objects: BTreeMap::new(),
                fold: Fold::new(Unserved::Unknown),
                freshness: Freshness::default(),
            }),
            extent: watch::Sender::default(),
            trim,
        }
    }

    /// Watches the objects on the server forever. While the kind is not defined no request is
    /// sent, until `defined` reports a change of the definitions of its group.
    pub async fn follow(self: Arc<Self>, client: Client, defined: Arc<Notify>) {
        loop {
            let change = defined.notified();
            tokio::pin!(change);
            // From here on no change is missed.
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

    /// Selects the objects of the kind in all namespaces.
    pub fn whole() -> WatchSpec {
        WatchSpec::new(path::everywhere(
            &format!("/apis/{}", K::api_version(&())),
            &K::plural(&()),
        ))
    }

    /// Watches the selected objects on a server forever.
    pub async fn follow_at(self: Arc<Self>, client: Client, spec: WatchSpec) {
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

    /// Resolves when all objects were listed once, or the list has failed.
    pub async fn listed(&self) {
        // The sender exists as long as `self`.
        let mut extent = self.extent.subscribe();
        let _ = extent.wait_for(|extent| *extent != Extent::Nothing).await;
    }

    /// Resolves when all objects were listed once.
    pub async fn completed(&self) {
        // The sender exists as long as `self`.
        let mut extent = self.extent.subscribe();
        let _ = extent.wait_for(|extent| *extent == Extent::All).await;
    }

    /// True if the objects were listed, so that an object that is missing here does not exist.
    pub fn is_complete(&self) -> bool {
        *self.extent.borrow() == Extent::All
    }

    /// True if all objects were listed once, even if they are unknown now.
    pub fn was_complete(&self) -> bool {
        self.table.read().fold.was_complete()
    }

    /// The extent to which the objects are known. Its cause names the kind.
    pub fn extent(&self) -> Extent {
        match &*self.extent.borrow() {
            Extent::Unavailable(cause) => {
                Extent::Unavailable(format!("{}s cannot be listed: {cause}", self.kind).into())
            }
            extent => extent.clone(),
        }
    }

    /// The reason that the objects cannot be listed; empty if they can, or that is unknown.
    pub fn cause(&self) -> Arc<str> {
        let extent = self.extent.borrow();
        extent.failure().unwrap_or_default().into()
    }

    /// True if the client has no right to list the objects.
    pub fn is_forbidden(&self) -> bool {
        self.table.read().fold.is_forbidden()
    }

    /// The object with this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = (namespace.into(), name.into());
        self.table.read().objects.get(&key).cloned()
    }

    /// All objects of a namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let table = self.table.read();
        let from = (Arc::from(namespace), Arc::from(""));
        let objects = table.objects.range(from..);
        let objects = objects.take_while(|((found, _), _)| **found == *namespace);
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The objects of a namespace whose label has this value, sorted by name.
    pub fn labelled(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<K>> {
        let mut objects = self.in_namespace(namespace);
        objects.retain(|object| object.labels().get(label).map(String::as_str) == Some(value));
        objects
    }

    /// All objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.table.read().objects.values().cloned().collect()
    }

    /// Wakes the objects that `is_concerned` accepts.
    pub fn wake(&self, is_concerned: impl Fn(&K) -> bool) -> Vec<Wake<Key>> {
        let objects = self.all();
        let objects = objects.iter().filter(|object| is_concerned(object));
        let keys = objects.map(|object| Key::of(self.kind, &**object));
        keys.map(Wake::now).collect()
    }

    /// Applies the answer to a write of ours.
    pub fn written(&self, object: K) {
        let (key, version) = (key(&object), version(&object));
        let mut table = self.table.write();
        let cached = table.version(&key);
        if !table.freshness.written(key.clone(), cached, version) {
            return;
        }
        let change = table.insert(key, self.trim(object));
        drop(table);
        self.changes.emit(&change);
    }

    /// Applies the objects of an application that the server has just listed, before the watch
    /// reports them.
    pub fn listed_now(&self, objects: Vec<K>) {
        for object in objects {
            self.written(object);
        }
    }

    fn on_event(&self, event: &Event<'_>) {
        let mut table = self.table.write();
        let was_complete = table.fold.was_complete();
        let step = table.fold.process(event);
        let extent = table.fold.extent().clone();
        let changes = match step {
            Step::Begin => {
                table.freshness.list_started();
                Vec::new()
            }
            Step::Upsert {
                key,
                version,
                object,
                is_listed,
            } => {
                let replaces = table.replaces(&key, version, is_listed);
                let object = replaces.then(|| self.read(object)).flatten();
                object
                    .map(|object| table.insert(key, object))
                    .into_iter()
                    .collect()
            }
            Step::Remove { key, version } => {
                table.freshness.reached(version);
                table.remove(&key).into_iter().collect()
            }
            Step::Retain { listed, version } => {
                let mut changes = table.retain(&listed, version);
                // The objects that had to wait while the set was unknown are woken.
                if was_complete && !self.is_complete() {
                    changes.extend(table.appear());
                }
                changes
            }
            Step::Reached(version) => {
                table.freshness.reached(version);
                Vec::new()
            }
            Step::Nothing => Vec::new(),
        };
        drop(table);
        self.set_extent(extent);
        for change in changes {
            self.changes.emit(&change);
        }
    }

    /// Stores the extent to which the objects are known.
    fn set_extent(&self, now: Extent) {
        let is_lost = now.failure().is_some();
        let is_news = self.extent.send_if_modified(|extent| {
            let changes = *extent != now;
            *extent = now;
            changes
        });
        if is_news {
            self.extents.emit(&());
        }
        if is_news && is_lost {
            self.lost.emit(&());
        }
    }

    /// Removes all objects, because their kind is not defined.
    fn empty(&self) {
        let mut table = self.table.write();
        table.fold.forget();
        let gone = std::mem::take(&mut table.objects);
        drop(table);
        for (_, old) in gone {
            let old = Some(old);
            self.changes.emit(&Change { old, new: None });
        }
    }

    fn trim(&self, mut object: K) -> K {
        // Only `trim` reads the managed fields. They are half of a small object. A write without them
        // does not change them.
        (self.trim)(&mut object);
        object.meta_mut().managed_fields = None;
        // A parsed object has vectors with room for four items and strings with spare bytes, often a
        // third of its memory. A clone has neither.
        object.clone()
    }

    fn read(&self, object: &RawValue) -> Option<K> {
        match serde_json::from_str::<K>(object.get()) {
            Ok(object) => Some(self.trim(object)),
            Err(error) => {
                let error = without_values(&error.to_string());
                warn!(
                    kind = self.kind,
                    error, "an object cannot be parsed and is ignored"
                );
                None
            }
        }
    }
}

impl<K: Kind> Table<K> {
    fn version(&self, key: &NamespacedName) -> Option<u64> {
        self.objects.get(key).map(|cached| version(&**cached))
    }

    fn insert(&mut self, key: NamespacedName, object: K) -> Change<K> {
        let new = Arc::new(object);
        let old = self.objects.insert(key, Arc::clone(&new));
        let new = Some(new);
        Change { old, new }
    }

    /// True if the state that a watch or a list reports replaces the stored one.
    fn replaces(&mut self, key: &NamespacedName, version: u64, is_listed: bool) -> bool {
        let cached = self.version(key);
        if is_listed {
            self.freshness.listed(key, cached, version)
        } else {
            self.freshness.observed(cached, version)
        }
    }

    /// All objects, as changes that add them.
    fn appear(&self) -> impl Iterator<Item = Change<K>> {
        let objects = self.objects.values().cloned();
        objects.map(|object| Change {
            old: None,
            new: Some(object),
        })
    }

    fn remove(&mut self, key: &NamespacedName) -> Option<Change<K>> {
        let old = Some(self.objects.remove(key)?);
        Some(Change { old, new: None })
    }

    /// Removes the objects that a list of this version does not contain.
    fn retain(&mut self, listed: &BTreeSet<NamespacedName>, list: u64) -> Vec<Change<K>> {
        let is_newer = self.freshness.list_done(list);
        let gone = self
            .objects
            .iter()
            .filter(|(key, object)| !listed.contains(*key) && !is_newer(key, version(&***object)));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.remove(key)).collect()
    }
}

fn key<K: Kind>(object: &K) -> NamespacedName {
    let meta = object.meta();
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&meta.namespace), text(&meta.name))
}

/// The version as a number; 0 if it is none: then only the watch counts.
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
    fn our_own_writes_are_visible_at_once_and_reported_once() {
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
    fn an_older_answer_does_not_restore_a_deleted_object() {
        let (store, _) = store();
        store.on_event(&Event::Deleted(&release("a", 12)));
        written(&store, "a", 11);
        assert_eq!(names(&store), [] as [&str; 0]);
        // A new object with the same name.
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
    fn a_new_list_replaces_all_objects_except_later_writes() {
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

    /// The versions of a server that was restored from a backup are lower than the observed ones.
    #[test]
    fn a_list_of_a_restored_server_replaces_newer_versions() {
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
    fn an_unreadable_object_does_not_block_the_store() {
        let (store, _) = store();
        let broken = json!({"metadata": {"name": 7}});
        let broken = serde_json::value::to_raw_value(&broken).unwrap();
        store.on_event(&Event::Upsert(&broken));
        assert_eq!(names(&store), ["a@3"]);
        assert!(store.is_complete());
    }

    #[test]
    fn the_last_readable_state_of_an_object_is_kept_until_it_is_gone() {
        let (store, _) = store();
        let metadata = json!({"name": "a", "namespace": "shop", "resourceVersion": "14"});
        let broken = json!({"metadata": metadata, "spec": "odd"});
        let broken = serde_json::value::to_raw_value(&broken).unwrap();
        store.on_event(&Event::Upsert(&broken));
        assert_eq!(names(&store), ["a@3"]);
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::Listed(&broken));
        store.on_event(&Event::ListDone {
            resource_version: 20,
        });
        assert_eq!(names(&store), ["a@3"], "it is listed");
        store.on_event(&Event::Deleted(&broken));
        assert_eq!(names(&store), [] as [&str; 0]);
    }

    /// The answer to a write that was followed by a deletion arrives during a new list.
    #[test]
    fn an_object_missing_in_a_list_is_gone_unless_it_was_written_later() {
        let (store, _) = store();
        store.on_event(&Event::Deleted(&release("a", 12)));
        store.on_event(&Event::ListStarted);
        written(&store, "a", 11);
        store.on_event(&Event::ListDone {
            resource_version: 20,
        });
        assert_eq!(names(&store), [] as [&str; 0]);
    }

    /// Objects that are not served, or cannot be listed, may nevertheless exist.
    #[test]
    fn the_store_is_incomplete_and_unchanged_while_the_list_fails() {
        for (event, is_listing) in [(Event::Unserved, false), (Event::Failed("forbidden"), true)] {
            let (store, changes) = store();
            if is_listing {
                // A watch that breaks continues where it was.
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
            // The waiting objects are woken.
            assert_eq!(*changes.lock(), 2, "{event:?}");
        }
    }

    #[test]
    fn a_store_is_incomplete_after_a_failed_first_list() {
        let store = Store::<Release>::new("Release");
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::Failed("forbidden"));
        assert!(!store.is_complete());
        assert_eq!(*store.cause(), *"forbidden");
    }
}
