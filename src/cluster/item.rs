//! Deployments and delegated phases as their watches tell: a few indexed fields over the raw JSON.
//!
//! Revisions are kept by [`super::revisions`] instead, which knows how they are related.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use baton_apis::constants::FINALIZER_ORPHAN;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{
    key::{Key, Resource},
    record::ReadError,
};

/// A kind that is kept as items.
pub trait ItemKind: Resource {
    /// The spec.
    type Spec: DeserializeOwned;
    /// The status.
    type Status: DeserializeOwned + Serialize + Default + PartialEq + Send + Sync;
}

/// What is kept of an object: its manifests as the text they came in.
#[derive(Clone, Debug)]
pub struct Item<K> {
    /// Identity.
    pub key: Key<K>,
    /// UID.
    pub uid: Arc<str>,
    /// Version of the whole object, comparable within its kind.
    pub resource_version: u64,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whether its objects are to be left behind. Stays so once it was seen: garbage collection takes the
    /// finalizer that says it away when its own part is done.
    pub orphaning: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// UID of its managing owner.
    pub controller: Option<Arc<str>>,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

impl<K: ItemKind> Item<K> {
    /// Reads an item from what a watch, a list or a write sent.
    ///
    /// # Errors
    /// When it is no object of ours.
    pub fn read(kind: K, object: &str) -> Result<Self, ReadError> {
        let Object {
            metadata,
            spec,
            status,
        } = serde_json::from_str(object).map_err(ReadError::of("metadata"))?;
        let mut owners = metadata.owner_references.into_iter();
        Ok(Self {
            key: Key {
                kind,
                namespace: metadata.namespace.into(),
                name: metadata.name.into(),
            },
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.parse().unwrap_or(0),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            orphaning: metadata.finalizers.iter().any(|f| f == FINALIZER_ORPHAN),
            finalizers: metadata.finalizers,
            labels: metadata.labels,
            annotations: metadata.annotations,
            controller: owners
                .find(|owner| owner.controller)
                .map(|owner| owner.uid.into()),
            spec: spec.map(ToOwned::to_owned),
            status: status.map(ToOwned::to_owned),
        })
    }

    /// The whole spec.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn spec(&self) -> Result<K::Spec, ReadError> {
        serde_json::from_str(self.raw_spec()).map_err(ReadError::of("spec"))
    }

    /// The spec as the API server sent it.
    #[must_use]
    pub fn raw_spec(&self) -> &str {
        self.spec.as_deref().map_or("{}", RawValue::get)
    }

    /// The whole status.
    ///
    /// # Errors
    /// When the status is none of ours.
    pub fn status(&self) -> Result<K::Status, ReadError> {
        let text = self.status.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(ReadError::of("status"))
    }

    /// Replaces the status, as an answer to a write of it says.
    ///
    /// # Errors
    /// Never for a status of ours; the serialiser's signature says otherwise.
    pub fn set_status(&mut self, status: &K::Status) -> Result<(), serde_json::Error> {
        self.status = Some(serde_json::value::to_raw_value(status)?);
        Ok(())
    }

    /// The same content as that of another object.
    #[must_use]
    pub fn standing_for(
        &self,
        key: Key<K>,
        uid: Arc<str>,
        generation: i64,
        controller: Option<Arc<str>>,
    ) -> Self {
        Self {
            key,
            uid,
            generation,
            controller,
            ..self.clone()
        }
    }

    /// Takes over the status of another one.
    pub fn set_status_of(&mut self, other: &Self) {
        self.status.clone_from(&other.status);
    }

    /// All that is kept of it as [`Item::read`] reads it, but for the owners.
    #[must_use]
    pub fn to_object(&self) -> Value {
        let raw = |text: &Option<Box<RawValue>>| {
            let text = text.as_deref().map_or("null", RawValue::get);
            serde_json::from_str::<Value>(text).unwrap_or_default()
        };
        let mut object = json!({
            "metadata": {
                "name": &*self.key.name,
                "namespace": &*self.key.namespace,
                "uid": &*self.uid,
                "resourceVersion": self.resource_version.to_string(),
                "generation": self.generation,
                "finalizers": self.finalizers,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": raw(&self.spec),
            "status": raw(&self.status),
        });
        if self.deleting {
            object["metadata"]["deletionTimestamp"] = "".into();
        }
        object
    }

    /// Whether a pass over the other one could come to something else than a pass over this one.
    fn differs(&self, other: &Self) -> bool {
        self.uid != other.uid
            || self.generation != other.generation
            || self.deleting != other.deleting
            || self.finalizers != other.finalizers
            || self.labels != other.labels
            || self.annotations != other.annotations
            || self.controller != other.controller
            || self.status().ok() != other.status().ok()
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    resource_version: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<super::record::Owner>,
}

/// All objects of a kind in both scopes. Written by watches and by the answers to our own writes.
#[derive(Debug)]
pub struct Items<K> {
    inner: RwLock<Inner<K>>,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                records: HashMap::new(),
                by_uid: HashMap::new(),
                controlled: HashMap::new(),
                told: 0,
                untold: BTreeSet::new(),
            }),
        }
    }
}

#[derive(Debug)]
struct Inner<K> {
    records: HashMap<Key<K>, Arc<Item<K>>>,
    by_uid: HashMap<Arc<str>, Key<K>>,
    /// By the uid of the managing owner.
    controlled: HashMap<Arc<str>, BTreeSet<Key<K>>>,
    /// The highest version that a watch has told.
    told: u64,
    /// Objects of our own making that the watch has not told of yet.
    untold: BTreeSet<Key<K>>,
}

impl<K: ItemKind> Items<K> {
    /// Takes an item from a watch or a list; the one before it, and whether a pass may come to
    /// something new. `None` when it is no news at all.
    pub fn upsert(&self, item: Item<K>) -> Option<(Option<Arc<Item<K>>>, bool)> {
        let mut inner = self.inner.write();
        inner.told = inner.told.max(item.resource_version);
        inner.untold.remove(&item.key);
        let known = inner.records.get(&item.key).cloned();
        if let Some(known) = &known
            && known.resource_version >= item.resource_version
        {
            return None;
        }
        let is_news = known.as_ref().is_none_or(|known| known.differs(&item));
        inner.insert(item);
        Some((known, is_news))
    }

    /// Takes an object of our own making, so that nobody misses it before the watch tells of it. When
    /// the watch is further already it has told of the object, and perhaps of its end.
    pub fn created(&self, item: Item<K>) {
        let mut inner = self.inner.write();
        if inner.told < item.resource_version {
            inner.untold.insert(item.key.clone());
            inner.insert(item);
        }
    }

    /// Takes the answer to one of our own writes. It never brings back an object that the watch has
    /// seen go.
    pub fn update(&self, item: Item<K>) {
        let mut inner = self.inner.write();
        let known = inner.records.get(&item.key);
        if known.is_some_and(|known| {
            known.uid == item.uid && known.resource_version < item.resource_version
        }) {
            inner.insert(item);
        }
    }

    /// Notes a status that the server may not know yet; whether there is such an object.
    ///
    /// # Errors
    /// Never for a status of ours; the serialiser's signature says otherwise.
    pub fn note_status(
        &self,
        key: &Key<K>,
        uid: &str,
        status: &K::Status,
    ) -> Result<bool, serde_json::Error> {
        let mut inner = self.inner.write();
        let Some(known) = inner.records.get_mut(key).filter(|item| &*item.uid == uid) else {
            return Ok(false);
        };
        Arc::make_mut(known).set_status(status)?;
        Ok(true)
    }

    /// Removes an object that a watch has seen go, and returns it.
    pub fn remove(&self, key: &Key<K>) -> Option<Arc<Item<K>>> {
        let mut inner = self.inner.write();
        inner.untold.remove(key);
        inner.remove(key)
    }

    /// Removes the objects of a kind that a new list of this version does not name, and returns them.
    /// Those that were made after it stay.
    pub fn retain(&self, kind: K, listed: &BTreeSet<Key<K>>, version: u64) -> Vec<Arc<Item<K>>> {
        let mut inner = self.inner.write();
        let is_gone = |item: &Item<K>| {
            let is_newer = inner.untold.contains(&item.key) && item.resource_version > version;
            item.key.kind == kind && !listed.contains(&item.key) && !is_newer
        };
        let gone: Vec<_> = inner
            .records
            .values()
            .filter(|item| is_gone(item))
            .map(|item| item.key.clone())
            .collect();
        inner.untold.retain(|key| !gone.contains(key));
        gone.iter().filter_map(|key| inner.remove(key)).collect()
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &Key<K>) -> Option<Arc<Item<K>>> {
        self.inner.read().records.get(key).cloned()
    }

    /// The object with a uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<Arc<Item<K>>> {
        let inner = self.inner.read();
        inner.records.get(inner.by_uid.get(uid)?).cloned()
    }

    /// The objects with a managing owner, in the order of their names.
    #[must_use]
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<Item<K>>> {
        let inner = self.inner.read();
        let keys = inner.controlled.get(uid).into_iter().flatten();
        keys.filter_map(|key| inner.records.get(key).cloned())
            .collect()
    }

    /// The keys of those that a test picks.
    pub fn keys_where(&self, pick: impl Fn(&Item<K>) -> bool) -> Vec<Key<K>> {
        let inner = self.inner.read();
        let items = inner.records.values();
        items
            .filter(|item| pick(item))
            .map(|item| item.key.clone())
            .collect()
    }

    /// All keys.
    #[must_use]
    pub fn keys(&self) -> Vec<Key<K>> {
        self.inner.read().records.keys().cloned().collect()
    }
}

impl<K: ItemKind> Inner<K> {
    fn insert(&mut self, mut item: Item<K>) {
        if let Some(old) = self.remove(&item.key) {
            item.orphaning |= old.orphaning && old.uid == item.uid;
        }
        self.by_uid.insert(item.uid.clone(), item.key.clone());
        if let Some(owner) = &item.controller {
            let controlled = self.controlled.entry(owner.clone()).or_default();
            controlled.insert(item.key.clone());
        }
        self.records.insert(item.key.clone(), Arc::new(item));
    }

    fn remove(&mut self, key: &Key<K>) -> Option<Arc<Item<K>>> {
        let old = self.records.remove(key)?;
        self.by_uid.remove(&old.uid);
        if let Some(owner) = &old.controller
            && let Some(controlled) = self.controlled.get_mut(owner)
        {
            controlled.remove(key);
            if controlled.is_empty() {
                self.controlled.remove(owner);
            }
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{phase::PhaseKind, record::RevisionKind};

    /// Garbage collection may be done with its part before a pass has let go of the object.
    #[test]
    fn what_was_to_be_left_behind_stays_so() {
        let kind = PhaseKind(RevisionKind::ObjectSet);
        let items = Items::default();
        let going = |version: u64, finalizers: &[&str], uid: &str| {
            let object = json!({"metadata": {
                "name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            }});
            Item::read(kind, &object.to_string()).unwrap()
        };
        let key = going(1, &[], "a").key;
        let is_left = || items.get(&key).unwrap().orphaning;
        items.upsert(going(5, &["orphan", "x"], "a"));
        items.upsert(going(6, &["x"], "a"));
        assert!(is_left());
        items.update(going(7, &["x"], "a"));
        assert!(is_left());
        items.upsert(going(8, &["x"], "b"));
        assert!(!is_left());
    }
}
