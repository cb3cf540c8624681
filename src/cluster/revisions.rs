//! The revisions that exist, as their watches tell, and how they are related.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use baton_apis::conditions::SUCCEEDED;
use parking_lot::RwLock;

use super::{
    deployment::DeploymentRecord,
    record::{Record, RevisionKey, RevisionKind},
};
use crate::engine::{
    ObjectKey,
    chain::Link,
    handover::{Kin, Lineage},
    object::{controlled_reference, manifest_reference},
};

/// All revisions of both kinds. Written by watches and by the answers to our own writes.
#[derive(Debug, Default)]
pub struct Revisions {
    inner: RwLock<Inner>,
}

/// Who mentions a name, in order. Mostly one or a few, so a vector is all it takes.
type Users = HashMap<RevisionKey, Vec<RevisionKey>>;

#[derive(Debug, Default)]
struct Inner {
    records: HashMap<RevisionKey, Arc<Record>>,
    /// Whose uid that is: a revision's, or that of one of its delegated phases.
    by_uid: HashMap<Arc<str>, RevisionKey>,
    /// Which revisions list a name as previous; the name need not exist.
    successors: Users,
    /// Which revisions use a slice, by the slice's name.
    slice_users: Users,
    /// Which revisions a deployment made, by the deployment's name.
    deployments: Users,
    /// Which revisions have a managing owner, by its uid in the place of the name.
    controlled: Users,
    /// The highest version that the watch of a kind has told.
    told: HashMap<RevisionKind, u64>,
    /// Revisions of our own making that the watch has not told of yet.
    untold: BTreeSet<RevisionKey>,
}

/// What an update of the store did.
#[derive(Clone, Debug)]
pub struct Change {
    /// The record before.
    pub old: Option<Arc<Record>>,
    /// The record now.
    pub new: Option<Arc<Record>>,
}

impl Revisions {
    /// Takes a record from a watch or a list. `None` when it is no news.
    pub fn upsert(&self, record: Record) -> Option<Change> {
        let mut inner = self.inner.write();
        let told = inner.told.entry(record.key.kind).or_default();
        *told = record.resource_version.max(*told);
        inner.untold.remove(&record.key);
        inner.replace(record, false)
    }

    /// Takes a revision of our own making, so that nobody misses it before the watch tells of it. When
    /// the watch is further already it has told of the revision, and perhaps of its end.
    pub fn created(&self, record: Record) -> Option<Change> {
        let mut inner = self.inner.write();
        let told = inner.told.get(&record.key.kind);
        if told.is_some_and(|told| *told >= record.resource_version) {
            return None;
        }
        inner.untold.insert(record.key.clone());
        inner.replace(record, false)
    }

    /// Takes the answer to one of our own writes. It never brings back a revision that the watch
    /// has seen go.
    pub fn update(&self, record: Record) -> Option<Change> {
        self.inner.write().replace(record, true)
    }

    /// Removes a revision that a watch has seen go.
    pub fn remove(&self, key: &RevisionKey) -> Option<Change> {
        let mut inner = self.inner.write();
        inner.untold.remove(key);
        let old = inner.remove(key)?;
        Some(Change {
            old: Some(old),
            new: None,
        })
    }

    /// Removes the revisions of a kind that a new list of this version does not name. Those that were
    /// made after it stay.
    pub fn retain(
        &self,
        kind: RevisionKind,
        listed: &BTreeSet<RevisionKey>,
        version: u64,
    ) -> Vec<Change> {
        let mut inner = self.inner.write();
        let is_gone = |record: &Record| {
            let key = &record.key;
            let is_newer = inner.untold.contains(key) && record.resource_version > version;
            key.kind == kind && !listed.contains(key) && !is_newer
        };
        let gone: Vec<_> = inner
            .records
            .values()
            .filter(|record| is_gone(record))
            .map(|record| record.key.clone())
            .collect();
        inner.untold.retain(|key| !gone.contains(key));
        gone.iter()
            .filter_map(|key| inner.remove(key))
            .map(|old| Change {
                old: Some(old),
                new: None,
            })
            .collect()
    }

    /// A revision.
    #[must_use]
    pub fn get(&self, key: &RevisionKey) -> Option<Arc<Record>> {
        self.inner.read().records.get(key).cloned()
    }

    /// The revision with a uid, its own or that of a delegated phase.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<Arc<Record>> {
        let inner = self.inner.read();
        inner.records.get(inner.by_uid.get(uid)?).cloned()
    }

    /// The revisions that list this one as previous.
    #[must_use]
    pub fn successors(&self, key: &RevisionKey) -> Vec<RevisionKey> {
        collected(self.inner.read().successors.get(key))
    }

    /// The revisions that use a slice; the key holds the slice's name.
    #[must_use]
    pub fn slice_users(&self, slice: &RevisionKey) -> Vec<RevisionKey> {
        collected(self.inner.read().slice_users.get(slice))
    }

    /// The revisions that a deployment controls.
    #[must_use]
    pub fn controlled_by(&self, deployment: &DeploymentRecord) -> Vec<Arc<Record>> {
        let inner = self.inner.read();
        let keys = inner
            .controlled
            .get(&deployment.key.revision(&deployment.uid));
        inner.records(keys)
    }

    /// The revisions that carry a deployment's name and are controlled by nobody.
    #[must_use]
    pub fn orphans_of(&self, deployment: &DeploymentRecord) -> Vec<Arc<Record>> {
        let inner = self.inner.read();
        let keys = inner
            .deployments
            .get(&deployment.key.revision(&deployment.key.name));
        let mut records = inner.records(keys);
        records.retain(|record| record.controller.is_none());
        records
    }

    /// All keys.
    #[must_use]
    pub fn keys(&self) -> Vec<RevisionKey> {
        self.inner.read().records.keys().cloned().collect()
    }

    /// What the numbering needs to know of a revision.
    #[must_use]
    pub fn link(&self, key: &RevisionKey) -> Option<Link> {
        self.get(key).map(|record| record.link())
    }
}

fn collected(keys: Option<&Vec<RevisionKey>>) -> Vec<RevisionKey> {
    keys.cloned().unwrap_or_default()
}

impl Inner {
    fn replace(&mut self, record: Record, only_existing: bool) -> Option<Change> {
        let known = self.records.get(&record.key);
        match known {
            None if only_existing => return None,
            Some(known) if only_existing && known.uid != record.uid => return None,
            Some(known) if known.resource_version >= record.resource_version => return None,
            Some(_) | None => {}
        }
        let old = self.remove(&record.key);
        let key = record.key.clone();
        self.by_uid.insert(record.uid.clone(), key.clone());
        for uid in &record.remote_phases {
            self.by_uid.insert(uid.as_str().into(), key.clone());
        }
        for (index, name) in references(&record) {
            let users = self.index(index).entry(key.sibling(name)).or_default();
            if let Err(at) = users.binary_search(&key) {
                users.reserve_exact(1);
                users.insert(at, key.clone());
            }
        }
        let new = Arc::new(record);
        self.records.insert(key, new.clone());
        Some(Change {
            old,
            new: Some(new),
        })
    }

    fn remove(&mut self, key: &RevisionKey) -> Option<Arc<Record>> {
        let old = self.records.remove(key)?;
        self.by_uid.remove(&old.uid);
        for uid in &old.remote_phases {
            self.by_uid.remove(uid.as_str());
        }
        for (index, name) in references(&old) {
            let index = self.index(index);
            let named = key.sibling(name);
            if let Some(users) = index.get_mut(&named) {
                if let Ok(at) = users.binary_search(key) {
                    users.remove(at);
                }
                if users.is_empty() {
                    index.remove(&named);
                }
            }
        }
        Some(old)
    }

    fn records(&self, keys: Option<&Vec<RevisionKey>>) -> Vec<Arc<Record>> {
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| self.records.get(key).cloned())
            .collect()
    }

    fn index(&mut self, index: Index) -> &mut Users {
        match index {
            Index::Successors => &mut self.successors,
            Index::SliceUsers => &mut self.slice_users,
            Index::Deployments => &mut self.deployments,
            Index::Controlled => &mut self.controlled,
        }
    }
}

/// The indexes by a name that a record mentions.
#[derive(Clone, Copy)]
enum Index {
    Successors,
    SliceUsers,
    Deployments,
    Controlled,
}

fn references(record: &Record) -> impl Iterator<Item = (Index, &str)> {
    let previous = record
        .previous
        .iter()
        .map(|p| (Index::Successors, p.name.as_str()));
    let slices = record
        .slices
        .iter()
        .map(|slice| (Index::SliceUsers, slice.as_str()));
    let deployment = record
        .deployment
        .iter()
        .map(|name| (Index::Deployments, name.as_str()));
    let controller = record
        .controller
        .iter()
        .map(|uid| (Index::Controlled, &**uid));
    previous.chain(slices).chain(deployment).chain(controller)
}

/// What one revision knows of the others.
pub struct Kinship<'a> {
    /// The revision that asks.
    pub record: &'a Record,
    /// All revisions.
    pub revisions: &'a Revisions,
}

impl Lineage for Kinship<'_> {
    fn kin(&self, uid: &str) -> Option<Kin> {
        let other = self.revisions.by_uid(uid)?;
        let (own, key) = (&self.record.key, &other.key);
        if key.kind != own.kind || key.namespace != own.namespace || key.name == own.name {
            return None;
        }
        Some(Kin {
            name: key.name.to_string(),
            number: other.number.unwrap_or(0),
            is_previous: self
                .record
                .previous
                .iter()
                .any(|previous| *previous.name == *key.name),
            is_archived: other.archived,
        })
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<String> {
        let inner = self.revisions.inner.read();
        let mut newer = BTreeMap::new();
        let mut walk = vec![self.record.key.clone()];
        while let Some(revision) = walk.pop() {
            for successor in inner.successors.get(&revision).into_iter().flatten() {
                if let Some(record) = inner.records.get(successor)
                    && newer.insert(successor, record).is_none()
                {
                    walk.push(successor.clone());
                }
            }
        }
        if let Some(deployment) = &self.record.deployment {
            let made = inner.deployments.get(&self.record.key.sibling(deployment));
            newer.extend(
                made.into_iter()
                    .flatten()
                    .filter_map(|k| Some((k, inner.records.get(k)?))),
            );
        }
        let reference = controlled_reference(key);
        newer
            .into_values()
            .filter(|other| !other.is_closed() && other.number > self.record.number)
            .find(|other| {
                other.status().is_ok_and(|status| {
                    status.controller_of.contains(&reference)
                        || (status.conditions.iter().any(|c| c.type_ == SUCCEEDED)
                            && mentions(other, key))
                })
            })
            .map(|other| other.key.name.to_string())
    }
}

/// Whether a revision's inline manifests contain an object.
fn mentions(record: &Record, key: &ObjectKey) -> bool {
    let wanted = controlled_reference(key);
    record.spec().is_ok_and(|spec| {
        let objects = spec.phases.into_iter().flatten().flat_map(|p| p.objects);
        objects
            .into_iter()
            .any(|entry| manifest_reference(&entry.object, &record.key.namespace) == wanted)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::record::read;

    const KIND: RevisionKind = RevisionKind::ObjectSet;

    fn record(name: &str, uid: &str, version: u64) -> Record {
        let object = json!({"metadata": {
            "name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
        }});
        read(KIND, &object.to_string()).unwrap()
    }

    fn version(revisions: &Revisions, name: &str) -> Option<u64> {
        let key = record(name, "any", 0).key;
        revisions.get(&key).map(|record| record.resource_version)
    }

    #[test]
    fn a_revision_of_our_own_making_is_there_at_once() {
        let revisions = Revisions::default();
        revisions.upsert(record("old", "a", 5));
        assert!(revisions.created(record("web", "b", 6)).is_some());
        assert_eq!(version(&revisions, "web"), Some(6));
        // The watch has nothing new to say about it then.
        assert!(revisions.upsert(record("web", "b", 6)).is_none());
        assert!(revisions.upsert(record("web", "b", 7)).is_some());
    }

    #[test]
    fn one_that_is_gone_already_does_not_come_back() {
        let revisions = Revisions::default();
        let made = record("web", "a", 6);
        revisions.upsert(made.clone());
        revisions.remove(&made.key);
        assert!(revisions.created(made.clone()).is_none());
        assert_eq!(version(&revisions, "web"), None);
        // Nor does its answer replace what the watch has told since.
        revisions.upsert(record("web", "b", 9));
        assert!(revisions.created(made).is_none());
        assert_eq!(version(&revisions, "web"), Some(9));
    }

    #[test]
    fn a_list_from_before_says_nothing_about_a_new_one() {
        let revisions = Revisions::default();
        revisions.upsert(record("old", "a", 5));
        revisions.created(record("web", "b", 8));
        let gone = revisions.retain(KIND, &BTreeSet::new(), 7);
        assert_eq!(gone.len(), 1);
        assert_eq!(version(&revisions, "old"), None);
        assert_eq!(version(&revisions, "web"), Some(8));
        revisions.retain(KIND, &BTreeSet::new(), 8);
        assert_eq!(version(&revisions, "web"), None);
    }
}
