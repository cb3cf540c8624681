//! Names of the objects that a hub has for a cluster.

use serde_json::{Value, json};

/// The namespace of the hub that holds the Secrets of Clusters by default.
pub const CLUSTERS_NAMESPACE: &str = "baton-system";

/// Returns the identity of a Cluster.
pub(super) fn reference(name: &str) -> Value {
    json!({
        "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name },
    })
}

/// Returns the identity of the Secret of a Cluster.
pub(super) fn secret_reference(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": CLUSTERS_NAMESPACE },
    })
}

/// Returns the namespace of the hub that holds the mirrors of a Cluster.
pub(super) fn mirrors(name: &str) -> String {
    format!("baton-cluster-{name}")
}
