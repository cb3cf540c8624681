//! The requests about objects of our own kinds. Children are written by `baton_kubernetes::apply` only.

use baton_apis::{
    constants::{API_VERSION, FIELD_MANAGER},
    kinds::Kind,
};
use baton_engine::operations::replace;
use baton_kubernetes::{
    path::NameError,
    wire::{
        self,
        MediaType::{self, JsonPatch, MergePatch},
        WireError, call, failure,
    },
};
use bytes::Bytes;
use http::{Method, Request, header};
use json_patch::PatchOperation;
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    key::Key,
    record::{Record, RecordKind, Versions},
};

const JSON: &str = "application/json";

/// Only the metadata comes back: a revision's manifests are long, and known already.
pub(crate) const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// As [`METADATA_ONLY`], for lists.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A request about an object of ours failed.
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
        /// The server's message.
        message: String,
    },
    /// No object can have the name, so nothing was sent.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No whole answer.
    #[error(transparent)]
    Wire(WireError),
    /// The answer is not what the API promises.
    #[error("{path}: unreadable answer: {source}")]
    Answer {
        /// URL path of the object.
        path: String,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl ApiError {
    /// Whether the object is in another state than the one decided upon.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }

    /// Why it is refused, whoever tries how often.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Refused { code, message, .. } if (400..500).contains(code) && *code != 429 => {
                Some(message.clone())
            }
            Self::Name(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// Requests about objects of our own kinds.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    /// Uses a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object; the record as the server has it, defaults filled in.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the name is taken, which the watch will observe as well.
    pub async fn create<K: RecordKind>(
        &self,
        key: &Key<K>,
        manifest: &Value,
    ) -> Result<Record<K>, ApiError> {
        let path = key.collection()?;
        let answer = self
            .write(Method::POST, MediaType::Json, JSON, &path, manifest)
            .await?;
        record(key.kind, &path, &answer)
    }

    /// Reads an object; `None` when it does not exist.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn get<K: RecordKind>(&self, key: &Key<K>) -> Result<Option<Record<K>>, ApiError> {
        let path = key.path()?;
        let answer = self.read(&path).await?;
        answer
            .map(|answer| record(key.kind, &path, &answer))
            .transpose()
    }

    /// Writes a status and returns the record as it is now.
    ///
    /// The write is an update, not a patch: the API server takes nothing but the status from it, so the long manifests
    /// need not be sent, and it saves the server the merging of a patch into them. It is bound to the version that was
    /// read, so the answer's version stands for nothing but this write, and nothing that the watch observes is dropped
    /// as old because of it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when the object is no longer the one that was read.
    pub async fn set_status<K: RecordKind>(
        &self,
        record: &Record<K>,
        status: &K::Status,
    ) -> Result<Record<K>, ApiError> {
        let key = &record.key;
        let path = format!("{}/status", key.path()?);
        let mut metadata = precondition(record);
        metadata["name"] = (*key.name).into();
        if !key.namespace.is_empty() {
            metadata["namespace"] = (*key.namespace).into();
        }
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": key.kind.kind(),
            "metadata": metadata,
            "status": status,
        });
        let answer = self.write(Method::PUT, MediaType::Json, METADATA_ONLY, &path, &body);
        let versions = versions(&path, &answer.await?)?;
        let mut record = record.clone();
        record.resource_version = versions.resource_version;
        let set = record.set_status(status);
        set.map_err(|source| ApiError::Answer { path, source })?;
        Ok(record)
    }

    /// Sets the finalizers of an object; the record as it is now.
    ///
    /// # Errors
    /// [`ApiError::Changed`] when it is no longer the one that was read.
    pub async fn set_finalizers<K: RecordKind>(
        &self,
        record: &Record<K>,
        finalizers: Vec<String>,
    ) -> Result<Record<K>, ApiError> {
        let body = json!({ "metadata": { "finalizers": finalizers } });
        let mut record = self.patch(record, body).await?;
        record.finalizers = finalizers;
        Ok(record)
    }

    /// Whether a kind of ours can be read at all.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with code 404 when it is not served.
    pub async fn probe(&self, kind: &Kind) -> Result<(), ApiError> {
        let path = format!("{}?limit=1", kind.path(None));
        let request = wire::get(&path, METADATA_LIST).map_err(ApiError::Wire)?;
        self.send(&path, request).await.map(drop)
    }

    /// Merges a patch into an object in the state that was read. What the patch changes beside the versions is up to
    /// the caller.
    pub(crate) async fn patch<K: RecordKind>(
        &self,
        record: &Record<K>,
        body: Value,
    ) -> Result<Record<K>, ApiError> {
        let versions = self
            .patch_at(&record.key.path()?, MergePatch, &bound(record, body))
            .await?;
        Ok(record.at(versions))
    }

    /// As [`Api::patch`], with the whole object in the answer.
    pub(crate) async fn patch_whole<K: RecordKind>(
        &self,
        record: &Record<K>,
        body: Value,
    ) -> Result<Record<K>, ApiError> {
        let (path, body) = (record.key.path()?, bound(record, body));
        let answer = self.write(Method::PATCH, MergePatch, JSON, &path, &body);
        self::record(record.key.kind, &path, &answer.await?)
    }

    /// Deletes what is at a path; the metadata in the answer.
    pub(crate) async fn delete_at(&self, path: &str, options: &Value) -> Result<Bytes, ApiError> {
        let content = MediaType::Json;
        self.write(Method::DELETE, content, METADATA_ONLY, path, options)
            .await
    }

    /// Applies a patch of this type to what is at a path.
    pub(crate) async fn patch_at(
        &self,
        path: &str,
        content: MediaType,
        body: &Value,
    ) -> Result<Versions, ApiError> {
        let answer = self.write(Method::PATCH, content, METADATA_ONLY, path, body);
        versions(path, &answer.await?)
    }

    /// Applies the operations of a JSON patch to an object in the state that was read. What they change beside the
    /// versions is up to the caller.
    pub(crate) async fn patch_by<K: RecordKind>(
        &self,
        record: &Record<K>,
        mut operations: Vec<PatchOperation>,
    ) -> Result<Record<K>, ApiError> {
        // An update that names another version than that of the object is a conflict; a failed `test` would be a
        // refusal.
        for (field, value) in precondition(record).as_object().into_iter().flatten() {
            operations.push(replace(&["metadata", field], value.clone()));
        }
        let path = record.key.path()?;
        let versions = self.patch_at(&path, JsonPatch, &json!(operations)).await?;
        Ok(record.at(versions))
    }

    /// Reads what is at a path; `None` when there is nothing.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Bytes>, ApiError> {
        self.read_as(path, JSON).await
    }

    /// As [`Api::read`], the metadata only.
    pub(crate) async fn read_metadata(&self, path: &str) -> Result<Option<Bytes>, ApiError> {
        self.read_as(path, METADATA_ONLY).await
    }

    async fn read_as(&self, path: &str, accept: &'static str) -> Result<Option<Bytes>, ApiError> {
        let request = wire::get(path, accept).map_err(ApiError::Wire)?;
        match self.send(path, request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(ApiError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        method: Method,
        content: MediaType,
        accept: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Bytes, ApiError> {
        let uri = format!("{path}?fieldManager={FIELD_MANAGER}");
        let request = Request::builder()
            .method(method)
            .uri(&uri)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content.as_str())
            .body(Body::from(body.to_string().into_bytes()))
            .map_err(|source| ApiError::Wire(WireError::Build { path: uri, source }))?;
        match self.send(path, request).await {
            Err(ApiError::Refused {
                code: 404 | 409, ..
            }) => Err(ApiError::Changed {
                path: path.to_owned(),
            }),
            answer => answer,
        }
    }

    async fn send(&self, path: &str, request: Request<Body>) -> Result<Bytes, ApiError> {
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

/// Parses an answer.
pub(crate) fn parse<T: for<'de> Deserialize<'de>>(
    path: &str,
    answer: &[u8],
) -> Result<T, ApiError> {
    serde_json::from_slice(answer).map_err(|source| ApiError::Answer {
        path: path.to_owned(),
        source,
    })
}

fn versions(path: &str, answer: &[u8]) -> Result<Versions, ApiError> {
    Versions::read(answer).map_err(|source| ApiError::Answer {
        path: path.to_owned(),
        source,
    })
}

fn record<K: RecordKind>(kind: K, path: &str, answer: &[u8]) -> Result<Record<K>, ApiError> {
    let unreadable = |source| ApiError::Answer {
        path: path.to_owned(),
        source,
    };
    let text =
        std::str::from_utf8(answer).map_err(|error| unreadable(serde::de::Error::custom(error)))?;
    Record::read(kind, text).map_err(|error| unreadable(error.into_source()))
}

/// What binds a write to the state that was read.
pub(crate) fn precondition<K: RecordKind>(record: &Record<K>) -> Value {
    json!({
        "uid": &*record.uid,
        "resourceVersion": record.resource_version.to_string(),
    })
}

fn bound<K: RecordKind>(record: &Record<K>, mut body: Value) -> Value {
    body["metadata"]["uid"] = (*record.uid).into();
    body["metadata"]["resourceVersion"] = record.resource_version.to_string().into();
    body
}
