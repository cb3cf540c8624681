//! Decides which of the clusters is the manager's own.

use std::{collections::HashMap, sync::Arc};

use baton_fleet::inventory::{ClusterLink, Contact};
use baton_kubernetes::{
    error::request_failure,
    target::{Target, TargetId},
};
use baton_releases::targets::reasons::{Cause, Failure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{controllers::releases::app_clusters::cause, delivery::observed::Observed};

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

/// Recognizes the manager's own cluster, as its address may differ.
///
/// A cluster with the uid of the own system namespace may be the own one. This uid is known to all
/// clusters that the manager has delivered to, so it is no proof. The proof is the uid of the Secret
/// with the credentials of the cluster, which no other cluster knows: the same uid through both
/// connections.
pub(super) struct Hub {
    observed: Arc<Observed>,
    client: Client,
    /// Namespace of the Secrets with the credentials of clusters.
    secrets: String,
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
    pub(super) fn new(observed: Arc<Observed>, client: Client, secrets: &str) -> Self {
        Self {
            observed,
            client,
            secrets: secrets.to_owned(),
            own: OnceCell::new(),
            locations: LocationCache::default(),
        }
    }

    /// The API server that has the objects of a cluster. Sends one request for each connection, and
    /// two more for a cluster that may be the own one.
    ///
    /// # Errors
    /// If a request fails, or if the cluster cannot run Releases, or poses as the own one.
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
            ClusterLink::Down { message, .. }
            | ClusterLink::Pull(Contact::Lost { message, .. }) => {
                return Err(Failure::new(cause(link), message));
            }
            ClusterLink::Pull(Contact::Expected) => {
                let message = format!("the agent of Cluster {cluster} has not reported yet");
                return Err(Failure::new(cause(link), message));
            }
            ClusterLink::Pull(Contact::Reported) => return Ok(ServerLocation::Elsewhere),
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
            self.prove(cluster, target).await?;
            ServerLocation::Hub
        } else {
            ServerLocation::Elsewhere
        };
        self.locations.insert(cluster, target, location);
        Ok(location)
    }

    /// Checks that a cluster with the uid of the own one is the own one.
    ///
    /// # Errors
    /// If it is not, or if this cannot be checked.
    async fn prove(&self, cluster: &str, target: &Target) -> Result<(), Failure> {
        let named = format!("Secret {}/{cluster}", self.secrets);
        let secret = async |client: Client| {
            let secrets: Api<Secret> = Api::namespaced(client, &self.secrets);
            let secret = secrets.get_metadata(cluster).await;
            secret.map(|secret| secret.metadata.uid)
        };
        let own = secret(self.client.clone()).await.map_err(|error| {
            let cause = request_failure(&error);
            Failure::new(Cause::Read, format!("cannot read {named}: {cause}"))
        })?;
        let problem = match secret(target.client()).await {
            Ok(other) if own.is_some() && own == other => return Ok(()),
            Ok(_) => "it has another one".to_owned(),
            Err(error) => request_failure(&error),
        };
        let message = format!(
            "Cluster {cluster} reports the UID of the manager's own cluster, and does not prove to be it by {named}: \
             {problem}"
        );
        Err(Failure::new(Cause::Refused, message))
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
