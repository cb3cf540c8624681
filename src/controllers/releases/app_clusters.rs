//! The state of the clusters that Releases run in: their workloads, pods and Services.
//!
//! A cluster is watched as long as a target needs the cluster, and only for the kinds that were
//! requested. Fields that no controller reads are dropped before an object is stored.
//!
//! # Guarantees
//! - The state of a cluster is never older than our own writes there, see
//!   [`Store`](baton_typed::store::Store).
//! - After a lost connection a cluster is listed again before a controller writes to it.

pub(crate) mod cluster;
pub(crate) mod objects;
pub(crate) mod requests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use baton_fleet::{
    assignments::{AssignmentChange, Assignments, Decision, Subject},
    inventory::{ClusterLink, Contact, Inventory},
};
use baton_releases::{
    targets::reasons::{Cause, Failure},
    texts::Quoted,
};
use baton_runtime::source::Source;
use baton_typed::key::Key;
use parking_lot::Mutex;

use self::cluster::AppCluster;

/// A change in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterChange {
    /// The namespace of the object.
    pub namespace: String,
    /// The application that the object belongs to, by label.
    pub application: String,
    /// The changed object.
    pub object: ChangedObject,
}

/// The object that changed in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangedObject {
    /// A workload of a Release.
    Workload {
        /// Name of the Release.
        release: String,
        /// True if the last missing pod became available: no further change is expected.
        is_full: bool,
    },
    /// A pod of a Release.
    Pod {
        /// Name of the Release.
        release: String,
        /// True if the pod was created or deleted, or has other labels.
        is_relabelled: bool,
        /// True if the pod was created or deleted, or has another status.
        is_other_state: bool,
    },
    /// The Service that balances, or its endpoints.
    Balancer,
}

/// The clusters that targets use.
pub(crate) struct AppClusters {
    inventory: Inventory,
    assignments: Assignments,
    /// Changes in any of these clusters.
    pub changes: Arc<Source<ClusterChange>>,
    used: Mutex<UsedClusters>,
}

#[derive(Default)]
struct UsedClusters {
    clusters: HashMap<String, Arc<AppCluster>>,
    /// The clusters that each target uses.
    users: HashMap<Key, BTreeSet<String>>,
    /// Number of targets that use a cluster.
    counts: HashMap<String, usize>,
}

impl UsedClusters {
    /// Sets the clusters that a target uses. Returns those that no target uses any more.
    fn set(&mut self, target: &Key, clusters: BTreeSet<String>) -> Vec<Arc<AppCluster>> {
        if self.users.get(target).unwrap_or(&BTreeSet::new()) == &clusters {
            return Vec::new();
        }
        for name in &clusters {
            match self.counts.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(name.clone(), 1)),
            }
        }
        let before = if clusters.is_empty() {
            self.users.remove(target)
        } else {
            self.users.insert(target.clone(), clusters)
        };
        let mut ended = Vec::new();
        for name in before.unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&name);
                    ended.extend(self.clusters.remove(&name));
                }
            }
        }
        ended
    }
}

impl AppClusters {
    /// Creates the state in which no cluster is watched.
    pub(crate) fn new(inventory: Inventory, assignments: Assignments) -> Self {
        Self {
            inventory,
            assignments,
            changes: Arc::default(),
            used: Mutex::default(),
        }
    }

    /// Sets the clusters that a target uses; empty if the target is deleted. A cluster that no
    /// target uses is not watched any more.
    pub(crate) fn set_clusters(&self, target: &Key, clusters: BTreeSet<String>) {
        let ended = self.used.lock().set(target, clusters);
        // The watches end without the lock.
        drop(ended);
    }

    /// True if a change of assignments may affect a namespace in a cluster.
    pub(crate) fn concerns(&self, change: &AssignmentChange, namespace: &str, name: &str) -> bool {
        concerns(&self.inventory, change, namespace, name)
    }

    /// A cluster for work in a namespace. The target has to be registered with
    /// [`AppClusters::set_clusters`] before.
    ///
    /// # Errors
    /// If there is no such cluster, or no connection to it, or the namespace may not deliver into
    /// the cluster.
    pub(crate) fn reach(&self, namespace: &str, name: &str) -> Result<Arc<AppCluster>, Failure> {
        let refusal = match self.inventory.link(name) {
            ClusterLink::Up(target) => {
                admit((&self.inventory, &self.assignments), namespace, name)?;
                let mut used = self.used.lock();
                let existing = used.clusters.get(name);
                if let Some(existing) = existing.filter(|existing| existing.target.is_same(&target))
                {
                    return Ok(Arc::clone(existing));
                }
                let cluster = Arc::new(AppCluster::new(name, target, Arc::clone(&self.changes)));
                let old = used.clusters.insert(name.to_owned(), Arc::clone(&cluster));
                drop(used);
                // Its watches end when the last user drops it.
                drop(old);
                return Ok(cluster);
            }
            link => refusal(name, &link),
        };
        let old = self.used.lock().clusters.remove(name);
        drop(old);
        Err(refusal)
    }
}

/// True if a change of assignments may affect a namespace in a cluster.
pub(super) fn concerns(
    inventory: &Inventory,
    change: &AssignmentChange,
    namespace: &str,
    name: &str,
) -> bool {
    let labels = &inventory.labels(name);
    change.concerns(namespace, Subject { name, labels })
}

/// Checks that a namespace may deliver into a cluster. Otherwise it may not scale or route traffic
/// there either, since the author of a target chooses the labels of the objects that the target
/// affects.
///
/// # Errors
/// If the namespace may not deliver into the cluster, or the assignments are not known.
pub(super) fn admit(
    (inventory, assignments): (&Inventory, &Assignments),
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let labels = &inventory.labels(name);
    match assignments.decide(namespace, Subject { name, labels }) {
        Decision::Allowed(_) => Ok(()),
        Decision::Refused(message) => Err(Failure::new(Cause::Refused, message)),
        Decision::Unreadable { message, .. } => Err(Failure::new(Cause::Read, message)),
        Decision::Unknown => {
            let message = format!(
                "the namespaces that may deliver into cluster {name} have not been read yet"
            );
            Err(Failure::new(Cause::NotObserved, message))
        }
    }
}

/// The reason that a cluster without connection, or without its agent, cannot be used.
pub(super) fn refusal(name: &str, link: &ClusterLink) -> Failure {
    let cluster = Quoted(name);
    let message = match link {
        ClusterLink::Unknown => {
            format!(
                "cluster {cluster} unknown; please check if cluster exists in management cluster"
            )
        }
        ClusterLink::Down { .. } if link.is_connecting() => {
            format!("cluster {cluster} not ready for use yet; cluster client is being initialized")
        }
        ClusterLink::Down { message, .. } | ClusterLink::Pull(Contact::Lost { message, .. }) => {
            format!("cluster {cluster} is not connected: {message}")
        }
        ClusterLink::Pull(Contact::Expected) => {
            format!("the agent of cluster {cluster} has not reported yet")
        }
        // A connected cluster has no such reason.
        ClusterLink::Pull(Contact::Reported) | ClusterLink::Up(_) => String::new(),
    };
    Failure::new(cause(link), message)
}

/// The cause of the failure in a cluster without connection, or without its agent.
pub(super) fn cause(link: &ClusterLink) -> Cause {
    match link {
        ClusterLink::Pull(Contact::Lost { .. }) => Cause::AgentLost,
        ClusterLink::Pull(Contact::Expected) => Cause::NotObserved,
        ClusterLink::Down { .. } if link.is_connecting() => Cause::NotObserved,
        ClusterLink::Unknown => Cause::NoCluster,
        ClusterLink::Down { .. } | ClusterLink::Pull(Contact::Reported) | ClusterLink::Up(_) => {
            Cause::NoClient
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::conditions::Reason;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_targets_that_use_a_cluster_are_counted() {
        let mut used = UsedClusters::default();
        let key = |name: &str| Key {
            kind: "TrafficTarget",
            namespace: "shop".into(),
            name: name.into(),
        };
        let steps = [
            ("a", "x y", "x=1 y=1"),
            ("b", "y z", "x=1 y=2 z=1"),
            ("b", "y z", "x=1 y=2 z=1"),
            ("a", "z", "y=1 z=2"),
            ("c", "", "y=1 z=2"),
            ("b", "", "z=1"),
            ("a", "", ""),
        ];
        for (target, clusters, expected) in steps {
            let clusters = clusters.split_whitespace().map(str::to_owned);
            used.set(&key(target), clusters.collect());
            let mut counts: Vec<_> = used
                .counts
                .iter()
                .map(|(name, count)| format!("{name}={count}"))
                .collect();
            counts.sort();
            assert_eq!(counts.join(" "), expected);
        }
        assert!(used.users.is_empty());
    }

    #[test]
    fn the_refusal_of_a_cluster_names_its_reason() {
        let down = |reason, message: &str| ClusterLink::Down {
            reason,
            message: message.to_owned(),
            since: Timestamp::UNIX_EPOCH,
        };
        for (link, cause, expected) in [
            (
                ClusterLink::Unknown,
                Cause::NoCluster,
                "cluster \"a\" unknown; please check if cluster exists in management cluster",
            ),
            (
                down(Reason::Connecting, "there is no answer yet"),
                Cause::NotObserved,
                "cluster \"a\" not ready for use yet; cluster client is being initialized",
            ),
            (
                ClusterLink::Pull(Contact::Expected),
                Cause::NotObserved,
                "the agent of cluster \"a\" has not reported yet",
            ),
            (
                ClusterLink::Pull(Contact::Lost {
                    message: "its agent is silent".to_owned(),
                    since: Timestamp::UNIX_EPOCH,
                }),
                Cause::AgentLost,
                "cluster \"a\" is not connected: its agent is silent",
            ),
            (
                down(Reason::Unreachable, "connection refused"),
                Cause::NoClient,
                "cluster \"a\" is not connected: connection refused",
            ),
        ] {
            let failure = refusal("a", &link);
            assert_eq!((failure.cause, &*failure.message), (cause, expected));
        }
    }
}
