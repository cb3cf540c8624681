//! Reads the objects of a hub.

use std::collections::BTreeSet;

use baton_apis::{
    constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT, NAMESPACE_CLUSTER_PREFIX},
    kinds::{self, Kind},
};
use baton_cluster::{Cluster, ClusterError};
use baton_view::{lists::ListQuery, object::text_at};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{CONTROLLER_REVISION, KINDS, file::Backup, title};
use crate::error::Error;

/// Path of all namespaces.
pub(super) const NAMESPACES: &str = "/api/v1/namespaces";

/// Number of attempts to read a state in which each revision has its content.
const ATTEMPTS: usize = 5;

/// Reads all objects of Baton and Shipper, while the manager runs. Kinds that the server does not
/// serve have no objects.
///
/// # Errors
/// If a kind may not be read, or if the content of revisions was deleted in each of several attempts.
pub(crate) async fn collect(cluster: &Cluster) -> Result<Backup, Error> {
    let mut missing = String::new();
    for _ in 0..ATTEMPTS {
        let objects = objects(cluster).await?;
        match without_content(&objects) {
            None => {
                return Ok(Backup {
                    hub: hub(cluster).await?,
                    created: format!("{:.0}", Timestamp::now()),
                    namespaces: namespaces(cluster, &objects).await?,
                    objects,
                });
            }
            Some(found) => missing = found,
        }
    }
    Err(Error::Impossible(format!(
        "{missing}; the objects have changed during each of {ATTEMPTS} attempts to read them"
    )))
}

/// All objects of Baton and Shipper, without the copies for agents.
///
/// # Errors
/// If a kind may not be read.
pub(crate) async fn objects(cluster: &Cluster) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for kind in KINDS {
        objects.extend(read(cluster, kind).await?);
    }
    Ok(objects)
}

/// The UID of the hub: that of its namespace `kube-system`.
///
/// # Errors
/// Without the right to read it. Objects in other clusters name the hub, so a restore needs it.
pub(super) async fn hub(cluster: &Cluster) -> Result<String, Error> {
    let path = format!("{NAMESPACES}/kube-system");
    let namespace = cluster.metadata_at(&path).await?.unwrap_or_default();
    Ok(text_at(&namespace, "/metadata/uid").to_owned())
}

/// The names of the namespaces of objects, with their labels and annotations, by which other tools and
/// assignments select them.
async fn namespaces(cluster: &Cluster, objects: &[Value]) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for name in names_of_namespaces(objects) {
        let live = cluster.metadata_at(&format!("{NAMESPACES}/{name}")).await?;
        let metadata = &live.unwrap_or_default()["metadata"];
        let mut namespace = json!({ "name": name });
        for field in ["labels", "annotations"] {
            if !metadata[field].is_null() {
                namespace[field] = metadata[field].clone();
            }
        }
        found.push(namespace);
    }
    Ok(found)
}

/// The names of the namespaces of objects.
fn names_of_namespaces(objects: &[Value]) -> BTreeSet<&str> {
    let names = objects.iter().map(|it| text_at(it, "/metadata/namespace"));
    names.filter(|name| !name.is_empty()).collect()
}

/// The objects of a kind, as they are stored in a backup.
async fn read(cluster: &Cluster, kind: &Kind) -> Result<Vec<Value>, Error> {
    let mut objects = list(cluster, kind, ListQuery::default()).await?;
    for object in &mut objects {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // The server does not take the managers of fields from a new object.
            for field in ["resourceVersion", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
    }
    Ok(objects)
}

/// The objects of a kind that are part of backups; none if the kind is not served.
pub(crate) async fn list(
    cluster: &Cluster,
    kind: &Kind,
    query: ListQuery,
) -> Result<Vec<Value>, Error> {
    let mut objects = match cluster.list_at(&kind.path(None), &query).await {
        Err(ClusterError::NotServed { .. }) => Vec::new(),
        objects => objects?,
    };
    objects.retain(|object| is_part(kind, object));
    Ok(objects)
}

/// True if an object is part of backups.
fn is_part(kind: &Kind, object: &Value) -> bool {
    if *kind == CONTROLLER_REVISION {
        let labels = &object["metadata"]["labels"];
        return [LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT]
            .iter()
            .any(|label| !labels[label].is_null());
    }
    // The manager makes the copies of phases for agents from the phases.
    let namespace = text_at(object, "/metadata/namespace");
    !namespace.starts_with(NAMESPACE_CLUSTER_PREFIX)
}

/// The first revision that refers to a slice which was not read, for a message.
fn without_content(objects: &[Value]) -> Option<String> {
    let key = |kind: &str, object: &Value| {
        let namespace = text_at(object, "/metadata/namespace").to_owned();
        (kind.to_owned(), namespace)
    };
    let is_slice =
        |it: &&Value| kinds::OBJECT_SLICE.is_of(it) || kinds::CLUSTER_OBJECT_SLICE.is_of(it);
    let slices: BTreeSet<_> = objects
        .iter()
        .filter(is_slice)
        .map(|it| (key(text_at(it, "/kind"), it), text_at(it, "/metadata/name")))
        .collect();
    let revisions = objects.iter().filter_map(|object| {
        let of_slices = if kinds::OBJECT_SET.is_of(object) {
            &kinds::OBJECT_SLICE
        } else if kinds::CLUSTER_OBJECT_SET.is_of(object) {
            &kinds::CLUSTER_OBJECT_SLICE
        } else {
            return None;
        };
        (object["spec"]["lifecycleState"] != "Archived").then_some((object, of_slices))
    });
    for (revision, kind) in revisions {
        let phases = revision["spec"]["phases"].as_array().into_iter().flatten();
        let named = phases.flat_map(|phase| phase["slices"].as_array().into_iter().flatten());
        for slice in named.filter_map(Value::as_str) {
            if !slices.contains(&(key(kind.name, revision), slice)) {
                return Some(format!("{} has no {} {slice}", title(revision), kind.name));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &Kind, namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": kind.api_version, "kind": kind.name,
            "metadata": { "name": name, "namespace": namespace },
        })
    }

    #[test]
    fn a_revision_without_its_slices_is_found() {
        let mut revision = object(&kinds::OBJECT_SET, "shop", "web-1");
        revision["spec"] = json!({ "phases": [{ "objects": [] }, { "slices": ["a", "b"] }] });
        let slice = |namespace, name| object(&kinds::OBJECT_SLICE, namespace, name);
        let mut objects = vec![revision, slice("shop", "a"), slice("other", "b")];
        let missing = without_content(&objects);
        assert_eq!(
            missing.unwrap(),
            "ObjectSet shop/web-1 has no ObjectSlice b"
        );
        objects[0]["spec"]["lifecycleState"] = "Archived".into();
        assert_eq!(without_content(&objects), None);
        objects[0]["spec"]["lifecycleState"] = "Active".into();
        objects.push(slice("shop", "b"));
        assert_eq!(without_content(&objects), None);
    }

    #[test]
    fn records_of_others_and_copies_for_agents_are_no_part() {
        let mut record = object(&CONTROLLER_REVISION, "shop", "web-5");
        assert!(!is_part(&CONTROLLER_REVISION, &record));
        record["metadata"]["labels"] = json!({ LABEL_SITE_DEPLOYMENT: "shop" });
        assert!(is_part(&CONTROLLER_REVISION, &record));
        let phase = |namespace| object(&kinds::OBJECT_SET_PHASE, namespace, "web");
        assert!(is_part(&kinds::OBJECT_SET_PHASE, &phase("shop")));
        assert!(!is_part(
            &kinds::OBJECT_SET_PHASE,
            &phase("baton-cluster-eu-1")
        ));
    }
}
