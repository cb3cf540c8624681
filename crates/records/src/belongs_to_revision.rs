//! The common part of deployments and phase objects: each belongs to revisions of one kind, in
//! their namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    key::{Key, OwnKind},
    record::{Metadata, ReadError, Record, RecordKind, parse},
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

    /// True if a status with conditions of these types is a report that only Baton writes: see
    /// [`RecordKind::is_reported`]. By default none is.
    fn is_report(_tags: &Tags, _has: impl Fn(&str) -> bool) -> bool {
        false
    }

    /// True if a status has a condition of this type.
    fn has_condition(_status: &Self::Status, _type: &str) -> bool {
        false
    }
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
    /// True if the status is a [report](BelongsToRevision::is_report).
    pub is_reported: bool,
}

/// The types of the conditions in a status.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionTypes {
    conditions: Vec<ConditionType>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionType {
    r#type: String,
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
        status: Option<&RawValue>,
    ) -> Result<Tags, ReadError> {
        let mut tags = Tags {
            labels: metadata.labels.into_iter().collect(),
            annotations: metadata.annotations.into_iter().collect(),
            is_reported: false,
        };
        // A status that cannot be read is no report.
        let types: ConditionTypes = parse(self, "status", status).unwrap_or_default();
        let has = |type_: &str| types.conditions.iter().any(|it| it.r#type == type_);
        tags.is_reported = K::is_report(&tags, has);
        Ok(tags)
    }

    fn status_changed(tags: &mut Tags, status: &K::Status) {
        tags.is_reported = K::is_report(tags, |type_| K::has_condition(status, type_));
    }

    fn is_reported(tags: &Tags) -> bool {
        tags.is_reported
    }

    fn copy_status(tags: &mut Tags, from: &Tags) {
        tags.is_reported = from.is_reported;
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
