//! Requests about objects of our own kinds. Only `baton_kubernetes::apply` writes children.

use baton_apis::{
    constants::{API_VERSION, FIELD_MANAGER},
    kinds::Kind,
};
use baton_engine::{
    operations::replace,
    redact::{about, parse_error},
};
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
    creations::{Creation, Creations, Repeated},
    key::Key,
    record::{Record, RecordKind, Versions},
};

const JSON: &str = "application/json";

/// Media type of a response with the metadata only: the manifests of a revision are long, and
/// cached already.
pub(crate) const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// As [`METADATA_ONLY`], for lists.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A request about an object of one of Baton's kinds failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object is in another state than the one decided upon, or deleted; the event of the
    /// change is under way.
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
        /// Message of the server.
        message: String,
    },
    /// The object was created again and again, so nothing was sent.
    #[error("{path}: {source}")]
    Repeated {
        /// URL path of the collection.
        path: String,
        /// Number of creations, and the time of the next attempt.
        source: Repeated,
    },
    /// The name is not valid for an object, so nothing was sent.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There was no complete response.
    #[error(transparent)]
    Wire(WireError),
    /// The response does not conform to the API.
    #[error("{path}: unreadable answer: {}", parse_error(source))]
    Answer {
        /// URL path of the object.
        path: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
}

impl ApiError {
    /// True if the object is in another state than the one decided upon.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }

    /// True if the object was created again and again.
    pub fn is_repeated(&self) -> bool {
        matches!(self, Self::Repeated { .. })
    }

    /// The cause, if the error is a refusal that every further attempt would get as well.
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
    creations: Creations,
}

impl Api {
    /// Sends the requests with a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let creations = Creations::default();
        Self { client, creations }
    }

    /// The objects that this process has created.
    pub fn creations(&self) -> &Creations {
        &self.creations
    }

    /// Creates an object. Returns its record, with the defaults of the server.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the name is taken, which the watch will observe as well.
    /// [`ApiError::Repeated`] if it was created again and again.
    pub async fn create<K: RecordKind>(
        &self,
        key: &Key<K>,
        manifest: &Value,
    ) -> Result<Record<K>, ApiError> {
        let path = key.collection()?;
        let creation = Creation::of(&path, manifest);
        if let Err(source) = self.creations.check(creation) {
            return Err(ApiError::Repeated { path, source });
        }
        let answer = self
            .write(Method::POST, MediaType::Json, JSON, &path, manifest)
            .await?;
        self.creations.made(creation);
        record(key.kind, &path, &answer)
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn get<K: RecordKind>(&self, key: &Key<K>) -> Result<Option<Record<K>>, ApiError> {
        let path = key.path()?;
        let answer = self.read(&path).await?;
        answer
            .map(|answer| record(key.kind, &path, &answer))
            .transpose()
    }

    /// Writes a status. Returns the new record.
    ///
    /// The write is an update, not a patch: the API server reads only the status in it, so the long
    /// manifests are not sent, and the server does not merge a patch into them. The version that
    /// was read is its precondition, so this write alone leads to the version of the response, and
    /// no event of the watch is dropped as old because of it.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is no longer the one that was read.
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

    /// Sets the finalizers of an object. Returns the new record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is no longer the one that was read.
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

    /// Checks that one of Baton's kinds can be read.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with code 404 if the kind is not served.
    pub async fn probe(&self, kind: &Kind) -> Result<(), ApiError> {
        let path = format!("{}?limit=1", kind.path(None));
        let request = wire::get(&path, METADATA_LIST).map_err(ApiError::Wire)?;
        self.send(&path, request).await.map(drop)
    }

    /// Applies a merge patch to an object in the state that was read. Only the versions of the
    /// record are updated; the caller updates its other fields.
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

    /// As [`Api::patch`], with the whole object in the response.
    pub(crate) async fn patch_whole<K: RecordKind>(
        &self,
        record: &Record<K>,
        body: Value,
    ) -> Result<Record<K>, ApiError> {
        let (path, body) = (record.key.path()?, bound(record, body));
        let answer = self.write(Method::PATCH, MergePatch, JSON, &path, &body);
        self::record(record.key.kind, &path, &answer.await?)
    }

    /// Deletes the object at a path. Returns the body of the response, with metadata only.
    pub(crate) async fn delete_at(&self, path: &str, options: &Value) -> Result<Bytes, ApiError> {
        let content = MediaType::Json;
        self.write(Method::DELETE, content, METADATA_ONLY, path, options)
            .await
    }

    /// Applies a patch of a type to the object at a path.
    pub(crate) async fn patch_at(
        &self,
        path: &str,
        content: MediaType,
        body: &Value,
    ) -> Result<Versions, ApiError> {
        let answer = self.write(Method::PATCH, content, METADATA_ONLY, path, body);
        versions(path, &answer.await?)
    }

    /// Applies the operations of a JSON patch to an object in the state that was read. Only the
    /// versions of the record are updated; the caller updates its other fields.
    pub(crate) async fn patch_by<K: RecordKind>(
        &self,
        record: &Record<K>,
        mut operations: Vec<PatchOperation>,
    ) -> Result<Record<K>, ApiError> {
        // An update that names another version than that of the object is a conflict; a failed
        // `test` would be a refusal.
        for (field, value) in precondition(record).as_object().into_iter().flatten() {
            operations.push(replace(&["metadata", field], value.clone()));
        }
        let path = record.key.path()?;
        let versions = self.patch_at(&path, JsonPatch, &json!(operations)).await?;
        Ok(record.at(versions))
    }

    /// Reads the object at a path; `None` if there is none.
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
            Err(ApiError::Refused {
                path,
                code,
                message,
            }) => Err(ApiError::Refused {
                message: about(&message, &[body]),
                path,
                code,
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

/// Parses a response.
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

/// The precondition of a write: the state that was read.
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
