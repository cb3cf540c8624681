//! The records of slices: with their content while a revision that is not archived uses them, else
//! only with their owners.

use std::sync::Arc;

use baton_apis::{
    ObjectSetObject,
    constants::LABEL_OBJECT_DEPLOYMENT,
    kinds::{self, Kind},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, value::RawValue};

use crate::{
    belongs_to_revision::ByController,
    key::{Key, OwnKind},
    record::{Metadata, ReadError, Record, RecordKind},
    revision::{RevisionIndex, RevisionKey, RevisionKind, RevisionRecord, Revisions},
    store::Store,
};

/// The kind of the slices that revisions of a kind use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceKind(pub RevisionKind);

impl OwnKind for SliceKind {
    fn names(self) -> &'static Kind {
        match self.0 {
            RevisionKind::ObjectSet => &kinds::OBJECT_SLICE,
            RevisionKind::ClusterObjectSet => &kinds::CLUSTER_OBJECT_SLICE,
        }
    }
}

/// The kinds of the owners that do not use a slice.
const DEPLOYMENTS: [&str; 2] = [
    kinds::OBJECT_DEPLOYMENT.name,
    kinds::CLUSTER_OBJECT_DEPLOYMENT.name,
];

/// The identity of a slice.
pub type SliceKey = Key<SliceKind>;
/// The record of a slice. Its spec are the objects, which are at the top level.
pub type SliceRecord = Record<SliceKind>;
/// The store of all slices.
pub type Slices = Store<SliceKind>;

/// The fields of a slice that controllers look up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceFields {
    /// UIDs of the owners.
    pub owners: Vec<Arc<str>>,
    /// Name of the deployment that made the slice, by its label.
    pub deployment: Option<Arc<str>>,
    /// Time of its creation.
    pub created: Option<Timestamp>,
    /// True if no owner uses the slice: it has none, or only deployments, which own a new slice
    /// until a revision does.
    pub awaits_user: bool,
}

impl RecordKind for SliceKind {
    type Spec = Vec<ObjectSetObject>;
    type Status = Value;
    type Fields = SliceFields;
    type Index = ByController;

    fn fields(
        self,
        metadata: Metadata,
        _has_controller: bool,
        _spec: Option<&RawValue>,
        _status: Option<&RawValue>,
    ) -> Result<SliceFields, ReadError> {
        let deployment = metadata.labels.get(LABEL_OBJECT_DEPLOYMENT);
        Ok(SliceFields {
            deployment: deployment.map(|name| name.as_str().into()),
            created: metadata.creation_timestamp,
            awaits_user: metadata.is_owned_only_by(&DEPLOYMENTS),
            owners: metadata.owners().map(Into::into).collect(),
        })
    }

    fn references(record: &Record<Self>) -> Vec<(ByController, &str)> {
        let controller = record.controller.iter();
        controller.map(|uid| (ByController, &**uid)).collect()
    }
}

impl SliceRecord {
    /// True if an object is an owner of the slice.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| **owner == *uid)
    }
}

impl RevisionKey {
    /// The key of a slice with this name.
    pub fn slice(&self, name: &str) -> SliceKey {
        self.in_same_namespace(SliceKind(self.kind), name)
    }
}

impl Revisions {
    /// The keys of the revisions that use a slice and are not archived.
    pub fn users_of(&self, slice: &SliceKey) -> Vec<RevisionKey> {
        let users = self.slice_users(slice).into_iter();
        let users = users.filter(|user| !user.archived);
        users.map(|user| user.key.clone()).collect()
    }

    /// The revisions that name a slice, also the archived ones.
    pub fn slice_users(&self, slice: &SliceKey) -> Vec<Arc<RevisionRecord>> {
        let name = slice.in_same_namespace(slice.kind.0, &slice.name);
        self.mentioning(RevisionIndex::Slice, &name)
    }
}

/// An object that becomes an owner of a slice.
#[derive(Clone, Debug)]
pub struct NewOwner {
    /// The reference to the object.
    pub reference: OwnerReference,
    /// UID of the owner in whose place it is, if that is an owner.
    pub replaces: Option<Arc<str>>,
}

impl NewOwner {
    /// A revision, in the place of the deployment that created the revision and the slice.
    pub fn of(revision: &RevisionRecord) -> Self {
        Self {
            reference: revision.owner_reference(false),
            replaces: revision.controller.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use RevisionKind::ObjectSet;

    fn slice(version: u64) -> SliceRecord {
        let object = json!({
            "metadata": {
                "name": "web-a", "namespace": "shop", "uid": "s", "resourceVersion": version.to_string(),
                "labels": {"package-operator.run/object-deployment": "web"},
                "ownerReferences": [{"uid": "d"}, {"uid": "r"}],
            },
            "objects": [{"object": {"kind": "ConfigMap"}}],
        });
        Record::read(SliceKind(ObjectSet), &object.to_string()).unwrap()
    }

    #[test]
    fn objects_are_read_from_the_top_level() {
        let slice = slice(5);
        assert_eq!(slice.spec().unwrap()[0].object["kind"], "ConfigMap");
        assert_eq!(slice.deployment.as_deref(), Some("web"));
        assert!(slice.is_owned_by("r") && !slice.is_owned_by("x"));
    }

    #[test]
    fn a_slice_awaits_a_user_until_another_owner_than_a_deployment_appears() {
        for (owners, expected) in [
            (json!([]), true),
            (json!([{"kind": "ObjectDeployment", "uid": "d"}]), true),
            (
                json!([{"kind": "ClusterObjectDeployment", "uid": "d"}]),
                true,
            ),
            (json!([{"kind": "ObjectSet", "uid": "r"}]), false),
            (
                json!([{"kind": "ObjectDeployment", "uid": "d"}, {"kind": "ObjectSet", "uid": "r"}]),
                false,
            ),
            (json!([{"kind": "ControllerRevision", "uid": "c"}]), false),
        ] {
            let object = json!({"metadata": {
                "name": "s", "uid": "s", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": owners,
            }});
            let slice = Record::read(SliceKind(ObjectSet), &object.to_string()).unwrap();
            assert_eq!(slice.awaits_user, expected, "{owners}");
            assert_eq!(slice.created.unwrap().to_string(), "2026-01-01T00:00:00Z");
        }
    }

    #[test]
    fn content_is_filled_in_only_for_the_same_version_of_a_slice() {
        let slices = Slices::default();
        slices.observe(slice(5).without_content());
        let key = slice(5).key;
        let has_content = || slices.get(&key).unwrap().has_content();
        assert!(!has_content());
        slices.fill(slice(4));
        assert!(!has_content(), "that of an older state");
        let filled = Arc::new(AtomicUsize::new(0));
        let counter = filled.clone();
        slices.changes().subscribe(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        slices.fill(slice(5));
        slices.fill(slice(5));
        assert!(has_content());
        assert_eq!(
            filled.load(Ordering::Relaxed),
            1,
            "the objects that wait for it are woken"
        );
        slices.drop_content(&key);
        assert!(!has_content());
        slices.remove(&key);
        slices.fill(slice(6));
        assert!(slices.get(&key).is_none(), "the watch says what is there");
    }

    #[test]
    fn only_revisions_that_are_not_archived_use_a_slice() {
        let revisions = Revisions::default();
        for (name, archived) in [("web-1", "True"), ("web-2", "False")] {
            let object = json!({
                "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5"},
                "spec": {"phases": [{"slices": ["web-a"]}]},
                "status": {"conditions": [{"type": "Archived", "status": archived}]},
            });
            revisions.observe(Record::read(ObjectSet, &object.to_string()).unwrap());
        }
        let users = revisions.users_of(&slice(5).key);
        let names: Vec<_> = users.iter().map(|key| &*key.name).collect();
        assert_eq!(names, ["web-2"]);
    }
}
