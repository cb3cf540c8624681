//! The stored form of an object of one of Baton's own kinds: indexed fields and the raw JSON, which
//! is parsed in full only when the object is reconciled.
//!
//! The revisions of a fleet consist mostly of manifests that are rarely read, so manifests are
//! stored as text, and those of archived revisions are not stored at all.

mod wiped;

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use baton_apis::constants::FINALIZER_ORPHAN;
use baton_engine::{
    redact::without_values,
    weight::{MANIFESTS, TOO_LARGE, of_json},
};
use jiff::Timestamp;
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Value, json, value::RawValue};

use crate::{
    key::{Key, OwnKind},
    orphaned::was_orphaned,
};

/// A kind whose objects are stored as records.
pub trait RecordKind: OwnKind {
    /// The type of the spec.
    type Spec: DeserializeOwned;
    /// The type of the status.
    type Status: DeserializeOwned + Serialize + Default + PartialEq + Send + Sync;
    /// The fields that controllers look up without parsing the manifests.
    type Fields: Clone + fmt::Debug + PartialEq + Send + Sync;
    /// The indexes over the names that objects mention.
    type Index: Copy + Eq + Hash + fmt::Debug + Send + Sync;

    /// Reads the fields; `has_controller` is true if the object has a controller.
    ///
    /// # Errors
    /// If the spec or the status is none of this kind.
    fn fields(
        self,
        metadata: Metadata,
        has_controller: bool,
        spec: Option<&RawValue>,
        status: Option<&RawValue>,
    ) -> Result<Self::Fields, ReadError>;

    /// Updates the fields that depend on the status.
    fn status_changed(_fields: &mut Self::Fields, _status: &Self::Status) {}

    /// True if the status has the report that Baton writes into each status from the first time on.
    fn is_reported(_fields: &Self::Fields) -> bool {
        false
    }

    /// Copies the fields that depend on the status.
    fn copy_status(_fields: &mut Self::Fields, _from: &Self::Fields) {}

    /// True if the object's manifests are no longer read; then they are not stored.
    fn is_tombstone(_fields: &Self::Fields) -> bool {
        false
    }

    /// The names that an object mentions, each with its index. All are in the object's own
    /// namespace.
    fn references(record: &Record<Self>) -> Vec<(Self::Index, &str)>;

    /// Further UIDs by which the object is found; none by default.
    fn further_uids(_fields: &Self::Fields) -> &[String] {
        &[]
    }

    /// Lets a record share memory with stored ones.
    fn share(_record: &mut Record<Self>, _kept: &HashMap<Key<Self>, Arc<Record<Self>>>) {}
}

/// The stored form of an object. The fields of its kind are accessed as its own.
#[derive(Clone, Debug)]
pub struct Record<K: RecordKind> {
    /// Identity.
    pub key: Key<K>,
    /// UID.
    pub uid: Arc<str>,
    /// Version of the whole object, comparable within its kind.
    pub resource_version: u64,
    /// Number of changes of the spec.
    pub generation: i64,
    /// True if the object is being deleted.
    pub deleting: bool,
    /// True if its objects are to be orphaned. Stays true once observed: garbage collection removes
    /// the finalizer of the request when its own part is done. A request that was not observed is
    /// read from `managedFields`.
    pub orphaning: bool,
    /// Finalizers of the object.
    pub finalizers: Vec<String>,
    /// UID of its controller.
    pub controller: Option<Arc<str>>,
    /// Limit in bytes of the memory that the values of its spec take, also if the spec is not stored.
    pub weight: usize,
    /// True if another client has removed the status from the server. The record has the last status
    /// that was observed before, which is to be written again.
    pub is_wiped: bool,
    /// The fields of its kind.
    pub fields: K::Fields,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

impl<K: RecordKind> Deref for Record<K> {
    type Target = K::Fields;

    fn deref(&self) -> &K::Fields {
        &self.fields
    }
}

impl<K: RecordKind> DerefMut for Record<K> {
    fn deref_mut(&mut self) -> &mut K::Fields {
        &mut self.fields
    }
}

/// An object's JSON could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the {part} of the {kind}: {}", without_values(&source.to_string()))]
pub struct ReadError {
    kind: &'static str,
    part: &'static str,
    source: serde_json::Error,
    is_too_large: bool,
}

impl ReadError {
    /// Adds the kind and the part that could not be read to an error.
    pub fn of(kind: impl OwnKind, part: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        let kind = kind.kind();
        move |source| Self {
            kind,
            part,
            source,
            is_too_large: false,
        }
    }

    /// True if the values take more memory than [`MANIFESTS`].
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Error of the parser.
    pub fn into_source(self) -> serde_json::Error {
        self.source
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    metadata: Metadata,
    /// Slices have their content at the top level.
    #[serde(borrow, alias = "objects")]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// The parts of an object's metadata that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    resource_version: String,
    #[serde(default)]
    generation: i64,
    pub(crate) creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    pub(crate) labels: HashMap<String, String>,
    #[serde(default)]
    pub(crate) annotations: HashMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

impl Metadata {
    /// The UIDs of the owners, controllers or not.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owner_references.iter().map(|owner| owner.uid.as_str())
    }

    /// True if all owners are of these kinds; also without owners.
    pub(crate) fn is_owned_only_by(&self, kinds: &[&str]) -> bool {
        let mut owners = self.owner_references.iter();
        owners.all(|owner| kinds.contains(&owner.kind.as_str()))
    }
}

/// An owner of an object.
#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    kind: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

/// The versions in the response to a write, which has no manifests.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// Version of the whole object.
    pub resource_version: u64,
    /// Number of changes of the spec.
    pub generation: i64,
}

impl Versions {
    /// Reads the versions in a response.
    ///
    /// # Errors
    /// If the response is no object.
    pub fn read(answer: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Answer {
            metadata: Numbers,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Numbers {
            #[serde(rename = "name")]
            _name: String,
            resource_version: String,
            #[serde(default)]
            generation: i64,
        }
        let Answer { metadata } = serde_json::from_slice(answer)?;
        Ok(Self {
            resource_version: metadata.resource_version.parse().unwrap_or(0),
            generation: metadata.generation,
        })
    }
}

impl<K: RecordKind> Record<K> {
    /// Reads a record from the text that a watch, a list or a write returned.
    ///
    /// # Errors
    /// If the text is no object of this kind.
    pub fn read(kind: K, object: &str) -> Result<Self, ReadError> {
        let Object {
            mut metadata,
            spec,
            status,
        } = serde_json::from_str(object).map_err(ReadError::of(kind, "metadata"))?;
        let mut owners = metadata.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        let controller = controller.map(|owner| owner.uid.as_str().into());
        let finalizers = std::mem::take(&mut metadata.finalizers);
        let (resource_version, generation) = (
            metadata.resource_version.parse().unwrap_or(0),
            metadata.generation,
        );
        let deleting = metadata.deletion_timestamp.is_some();
        let key = Key {
            kind,
            namespace: std::mem::take(&mut metadata.namespace).into(),
            name: std::mem::take(&mut metadata.name).into(),
        };
        let uid = std::mem::take(&mut metadata.uid).into();
        let fields = kind.fields(metadata, controller.is_some(), spec, status)?;
        let is_kept = !K::is_tombstone(&fields);
        let is_asked_for = finalizers.iter().any(|f| f == FINALIZER_ORPHAN);
        let orphaning = is_asked_for
            || (deleting && was_orphaned(object).map_err(ReadError::of(kind, "managed fields"))?);
        Ok(Self {
            key,
            uid,
            resource_version,
            generation,
            deleting,
            orphaning,
            finalizers,
            controller,
            weight: spec.map_or(0, |spec| of_json(spec.get())),
            is_wiped: false,
            fields,
            spec: spec.filter(|_| is_kept).map(ToOwned::to_owned),
            status: status.filter(|_| is_kept).map(ToOwned::to_owned),
        })
    }

    /// The whole spec.
    ///
    /// # Errors
    /// If the API server has accepted a spec that is none of this kind, or if the values take more
    /// memory than [`MANIFESTS`].
    pub fn spec(&self) -> Result<K::Spec, ReadError> {
        self.check_weight()?;
        let spec = serde_json::from_str(self.raw_spec());
        spec.map_err(ReadError::of(self.key.kind, "spec"))
    }

    /// The whole spec, or the default with the problem, if the values take more memory than
    /// [`MANIFESTS`]. Nothing of such an object was ever written.
    ///
    /// # Errors
    /// As [`Record::spec`] otherwise.
    pub fn spec_unless_too_large(&self) -> Result<(K::Spec, Option<String>), ReadError>
    where
        K::Spec: Default,
    {
        match self.spec() {
            Err(error) if error.is_too_large() => Ok((K::Spec::default(), Some(error.to_string()))),
            spec => Ok((spec?, None)),
        }
    }

    /// Checks the memory that the values of the spec take.
    ///
    /// # Errors
    /// If the values of the spec take more memory than [`MANIFESTS`].
    pub fn check_weight(&self) -> Result<(), ReadError> {
        if self.weight <= MANIFESTS {
            return Ok(());
        }
        let source = serde_json::Error::custom(TOO_LARGE);
        let error = ReadError::of(self.key.kind, "spec")(source);
        Err(ReadError {
            is_too_large: true,
            ..error
        })
    }

    /// True if the content is stored, not only the indexed fields.
    pub fn has_content(&self) -> bool {
        self.spec.is_some()
    }

    /// The record without its content.
    #[must_use]
    pub fn without_content(mut self) -> Self {
        (self.spec, self.status) = (None, None);
        self
    }

    /// The whole status; empty for a tombstone.
    ///
    /// # Errors
    /// If the status is none of this kind.
    pub fn status(&self) -> Result<K::Status, ReadError> {
        parse(self.key.kind, "status", self.status.as_deref())
    }

    /// A part of the spec; the rest is not parsed.
    ///
    /// # Errors
    /// As [`Record::spec`].
    pub fn part_of_spec<T: Default + DeserializeOwned>(&self) -> Result<T, ReadError> {
        parse(self.key.kind, "spec", self.spec.as_deref())
    }

    /// A part of the status; the rest is not parsed.
    ///
    /// # Errors
    /// As [`Record::status`].
    pub fn part_of_status<T: Default + DeserializeOwned>(&self) -> Result<T, ReadError> {
        parse(self.key.kind, "status", self.status.as_deref())
    }

    /// The spec as the API server sent it.
    pub fn raw_spec(&self) -> &str {
        self.spec.as_deref().map_or("{}", RawValue::get)
    }

    /// Replaces the status after it was written.
    ///
    /// # Errors
    /// Never for a status of ours; the signature of the serialiser requires the result.
    pub fn set_status(&mut self, status: &K::Status) -> Result<(), serde_json::Error> {
        self.status = Some(serde_json::value::to_raw_value(status)?);
        self.is_wiped = false;
        K::status_changed(&mut self.fields, status);
        if K::is_tombstone(&self.fields) {
            (self.spec, self.status) = (None, None);
        }
        Ok(())
    }

    /// The record with the versions of the response to a write.
    #[must_use]
    pub fn at(&self, versions: Versions) -> Self {
        Self {
            resource_version: versions.resource_version,
            generation: versions.generation,
            ..self.clone()
        }
    }

    /// True if the object has a finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|present| present == finalizer)
    }

    /// The same content under the identity of another object.
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

    /// Copies the status of another record.
    pub fn set_status_of(&mut self, other: &Self) {
        self.status.clone_from(&other.status);
    }

    /// True if a reconcile of the other record could have another result.
    pub fn differs(&self, other: &Self) -> bool {
        self.uid != other.uid
            || self.generation != other.generation
            || self.deleting != other.deleting
            || self.finalizers != other.finalizers
            || self.controller != other.controller
            || self.fields != other.fields
            || self.status_differs(other)
    }

    /// True if the statuses differ.
    pub fn status_differs(&self, other: &Self) -> bool {
        let (own, its) = (self.status.as_deref(), other.status.as_deref());
        own.map(RawValue::get) != its.map(RawValue::get)
            && self.status().ok() != other.status().ok()
    }

    /// The stored parts as an object that [`Record::read`] can read, without owners. `metadata` has
    /// the metadata that the kind stores.
    pub(crate) fn object_with(&self, mut metadata: Value) -> Value {
        let raw = |text: &Option<Box<RawValue>>| {
            let text = text.as_deref().map_or("null", RawValue::get);
            serde_json::from_str::<Value>(text).unwrap_or_default()
        };
        metadata["name"] = (*self.key.name).into();
        metadata["namespace"] = (*self.key.namespace).into();
        metadata["uid"] = (*self.uid).into();
        metadata["resourceVersion"] = self.resource_version.to_string().into();
        metadata["generation"] = self.generation.into();
        metadata["finalizers"] = json!(self.finalizers);
        if self.deleting {
            metadata["deletionTimestamp"] = "".into();
        }
        json!({ "metadata": metadata, "spec": raw(&self.spec), "status": raw(&self.status) })
    }
}

/// Parses a part of an object; a missing one is empty.
pub(crate) fn parse<T: Default + DeserializeOwned>(
    kind: impl OwnKind,
    part: &'static str,
    raw: Option<&RawValue>,
) -> Result<T, ReadError> {
    raw.map_or_else(
        || Ok(T::default()),
        |raw| serde_json::from_str(raw.get()).map_err(ReadError::of(kind, part)),
    )
}
