//! Which of the clusters is the manager's own.

use std::{collections::HashMap, sync::Arc};

use baton_fleet::inventory::ClusterLink;
use baton_kubernetes::target::Target;
use baton_releases::targets::reasons::{Cause, Failure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Every cluster has it, and never another one of its name.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Where the objects of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the manager's own API server.
    Hub,
    /// On another one.
    Elsewhere,
}

/// Knows the manager's own cluster by the uid of its system namespace, whatever address it is given by.
pub(super) struct Hub {
    client: Client,
    own: OnceCell<String>,
    /// By name of the cluster, the connection that was asked, and the answer.
    known: Mutex<HashMap<Arc<str>, (Target, Place)>>,
}

impl Hub {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            own: OnceCell::new(),
            known: Mutex::default(),
        }
    }

    /// Where the objects of a cluster are. Asks once for each connection.
    ///
    /// # Errors
    /// When the cluster cannot be asked, or is none that Releases can go to.
    pub(super) async fn place(&self, cluster: &str, link: &ClusterLink) -> Result<Place, Failure> {
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
        if let Some((asked, place)) = self.known.lock().get(cluster)
            && asked.is_same(target)
        {
            return Ok(*place);
        }
        let failed = |error: kube::Error| {
            Failure::new(
                Cause::Read,
                format!("reading the namespace {SYSTEM_NAMESPACE}: {error}"),
            )
        };
        let own = self.own.get_or_try_init(|| uid(self.client.clone()));
        let own = own.await.map_err(failed)?;
        let other = uid(target.client()).await.map_err(failed)?;
        let place = if *own == other {
            Place::Hub
        } else {
            Place::Elsewhere
        };
        let entry = (target.clone(), place);
        self.known.lock().insert(cluster.into(), entry);
        Ok(place)
    }
}

async fn uid(client: Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client);
    let system = namespaces.get(SYSTEM_NAMESPACE).await?;
    Ok(system.metadata.uid.unwrap_or_default())
}
