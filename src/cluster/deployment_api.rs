//! The requests of a deployment about itself and its revisions.

use std::collections::BTreeMap;

use baton_apis::{
    LifecycleState, ObjectSetSpec,
    constants::{ANNOTATION_PAUSED_BY_PARENT, API_VERSION},
};
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    deployment::DeploymentRecord,
    key::Resource as _,
    record::{ReadError, Record, RevisionKey, read, read_metadata},
    revision_api::{ApiError, METADATA_ONLY, RevisionApi},
    wire,
};

const JSON: &str = "application/json";

impl DeploymentRecord {
    /// The controller reference on its revisions (contract 5.2).
    #[must_use]
    pub fn controller_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: self.key.kind.kind().to_owned(),
            name: self.key.name.to_string(),
            uid: self.uid.to_string(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

impl RevisionApi {
    /// Makes a revision; the record as the server has it, defaults filled in.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the name is taken, which the watch will tell as well.
    pub async fn create(&self, key: &RevisionKey, body: &Value) -> Result<Record, ApiError> {
        let path = key.collection();
        let answer = self.request(Method::POST, JSON, JSON, &path, body).await?;
        let object: Result<&RawValue, _> = serde_json::from_slice(&answer);
        object
            .and_then(|object| read(key.kind, object.get()).map_err(ReadError::into_source))
            .map_err(|source| ApiError::Answer { path, source })
    }

    /// Changes the life cycle state of a revision, and whether it is marked as paused by its
    /// deployment; the record as it is now.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision is no longer the one that was read.
    pub async fn set_lifecycle(
        &self,
        record: &Record,
        state: LifecycleState,
        paused_by_parent: bool,
    ) -> Result<Record, ApiError> {
        let mark = paused_by_parent.then_some("true");
        let mut metadata = bound(record);
        if paused_by_parent != record.notes.paused_by_parent {
            metadata["annotations"] = json!({ANNOTATION_PAUSED_BY_PARENT: mark});
        }
        let body = json!({"metadata": metadata, "spec": {"lifecycleState": state}});
        let mut updated = self.patch_record(record, &body).await?;
        updated.lifecycle = state;
        updated.notes.paused_by_parent = paused_by_parent;
        Ok(updated)
    }

    /// Sets annotations of a revision. The record's notes are up to the caller.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision is no longer the one that was read.
    pub async fn annotate(
        &self,
        record: &Record,
        annotations: &BTreeMap<&str, String>,
    ) -> Result<Record, ApiError> {
        let mut metadata = bound(record);
        metadata["annotations"] = json!(annotations);
        self.patch_record(record, &json!({ "metadata": metadata }))
            .await
    }

    /// Makes a deployment the managing owner of a revision that has none.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision has changed or has got an owner meanwhile.
    pub async fn adopt(
        &self,
        record: &Record,
        deployment: &DeploymentRecord,
    ) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
        }
        let path = record.key.path();
        let Object { metadata } = self.read(&path).await?;
        let mut owners = metadata.owner_references.unwrap_or_default();
        let is_same = metadata.uid.as_deref() == Some(&*record.uid);
        if !is_same || owners.iter().any(|owner| owner.controller == Some(true)) {
            return Err(ApiError::Changed { path });
        }
        owners.push(deployment.controller_reference());
        let body = json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "ownerReferences": owners,
        }});
        self.patch(&path, &body).await.map(drop)
    }

    /// Deletes a revision; its own finalizers decide when it is gone.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision is no longer the one that was read, or gone, which one
    /// without finalizers is at once.
    pub async fn delete(&self, record: &Record) -> Result<Record, ApiError> {
        let body = json!({
            "preconditions": {
                "uid": &*record.uid,
                "resourceVersion": record.resource_version.to_string(),
            },
            "propagationPolicy": "Background",
        });
        let path = record.key.path();
        let answer = self
            .request(Method::DELETE, JSON, METADATA_ONLY, &path, &body)
            .await?;
        let Ok(metadata) = read_metadata(&answer) else {
            // Of an object that is gone the server sends a Status, which has no name.
            return Err(ApiError::Changed { path });
        };
        let mut record = record.clone();
        record.resource_version = metadata.resource_version;
        record.deleting = true;
        Ok(record)
    }

    /// The content of a revision, also of an archived one, whose content is not kept here.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn content(&self, key: &RevisionKey) -> Result<ObjectSetSpec, ApiError> {
        #[derive(Deserialize)]
        struct Object {
            spec: ObjectSetSpec,
        }
        self.read::<Object>(&key.path())
            .await
            .map(|object| object.spec)
    }

    async fn read<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, ApiError> {
        let request = wire::get(path, JSON).map_err(ApiError::Wire)?;
        let body = self.send(path, request).await?;
        serde_json::from_slice(&body).map_err(|source| ApiError::Answer {
            path: path.to_owned(),
            source,
        })
    }

    async fn patch_record(&self, record: &Record, body: &Value) -> Result<Record, ApiError> {
        let metadata = self.patch(&record.key.path(), body).await?;
        Ok(record.at(&metadata))
    }
}

/// Metadata of a patch that holds it to the state that was read.
fn bound(record: &Record) -> Value {
    json!({
        "uid": &*record.uid,
        "resourceVersion": record.resource_version.to_string(),
    })
}
