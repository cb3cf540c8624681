//! The custom resource definition of a kind, read from the server.

use baton_apis::url;
use bytes::Bytes;
use http::StatusCode;
use kube::Client;

use crate::{
    path,
    wire::{self, METADATA_LIST, has_items},
};

/// Path of all definitions.
pub(crate) const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Reads the definition of a name from the server; `None` if the server reports that there is none.
///
/// # Errors
/// If the definition is unknown; the text states the cause. A 404 that does not name the definition
/// is an error: a proxy may have sent it, or a server that does not serve definitions yet.
pub(crate) async fn read(client: &Client, name: &str) -> Result<Option<Bytes>, String> {
    let failed = |cause: String| format!("reading CustomResourceDefinition {name}: {cause}");
    let path = path::object(PATH, name).map_err(|error| failed(error.to_string()))?;
    let request =
        wire::get(&path, "application/json").map_err(|error| failed(error.to_string()))?;
    let reply = wire::call(client, request).await;
    let reply = reply.map_err(|error| failed(error.to_string()))?;
    if reply.status.is_success() {
        return Ok(Some(reply.body));
    }
    let failure = wire::failure(reply.status, &reply.body);
    let is_missing = reply.status == StatusCode::NOT_FOUND
        && wire::subject(&failure).is_some_and(|subject| subject.name == name);
    if is_missing {
        return Ok(None);
    }
    Err(failed(failure.message))
}

/// Reports if the definition of a name exists, by a list of one without its content. The right to
/// list is the one that every watch of definitions needs, and an empty list is always sent by the
/// API server itself.
///
/// # Errors
/// If the answer is unknown; the text states the cause.
pub(crate) async fn exists(client: &Client, name: &str) -> Result<bool, String> {
    let failed = |cause: String| format!("listing CustomResourceDefinition {name}: {cause}");
    let selected = url::escape(&format!("metadata.name={name}"));
    let path = format!("{PATH}?limit=1&fieldSelector={selected}");
    let request = wire::get(&path, METADATA_LIST).map_err(|error| failed(error.to_string()))?;
    let reply = wire::call(client, request).await;
    let reply = reply.map_err(|error| failed(error.to_string()))?;
    if !reply.status.is_success() {
        return Err(failed(wire::failure(reply.status, &reply.body).message));
    }
    has_items(&reply.body).map_err(|error| failed(error.to_string()))
}
