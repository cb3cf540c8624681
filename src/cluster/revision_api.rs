//! The few requests that concern revisions and slices themselves. Children are written by
//! [`super::apply`] only.

use baton_apis::{
    ObjectSetStatus, ObjectSlice,
    constants::{API_VERSION, FIELD_MANAGER},
};
use http::{Method, Request, header};
use kube::{Client, client::Body};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    item::{Item, ItemKind},
    key::{Key, Resource, collection},
    record::{Metadata, Record, RevisionKey, read_metadata},
    wire::{self, WireError, call, failure},
};

/// Only the metadata comes back: a revision's manifests are long, and known already.
pub(super) const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// As [`METADATA_ONLY`], for lists.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A request about a revision or a slice failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object is in another state than the one decided upon, or gone; its event is under way.
    #[error("{path} has changed meanwhile")]
    Changed {
        /// URL path of the object.
        path: String,
    },
    /// The server refused the request, or failed.
    #[error("{path}: {message}")]
    Refused {
        /// URL path of the object.
        path: String,
        /// HTTP status code.
        code: u16,
        /// What the server says.
        message: String,
    },
    /// No whole answer.
    #[error(transparent)]
    Wire(WireError),
    /// The answer is not what the API promises.
    #[error("{path}: unreadable answer: {source}")]
    Answer {
        /// URL path of the object.
        path: String,
        /// The parser's word.
        source: serde_json::Error,
    },
}

/// Requests about deployments, revisions and slices.
#[derive(Clone)]
pub struct RevisionApi {
    client: Client,
}

impl RevisionApi {
    /// Uses a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sets finalizers and, if given, the number of a revision in one patch (improvement 34),
    /// and returns the record as it is now.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision is no longer the one that was read.
    pub async fn set_up(
        &self,
        record: &Record,
        finalizers: Vec<String>,
        number: Option<i64>,
    ) -> Result<Record, ApiError> {
        let mut body = json!({"metadata": {
            "uid": &*record.uid,
            "resourceVersion": record.resource_version.to_string(),
            "finalizers": finalizers,
        }});
        if let Some(number) = number {
            body["spec"] = json!({ "revision": number });
        }
        let metadata = self.patch(&record.key.path(), &body).await?;
        let mut record = record.at(&metadata);
        record.finalizers = finalizers;
        record.number = number.or(record.number);
        Ok(record)
    }

    /// Writes a status and returns the record as it is now.
    ///
    /// The write is an update, not a patch: the API server takes nothing but the status from it, so
    /// the long manifests need not be sent, and it saves the server the merging of a patch into
    /// them. It is bound to the version that was read, so the answer's version stands for nothing
    /// but this write, and no news of the watch is dropped as old because of it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the revision is no longer the one that was read.
    pub async fn set_status(
        &self,
        record: &Record,
        status: &ObjectSetStatus,
    ) -> Result<Record, ApiError> {
        let metadata = self
            .put_status(&record.key, &record.uid, record.resource_version, status)
            .await?;
        let mut record = record.clone();
        record.resource_version = metadata.resource_version;
        record
            .set_status(status)
            .map_err(|source| ApiError::Answer {
                path: record.key.path(),
                source,
            })?;
        Ok(record)
    }

    /// Writes the status of an item, as [`RevisionApi::set_status`] does.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when it is no longer the one that was read.
    pub async fn set_item_status<K: ItemKind>(
        &self,
        item: &Item<K>,
        status: &K::Status,
    ) -> Result<Item<K>, ApiError> {
        let metadata = self
            .put_status(&item.key, &item.uid, item.resource_version, status)
            .await?;
        let mut item = item.clone();
        item.resource_version = metadata.resource_version;
        item.set_status(status).map_err(|source| ApiError::Answer {
            path: item.key.path(),
            source,
        })?;
        Ok(item)
    }

    async fn put_status<R: Resource>(
        &self,
        key: &Key<R>,
        uid: &str,
        resource_version: u64,
        status: &(impl Serialize + Sync),
    ) -> Result<Metadata, ApiError> {
        let path = format!("{}/status", key.path());
        let mut metadata = json!({
            "name": &*key.name,
            "uid": uid,
            "resourceVersion": resource_version.to_string(),
        });
        if !key.namespace.is_empty() {
            metadata["namespace"] = (*key.namespace).into();
        }
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": key.kind.kind(),
            "metadata": metadata,
            "status": status,
        });
        self.write(Method::PUT, "application/json", &path, &body)
            .await
    }

    /// Whether a resource of ours can be read at all.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with code 404 when it is not served.
    pub async fn probe(&self, plural: &str) -> Result<(), ApiError> {
        let path = format!("{}?limit=1", collection(plural, ""));
        let request = wire::get(&path, METADATA_LIST).map_err(ApiError::Wire)?;
        self.send(&path, request).await.map(drop)
    }

    /// Reads a slice; `None` when it does not exist.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn slice(
        &self,
        owner: &RevisionKey,
        name: &str,
    ) -> Result<Option<ObjectSlice>, ApiError> {
        let path = owner.slice_path(name);
        let request = wire::get(&path, "application/json").map_err(ApiError::Wire)?;
        match self.send(&path, request).await {
            Ok(body) => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|source| ApiError::Answer { path, source }),
            Err(ApiError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a revision to the plain owners of a slice (contract 2.3).
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the slice is no longer the one that was read.
    pub async fn own_slice(&self, owner: &Record, slice: &ObjectSlice) -> Result<(), ApiError> {
        let metadata = &slice.metadata;
        let mut owners = metadata.owner_references.clone().unwrap_or_default();
        owners.push(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                api_version: API_VERSION.to_owned(),
                kind: owner.key.kind.kind().to_owned(),
                name: owner.key.name.to_string(),
                uid: owner.uid.to_string(),
                controller: None,
                block_owner_deletion: None,
            },
        );
        let body = json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "ownerReferences": owners,
        }});
        let name = metadata.name.as_deref().unwrap_or_default();
        self.patch(&owner.key.slice_path(name), &body)
            .await
            .map(drop)
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Metadata, ApiError> {
        self.write(Method::PATCH, "application/merge-patch+json", path, body)
            .await
    }

    pub(super) async fn write(
        &self,
        method: Method,
        content_type: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Metadata, ApiError> {
        let answer = self
            .request(method, content_type, METADATA_ONLY, path, body)
            .await?;
        read_metadata(&answer).map_err(|error| ApiError::Answer {
            path: path.to_owned(),
            source: error.into_source(),
        })
    }

    pub(super) async fn request(
        &self,
        method: Method,
        content_type: &'static str,
        accept: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<bytes::Bytes, ApiError> {
        let fault = |source| ApiError::Answer {
            path: path.to_owned(),
            source,
        };
        let uri = format!("{path}?fieldManager={FIELD_MANAGER}");
        let request = Request::builder()
            .method(method)
            .uri(&uri)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(serde_json::to_vec(body).map_err(fault)?))
            .map_err(|source| {
                ApiError::Wire(WireError::Build {
                    path: uri.clone(),
                    source,
                })
            })?;
        match self.send(path, request).await {
            Err(ApiError::Refused {
                code: 404 | 409, ..
            }) => Err(ApiError::Changed {
                path: path.to_owned(),
            }),
            answer => answer,
        }
    }

    pub(super) async fn send(
        &self,
        path: &str,
        request: Request<Body>,
    ) -> Result<bytes::Bytes, ApiError> {
        let reply = call(&self.client, request).await.map_err(ApiError::Wire)?;
        if reply.status.is_success() {
            return Ok(reply.body);
        }
        Err(ApiError::Refused {
            path: path.to_owned(),
            code: reply.status.as_u16(),
            message: failure(reply.status, &reply.body).message,
        })
    }
}
