//! What deployments and phase objects have in common: each belongs to revisions of one kind, in their namespace.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    key::{Key, OwnKind},
    record::{Metadata, ReadError, Record, RecordKind},
    revision::{RevisionKey, RevisionKind},
};

/// A kind whose objects belong to revisions of one kind.
pub trait BesideRevision: OwnKind {
    /// The spec.
    type Spec: DeserializeOwned;
    /// The status.
    type Status: DeserializeOwned + Serialize + Default + PartialEq + Send + Sync;

    /// The kind that belongs to revisions of a kind.
    fn of_revisions(kind: RevisionKind) -> Self;

    /// The kind of the revisions.
    fn revision_kind(self) -> RevisionKind;
}

/// The one index over these objects: by the uid of their managing owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByController;

/// What controllers look up of these objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl<K: BesideRevision> RecordKind for K {
    type Spec = K::Spec;
    type Status = K::Status;
    type Fields = Tags;
    type Index = ByController;

    fn fields(
        self,
        metadata: Metadata,
        _has_controller: bool,
        _spec: Option<&RawValue>,
        _status: Option<&RawValue>,
    ) -> Result<Tags, ReadError> {
        Ok(Tags {
            labels: metadata.labels.into_iter().collect(),
            annotations: metadata.annotations.into_iter().collect(),
        })
    }

    fn references(record: &Record<K>) -> Vec<(ByController, &str)> {
        let controller = record.controller.iter();
        controller.map(|uid| (ByController, &**uid)).collect()
    }
}

impl<K: BesideRevision> Key<K> {
    /// The object of a name beside a revision.
    #[must_use]
    pub fn of(revision: &RevisionKey, name: &str) -> Self {
        revision.beside(K::of_revisions(revision.kind), name)
    }

    /// A revision beside it.
    pub fn revision(&self, name: &str) -> RevisionKey {
        self.beside(self.kind.revision_kind(), name)
    }
}
