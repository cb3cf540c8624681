//! The revisions that exist, as their watches tell, and how they are related.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use baton_apis::{ObjectSetPhaseSpec, conditions::SUCCEEDED};
use parking_lot::RwLock;

use super::{
    deployment::DeploymentRecord,
    phase::{PhaseRecord, Phases},
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

/// The names of those that mention a name, in order; they are of the same kind and namespace. Mostly one
/// or a few, so a vector is all it takes.
type Users = HashMap<RevisionKey, Vec<Arc<str>>>;

#[derive(Debug, Default)]
struct Inner {
    records: HashMap<RevisionKey, Arc<Record>>,
    /// Whose uid that is: a revision's, or that of one of its delegated phases.
    by_uid: HashMap<Arc<str>, Arc<Record>>,
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
        self.inner.read().by_uid.get(uid).cloned()
    }

    /// The revisions that list this one as previous.
    #[must_use]
    pub fn successors(&self, key: &RevisionKey) -> Vec<RevisionKey> {
        let inner = self.inner.read();
        collected(key, inner.successors.get(key))
    }

    /// The revisions that use a slice; the key holds the slice's name.
    #[must_use]
    pub fn slice_users(&self, slice: &RevisionKey) -> Vec<RevisionKey> {
        let inner = self.inner.read();
        collected(slice, inner.slice_users.get(slice))
    }

    /// The revisions that a deployment controls.
    #[must_use]
    pub fn controlled_by(&self, deployment: &DeploymentRecord) -> Vec<Arc<Record>> {
        let inner = self.inner.read();
        let owner = deployment.key.revision(&deployment.uid);
        inner.records(&owner, inner.controlled.get(&owner))
    }

    /// The revisions that carry a deployment's name and are controlled by nobody.
    #[must_use]
    pub fn orphans_of(&self, deployment: &DeploymentRecord) -> Vec<Arc<Record>> {
        let inner = self.inner.read();
        let owner = deployment.key.revision(&deployment.key.name);
        let mut records = inner.records(&owner, inner.deployments.get(&owner));
        records.retain(|record| record.controller.is_none());
        records
    }

    /// The revisions that one may take objects over from, in the order of their names: those that it
    /// lists as previous, and the older ones of its deployment.
    #[must_use]
    pub fn before(&self, record: &Record) -> Vec<Arc<Record>> {
        let inner = self.inner.read();
        let key = &record.key;
        let mut found = BTreeMap::new();
        for earlier in inner.records(key, Some(&record.previous)) {
            found.insert(earlier.key.clone(), earlier);
        }
        if let Some(deployment) = &record.deployment {
            let owner = key.sibling(deployment);
            let made = inner.records(&owner, inner.deployments.get(&owner));
            let older = made.into_iter().filter(|made| made.number < record.number);
            found.extend(older.map(|made| (made.key.clone(), made)));
        }
        found.into_values().collect()
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

fn collected(beside: &RevisionKey, names: Option<&Vec<Arc<str>>>) -> Vec<RevisionKey> {
    let names = names.into_iter().flatten();
    names.map(|name| named(beside, name)).collect()
}

fn named(beside: &RevisionKey, name: &Arc<str>) -> RevisionKey {
    RevisionKey {
        name: name.clone(),
        ..beside.clone()
    }
}

impl Inner {
    fn replace(&mut self, mut record: Record, only_existing: bool) -> Option<Change> {
        let known = self.records.get(&record.key);
        match known {
            None if only_existing => return None,
            Some(known) if only_existing && known.uid != record.uid => return None,
            Some(known) if known.resource_version >= record.resource_version => return None,
            Some(_) | None => {}
        }
        let old = self.remove(&record.key);
        if let Some(old) = &old {
            record.orphaning |= old.orphaning && old.uid == record.uid;
        }
        self.share(&mut record);
        let new = Arc::new(record);
        let key = new.key.clone();
        let uids = new.remote_phases.iter().map(|uid| uid.as_str().into());
        for uid in uids.chain([new.uid.clone()]) {
            self.by_uid.insert(uid, new.clone());
        }
        for (index, name) in references(&new) {
            let users = self.index(index).entry(key.sibling(name)).or_default();
            if let Err(at) = users.binary_search(&key.name) {
                users.reserve_exact(1);
                users.insert(at, key.name.clone());
            }
        }
        self.records.insert(key, new.clone());
        Some(Change {
            old,
            new: Some(new),
        })
    }

    /// Lets a record share with those before it what is the same in all of a chain: with a history of
    /// ten revisions the names alone would be more than all else that is kept of an archived one.
    fn share(&self, record: &mut Record) {
        let mut before = None;
        for name in &mut record.previous {
            if let Some(known) = self.records.get(&record.key.sibling(name)) {
                *name = known.key.name.clone();
                before = Some(known);
            }
        }
        let Some(before) = before else { return };
        record.key.namespace = before.key.namespace.clone();
        for (own, other) in [
            (&mut record.deployment, &before.deployment),
            (&mut record.controller, &before.controller),
        ] {
            if own == other {
                own.clone_from(other);
            }
        }
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
                if let Ok(at) = users.binary_search(&key.name) {
                    users.remove(at);
                }
                if users.is_empty() {
                    index.remove(&named);
                }
            }
        }
        Some(old)
    }

    fn records(&self, beside: &RevisionKey, names: Option<&Vec<Arc<str>>>) -> Vec<Arc<Record>> {
        let names = names.into_iter().flatten();
        names
            .filter_map(|name| self.records.get(&named(beside, name)).cloned())
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
        .map(|name| (Index::Successors, &**name));
    let slices = record
        .slices
        .iter()
        .map(|slice| (Index::SliceUsers, slice.as_str()));
    let deployment = record
        .deployment
        .iter()
        .map(|name| (Index::Deployments, &**name));
    let controller = record
        .controller
        .iter()
        .map(|uid| (Index::Controlled, &**uid));
    previous.chain(slices).chain(deployment).chain(controller)
}

/// What one revision, or one of its delegated phases, knows of the others.
pub struct Kinship<'a> {
    /// The revision itself; `None` for a phase object that belongs to none.
    record: Option<&'a Record>,
    /// Kind and namespace of the family; the name is the revision's, if there is one.
    key: RevisionKey,
    /// The names that count as previous.
    previous: Vec<Arc<str>>,
    /// The deployment whose revisions all count as previous.
    family: Option<Arc<str>>,
    revisions: &'a Revisions,
    phases: &'a Phases,
}

impl<'a> Kinship<'a> {
    /// What a revision knows: those that it lists are previous.
    #[must_use]
    pub fn of_set(record: &'a Record, revisions: &'a Revisions, phases: &'a Phases) -> Self {
        Self {
            record: Some(record),
            key: record.key.clone(),
            previous: record.previous.clone(),
            family: None,
            revisions,
            phases,
        }
    }

    /// What a phase object knows: besides those that are listed, all revisions with the deployment
    /// label of its own revision are previous (contract 6.4).
    #[must_use]
    pub fn of_phase(
        phase: &PhaseRecord,
        spec: &ObjectSetPhaseSpec,
        set: Option<&'a Record>,
        revisions: &'a Revisions,
        phases: &'a Phases,
    ) -> Self {
        let listed = spec.previous.iter().flatten();
        Self {
            record: set,
            key: phase
                .key
                .revision(set.map_or("", |record| &*record.key.name)),
            previous: listed
                .map(|previous| previous.name.as_str().into())
                .collect(),
            family: set.and_then(|record| record.deployment.clone()),
            revisions,
            phases,
        }
    }

    /// The revision behind a uid, be it that of one of its delegated phases.
    fn revision(&self, uid: &str) -> Option<Arc<Record>> {
        self.revisions.by_uid(uid).or_else(|| {
            let phase = self.phases.by_uid(uid)?;
            self.revisions.by_uid(phase.controller.as_ref()?)
        })
    }
}

impl Lineage for Kinship<'_> {
    fn kin(&self, uid: &str) -> Option<Kin> {
        let other = self.revision(uid)?;
        let (own, key) = (&self.key, &other.key);
        if key.kind != own.kind || key.namespace != own.namespace || key.name == own.name {
            return None;
        }
        let is_of_family = self.family.is_some() && self.family == other.deployment;
        Some(Kin {
            name: key.name.to_string(),
            number: other.number.unwrap_or(0),
            is_previous: is_of_family || self.previous.contains(&key.name),
            is_archived: other.archived,
        })
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<String> {
        let own = self.record?;
        let inner = self.revisions.inner.read();
        let mut newer = BTreeMap::new();
        let mut walk = vec![own.key.clone()];
        while let Some(revision) = walk.pop() {
            for record in inner.records(&revision, inner.successors.get(&revision)) {
                let successor = record.key.clone();
                if newer.insert(successor.clone(), record).is_none() {
                    walk.push(successor);
                }
            }
        }
        if let Some(deployment) = &own.deployment {
            let owner = own.key.sibling(deployment);
            let made = inner.records(&owner, inner.deployments.get(&owner));
            newer.extend(made.into_iter().map(|record| (record.key.clone(), record)));
        }
        let reference = controlled_reference(key);
        // What its phase objects report may not be in its own status yet.
        let is_delegated = |other: &Record| {
            let phases = self.phases.controlled_by(&other.uid);
            let mut reports = phases.iter().filter_map(|phase| phase.status().ok());
            reports.any(|status| status.controller_of.contains(&reference))
        };
        newer
            .into_values()
            .filter(|other| !other.is_closed() && other.number > own.number)
            .find(|other| {
                other.status().is_ok_and(|status| {
                    status.controller_of.contains(&reference)
                        || (status.conditions.iter().any(|c| c.type_ == SUCCEEDED)
                            && mentions(other, key))
                }) || is_delegated(other)
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

    /// Garbage collection may be done with its part before a pass has let go of the revision.
    #[test]
    fn what_was_to_be_left_behind_stays_so() {
        let revisions = Revisions::default();
        let going = |version: u64, finalizers: &[&str], uid: &str| {
            let object = json!({"metadata": {
                "name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            }});
            read(KIND, &object.to_string()).unwrap()
        };
        let key = record("web", "any", 0).key;
        let is_left = || revisions.get(&key).unwrap().orphaning;
        revisions.upsert(going(5, &["orphan", "x"], "a"));
        revisions.upsert(going(6, &["x"], "a"));
        assert!(is_left());
        revisions.upsert(going(7, &["x"], "b"));
        assert!(!is_left());
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
