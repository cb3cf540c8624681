//! What is kept of one revision: a small indexed record over the raw JSON, parsed in full only when
//! the revision is worked on.
//!
//! A fleet's worth of revisions consists mostly of manifests that nobody looks at, so they are
//! kept as the text they came in, and those of archived revisions are not kept at all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use baton_apis::{
    LifecycleState, ObjectSetSpec, ObjectSetStatus, PreviousRevisionReference,
    conditions::ARCHIVED,
    constants::{
        ANNOTATION_CHANGE_CAUSE, ANNOTATION_HASH, ANNOTATION_PACKAGE_SOURCE_IMAGE,
        ANNOTATION_PAUSED_BY_PARENT, ANNOTATION_TEMPLATE_METADATA, FINALIZER_ORPHAN,
        LABEL_INSTANCE, LABEL_OBJECT_DEPLOYMENT, LABEL_PACKAGE,
    },
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::key::{Key, Resource, collection};
use crate::engine::chain::Link;

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

    /// The resource of the slices that revisions of this kind use.
    #[must_use]
    pub fn slice_plural(self) -> &'static str {
        match self {
            Self::ObjectSet => "objectslices",
            Self::ClusterObjectSet => "clusterobjectslices",
        }
    }
}

impl Resource for RevisionKind {
    fn kind(self) -> &'static str {
        match self {
            Self::ObjectSet => "ObjectSet",
            Self::ClusterObjectSet => "ClusterObjectSet",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::ObjectSet => "objectsets",
            Self::ClusterObjectSet => "clusterobjectsets",
        }
    }
}

/// A revision's identity.
pub type RevisionKey = Key<RevisionKind>;

impl RevisionKey {
    /// URL path of one of its slices.
    #[must_use]
    pub fn slice_path(&self, slice: &str) -> String {
        let slices = collection(self.kind.slice_plural(), &self.namespace);
        format!("{slices}/{slice}")
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
    /// Whether its objects are to be left behind. Stays so once it was seen: garbage collection takes the
    /// finalizer that says it away when its own part is done.
    pub orphaning: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Label of package origin.
    pub package: Option<String>,
    /// Label of package origin.
    pub instance: Option<String>,
    /// Name of the deployment that made it, as its label says.
    pub deployment: Option<Arc<str>>,
    /// UID of its managing owner.
    pub controller: Option<Arc<str>>,
    /// What a deployment noted on it.
    pub notes: Notes,
    /// Image of the package it came from.
    pub image: Option<String>,
    /// Its number, if it has one.
    pub number: Option<i64>,
    /// Wanted life cycle state.
    pub lifecycle: LifecycleState,
    /// The revisions it takes objects over from.
    pub previous: Vec<Arc<str>>,
    /// Slices that its phases use.
    pub slices: Vec<String>,
    /// UIDs of its delegated phases.
    pub remote_phases: Vec<String>,
    /// Labels and annotations, for its delegated phases; `None` when it has none of these, or has
    /// ended.
    pub origin: Option<Box<Origin>>,
    /// Whether the condition `Archived` is true: final.
    pub archived: bool,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

/// What the objects of delegated phases get from their revision (contract 6.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What is noted on a revision by the deployment that makes revisions of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Hash of the template it was made from, as whoever made it computed it.
    pub hash: Option<String>,
    /// Digest of the metadata of that template, if Baton made it or took it over.
    pub digest: Option<String>,
    /// Why it was made, in its author's words.
    pub change_cause: Option<String>,
    /// Whether the deployment paused it.
    pub paused_by_parent: bool,
    /// Its labels, kept only while they say what `controller` or `digest` would say.
    pub labels: BTreeMap<String, String>,
}

impl Notes {
    fn take(
        annotations: &mut HashMap<String, String>,
        labels: HashMap<String, String>,
        is_owned: bool,
    ) -> Self {
        let digest = annotations.remove(ANNOTATION_TEMPLATE_METADATA);
        let is_known =
            (is_owned && digest.is_some()) || !labels.contains_key(LABEL_OBJECT_DEPLOYMENT);
        Self {
            hash: annotations.remove(ANNOTATION_HASH),
            digest,
            change_cause: annotations.remove(ANNOTATION_CHANGE_CAUSE),
            paused_by_parent: annotations
                .get(ANNOTATION_PAUSED_BY_PARENT)
                .is_some_and(|value| value == "true"),
            labels: if is_known {
                BTreeMap::new()
            } else {
                labels.into_iter().collect()
            },
        }
    }
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

    /// The whole spec.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn spec(&self) -> Result<ObjectSetSpec, ReadError> {
        parse("spec", self.spec.as_deref())
    }

    /// The whole status; empty for an archived revision.
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
        self.archived = status
            .conditions
            .iter()
            .any(|c| c.type_ == ARCHIVED && c.status == "True");
        if self.archived {
            (self.spec, self.status, self.origin) = (None, None, None);
        }
        Ok(())
    }

    /// The record with the versions that the answer to a write of it tells.
    #[must_use]
    pub fn at(&self, answer: &Metadata) -> Self {
        Self {
            resource_version: answer.resource_version,
            generation: answer.generation,
            ..self.clone()
        }
    }

    /// What the numbering needs to know of it.
    #[must_use]
    pub fn link(&self) -> Link {
        Link {
            number: self.number,
            previous: self.previous.iter().map(ToString::to_string).collect(),
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

impl ReadError {
    /// Names the part that could not be read.
    pub(crate) fn of(part: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self { part, source }
    }

    /// The parser's word.
    #[must_use]
    pub fn into_source(self) -> serde_json::Error {
        self.source
    }
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
    #[serde(default)]
    owner_references: Vec<Owner>,
}

/// An owner of an object of ours.
#[derive(Deserialize)]
pub(super) struct Owner {
    pub uid: String,
    #[serde(default)]
    pub controller: bool,
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
    class: String,
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

/// What an answer to a write says about a revision, its manifests left out.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Version of the whole object.
    pub resource_version: u64,
    /// Counts changes of the spec.
    pub generation: i64,
}

/// Reads the metadata of an answer.
///
/// # Errors
/// When it is no object.
pub fn read_metadata(object: &[u8]) -> Result<Metadata, ReadError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: RawMetadata,
    }
    let Object { metadata } = serde_json::from_slice(object).map_err(|source| ReadError {
        part: "metadata",
        source,
    })?;
    Ok(Metadata {
        resource_version: metadata.resource_version.parse().unwrap_or(0),
        generation: metadata.generation,
    })
}

/// Reads a record from what a watch or a list sent.
///
/// # Errors
/// When it is no object of ours.
pub fn read(kind: RevisionKind, object: &str) -> Result<Record, ReadError> {
    let RawObject {
        mut metadata,
        spec,
        status,
    } = serde_json::from_str(object).map_err(ReadError::of("metadata"))?;
    let spec_index: SpecIndex = parse("spec", spec)?;
    let status_index: StatusIndex = parse("status", status)?;
    let archived = status_index
        .conditions
        .iter()
        .any(|condition| condition.type_ == ARCHIVED && condition.status == "True");
    let mut owners = metadata.owner_references.into_iter();
    let controller = owners.find(|owner| owner.controller);
    let phases = spec_index.phases.unwrap_or_default();
    let delegates = !archived && phases.iter().any(|phase| !phase.class.is_empty());
    let origin = delegates.then(|| {
        let sorted = |map: &HashMap<String, String>| {
            map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        Box::new(Origin {
            labels: sorted(&metadata.labels),
            annotations: sorted(&metadata.annotations),
        })
    });
    let package = metadata.labels.get(LABEL_PACKAGE).cloned();
    let instance = metadata.labels.get(LABEL_INSTANCE).cloned();
    let deployment = metadata.labels.get(LABEL_OBJECT_DEPLOYMENT);
    let deployment = deployment.map(|name| name.as_str().into());
    let notes = Notes::take(
        &mut metadata.annotations,
        metadata.labels,
        controller.is_some(),
    );
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
        orphaning: metadata.finalizers.iter().any(|f| f == FINALIZER_ORPHAN),
        finalizers: metadata.finalizers,
        package,
        instance,
        deployment,
        controller: controller.map(|owner| owner.uid.into()),
        notes,
        image: metadata.annotations.remove(ANNOTATION_PACKAGE_SOURCE_IMAGE),
        number: spec_index.revision.filter(|number| *number != 0),
        lifecycle: spec_index.lifecycle_state,
        previous: spec_index
            .previous
            .unwrap_or_default()
            .into_iter()
            .map(|previous| previous.name.into())
            .collect(),
        slices: phases.into_iter().flat_map(|phase| phase.slices).collect(),
        remote_phases: status_index
            .remote_phases
            .into_iter()
            .map(|phase| phase.uid)
            .collect(),
        origin,
        archived,
        // An archived revision is a tombstone: nothing reads its manifests again, and its status says
        // nothing but that.
        spec: spec.filter(|_| !archived).map(ToOwned::to_owned),
        status: status.filter(|_| !archived).map(ToOwned::to_owned),
    })
}
