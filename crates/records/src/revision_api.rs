//! Requests about revisions and their slices.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    LifecycleState, ObjectSetSpec, ObjectSetStatus,
    constants::{ANNOTATION_PAUSED_BY_PARENT, API_VERSION},
};
use baton_engine::operations::{add, replace};
use baton_kubernetes::{
    metadata::is_live,
    wire::MediaType::{JsonPatch, MergePatch},
};
use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError, parse, precondition},
    record::{Record, RecordKind, Versions},
    revision::{RevisionKey, RevisionRecord},
    slice::{NewOwner, SliceRecord},
};

impl<K: RecordKind> Record<K> {
    /// A reference to the revision as an owner of another object, or as its controller.
    pub fn owner_reference(&self, is_controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: self.key.kind.kind().to_owned(),
            name: self.key.name.to_string(),
            uid: self.uid.to_string(),
            controller: is_controller.then_some(true),
            block_owner_deletion: is_controller.then_some(true),
        }
    }
}

impl Api {
    /// Sets finalizers and, if given, the number of a revision in one patch. Returns the new
    /// record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the revision is no longer the one that was read.
    pub async fn set_up(
        &self,
        record: &RevisionRecord,
        finalizers: Vec<String>,
        number: Option<i64>,
    ) -> Result<RevisionRecord, ApiError> {
        let mut body = json!({ "metadata": { "finalizers": finalizers } });
        if let Some(number) = number {
            body["spec"] = json!({ "revision": number });
        }
        let mut record = self.patch(record, body).await?;
        record.finalizers = finalizers;
        record.number = number.or(record.number);
        Ok(record)
    }

    /// Changes the life cycle state of a revision, and its mark of being paused by its deployment.
    /// Returns the new record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the revision is no longer the one that was read.
    pub async fn set_lifecycle(
        &self,
        record: &RevisionRecord,
        state: LifecycleState,
        paused_by_parent: bool,
    ) -> Result<RevisionRecord, ApiError> {
        let mut body = json!({ "metadata": {}, "spec": { "lifecycleState": state } });
        if paused_by_parent != record.notes.paused_by_parent {
            let mark = paused_by_parent.then_some("true");
            body["metadata"]["annotations"] = json!({ ANNOTATION_PAUSED_BY_PARENT: mark });
        }
        let mut record = self.patch(record, body).await?;
        record.lifecycle = state;
        record.notes.paused_by_parent = paused_by_parent;
        Ok(record)
    }

    /// Sets annotations of an object, or removes those without a value. The caller updates the
    /// fields of the record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the revision is no longer the one that was read.
    pub async fn annotate<K: RecordKind>(
        &self,
        record: &Record<K>,
        annotations: &BTreeMap<&str, Option<&str>>,
    ) -> Result<Record<K>, ApiError> {
        let body = json!({ "metadata": { "annotations": annotations } });
        self.patch(record, body).await
    }

    /// Makes a deployment the controller of a revision that has none and whose labels are selected.
    /// Both are read from the server, not from the record. True if the deployment is now the
    /// controller.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the revision has changed meanwhile, or another one has its name.
    pub async fn adopt(
        &self,
        record: &RevisionRecord,
        deployment: &OwnerReference,
        is_selected: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Result<bool, ApiError> {
        let path = record.key.path()?;
        let Some(metadata) = self.metadata(&path).await? else {
            return Err(ApiError::Changed { path });
        };
        if metadata.uid.as_deref() != Some(&*record.uid) {
            return Err(ApiError::Changed { path });
        }
        let mut owners = metadata.owner_references.iter().flatten();
        if let Some(controller) = owners.find(|owner| owner.controller == Some(true)) {
            return Ok(controller.uid == deployment.uid);
        }
        if !is_selected(&metadata.labels.clone().unwrap_or_default()) {
            return Ok(false);
        }
        self.add_owner(&path, &metadata, deployment.clone()).await?;
        Ok(true)
    }

    /// Deletes a revision, which exists until its finalizers are removed. Returns its record until
    /// then.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the revision is no longer the one that was read, or gone, as one
    /// without finalizers is at once.
    pub async fn delete(&self, record: &RevisionRecord) -> Result<RevisionRecord, ApiError> {
        let options = json!({
            "preconditions": precondition(record),
            "propagationPolicy": "Background",
        });
        let path = record.key.path()?;
        let answer = self.delete_at(&path, &options).await?;
        // For an object that is gone at once the server sends a Status, which has no name.
        let Ok(versions) = Versions::read(&answer) else {
            return Err(ApiError::Changed { path });
        };
        let mut record = record.clone();
        record.resource_version = versions.resource_version;
        record.deleting = true;
        Ok(record)
    }

    /// The content of a revision, also of an archived one, whose content is not stored.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn content(&self, key: &RevisionKey) -> Result<ObjectSetSpec, ApiError> {
        Ok(self.whole(key).await?.0)
    }

    /// As [`Api::content`], with the status.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn whole(
        &self,
        key: &RevisionKey,
    ) -> Result<(ObjectSetSpec, ObjectSetStatus), ApiError> {
        #[derive(Deserialize)]
        struct Object {
            spec: ObjectSetSpec,
            #[serde(default)]
            status: ObjectSetStatus,
        }
        let path = key.path()?;
        match self.read(&path).await? {
            Some(answer) => {
                let Object { spec, status } = parse(&path, &answer)?;
                Ok((spec, status))
            }
            None => Err(ApiError::Changed { path }),
        }
    }

    /// Adds owners to a slice in one write. Those that it has already are left out. From now on the slice
    /// exists as long as its owners. Returns the new record of the slice.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the slice is no longer the one that was read.
    pub async fn add_slice_owners(
        &self,
        owners: &[NewOwner],
        slice: &SliceRecord,
    ) -> Result<SliceRecord, ApiError> {
        let path = slice.key.path()?;
        let (body, owners) = ownership(owners, slice);
        let mut slice = slice.at(self.patch_at(&path, JsonPatch, &json!(body)).await?);
        slice.owners = owners;
        slice.awaits_user = false;
        Ok(slice)
    }

    /// Deletes a slice in the state that was read.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the slice is no longer the one that was read.
    pub async fn delete_slice(&self, slice: &SliceRecord) -> Result<(), ApiError> {
        let options = json!({ "preconditions": precondition(slice) });
        self.delete_at(&slice.key.path()?, &options).await.map(drop)
    }

    /// True if the object of a record exists and is not being deleted. Read from the server.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn is_live<K: RecordKind>(&self, record: &Record<K>) -> Result<bool, ApiError> {
        let metadata = self.metadata(&record.key.path()?).await?;
        Ok(is_live(metadata.as_ref(), &record.uid))
    }

    /// The metadata of the object at a path; `None` if there is none.
    async fn metadata(&self, path: &str) -> Result<Option<ObjectMeta>, ApiError> {
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
        }
        let answer = self.read_metadata(path).await?;
        let answer = answer.map(|answer| parse::<Object>(path, &answer));
        Ok(answer.transpose()?.map(|object| object.metadata))
    }

    /// Adds an owner to an object in the state that was read.
    async fn add_owner(
        &self,
        path: &str,
        metadata: &ObjectMeta,
        owner: OwnerReference,
    ) -> Result<(), ApiError> {
        let mut owners = metadata.owner_references.clone().unwrap_or_default();
        owners.push(owner);
        let body: Value = json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "ownerReferences": owners,
        }});
        self.patch_at(path, MergePatch, &body).await.map(drop)
    }
}

/// The JSON patch that adds owners to a slice, and the UIDs of all owners then. It refers to the other
/// owners only by their positions.
fn ownership(new: &[NewOwner], slice: &SliceRecord) -> (Vec<PatchOperation>, Vec<Arc<str>>) {
    const METADATA: &str = "metadata";
    const OWNERS: &str = "ownerReferences";
    let version = slice.resource_version.to_string();
    // A written version is a precondition.
    let mut patch = vec![add(&[METADATA, "resourceVersion"], version)];
    let mut owners = slice.owners.clone();
    for NewOwner {
        reference,
        replaces,
    } in new
    {
        if owners.iter().any(|owner| **owner == *reference.uid) {
            continue;
        }
        let uid = Arc::from(reference.uid.as_str());
        let place = owners
            .iter()
            .position(|owner| Some(owner) == replaces.as_ref());
        patch.push(match place {
            Some(at) => replace(&[METADATA, OWNERS, &at.to_string()], json!(reference)),
            None if owners.is_empty() => add(&[METADATA, OWNERS], json!([reference])),
            None => add(&[METADATA, OWNERS, "-"], json!(reference)),
        });
        match place {
            Some(at) => owners[at] = uid,
            None => owners.push(uid),
        }
    }
    (patch, owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{revision::RevisionKind::ObjectSet, slice::SliceKind};

    #[test]
    fn a_revision_takes_the_place_of_its_deployment_among_the_owners_of_a_slice() {
        let object = |owners: Value| {
            let metadata = json!({
                "name": "web-1", "namespace": "shop", "uid": "r", "resourceVersion": "7",
                "ownerReferences": owners,
            });
            json!({ "metadata": metadata }).to_string()
        };
        let controller = json!([{"uid": "d", "controller": true}]);
        let revision = Record::read(ObjectSet, &object(controller)).unwrap();
        let own = json!(revision.owner_reference(false));
        for (owners, op, path, value) in [
            (json!([]), "add", "", json!([own])),
            (json!([{"uid": "d"}]), "replace", "/0", own.clone()),
            (
                json!([{"uid": "x"}, {"uid": "d"}]),
                "replace",
                "/1",
                own.clone(),
            ),
            (json!([{"uid": "x"}]), "add", "/-", own.clone()),
        ] {
            let slice = Record::read(SliceKind(ObjectSet), &object(owners)).unwrap();
            let expected = json!([
                {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": op, "path": format!("/metadata/ownerReferences{path}"), "value": value},
            ]);
            let (patch, all) = ownership(&[NewOwner::of(&revision)], &slice);
            assert_eq!(json!(patch), expected);
            assert!(all.iter().any(|owner| **owner == *revision.uid));
        }
    }

    #[test]
    fn many_owners_are_added_in_one_write() {
        let object = |uid: &str, owners: Value| {
            let metadata = json!({
                "name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "7",
                "ownerReferences": owners,
            });
            json!({ "metadata": metadata }).to_string()
        };
        let revision = |uid: &str| {
            let controller = json!([{"uid": "d", "controller": true}]);
            Record::read(ObjectSet, &object(uid, controller)).unwrap()
        };
        let new = ["r", "s", "r", "t"].map(|uid| NewOwner::of(&revision(uid)));
        for (owners, expected_owners, paths) in [
            (json!([]), "r s t", ["", "/-", "/-"]),
            (
                json!([{"uid": "x"}, {"uid": "d"}]),
                "x r s t",
                ["/1", "/-", "/-"],
            ),
        ] {
            let slice = object("slice", owners);
            let slice = Record::read(SliceKind(ObjectSet), &slice).unwrap();
            let (patch, all) = ownership(&new, &slice);
            assert_eq!(all.join(" "), expected_owners);
            let patch = json!(patch);
            let found = patch.as_array().unwrap()[1..]
                .iter()
                .map(|it| it["path"].clone());
            let paths = paths.map(|path| json!(format!("/metadata/ownerReferences{path}")));
            assert_eq!(found.collect::<Vec<_>>(), paths);
        }
        let slice = object("slice", json!([{"uid": "r"}, {"uid": "s"}, {"uid": "t"}]));
        let slice = Record::read(SliceKind(ObjectSet), &slice).unwrap();
        assert_eq!(ownership(&new, &slice).0.len(), 1, "only the precondition");
    }
}
