//! The order in which objects are installed.

/// Kinds, first to last. All others come after them.
const KINDS: [&str; 25] = [
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ServiceAccount",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "Ingress",
    "APIService",
];

/// The sort key of an object in this order.
pub fn key(kind: &str, name: &str) -> (usize, String, String) {
    let place = KINDS.iter().position(|listed| *listed == kind);
    (
        place.unwrap_or(KINDS.len()),
        kind.to_owned(),
        name.to_owned(),
    )
}
