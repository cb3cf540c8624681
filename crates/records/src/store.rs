//! The objects of our own kinds, from their watches and the answers to our own writes, with
//! indexes.
//!
//! # Freshness
//! - A record is replaced only by a newer version, or by a list: see
//!   [`baton_kubernetes::freshness`]. The echo of a write, and an answer that the watch has
//!   overtaken, change nothing.
//! - The answer to a creation stays until a watch or a list as new as the answer has observed the
//!   object, or its deletion.
//! - The answer to any other write never adds an object again whose deletion the watch has
//!   reported.
//! - A status that another client removes stays in the store, marked by [`Record::is_wiped`].
//!
//! Every change is emitted once, with the controller that caused it ([`Change::writer`]).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use baton_kubernetes::{collection::Extent, freshness::Freshness};
use baton_runtime::source::Source;
use parking_lot::RwLock;

use crate::{
    key::Key,
    record::{Record, RecordKind},
};

/// A record was replaced, added, or removed.
#[derive(Clone, Debug)]
pub struct Change<K: RecordKind> {
    /// The record before; `None` if it was added.
    pub old: Option<Arc<Record<K>>>,
    /// The record now; `None` if it was removed.
    pub new: Option<Arc<Record<K>>>,
    /// Name of the controller of this process that caused the change by a write; `None` for an
    /// observed change.
    pub writer: Option<&'static str>,
}

impl<K: RecordKind> Change<K> {
    /// The record now, or the last one if it was removed.
    pub fn record(&self) -> Option<&Arc<Record<K>>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl<K: RecordKind> Change<K> {
    /// True if a pass could have another result after the change.
    pub fn may_change_results(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.differs(new) || new.is_wiped,
            _ => true,
        }
    }
}

/// The objects that mention a name, by their names, in order; all are in the namespace of the name.
/// Most names have one or a few, so a vector is sufficient.
type Users<K> = HashMap<(<K as RecordKind>::Index, Key<K>), Vec<Arc<str>>>;

/// Number of users up to which no memory is reserved in advance.
const MIN_RESERVED: usize = 8;

/// The store of all objects of a kind, in both scopes.
pub struct Store<K: RecordKind> {
    inner: RwLock<Inner<K>>,
    changes: Source<Change<K>>,
    /// Emits a kind whose objects can no longer be listed, or can be listed again.
    pub extents: Source<K>,
}

struct Inner<K: RecordKind> {
    records: HashMap<Key<K>, Arc<Record<K>>>,
    by_uid: HashMap<Arc<str>, Arc<Record<K>>>,
    users: Users<K>,
    /// Freshness of each kind.
    freshness: HashMap<K, Freshness<Key<K>>>,
    /// Extent to which the objects of each kind are known.
    extents: HashMap<K, Extent>,
}

impl<K: RecordKind> Default for Store<K> {
    fn default() -> Self {
        let inner = Inner {
            records: HashMap::new(),
            by_uid: HashMap::new(),
            users: HashMap::new(),
            freshness: HashMap::new(),
            extents: HashMap::new(),
        };
        Self {
            inner: RwLock::new(inner),
            changes: Source::default(),
            extents: Source::default(),
        }
    }
}

impl<K: RecordKind> Store<K> {
    /// The source of all changes.
    pub fn changes(&self) -> &Source<Change<K>> {
        &self.changes
    }

    /// The extent to which the objects of a kind are known. Its cause names the kind. The objects stay
    /// in the store while they cannot be listed, but those that others create are missing.
    pub fn extent(&self, kind: K) -> Extent {
        match self.inner.read().extents.get(&kind) {
            Some(Extent::Unavailable(cause)) => {
                let name = kind.kind();
                Extent::Unavailable(format!("{name}s cannot be listed: {cause}").into())
            }
            Some(extent) => extent.clone(),
            None => Extent::Nothing,
        }
    }

    /// Stores the extent to which the objects of a kind are known.
    pub fn set_extent(&self, kind: K, now: &Extent) {
        let mut inner = self.inner.write();
        let extent = inner.extents.entry(kind).or_default();
        if extent == now {
            return;
        }
        let before = std::mem::replace(extent, now.clone());
        drop(inner);
        if before != Extent::Nothing {
            self.extents.emit(&kind);
        }
    }

    /// Begins a list of a kind.
    pub fn list_started(&self, kind: K) {
        self.inner.write().freshness(kind).list_started();
    }

    /// Applies a record of the current list. Returns true if the record differs from the stored one.
    pub fn observe_listed(&self, record: Record<K>) -> bool {
        let change = {
            let mut inner = self.inner.write();
            let cached = inner.version(&record.key);
            let freshness = inner.freshness(record.key.kind);
            let replaces = freshness.listed(&record.key, cached, record.resource_version);
            inner.apply_observed(record, replaces)
        };
        self.emit(change, None)
    }

    /// Applies a record of a watch. True if the record is newer than the stored one.
    pub fn observe(&self, record: Record<K>) -> bool {
        let change = {
            let mut inner = self.inner.write();
            let cached = inner.version(&record.key);
            let freshness = inner.freshness(record.key.kind);
            let replaces = freshness.observed(cached, record.resource_version);
            inner.apply_observed(record, replaces)
        };
        self.emit(change, None)
    }

    /// Adds an object that `writer` has created or read, before the watch observes it.
    ///
    /// If the watch has passed its version, the watch has observed the object already, and perhaps
    /// its deletion.
    pub fn created(&self, record: Record<K>, writer: &'static str) {
        let change = self.inner.write().written(record);
        self.emit(change, Some(writer));
    }

    /// Applies the answer to a write of `writer`.
    pub fn updated(&self, record: Record<K>, writer: &'static str) {
        let change = {
            let mut inner = self.inner.write();
            let cached = inner.records.get(&record.key);
            let is_same = cached.is_some_and(|cached| cached.uid == record.uid);
            is_same.then(|| inner.written(record)).flatten()
        };
        self.emit(change, Some(writer));
    }

    /// Adds the content, as the server has sent it, to an object that is stored without.
    pub fn fill(&self, record: Record<K>) {
        let change = {
            let mut inner = self.inner.write();
            let cached = inner.records.get(&record.key).cloned();
            let old = cached.filter(|cached| {
                !cached.has_content() && cached.resource_version == record.resource_version
            });
            old.map(|old| Change {
                old: Some(old),
                new: Some(inner.put(record)),
                writer: None,
            })
        };
        self.emit(change, None);
    }

    /// Drops the content of an object, until [`Store::fill`] adds it again. Nothing is emitted.
    pub fn drop_content(&self, key: &Key<K>) {
        let mut inner = self.inner.write();
        if let Some(cached) = inner.records.get(key).filter(|cached| cached.has_content()) {
            let bare = Record::clone(cached).without_content();
            inner.put(bare);
        }
    }

    /// Stores a status that may not be on the server yet, for an object with this UID. Returns true
    /// if the object is in the store. Emits no change.
    ///
    /// # Errors
    /// If the status cannot be serialised, which does not happen for the status types of Baton.
    pub fn note_status(
        &self,
        key: &Key<K>,
        uid: &str,
        status: &K::Status,
    ) -> Result<bool, serde_json::Error> {
        let mut inner = self.inner.write();
        let cached = inner.records.get(key).filter(|cached| &*cached.uid == uid);
        let Some(mut record) = cached.map(|cached| Record::clone(cached)) else {
            return Ok(false);
        };
        record.set_status(status)?;
        inner.put(record);
        Ok(true)
    }

    /// Removes an object whose deletion the watch has reported. Returns its last record.
    pub fn remove(&self, key: &Key<K>) -> Option<Arc<Record<K>>> {
        let old = {
            let mut inner = self.inner.write();
            inner.remove(key)
        };
        self.emit_end(old.as_ref());
        old
    }

    /// Ends a list of this version: removes the objects of the kind that the list does not contain.
    /// Objects that were written after it stay.
    pub fn retain(&self, kind: K, listed: &BTreeSet<Key<K>>, version: u64) {
        let gone: Vec<_> = {
            let mut inner = self.inner.write();
            let is_newer = inner.freshness(kind).list_done(version);
            let is_gone = |record: &Record<K>| {
                let key = &record.key;
                key.kind == kind && !listed.contains(key) && !is_newer(key, record.resource_version)
            };
            let records = inner.records.values().filter(|record| is_gone(record));
            let gone: Vec<_> = records.map(|record| record.key.clone()).collect();
            gone.iter().filter_map(|key| inner.remove(key)).collect()
        };
        for old in &gone {
            self.emit_end(Some(old));
        }
    }

    fn emit(&self, change: Option<Change<K>>, writer: Option<&'static str>) -> bool {
        let Some(change) = change else {
            return false;
        };
        self.changes.emit(&Change { writer, ..change });
        true
    }

    fn emit_end(&self, old: Option<&Arc<Record<K>>>) {
        if let Some(old) = old {
            self.changes.emit(&Change {
                old: Some(Arc::clone(old)),
                new: None,
                writer: None,
            });
        }
    }

    /// The object of a key, if it exists.
    pub fn get(&self, key: &Key<K>) -> Option<Arc<Record<K>>> {
        self.inner.read().records.get(key).cloned()
    }

    /// The object with a UID, if it exists.
    pub fn by_uid(&self, uid: &str) -> Option<Arc<Record<K>>> {
        self.inner.read().by_uid.get(uid).cloned()
    }

    /// The objects that mention the name of `name`, by an index, in the order of their names.
    pub fn mentioning(&self, index: K::Index, name: &Key<K>) -> Vec<Arc<Record<K>>> {
        let inner = self.inner.read();
        let users = inner.users.get(&(index, name.clone()));
        let keys = users.into_iter().flatten().map(|user| name.named(user));
        keys.filter_map(|key| inner.records.get(&key).cloned())
            .collect()
    }

    /// The objects that `pick` accepts, in no particular order.
    pub fn filter(&self, pick: impl Fn(&Record<K>) -> bool) -> Vec<Arc<Record<K>>> {
        let inner = self.inner.read();
        let records = inner.records.values();
        records.filter(|record| pick(record)).cloned().collect()
    }

    /// All objects, in no particular order.
    pub fn all(&self) -> Vec<Arc<Record<K>>> {
        self.filter(|_| true)
    }
}

/// True if a record is the answer to the write that removed the last finalizer of a deleted object.
/// The object is gone then, and the server answers with its former state, which has the same
/// version.
fn ends<K: RecordKind>(old: &Record<K>, record: &Record<K>) -> bool {
    old.uid == record.uid
        && old.resource_version == record.resource_version
        && record.deleting
        && record.finalizers.is_empty()
        && !old.finalizers.is_empty()
}

impl<K: RecordKind> Inner<K> {
    fn freshness(&mut self, kind: K) -> &mut Freshness<Key<K>> {
        self.freshness.entry(kind).or_default()
    }

    fn version(&self, key: &Key<K>) -> Option<u64> {
        let cached = self.records.get(key)?;
        Some(cached.resource_version)
    }

    /// Applies the answer to a write, if it is newer than the stored record.
    fn written(&mut self, record: Record<K>) -> Option<Change<K>> {
        let cached = self.version(&record.key);
        let freshness = self.freshness(record.key.kind);
        let replaces = freshness.written(record.key.clone(), cached, record.resource_version);
        self.apply(record, replaces)
    }

    /// Applies a record that the server has sent, if it replaces the stored one.
    fn apply_observed(&mut self, mut record: Record<K>, replaces: bool) -> Option<Change<K>> {
        if let Some(old) = self.records.get(&record.key) {
            record.keep_wiped_status(old);
        }
        self.apply(record, replaces)
    }

    /// Applies a record, if it replaces the stored one.
    fn apply(&mut self, mut record: Record<K>, replaces: bool) -> Option<Change<K>> {
        let old = self.records.get(&record.key).cloned();
        let ends = old.as_ref().is_some_and(|old| ends(old, &record));
        if !replaces && !ends {
            return None;
        }
        if let Some(old) = &old
            && old.resource_version <= record.resource_version
        {
            record.orphaning |= old.orphaning && old.uid == record.uid;
        }
        let new = Some(self.put(record));
        let writer = None;
        Some(Change { old, new, writer })
    }

    fn put(&mut self, mut record: Record<K>) -> Arc<Record<K>> {
        let old = self.records.remove(&record.key);
        K::share(&mut record, &self.records);
        let new = Arc::new(record);
        if let Some(old) = &old {
            self.forget_uids(old);
        }
        let uids = K::further_uids(&new.fields);
        let uids = uids.iter().map(|uid| uid.as_str().into());
        for uid in uids.chain([new.uid.clone()]) {
            self.by_uid.insert(uid, new.clone());
        }
        // In most cases the mentioned names are the same as before. Thousands of objects may
        // mention a name, and a change of one must not move the others.
        let stays = |old: &Record<K>| K::references(old) == K::references(&new);
        if !old.as_deref().is_some_and(stays) {
            if let Some(old) = &old {
                self.remove_from_indexes(old);
            }
            self.add_to_indexes(&new);
        }
        self.records.insert(new.key.clone(), new.clone());
        new
    }

    fn remove(&mut self, key: &Key<K>) -> Option<Arc<Record<K>>> {
        let old = self.records.remove(key)?;
        self.forget_uids(&old);
        self.remove_from_indexes(&old);
        Some(old)
    }

    fn forget_uids(&mut self, old: &Record<K>) {
        self.by_uid.remove(&old.uid);
        for uid in K::further_uids(&old.fields) {
            self.by_uid.remove(uid.as_str());
        }
    }

    /// Adds a record to the indexes.
    fn add_to_indexes(&mut self, new: &Record<K>) {
        let key = &new.key;
        for (index, name) in K::references(new) {
            let users = self.users.entry((index, key.sibling(name))).or_default();
            if let Err(at) = users.binary_search(&key.name) {
                if users.len() < MIN_RESERVED {
                    users.reserve_exact(1);
                }
                users.insert(at, key.name.clone());
            }
        }
    }

    /// Removes a record from the indexes.
    fn remove_from_indexes(&mut self, old: &Record<K>) {
        let key = &old.key;
        for (index, name) in K::references(old) {
            let named = (index, key.sibling(name));
            if let Some(users) = self.users.get_mut(&named) {
                if let Ok(at) = users.binary_search(&key.name) {
                    users.remove(at);
                }
                if users.is_empty() {
                    self.users.remove(&named);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::revision::{RevisionKind, RevisionRecord, Revisions};

    const KIND: RevisionKind = RevisionKind::ObjectSet;

    fn record(name: &str, uid: &str, version: u64) -> RevisionRecord {
        let object = json!({"metadata": {
            "name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
        }});
        Record::read(KIND, &object.to_string()).unwrap()
    }

    fn version(revisions: &Revisions, name: &str) -> Option<u64> {
        let key = record(name, "any", 0).key;
        revisions.get(&key).map(|record| record.resource_version)
    }

    /// Garbage collection may finish its part before a pass has released the revision.
    #[test]
    fn an_orphaning_deletion_is_remembered_until_the_object_is_gone() {
        let revisions = Revisions::default();
        let going = |version: u64, finalizers: &[&str], uid: &str| {
            let object = json!({"metadata": {
                "name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            }});
            Record::read(KIND, &object.to_string()).unwrap()
        };
        let key = record("web", "any", 0).key;
        let is_left = || revisions.get(&key).unwrap().orphaning;
        revisions.observe(going(5, &["orphan", "x"], "a"));
        revisions.observe(going(6, &["x"], "a"));
        assert!(is_left());
        revisions.updated(going(7, &["x"], "a"), "test");
        assert!(is_left());
        revisions.observe(going(8, &["x"], "b"));
        assert!(!is_left());
    }

    /// Nothing else has these facts: the revision is archived, and these were its phases.
    #[test]
    fn a_status_that_another_client_removes_stays_until_it_is_written_again() {
        let read = |version: u64, uid: &str, generation: i64, status: serde_json::Value| {
            let object = json!({
                "metadata": {
                    "name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
                    "generation": generation,
                },
                "spec": {"phases": [{"name": "a", "class": "default"}]}, "status": status,
            });
            Record::read(KIND, &object.to_string()).unwrap()
        };
        let status = |type_: &str| {
            let condition = |type_: &str| {
                json!({
                    "type": type_, "status": "True", "reason": "Because", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let phases = json!([{"name": "web-a", "uid": "p"}]);
            let mut conditions = vec![condition(type_)];
            conditions.extend((type_ == "Available").then(|| condition("Ready")));
            json!({"conditions": conditions, "remotePhases": phases})
        };
        for type_ in ["Archived", "Available"] {
            for (version, uid, generation, is_kept) in [
                (9, "a", 1, true),
                // Another object, another spec, and the past of a restored server.
                (9, "b", 1, false),
                (9, "a", 2, false),
                (3, "a", 1, false),
            ] {
                let revisions = Revisions::default();
                let key = record("web", "any", 0).key;
                revisions.observe(read(5, "a", 1, status(type_)));
                revisions.list_started(KIND);
                revisions.observe_listed(read(version, uid, generation, json!({})));
                let kept = revisions.get(&key).unwrap();
                assert_eq!(kept.resource_version, version);
                assert_eq!(kept.is_wiped, is_kept, "{version} {uid} {generation}");
                assert_eq!(kept.archived, is_kept && type_ == "Archived");
                assert_eq!(kept.remote_phases.len(), usize::from(is_kept));
                assert_eq!(revisions.by_uid("p").is_some(), is_kept);
                let written = kept.status().unwrap();
                assert_eq!(
                    written.conditions.is_empty(),
                    !is_kept || type_ == "Archived"
                );
                // Another client changes something else, and then the status is written.
                revisions.observe(read(version + 1, uid, generation, json!({})));
                assert_eq!(revisions.get(&key).unwrap().is_wiped, is_kept);
                let mut answer = read(version + 2, uid, generation, json!({}));
                let status = serde_json::from_value(status(type_)).unwrap();
                answer.set_status(&status).unwrap();
                revisions.updated(answer, "test");
                assert!(!revisions.get(&key).unwrap().is_wiped);
            }
        }
    }

    #[test]
    fn an_object_that_we_created_is_visible_at_once() {
        let revisions = Revisions::default();
        revisions.observe(record("old", "a", 5));
        revisions.created(record("web", "b", 6), "test");
        assert_eq!(version(&revisions, "web"), Some(6));
        // The watch has no newer state then.
        assert!(!revisions.observe(record("web", "b", 6)));
        assert!(revisions.observe(record("web", "b", 7)));
    }

    #[test]
    fn a_late_answer_does_not_restore_a_deleted_object() {
        let revisions = Revisions::default();
        let made = record("web", "a", 6);
        revisions.observe(made.clone());
        revisions.remove(&made.key);
        revisions.created(made.clone(), "test");
        revisions.updated(record("web", "a", 7), "test");
        assert_eq!(version(&revisions, "web"), None);
        // The answer does not replace the state that was observed since, either.
        revisions.observe(record("web", "b", 9));
        revisions.created(made, "test");
        revisions.updated(record("web", "a", 10), "test");
        assert_eq!(version(&revisions, "web"), Some(9));
    }

    #[test]
    fn an_older_list_does_not_remove_a_new_object() {
        let revisions = Revisions::default();
        revisions.observe(record("old", "a", 5));
        revisions.list_started(KIND);
        revisions.created(record("web", "b", 8), "test");
        revisions.retain(KIND, &BTreeSet::new(), 7);
        assert_eq!(version(&revisions, "old"), None);
        assert_eq!(version(&revisions, "web"), Some(8));
        revisions.retain(KIND, &BTreeSet::new(), 8);
        assert_eq!(version(&revisions, "web"), None);
    }

    /// As after a backup was restored: all later changes are undone.
    #[test]
    fn a_list_of_a_restored_server_replaces_newer_versions() {
        let revisions = Revisions::default();
        revisions.observe(record("web", "a", 5));
        revisions.updated(record("web", "a", 9), "test");
        revisions.created(record("new", "b", 8), "test");
        let list = |objects: &[RevisionRecord], version| {
            revisions.list_started(KIND);
            let listed = objects.iter().map(|object| object.key.clone()).collect();
            for object in objects {
                revisions.observe_listed(object.clone());
            }
            revisions.retain(KIND, &listed, version);
        };
        list(&[record("web", "a", 4)], 6);
        assert_eq!(version(&revisions, "web"), Some(4));
        assert_eq!(version(&revisions, "new"), None, "it was never made");
        // From there on the store works as before.
        revisions.created(record("new", "c", 7), "test");
        revisions.updated(record("web", "a", 8), "test");
        revisions.observe(record("web", "a", 7));
        assert_eq!(version(&revisions, "web"), Some(8));
        assert_eq!(version(&revisions, "new"), Some(7));
        // A write since the list began is newer than the list.
        revisions.list_started(KIND);
        revisions.updated(record("web", "a", 10), "test");
        revisions.observe_listed(record("web", "a", 9));
        assert_eq!(version(&revisions, "web"), Some(10));
    }

    /// Otherwise any trigger before the deletion is observed would make the controller remove all
    /// objects once more.
    #[test]
    fn removed_finalizers_are_recorded_at_an_unchanged_version() {
        let revisions = Revisions::default();
        let mut leaving = record("web", "a", 5);
        leaving.deleting = true;
        leaving.finalizers = vec!["f".to_owned(), "g".to_owned()];
        revisions.observe(leaving.clone());
        let finalizers = || {
            revisions
                .get(&record("web", "a", 5).key)
                .unwrap()
                .finalizers
                .clone()
        };
        let with = |finalizers: &[&str], deleting| {
            let mut record = leaving.clone();
            record.finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
            record.deleting = deleting;
            record
        };
        revisions.updated(with(&["g"], true), "revision");
        assert_eq!(
            finalizers(),
            ["f", "g"],
            "it is not gone, so an equal version is an equal state"
        );
        revisions.updated(with(&[], false), "revision");
        assert_eq!(finalizers(), ["f", "g"]);
        revisions.updated(with(&[], true), "revision");
        assert_eq!(finalizers(), Vec::<String>::new());
        revisions.observe(leaving.clone());
        assert_eq!(
            finalizers(),
            Vec::<String>::new(),
            "an event that comes late"
        );
    }

    #[test]
    fn the_extent_of_a_kind_is_emitted_after_its_first_list() {
        let revisions = Revisions::default();
        let emitted = Arc::new(Mutex::new(0));
        let sink = Arc::clone(&emitted);
        revisions
            .extents
            .subscribe(move |_| *sink.lock().unwrap() += 1);
        let unavailable = |cause: &str| Extent::Unavailable(cause.into());
        assert_eq!(revisions.extent(KIND), Extent::Nothing);
        for (now, expected, count) in [
            (Extent::Nothing, Extent::Nothing, 0),
            (Extent::All, Extent::All, 0),
            (
                unavailable("no right"),
                unavailable("ObjectSets cannot be listed: no right"),
                1,
            ),
            (
                unavailable("no right"),
                unavailable("ObjectSets cannot be listed: no right"),
                1,
            ),
            (Extent::All, Extent::All, 2),
        ] {
            revisions.set_extent(KIND, &now);
            assert_eq!(revisions.extent(KIND), expected);
            assert_eq!(*emitted.lock().unwrap(), count);
        }
    }

    #[test]
    fn each_change_is_emitted_once_with_its_writer() {
        let revisions = Revisions::default();
        let changes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&changes);
        revisions.changes().subscribe(move |change| {
            let version = |record: &Option<Arc<RevisionRecord>>| {
                record.as_ref().map_or(0, |record| record.resource_version)
            };
            let entry = (version(&change.old), version(&change.new), change.writer);
            sink.lock().unwrap().push(entry);
        });
        revisions.created(record("web", "a", 5), "deployment");
        revisions.observe(record("web", "a", 5));
        revisions.updated(record("web", "a", 6), "revision");
        revisions.observe(record("web", "a", 6));
        revisions.observe(record("web", "a", 7));
        revisions.remove(&record("web", "a", 7).key);
        let expected = [
            (0, 5, Some("deployment")),
            (5, 6, Some("revision")),
            (6, 7, None),
            (7, 0, None),
        ];
        assert_eq!(*changes.lock().unwrap(), expected);
    }
}
