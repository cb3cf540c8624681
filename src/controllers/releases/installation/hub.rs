//! Decides which of the clusters is the manager's own.

use std::{collections::HashMap, sync::Arc};

use baton_fleet::inventory::ClusterLink;
use baton_kubernetes::{
    error::request_failure,
    target::{Target, TargetId},
};
use baton_releases::targets::reasons::{Cause, Failure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::delivery::observed::Observed;

/// A namespace that every cluster has, and whose uid never changes.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The API server that has the objects of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerLocation {
    /// The manager's own API server.
    Hub,
    /// Another one.
    Elsewhere,
}

/// Recognizes the manager's own cluster by the uid of its system namespace, as its address may
/// differ.
pub(super) struct Hub {
    observed: Arc<Observed>,
    client: Client,
    /// The uid, if it was not read when the manager started.
    own: OnceCell<String>,
    locations: LocationCache,
}

/// The checked connection of each cluster, and the result. Only the id of the connection is stored:
/// a clone would keep the watches of a removed cluster alive.
#[derive(Default)]
struct LocationCache(Mutex<HashMap<Arc<str>, (TargetId, ServerLocation)>>);

impl LocationCache {
    fn get(&self, cluster: &str, target: &Target) -> Option<ServerLocation> {
        let locations = self.0.lock();
        let target_id = locations
            .get(cluster)
            .filter(|(target_id, _)| target_id.is_of(target));
        target_id.map(|(_, location)| *location)
    }

    fn insert(&self, cluster: &str, target: &Target, location: ServerLocation) {
        let mut locations = self.0.lock();
        locations.retain(|_, (target_id, _)| target_id.is_in_use());
        locations.insert(cluster.into(), (target.id(), location));
    }
}

impl Hub {
    pub(super) fn new(observed: Arc<Observed>, client: Client) -> Self {
        Self {
            observed,
            client,
            own: OnceCell::new(),
            locations: LocationCache::default(),
        }
    }

    /// The API server that has the objects of a cluster. Sends one request for each connection.
    ///
    /// # Errors
    /// If this request fails, or if the cluster cannot run Releases.
    pub(super) async fn server_location(
        &self,
        cluster: &str,
        link: &ClusterLink,
    ) -> Result<ServerLocation, Failure> {
        let target = match link {
            ClusterLink::Up(target) => target,
            ClusterLink::Unknown => {
                let message = format!("there is no Cluster {cluster}");
                return Err(Failure::new(Cause::NoClient, message));
            }
            ClusterLink::Down { message, .. } => {
                return Err(Failure::new(Cause::NoClient, message));
            }
            ClusterLink::Pull(_) => {
                let message = format!(
                    "Cluster {cluster} is served by an agent; Releases go to clusters that the manager connects to"
                );
                return Err(Failure::new(Cause::Refused, message));
            }
        };
        if let Some(location) = self.locations.get(cluster, target) {
            return Ok(location);
        }
        let failed = |error: kube::Error| {
            Failure::new(
                Cause::Read,
                format!(
                    "cannot read Namespace {SYSTEM_NAMESPACE}: {}",
                    request_failure(&error)
                ),
            )
        };
        let own = self.own().await.map_err(failed)?;
        let other = uid(target.client()).await.map_err(failed)?;
        let location = if own == other {
            ServerLocation::Hub
        } else {
            ServerLocation::Elsewhere
        };
        self.locations.insert(cluster, target, location);
        Ok(location)
    }

    /// The uid of the manager's own cluster.
    async fn own(&self) -> Result<&str, kube::Error> {
        match self.observed.hub() {
            "" => {
                let own = self.own.get_or_try_init(|| uid(self.client.clone()));
                Ok(own.await?)
            }
            own => Ok(own),
        }
    }
}

async fn uid(client: Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client);
    let system = namespaces.get(SYSTEM_NAMESPACE).await?;
    Ok(system.metadata.uid.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use baton_kubernetes::target::Watcher;
    use kube::Config;
    use tokio::sync::mpsc;

    use super::*;

    fn target() -> Target {
        let client = Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap()));
        let (events, _) = mpsc::unbounded_channel();
        let is_owner = Arc::new(|_: &str| false);
        Target::new(client.unwrap(), Watcher { events, is_owner })
    }

    #[tokio::test]
    async fn a_known_place_does_not_keep_its_target_alive() {
        let locations = LocationCache::default();
        let (first, other) = (target(), target());
        locations.insert("a", &first, ServerLocation::Hub);
        assert_eq!(
            locations.get("a", &first.clone()),
            Some(ServerLocation::Hub)
        );
        assert_eq!(locations.get("a", &other), None);
        let id = first.id();
        drop(first);
        assert!(!id.is_in_use());
        locations.insert("b", &other, ServerLocation::Elsewhere);
        assert_eq!(locations.0.lock().len(), 1);
        assert_eq!(locations.get("b", &other), Some(ServerLocation::Elsewhere));
    }
}
