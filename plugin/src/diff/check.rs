//! The check of an object of a file that does not make a revision itself, by the server.

use baton_kubernetes::wire::MediaType;
use baton_view::diff::{Section, note::ObjectNote, outcome::DiffOutcome};
use serde_json::{Map, Value, json};

use super::forecast::is_lack_of_rights;
use crate::{
    connect::{Cluster, Write},
    error::Error,
};

/// Sends a dry run of an apply at a path, and adds the outcome to the section of the object.
///
/// # Errors
/// If the request fails. A refusal is no error; it is part of the section.
pub(crate) async fn check_apply(
    cluster: &Cluster,
    object: &Value,
    path: &str,
    section: Section,
) -> Result<Section, Error> {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let body = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": metadata,
        "spec": object["spec"],
    });
    let write = Write {
        options: "&force=true&fieldValidation=Strict",
        ..Write::new(MediaType::Apply, true)
    };
    match cluster.write(path, write, &body).await {
        Ok(_) => Ok(section),
        Err(error) if is_lack_of_rights(&error) => Ok(section.notes([ObjectNote::Unchecked])),
        Err(error @ Error::Refused(_)) => Ok(section.fate(DiffOutcome::Invalid(error.to_string()))),
        Err(error) => Err(error),
    }
}
