//! The requests about phase objects.

use http::Method;
use serde_json::{Value, json};

use super::{
    item::{Item, ItemKind},
    key::Key,
    phase::{PhaseKey, PhaseRecord},
    revision_api::{ApiError, METADATA_ONLY, RevisionApi},
    wire,
};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

impl RevisionApi {
    /// Makes a phase object; as the server has it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the name is taken.
    pub async fn create_phase(
        &self,
        key: &PhaseKey,
        manifest: &Value,
    ) -> Result<PhaseRecord, ApiError> {
        let path = key.collection();
        let answer = self
            .request(Method::POST, JSON, JSON, &path, manifest)
            .await?;
        item(key, &answer)
    }

    /// Reads a phase object; `None` when it does not exist.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn phase(&self, key: &PhaseKey) -> Result<Option<PhaseRecord>, ApiError> {
        let path = key.path();
        let request = wire::get(&path, JSON).map_err(ApiError::Wire)?;
        match self.send(&path, request).await {
            Ok(answer) => item(key, &answer).map(Some),
            Err(ApiError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pauses a phase object or ends its pause; as the server has it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when it is no longer the one that was read.
    pub async fn pause_phase(
        &self,
        phase: &PhaseRecord,
        paused: bool,
    ) -> Result<PhaseRecord, ApiError> {
        let body = json!({"metadata": bound(phase), "spec": { "paused": paused }});
        self.change_phase(phase, &body).await
    }

    /// Sets an annotation of a phase object, and whether it is paused; as the server has it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when it is no longer the one that was read.
    pub async fn annotate_phase(
        &self,
        phase: &PhaseRecord,
        (annotation, value): (&str, &str),
        paused: bool,
    ) -> Result<PhaseRecord, ApiError> {
        let mut metadata = bound(phase);
        metadata["annotations"] = json!({ annotation: value });
        let body = json!({"metadata": metadata, "spec": { "paused": paused }});
        self.change_phase(phase, &body).await
    }

    async fn change_phase(
        &self,
        phase: &PhaseRecord,
        body: &Value,
    ) -> Result<PhaseRecord, ApiError> {
        let path = phase.key.path();
        let answer = self
            .request(Method::PATCH, MERGE, JSON, &path, body)
            .await?;
        item(&phase.key, &answer)
    }

    /// Deletes a phase object; its finalizer decides when it is gone.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when there is another one by now, or none.
    pub async fn delete_phase(&self, phase: &PhaseRecord) -> Result<(), ApiError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": &*phase.uid },
        });
        let path = phase.key.path();
        self.request(Method::DELETE, JSON, METADATA_ONLY, &path, &body)
            .await
            .map(drop)
    }

    /// Sets the finalizers of an item; the item as it is now.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when it is no longer the one that was read.
    pub async fn set_finalizers<K: ItemKind>(
        &self,
        item: &Item<K>,
        finalizers: Vec<String>,
    ) -> Result<Item<K>, ApiError> {
        let mut metadata = bound(item);
        metadata["finalizers"] = json!(finalizers);
        let answer = self
            .patch(&item.key.path(), &json!({ "metadata": metadata }))
            .await?;
        let mut item = item.clone();
        item.resource_version = answer.resource_version;
        item.generation = answer.generation;
        item.finalizers = finalizers;
        Ok(item)
    }
}

fn item<K: ItemKind>(key: &Key<K>, answer: &[u8]) -> Result<Item<K>, ApiError> {
    let fault = |source| ApiError::Answer {
        path: key.path(),
        source,
    };
    let text =
        std::str::from_utf8(answer).map_err(|error| fault(serde::de::Error::custom(error)))?;
    Item::read(key.kind, text).map_err(|error| fault(error.into_source()))
}

/// Metadata of a patch that holds it to the state that was read.
fn bound<K>(item: &Item<K>) -> Value {
    json!({
        "uid": &*item.uid,
        "resourceVersion": item.resource_version.to_string(),
    })
}
