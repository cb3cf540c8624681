//! Requests to the server about the losses on deletion of an object.

use baton_cluster::{
    Cluster, ClusterError, MAX_CONCURRENT,
    served::{Served, resource},
};
use baton_engine::{Gvk, object::text};
use baton_kubernetes::path;
use baton_view::{
    diff::warning::{Contents, Warning},
    lists::{Count, ListQuery},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::CascadingDeletion;
use crate::error::Error;

/// Kinds that controllers derive from other objects, so that their loss does not matter: group and
/// plural.
const DERIVED: [(&str, &str); 7] = [
    ("", "endpoints"),
    ("", "events"),
    ("apps", "controllerrevisions"),
    ("apps", "replicasets"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("metrics.k8s.io", "pods"),
];

/// The objects that Kubernetes creates in every namespace: the plural of the kind, and the name.
const BY_ITSELF: [(&str, &str); 2] = [
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
];

/// The loss when a live object is deleted; `None` if nothing is deleted with the object.
///
/// Sends no request for a `StatefulSet`, one for a `PersistentVolumeClaim` or a definition of a
/// kind, and one per served kind for a namespace.
pub async fn warning(cluster: &Cluster, gvk: &Gvk, live: &Value) -> Result<Option<Warning>, Error> {
    Ok(Some(match CascadingDeletion::of(gvk, live) {
        None => return Ok(None),
        Some(CascadingDeletion::Namespace(name)) => {
            Warning::Namespace(contents(cluster, &name).await?)
        }
        Some(CascadingDeletion::Definition(path)) => Warning::Definition(match path {
            Some(path) => unless_refused(cluster.count_at(&path).await)?,
            None => Some(Count::Exactly(0)),
        }),
        Some(CascadingDeletion::Claim(volume)) => {
            let policy = match &volume {
                Some(volume) => policy(cluster, volume).await?,
                None => None,
            };
            Warning::Claim { volume, policy }
        }
        Some(CascadingDeletion::Complete(warning)) => warning,
    }))
}

/// The answer; `None` if the server refuses to answer.
fn unless_refused<T>(answer: Result<T, ClusterError>) -> Result<Option<T>, ClusterError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ ClusterError::Unreachable { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The reclaim policy of a volume.
async fn policy(cluster: &Cluster, volume: &str) -> Result<Option<String>, Error> {
    let Ok(path) = path::object("/api/v1/persistentvolumes", volume) else {
        return Ok(None);
    };
    let volume = unless_refused(cluster.get_at(&path).await)?.flatten();
    Ok(volume.map(|volume| {
        let policy = text(&volume["spec"], "persistentVolumeReclaimPolicy");
        policy.to_owned()
    }))
}

/// Counts the objects of a namespace.
async fn contents(cluster: &Cluster, namespace: &str) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let kinds = cluster.served().await?.iter().filter(|it| is_counted(it));
    let counts = kinds.filter_map(|kind| {
        let (title, path) = (resource(kind), kind.resource.path_in(namespace).ok()?);
        Some(async move {
            let own = BY_ITSELF.iter().find(|(plural, _)| *plural == title);
            let count = match own {
                Some((_, name)) => count_without(cluster, &path, name).await,
                None => cluster.count_at(&path).await,
            };
            unless_refused(count).map(|count| (title, count))
        })
    });
    let mut counts = stream::iter(counts.collect::<Vec<_>>()).buffered(MAX_CONCURRENT);
    while let Some((title, count)) = counts.try_next().await? {
        match count {
            Some(count) => contents.counts.push((title, count)),
            None => contents.unknown.push(title),
        }
    }
    Ok(contents)
}

/// The number of objects of a collection that have another name than `name`.
///
/// Reads the whole collection, because the server counts nothing in a list with a selector.
async fn count_without(cluster: &Cluster, path: &str, name: &str) -> Result<Count, ClusterError> {
    let query = ListQuery {
        fields: Some(format!("metadata.name!={name}")),
        metadata_only: true,
        ..ListQuery::default()
    };
    let found = cluster.list_at(path, &query).await?;
    Ok(Count::Exactly(found.len().try_into().unwrap_or(u64::MAX)))
}

/// True if the objects of a kind are counted: they are namespaced, are stored by the server, and
/// are not derived from others.
fn is_counted(kind: &Served) -> bool {
    let name = (kind.gvk.group.as_str(), kind.resource.plural.as_str());
    kind.is_namespaced() && kind.is_real && !DERIVED.contains(&name)
}
