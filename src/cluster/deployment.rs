//! The deployments that exist, as their watches tell.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use baton_apis::{ObjectDeploymentSpec, ObjectDeploymentStatus};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::record::{ReadError, RevisionKey, RevisionKind, collection};

/// A deployment's identity for queues and indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentKey {
    /// Kind of its revisions, which tells its own.
    pub kind: RevisionKind,
    /// Namespace, empty for the cluster scope.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl DeploymentKey {
    /// The deployment of a name that a revision would belong to.
    #[must_use]
    pub fn of(revision: &RevisionKey, name: &str) -> Self {
        Self {
            kind: revision.kind,
            namespace: revision.namespace.clone(),
            name: name.into(),
        }
    }

    /// A revision beside it.
    #[must_use]
    pub fn revision(&self, name: &str) -> RevisionKey {
        RevisionKey {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }

    /// URL path.
    #[must_use]
    pub fn path(&self) -> String {
        let collection = collection(self.kind.deployment_plural(), &self.namespace);
        format!("{collection}/{}", self.name)
    }
}

/// Prints `ObjectDeployment shop/web`.
impl fmt::Display for DeploymentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.deployment_kind();
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// What is kept of a deployment: its manifests as the text they came in.
#[derive(Clone, Debug)]
pub struct DeploymentRecord {
    /// Identity.
    pub key: DeploymentKey,
    /// UID.
    pub uid: Arc<str>,
    /// Version of the whole object, comparable within its kind.
    pub resource_version: u64,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

impl DeploymentRecord {
    /// The whole spec.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn spec(&self) -> Result<ObjectDeploymentSpec, ReadError> {
        let text = self.spec.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(ReadError::of("spec"))
    }

    /// The template as the API server has it.
    ///
    /// # Errors
    /// As [`DeploymentRecord::spec`].
    pub fn template(&self) -> Result<Value, ReadError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            template: Value,
        }
        let text = self.spec.as_deref().map_or("{}", RawValue::get);
        let spec: Spec = serde_json::from_str(text).map_err(ReadError::of("spec"))?;
        Ok(spec.template)
    }

    /// The whole status.
    ///
    /// # Errors
    /// When the status is none of ours.
    pub fn status(&self) -> Result<ObjectDeploymentStatus, ReadError> {
        let text = self.status.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(ReadError::of("status"))
    }

    /// Replaces the status, as an answer to a write of it says.
    ///
    /// # Errors
    /// Never for a status of ours; the serialiser's signature says otherwise.
    pub fn set_status(&mut self, status: &ObjectDeploymentStatus) -> Result<(), serde_json::Error> {
        self.status = Some(serde_json::value::to_raw_value(status)?);
        Ok(())
    }

    /// Whether a pass over the other one could come to something else than a pass over this one.
    fn differs(&self, other: &Self) -> bool {
        self.uid != other.uid
            || self.generation != other.generation
            || self.deleting != other.deleting
            || self.annotations != other.annotations
            || self.status().ok() != other.status().ok()
    }
}

/// Reads a record from what a watch or a list sent.
///
/// # Errors
/// When it is no object of ours.
pub fn read(kind: RevisionKind, object: &str) -> Result<DeploymentRecord, ReadError> {
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
        annotations: BTreeMap<String, String>,
    }
    let Object {
        metadata,
        spec,
        status,
    } = serde_json::from_str(object).map_err(ReadError::of("metadata"))?;
    Ok(DeploymentRecord {
        key: DeploymentKey {
            kind,
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
        },
        uid: metadata.uid.into(),
        resource_version: metadata.resource_version.parse().unwrap_or(0),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        annotations: metadata.annotations,
        spec: spec.map(ToOwned::to_owned),
        status: status.map(ToOwned::to_owned),
    })
}

/// All deployments of both kinds. Written by watches and by the answers to our own writes.
#[derive(Debug, Default)]
pub struct Deployments {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    records: HashMap<DeploymentKey, Arc<DeploymentRecord>>,
    by_uid: HashMap<Arc<str>, DeploymentKey>,
}

impl Deployments {
    /// Takes a record from a watch or a list. Whether a pass over it may come to something new.
    pub fn upsert(&self, record: DeploymentRecord) -> bool {
        let mut inner = self.inner.write();
        let known = inner.records.get(&record.key);
        if known.is_some_and(|known| known.resource_version >= record.resource_version) {
            return false;
        }
        let is_news = known.is_none_or(|known| known.differs(&record));
        inner.insert(record);
        is_news
    }

    /// Takes the answer to one of our own writes. It never brings back a deployment that the watch
    /// has seen go.
    pub fn update(&self, record: DeploymentRecord) {
        let mut inner = self.inner.write();
        let known = inner.records.get(&record.key);
        if known.is_some_and(|known| {
            known.uid == record.uid && known.resource_version < record.resource_version
        }) {
            inner.insert(record);
        }
    }

    /// Removes a deployment that a watch has seen go.
    pub fn remove(&self, key: &DeploymentKey) {
        self.inner.write().remove(key);
    }

    /// Removes the deployments of a kind that a new list does not name, and returns them.
    pub fn retain(
        &self,
        kind: RevisionKind,
        listed: &BTreeSet<DeploymentKey>,
    ) -> Vec<DeploymentKey> {
        let mut inner = self.inner.write();
        let gone: Vec<_> = inner
            .records
            .keys()
            .filter(|key| key.kind == kind && !listed.contains(*key))
            .cloned()
            .collect();
        for key in &gone {
            inner.remove(key);
        }
        gone
    }

    /// A deployment.
    #[must_use]
    pub fn get(&self, key: &DeploymentKey) -> Option<Arc<DeploymentRecord>> {
        self.inner.read().records.get(key).cloned()
    }

    /// The deployment with a uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<DeploymentKey> {
        self.inner.read().by_uid.get(uid).cloned()
    }
}

impl Inner {
    fn insert(&mut self, record: DeploymentRecord) {
        self.remove(&record.key);
        self.by_uid.insert(record.uid.clone(), record.key.clone());
        self.records.insert(record.key.clone(), Arc::new(record));
    }

    fn remove(&mut self, key: &DeploymentKey) {
        if let Some(old) = self.records.remove(key) {
            self.by_uid.remove(&old.uid);
        }
    }
}
