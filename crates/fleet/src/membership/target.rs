//! Checks of a target before the first write.

use futures::future::try_join_all;
use serde_json::Value;

use super::{
    error::Error,
    manifests::{ANNOTATION_CLUSTER, HUB, NAMESPACE, agent::AGENT, identity},
    server::Server,
};
use crate::name::ClusterName;

/// Checks that hub and target are two clusters.
pub(super) async fn differs(hub: &Server, target: &Server, allow_same: bool) -> Result<(), Error> {
    if !allow_same && hub.uid().await? == target.uid().await? {
        return Err(Error::Same {
            hub: hub.url().to_owned(),
            target: target.url().to_owned(),
        });
    }
    Ok(())
}

/// Checks that no other Cluster has this target, by the service accounts that joining creates there:
/// a cluster with two names would have two writers.
pub(super) async fn is_free(target: &Server, name: &ClusterName) -> Result<(), Error> {
    let accounts = [HUB, AGENT].map(|account| identity("v1", "ServiceAccount", NAMESPACE, account));
    let found = try_join_all(accounts.iter().map(|account| target.get(account))).await?;
    match found.iter().flatten().find_map(joined_as) {
        Some(found) if found != name.as_str() => Err(Error::JoinedAsAnother {
            at: target.address(),
            found: found.to_owned(),
            wanted: name.to_string(),
        }),
        _ => Ok(()),
    }
}

/// The Cluster for which a service account was made.
fn joined_as(account: &Value) -> Option<&str> {
    let annotations = account.pointer("/metadata/annotations")?;
    annotations.get(ANNOTATION_CLUSTER)?.as_str()
}
