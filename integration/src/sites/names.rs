//! Names of what a hub knows of a cluster.

use serde_json::{Value, json};

/// The namespace of the hub that holds the Secrets of Clusters by default.
pub const CLUSTERS_NAMESPACE: &str = "baton-system";

/// The identity of a Cluster.
pub(super) fn reference(name: &str) -> Value {
    json!({
        "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name },
    })
}

/// The identity of the Secret of a Cluster.
pub(super) fn secret_reference(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": CLUSTERS_NAMESPACE },
    })
}

/// The namespace of the hub where the agent of a Cluster finds its phases.
pub(super) fn mirrors(name: &str) -> String {
    format!("baton-cluster-{name}")
}
