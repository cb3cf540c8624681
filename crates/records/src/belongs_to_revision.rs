//! The common part of deployments and phase objects: each belongs to revisions of one kind, in
//! their namespace.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    key::{Key, OwnKind},
    record::{Metadata, ReadError, Record, RecordKind},
    revision::{RevisionKey, RevisionKind},
};

/// A kind whose objects belong to revisions of one kind.
pub trait BelongsToRevision: OwnKind {
    /// The type of the spec.
    type Spec: DeserializeOwned;
    /// The type of the status.
    type Status: DeserializeOwned + Serialize + Default + PartialEq + Send + Sync;

    /// The kind whose objects belong to revisions of this kind.
    fn of_revisions(kind: RevisionKind) -> Self;

    /// The kind of the revisions.
    fn revision_kind(self) -> RevisionKind;
}

/// The only index over these objects: by the UID of their controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByController;

/// The fields of these objects that controllers look up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object.
    pub annotations: BTreeMap<String, String>,
}

impl<K: BelongsToRevision> RecordKind for K {
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

impl<K: BelongsToRevision> Key<K> {
    /// The key of an object with this name in the namespace of a revision.
    #[must_use]
    pub fn of(revision: &RevisionKey, name: &str) -> Self {
        revision.in_same_namespace(K::of_revisions(revision.kind), name)
    }

    /// The key of a revision with this name in the same namespace.
    pub fn revision(&self, name: &str) -> RevisionKey {
        self.in_same_namespace(self.kind.revision_kind(), name)
    }
}
