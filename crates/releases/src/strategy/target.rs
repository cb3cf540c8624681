//! What `CapacityTargets` and `TrafficTargets` have in common.

use baton_apis::{CapacityTarget, ShipperCondition, TrafficTarget};

use crate::conditions::is_true;

/// Condition of all targets: the clusters are as the spec has it.
pub(super) const READY: &str = "Ready";

/// Whether all clusters are as the spec of a target has it.
pub(super) fn is_ready(target: &impl Target) -> bool {
    target.is_observed() && is_true(target.conditions(), READY)
}

/// A target that a strategy changes.
pub(super) trait Target {
    /// Whether the status speaks of the spec as it is.
    fn is_observed(&self) -> bool;
    /// What its controller says of all clusters.
    fn conditions(&self) -> &[ShipperCondition];
    /// The clusters in its spec.
    fn cluster_names(&self) -> Vec<&str>;
}

macro_rules! target {
    ($type:ty) => {
        impl Target for $type {
            fn is_observed(&self) -> bool {
                let status = self.status.as_ref();
                let observed = status.and_then(|status| status.observed_generation);
                observed.unwrap_or(0) >= self.metadata.generation.unwrap_or(0)
            }

            fn conditions(&self) -> &[ShipperCondition] {
                self.status
                    .as_ref()
                    .map_or(&[], |status| &status.conditions)
            }

            fn cluster_names(&self) -> Vec<&str> {
                self.spec
                    .clusters
                    .iter()
                    .map(|cluster| cluster.name.as_str())
                    .collect()
            }
        }
    };
}

target!(CapacityTarget);
target!(TrafficTarget);
