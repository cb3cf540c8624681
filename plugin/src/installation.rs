//! The installation of Baton in a cluster: its managers and agents.

mod definitions;
pub(crate) mod doctor;
pub(crate) mod finding;
mod rights;

use std::time::Duration;

use baton_apis::{
    ManagerNote,
    conditions::{AGENT, VERSION},
    constants::{ANNOTATION_MANAGER, HEARTBEAT, NAMESPACE_CLUSTER_PREFIX},
    kinds,
};
use baton_cluster::Cluster;
use baton_kubernetes::lease::LEASE_NAME;
use baton_view::{lists::ListQuery, object::text_at};
use k8s_openapi::jiff::{Timestamp, fmt::rfc2822};
use kube::client::Body;
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::error::Error;

/// Time after which a leader has renewed its lease. Managers do so every two seconds.
const RENEWAL: Duration = Duration::from_secs(5);

/// The names of restores of a backup, which hold the lease meanwhile, begin with this.
pub(crate) const RESTORE: &str = "kubectl-baton-restore";

/// Path of all custom resource definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The version of this program.
pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A lease of managers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manager {
    /// Namespace of the lease.
    pub(crate) namespace: String,
    /// Identity of the leader; `None` if no manager leads.
    pub(crate) leader: Option<String>,
    /// Version of the leader; `None` if it does not report one, as Package Operator.
    pub(crate) version: Option<String>,
    /// Namespace of the Secrets with the credentials of clusters, if the leader reports it.
    pub(crate) clusters_namespace: Option<String>,
    /// Reason that the leader cannot render charts.
    pub(crate) helm_missing: Option<String>,
    /// Time of the last renewal, by the clock of the leader.
    pub(crate) renewed: Option<Timestamp>,
    /// Time in seconds for which a renewal holds.
    pub(crate) seconds: u64,
    /// True if the leader renews the lease.
    pub(crate) is_live: bool,
}

impl Manager {
    /// True if the last renewal holds at a time of the API server. The clock of the leader may be
    /// another one.
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.idle(now).is_some_and(|idle| idle <= self.seconds)
    }

    /// Time in seconds since the last renewal; `None` if the leader has never renewed the lease.
    fn idle(&self, now: Timestamp) -> Option<u64> {
        let idle = now.duration_since(self.renewed?).as_secs();
        Some(u64::try_from(idle).unwrap_or_default())
    }

    /// True if a manager holds the lease, and not a restore of a backup.
    fn is_held(&self) -> bool {
        let leader = self.leader.as_ref();
        leader.is_some_and(|leader| !leader.starts_with(RESTORE))
    }
}

/// An agent, by its heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Agent {
    /// Name of the Cluster.
    pub(crate) cluster: String,
    /// Version of the agent; `None` if it does not report one.
    pub(crate) version: Option<String>,
}

/// The leases of managers, in all namespaces. `now` is the time of the API server.
///
/// A lease that looks old may have a leader whose clock is behind. It is read again when the leader
/// must have renewed it, so this takes [`RENEWAL`] if there is one.
///
/// # Errors
/// If leases cannot be listed.
pub(crate) async fn managers(cluster: &Cluster, now: Timestamp) -> Result<Vec<Manager>, Error> {
    let mut found = leases(cluster).await?;
    let is_old = |it: &Manager| it.is_held() && !it.is_fresh(now);
    let later = if found.iter().any(is_old) {
        sleep(RENEWAL).await;
        leases(cluster).await?
    } else {
        Vec::new()
    };
    for manager in &mut found {
        let mut later = later.iter();
        let is_renewed = later.any(|it| {
            it.namespace == manager.namespace
                && it.leader == manager.leader
                && it.renewed != manager.renewed
        });
        manager.is_live = manager.is_held() && (manager.is_fresh(now) || is_renewed);
    }
    Ok(found)
}

async fn leases(cluster: &Cluster) -> Result<Vec<Manager>, Error> {
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let named = ListQuery::of_one(LEASE_NAME);
    let found = cluster.list_at(leases, &named).await?;
    Ok(found.iter().map(manager).collect())
}

fn manager(lease: &Value) -> Manager {
    let holder = text_at(lease, "/spec/holderIdentity");
    let annotations = &lease["metadata"]["annotations"];
    let note = annotations[ANNOTATION_MANAGER].as_str();
    let note: Option<ManagerNote> = note.and_then(|text| serde_json::from_str(text).ok());
    // An earlier leader, or a manager of Package Operator since, does not renew the note.
    let note = note.filter(|note| note.holder == holder);
    let renewed = text_at(lease, "/spec/renewTime");
    Manager {
        namespace: text_at(lease, "/metadata/namespace").to_owned(),
        leader: (!holder.is_empty()).then(|| holder.to_owned()),
        version: note.as_ref().map(|note| note.version.clone()),
        clusters_namespace: note
            .as_ref()
            .and_then(|note| note.clusters_namespace.clone()),
        helm_missing: note.and_then(|note| note.helm_missing),
        renewed: renewed.parse().ok(),
        seconds: lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(15),
        is_live: false,
    }
}

/// The time of the API server, to the second; `None` if it does not report one.
pub(crate) async fn server_time(cluster: &Cluster) -> Option<Timestamp> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = cluster.client.send(request).await.ok()?;
    let date = answer.headers().get(http::header::DATE)?.to_str().ok()?;
    rfc2822::parse(date).ok().map(|time| time.timestamp())
}

/// The agents of all clusters.
///
/// # Errors
/// If their heartbeats cannot be listed.
pub(crate) async fn agents(cluster: &Cluster) -> Result<Vec<Agent>, Error> {
    let path = kinds::OBJECT_SET_PHASE.path(None);
    let found = cluster
        .list_at(&path, &ListQuery::of_one(HEARTBEAT))
        .await?;
    let mut agents: Vec<_> = found.iter().filter_map(agent).collect();
    agents.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    Ok(agents)
}

/// The agent of a heartbeat; `None` for a phase object of a user, and before the first report.
fn agent(heartbeat: &Value) -> Option<Agent> {
    let namespace = text_at(heartbeat, "/metadata/namespace");
    let cluster = namespace.strip_prefix(NAMESPACE_CLUSTER_PREFIX)?;
    let conditions = heartbeat["status"]["conditions"].as_array()?;
    let message = |type_: &str| {
        let mut conditions = conditions.iter();
        let found = conditions.find(|condition| condition["type"] == type_)?;
        Some(text_at(found, "/message").to_owned())
    };
    message(AGENT)?;
    Some(Agent {
        cluster: cluster.to_owned(),
        version: message(VERSION),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_note_of_an_earlier_leader_does_not_count() {
        let note = json!({
            "holder": "a", "version": "1.2.3", "clustersNamespace": "c", "helmMissing": "no helm",
        });
        let note = note.to_string();
        let lease = |holder: &str| {
            json!({
                "metadata": {"namespace": "n", "annotations": {ANNOTATION_MANAGER: note}},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 20},
            })
        };
        let found = manager(&lease("a"));
        assert_eq!(found.version.as_deref(), Some("1.2.3"));
        assert_eq!(found.clusters_namespace.as_deref(), Some("c"));
        assert_eq!(found.helm_missing.as_deref(), Some("no helm"));
        let found = manager(&lease("b"));
        assert_eq!((found.leader.as_deref(), found.version), (Some("b"), None));
        let found = manager(&json!({"spec": {"holderIdentity": ""}}));
        assert_eq!((found.leader, found.seconds), (None, 15));
    }

    #[test]
    fn a_renewal_holds_for_a_time_and_only_for_managers() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let leading = Manager {
            leader: Some("a".to_owned()),
            renewed: Some(at(100)),
            seconds: 15,
            ..Manager::default()
        };
        let never = Manager {
            renewed: None,
            ..leading.clone()
        };
        assert!(leading.is_fresh(at(90)) && leading.is_fresh(at(115)));
        assert!(!leading.is_fresh(at(116)) && !never.is_fresh(at(100)));
        let held_by = |leader: Option<&str>| {
            let leader = leader.map(str::to_owned);
            Manager {
                leader,
                ..leading.clone()
            }
            .is_held()
        };
        assert!(held_by(Some("pod-1")));
        assert!(!held_by(Some("kubectl-baton-restore-1")) && !held_by(None));
    }

    #[test]
    fn an_agent_is_known_by_its_heartbeat() {
        let heartbeat = |namespace: &str, conditions: Value| {
            agent(
                &json!({"metadata": {"namespace": namespace}, "status": {"conditions": conditions}}),
            )
        };
        let own = json!({"type": AGENT, "message": "id"});
        let version = json!({"type": VERSION, "message": "1.2.3"});
        let found = heartbeat("baton-cluster-eu-1", json!([own, version])).unwrap();
        assert_eq!(
            (&*found.cluster, found.version.as_deref()),
            ("eu-1", Some("1.2.3"))
        );
        let found = heartbeat("baton-cluster-eu-1", json!([own])).unwrap();
        assert_eq!(found.version, None);
        assert_eq!(heartbeat("shop", json!([own])), None);
        assert_eq!(heartbeat("baton-cluster-eu-1", json!([])), None);
    }
}
