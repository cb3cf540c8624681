//! Common properties of `CapacityTargets` and `TrafficTargets`.

use baton_apis::{CapacityTarget, ShipperCondition, TrafficTarget};

use crate::conditions::is_true;

/// Condition of all targets: the clusters are as in the spec.
pub(super) const READY: &str = "Ready";

/// True if all clusters are as in the spec of a target.
pub(super) fn is_ready(target: &impl Target) -> bool {
    target.is_observed() && is_true(target.conditions(), READY)
}

/// A target that a strategy changes.
pub(super) trait Target {
    /// True if the status refers to the current generation of the spec.
    fn is_observed(&self) -> bool;
    /// Conditions of the target.
    fn conditions(&self) -> &[ShipperCondition];
    /// Names of the clusters in the spec.
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
