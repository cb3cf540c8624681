//! What only the server knows of what goes along with an object.

use baton_engine::{Gvk, object::text};
use baton_kubernetes::path;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use serde_json::Value;

use super::{Contents, Going, of_claim, of_definition, of_namespace, of_stateful_set};
use crate::{
    connect::{Cluster, Count, ListQuery, SIDE_BY_SIDE},
    error::Error,
};

/// What nobody misses, as it is made of other things: group and plural.
const DERIVED: [(&str, &str); 7] = [
    ("", "endpoints"),
    ("", "events"),
    ("apps", "controllerrevisions"),
    ("apps", "replicasets"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("metrics.k8s.io", "pods"),
];

/// What every namespace has by itself: the plural of its kind, and its name.
const BY_ITSELF: [(&str, &str); 2] = [
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
];

/// What goes along with a live object when it is deleted; `None` for one that goes alone.
///
/// That costs no request for a `StatefulSet`, one for a `PersistentVolumeClaim` or a definition, and for a namespace
/// one for each kind that is served.
pub(crate) async fn warning(
    cluster: &Cluster,
    gvk: &Gvk,
    live: &Value,
) -> Result<Option<String>, Error> {
    Ok(Some(match Going::of(gvk, live) {
        None => return Ok(None),
        Some(Going::Namespace(name)) => of_namespace(&contents(cluster, &name).await?),
        Some(Going::Definition(path)) => of_definition(match path {
            Some(path) => known(cluster.count_at(&path).await)?,
            None => Some(Count::Exactly(0)),
        }),
        Some(Going::Claim(volume)) => {
            let policy = match &volume {
                Some(volume) => policy(cluster, volume).await?,
                None => None,
            };
            of_claim(volume.as_deref(), policy.as_deref())
        }
        Some(Going::StatefulSet {
            pods,
            templates,
            with_claims,
        }) => of_stateful_set(pods, &templates, with_claims),
    }))
}

/// What is known; `None` where the server does not tell.
fn known<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ Error::Unreachable { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The reclaim policy of a volume.
async fn policy(cluster: &Cluster, volume: &str) -> Result<Option<String>, Error> {
    let Ok(path) = path::object("/api/v1/persistentvolumes", volume) else {
        return Ok(None);
    };
    let volume = known(cluster.get_at(&path).await)?.flatten();
    Ok(volume.map(|volume| {
        let policy = text(&volume["spec"], "persistentVolumeReclaimPolicy");
        policy.to_owned()
    }))
}

/// What is in a namespace.
async fn contents(cluster: &Cluster, namespace: &str) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let kinds = kinds(cluster).await?.into_iter();
    let counts = kinds.filter_map(|(title, prefix, plural)| {
        let path = path::within(&prefix, namespace, &plural).ok()?;
        Some(async move {
            let own = BY_ITSELF.iter().find(|(plural, _)| *plural == title);
            let count = match own {
                Some((_, name)) => count_without(cluster, &path, name).await,
                None => cluster.count_at(&path).await,
            };
            known(count).map(|count| (title, count))
        })
    });
    let mut counts = stream::iter(counts.collect::<Vec<_>>()).buffered(SIDE_BY_SIDE);
    while let Some((title, count)) = counts.try_next().await? {
        match count {
            Some(count) => contents.counts.push((title, count)),
            None => contents.unknown.push(title),
        }
    }
    Ok(contents)
}

/// How many objects of a collection have another name than this one. The server says how many there are only where all
/// are asked for.
async fn count_without(cluster: &Cluster, path: &str, name: &str) -> Result<Count, Error> {
    let query = ListQuery {
        fields: Some(format!("metadata.name!={name}")),
        metadata_only: true,
        ..ListQuery::default()
    };
    let found = cluster.list_at(path, &query).await?;
    Ok(Count::Exactly(found.len().try_into().unwrap_or(u64::MAX)))
}

/// The kinds that namespaces can hold: what `kubectl get` calls them, the path of their version, and their plural.
async fn kinds(cluster: &Cluster) -> Result<Vec<(String, String, String)>, Error> {
    let failed = |error| cluster.failure(error);
    let client = &cluster.client;
    let core = client.list_core_api_versions_aggregated();
    let mut groups = core.await.map_err(failed)?.items;
    let others = client.list_api_groups_aggregated();
    groups.extend(others.await.map_err(failed)?.items);
    Ok(groups.iter().flat_map(in_group).collect())
}

/// Those of a group, each in the version that the server prefers.
fn in_group(group: &APIGroupDiscovery) -> Vec<(String, String, String)> {
    let name = group.metadata.as_ref().and_then(|it| it.name.as_deref());
    let name = name.unwrap_or_default();
    let mut found: Vec<(String, String, String)> = Vec::new();
    for version in &group.versions {
        let Ok(prefix) = path::group_version(name, version.version.as_deref().unwrap_or_default())
        else {
            continue;
        };
        for resource in version.resources.iter().filter(|it| is_counted(name, it)) {
            let plural = resource.resource.clone().unwrap_or_default();
            if found.iter().any(|(.., known)| *known == plural) {
                continue;
            }
            let title = match name {
                "" => plural.clone(),
                name => format!("{plural}.{name}"),
            };
            found.push((title, prefix.clone(), plural));
        }
    }
    found
}

fn is_counted(group: &str, resource: &APIResourceDiscovery) -> bool {
    let plural = resource.resource.as_deref().unwrap_or_default();
    let is_namespaced = resource.scope.as_deref() == Some("Namespaced");
    let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    is_namespaced && can("list") && can("delete") && !DERIVED.contains(&(group, plural))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(plural: &str, scope: &str, verbs: &[&str]) -> Value {
        json!({"resource": plural, "scope": scope, "verbs": verbs})
    }

    #[test]
    fn kinds_of_namespaces_are_counted_once() {
        let all = &["delete", "list"][..];
        let group: APIGroupDiscovery = serde_json::from_value(json!({
            "metadata": {"name": "apps"},
            "versions": [
                {"version": "v1", "resources": [
                    resource("deployments", "Namespaced", all),
                    resource("replicasets", "Namespaced", all),
                    resource("reviews", "Namespaced", &["create"]),
                    resource("nodes", "Cluster", all),
                ]},
                {"version": "v1beta1", "resources": [
                    resource("deployments", "Namespaced", all),
                    resource("olds", "Namespaced", all),
                ]},
            ],
        }))
        .unwrap();
        let found = in_group(&group);
        let found: Vec<_> = found.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
        assert_eq!(
            found,
            [
                ("deployments.apps", "/apis/apps/v1", "deployments"),
                ("olds.apps", "/apis/apps/v1beta1", "olds"),
            ]
        );
    }
}
