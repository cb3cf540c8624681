//! The check of an object of a file that does not make a revision itself, by the server.

use baton_apis::kinds::Kind;
use baton_cluster::{Cluster, ClusterError, Write};
use baton_kubernetes::wire::MediaType;
use baton_view::{
    diff::{Pair, Section, Topic, clean::clean_live, note::ObjectNote, outcome::DiffOutcome},
    object::text_at,
};
use serde_json::{Map, Value, json};

use crate::{error::Error, subject::check_name};

/// The difference of an object of one of Baton's own kinds from the object that the server would
/// store for an apply of it.
///
/// # Errors
/// If a request fails. A refusal is no error; it is part of the section.
pub(crate) async fn compare(
    cluster: &Cluster,
    kind: &'static Kind,
    object: &Value,
) -> Result<Section, Error> {
    let name = text_at(object, "/metadata/name");
    check_name(name)?;
    let namespace = match text_at(object, "/metadata/namespace") {
        _ if !kind.is_namespaced => "",
        "" => cluster.namespace.as_str(),
        own => own,
    };
    let path = kind.path_of(Some(namespace).filter(|it| !it.is_empty()), name);
    let live = cluster.get_at(&path).await?;
    let topic = Topic::Application(kind, namespace.to_owned(), name.to_owned());
    let section = Section::new(topic);
    Ok(match dry_run(cluster, object, &path).await {
        Ok(after) => {
            let pair = Pair::new(live.map(clean_live), Some(clean_live(after)));
            let section = section.fate(pair.fate());
            if pair.is_same() {
                section
            } else {
                section.pair(pair)
            }
        }
        Err(error) if error.is_lack_of_rights() => section.notes([ObjectNote::Unchecked]),
        Err(error @ Error::Cluster(ClusterError::Refused(_))) => {
            section.fate(DiffOutcome::Invalid(error.to_string()))
        }
        Err(error) => return Err(error),
    })
}

/// The object that the server would store for an apply at a path.
async fn dry_run(cluster: &Cluster, object: &Value, path: &str) -> Result<Value, Error> {
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
    Ok(cluster.write(path, write, &body).await?)
}

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
    match dry_run(cluster, object, path).await {
        Ok(_) => Ok(section),
        Err(error) if error.is_lack_of_rights() => Ok(section.notes([ObjectNote::Unchecked])),
        Err(error @ Error::Cluster(ClusterError::Refused(_))) => {
            Ok(section.fate(DiffOutcome::Invalid(error.to_string())))
        }
        Err(error) => Err(error),
    }
}
