//! The revisions that exist, as their watches tell: small indexed records over the raw JSON,
//! parsed in full only when a revision is worked on.
//!
//! A fleet's worth of revisions consists mostly of manifests that nobody looks at, so they are
//! kept as the text they came in, and those of archived revisions are not kept at all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use baton_apis::{
    LifecycleState, ObjectSetSpec, ObjectSetStatus, PreviousRevisionReference,
    conditions::{ARCHIVED, SUCCEEDED},
    constants::{
        ANNOTATION_PACKAGE_SOURCE_IMAGE, FINALIZER_ORPHAN, LABEL_INSTANCE,
        LABEL_OBJECT_DEPLOYMENT, LABEL_PACKAGE,
    },
};
use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::engine::{
    ObjectKey,
    chain::Link,
    handover::{Kin, Lineage},
    object::controlled_reference,
};

/// The two kinds of revisions. All that differs between them stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RevisionKind {
    /// Namespaced.
    ObjectSet,
    /// Cluster-scoped.
    ClusterObjectSet,
}

impl RevisionKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ObjectSet, Self::ClusterObjectSet];

    /// The kind as objects name it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::ObjectSet => "ObjectSet",
            Self::ClusterObjectSet => "ClusterObjectSet",
        }
    }

    /// The resource in URLs.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::ObjectSet => "objectsets",
            Self::ClusterObjectSet => "clusterobjectsets",
        }
    }

    /// The resource of the slices that revisions of this kind use.
    #[must_use]
    pub fn slice_plural(self) -> &'static str {
        match self {
            Self::ObjectSet => "objectslices",
            Self::ClusterObjectSet => "clusterobjectslices",
        }
    }

    /// The revision kind that an owner reference names.
    #[must_use]
    pub fn from_owner(group: &str, kind: &str) -> Option<Self> {
        (group == baton_apis::constants::GROUP)
            .then(|| Self::ALL.into_iter().find(|own| own.kind() == kind))?
    }
}

/// A revision's identity for queues and indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionKey {
    /// Kind.
    pub kind: RevisionKind,
    /// Namespace, empty for the cluster scope.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl RevisionKey {
    /// A revision of the same kind and namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// URL path of the revision.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", collection(self.kind.plural(), &self.namespace), self.name)
    }

    /// URL path of one of its slices.
    #[must_use]
    pub fn slice_path(&self, slice: &str) -> String {
        format!("{}/{slice}", collection(self.kind.slice_plural(), &self.namespace))
    }
}

/// Prints `ObjectSet shop/web-v2`.
impl fmt::Display for RevisionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind(), self.namespace, self.name)
    }
}

/// URL path of a resource of ours, in one namespace or in all.
#[must_use]
pub fn collection(plural: &str, namespace: &str) -> String {
    let group = baton_apis::constants::API_VERSION;
    if namespace.is_empty() {
        format!("/apis/{group}/{plural}")
    } else {
        format!("/apis/{group}/namespaces/{namespace}/{plural}")
    }
}

/// What is kept of a revision.
#[derive(Clone, Debug)]
pub struct Record {
    /// Identity.
    pub key: RevisionKey,
    /// UID.
    pub uid: Arc<str>,
    /// Version of the whole object, comparable within its kind.
    pub resource_version: u64,
    /// Counts changes of the spec.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Label of package origin.
    pub package: Option<String>,
    /// Label of package origin.
    pub instance: Option<String>,
    /// The deployment that made it.
    pub deployment: Option<String>,
    /// Image of the package it came from.
    pub image: Option<String>,
    /// Its number, if it has one.
    pub number: Option<i64>,
    /// Wanted life cycle state.
    pub lifecycle: LifecycleState,
    /// The revisions it takes objects over from.
    pub previous: Vec<PreviousRevisionReference>,
    /// Slices that its phases use.
    pub slices: Vec<String>,
    /// UIDs of its delegated phases.
    pub remote_phases: Vec<String>,
    /// Whether the condition `Archived` is true: final.
    pub archived: bool,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

/// A revision's JSON could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the {part} of the revision: {source}")]
pub struct ReadError {
    part: &'static str,
    source: serde_json::Error,
}

impl Record {
    /// Whether it takes no part in its chain any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.archived || self.deleting
    }

    /// Whether it was deleted with its objects to be left behind.
    #[must_use]
    pub fn is_orphaning(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER_ORPHAN)
    }

    /// The whole spec.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn spec(&self) -> Result<ObjectSetSpec, ReadError> {
        parse("spec", self.spec.as_deref())
    }

    /// The whole status.
    ///
    /// # Errors
    /// When the status is none of ours.
    pub fn status(&self) -> Result<ObjectSetStatus, ReadError> {
        parse("status", self.status.as_deref())
    }

    /// The spec as the API server sent it, without insignificant differences.
    #[must_use]
    pub fn raw_spec(&self) -> &str {
        self.spec.as_deref().map_or("{}", RawValue::get)
    }

    /// Replaces the status, as an answer to a write of it says.
    ///
    /// # Errors
    /// Never for a status of ours; the serialiser's signature says otherwise.
    pub fn set_status(&mut self, status: &ObjectSetStatus) -> Result<(), serde_json::Error> {
        self.status = Some(serde_json::value::to_raw_value(status)?);
        self.archived =
            status.conditions.iter().any(|c| c.type_ == ARCHIVED && c.status == "True");
        if self.archived {
            self.spec = None;
        }
        Ok(())
    }

    fn link(&self) -> Link {
        Link {
            number: self.number,
            previous: self.previous.iter().map(|previous| previous.name.clone()).collect(),
            is_closed: self.is_closed(),
        }
    }
}

fn parse<T: Default + for<'de> Deserialize<'de>>(
    part: &'static str,
    raw: Option<&RawValue>,
) -> Result<T, ReadError> {
    raw.map_or_else(
        || Ok(T::default()),
        |raw| serde_json::from_str(raw.get()).map_err(|source| ReadError { part, source }),
    )
}

#[derive(Deserialize)]
struct RawObject<'a> {
    metadata: RawMetadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    resource_version: String,
    #[serde(default)]
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    labels: HashMap<String, String>,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecIndex {
    lifecycle_state: LifecycleState,
    revision: Option<i64>,
    previous: Option<Vec<PreviousRevisionReference>>,
    phases: Option<Vec<PhaseIndex>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PhaseIndex {
    slices: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusIndex {
    conditions: Vec<ConditionIndex>,
    remote_phases: Vec<baton_apis::RemotePhaseReference>,
}

#[derive(Deserialize)]
struct ConditionIndex {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

/// Reads a record from what a watch or a list sent.
///
/// # Errors
/// When it is no object of ours.
pub fn read(kind: RevisionKind, object: &str) -> Result<Record, ReadError> {
    let fault = |part| move |source| ReadError { part, source };
    let RawObject { mut metadata, spec, status } =
        serde_json::from_str(object).map_err(fault("metadata"))?;
    let spec_index: SpecIndex = parse("spec", spec)?;
    let status_index: StatusIndex = parse("status", status)?;
    let archived = status_index
        .conditions
        .iter()
        .any(|condition| condition.type_ == ARCHIVED && condition.status == "True");
    Ok(Record {
        key: RevisionKey {
            kind,
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        },
        uid: metadata.uid.into(),
        resource_version: metadata.resource_version.parse().unwrap_or(0),
        generation: metadata.generation,
        created: metadata.creation_timestamp,
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers,
        package: metadata.labels.remove(LABEL_PACKAGE),
        instance: metadata.labels.remove(LABEL_INSTANCE),
        deployment: metadata.labels.remove(LABEL_OBJECT_DEPLOYMENT),
        image: metadata.annotations.remove(ANNOTATION_PACKAGE_SOURCE_IMAGE),
        number: spec_index.revision.filter(|number| *number != 0),
        lifecycle: spec_index.lifecycle_state,
        previous: spec_index.previous.unwrap_or_default(),
        slices: spec_index
            .phases
            .unwrap_or_default()
            .into_iter()
            .flat_map(|phase| phase.slices)
            .collect(),
        remote_phases: status_index.remote_phases.into_iter().map(|phase| phase.uid).collect(),
        archived,
        // An archived revision is a tombstone: nothing reads its manifests again.
        spec: spec.filter(|_| !archived).map(ToOwned::to_owned),
        status: status.map(ToOwned::to_owned),
    })
}

/// All revisions of both kinds. Written by watches and by the answers to our own writes.
#[derive(Debug, Default)]
pub struct Revisions {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    records: HashMap<RevisionKey, Arc<Record>>,
    /// Whose uid that is: a revision's, or that of one of its delegated phases.
    by_uid: HashMap<Arc<str>, RevisionKey>,
    /// Which revisions list a name as previous; the name need not exist.
    successors: HashMap<RevisionKey, BTreeSet<RevisionKey>>,
    /// Which revisions use a slice, by the slice's name.
    slice_users: HashMap<RevisionKey, BTreeSet<RevisionKey>>,
    /// Which revisions a deployment made, by the deployment's name.
    deployments: HashMap<RevisionKey, BTreeSet<RevisionKey>>,
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
        self.inner.write().replace(record, false)
    }

    /// Takes the answer to one of our own writes. It never brings back a revision that the watch
    /// has seen go.
    pub fn update(&self, record: Record) -> Option<Change> {
        self.inner.write().replace(record, true)
    }

    /// Removes a revision that a watch has seen go.
    pub fn remove(&self, key: &RevisionKey) -> Option<Change> {
        let old = self.inner.write().remove(key)?;
        Some(Change { old: Some(old), new: None })
    }

    /// Removes the revisions of a kind that a new list does not name.
    pub fn retain(&self, kind: RevisionKind, listed: &BTreeSet<RevisionKey>) -> Vec<Change> {
        let mut inner = self.inner.write();
        let gone: Vec<_> = inner
            .records
            .keys()
            .filter(|key| key.kind == kind && !listed.contains(*key))
            .cloned()
            .collect();
        gone.iter()
            .filter_map(|key| inner.remove(key))
            .map(|old| Change { old: Some(old), new: None })
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

fn collected(keys: Option<&BTreeSet<RevisionKey>>) -> Vec<RevisionKey> {
    keys.map_or_else(Vec::new, |keys| keys.iter().cloned().collect())
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
            self.index(index).entry(key.sibling(name)).or_default().insert(key.clone());
        }
        let new = Arc::new(record);
        self.records.insert(key, new.clone());
        Some(Change { old, new: Some(new) })
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
                users.remove(key);
                if users.is_empty() {
                    index.remove(&named);
                }
            }
        }
        Some(old)
    }

    fn index(&mut self, index: Index) -> &mut HashMap<RevisionKey, BTreeSet<RevisionKey>> {
        match index {
            Index::Successors => &mut self.successors,
            Index::SliceUsers => &mut self.slice_users,
            Index::Deployments => &mut self.deployments,
        }
    }
}

/// The indexes by a name that a record mentions.
#[derive(Clone, Copy)]
enum Index {
    Successors,
    SliceUsers,
    Deployments,
}

fn references(record: &Record) -> impl Iterator<Item = (Index, &str)> {
    let previous = record.previous.iter().map(|p| (Index::Successors, p.name.as_str()));
    let slices = record.slices.iter().map(|slice| (Index::SliceUsers, slice.as_str()));
    let deployment = record.deployment.iter().map(|name| (Index::Deployments, name.as_str()));
    previous.chain(slices).chain(deployment)
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
            is_previous: self.record.previous.iter().any(|previous| *previous.name == *key.name),
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
            newer.extend(made.into_iter().flatten().filter_map(|k| Some((k, inner.records.get(k)?))));
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
    record.spec().is_ok_and(|spec| {
        spec.phases.into_iter().flatten().flat_map(|phase| phase.objects).any(|entry| {
            let text = |pointer| entry.object.pointer(pointer).and_then(|v| v.as_str());
            let group = text("/apiVersion").and_then(|v| v.split_once('/')).map_or("", |(g, _)| g);
            let namespace = text("/metadata/namespace").unwrap_or(&record.key.namespace);
            text("/kind") == Some(&key.kind)
                && text("/metadata/name") == Some(&key.name)
                && group == key.group
                && namespace == key.namespace
        })
    })
}
