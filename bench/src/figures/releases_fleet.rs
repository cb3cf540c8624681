//! The measurements of one Application in many clusters, and the figures per cluster.

use std::time::Duration;

use serde::Serialize;

use super::fleet::RequestCounts;
use super::{Step, number, ratio};
use crate::load::releases::fleet::ReleasesFleet as Shape;

/// The step in which the manager is idle without Clusters.
pub(crate) const NONE: &str = "releases-fleet: no Clusters";
/// The step in which the manager is idle with them.
pub(crate) const CONNECTED: &str = "releases-fleet: connected";
/// The first rollout, in three steps.
pub(crate) const FIRST: &str = "releases-fleet: first";
/// A rollout that replaces a Release, in three steps.
pub(crate) const UPGRADE: &str = "releases-fleet: upgrade";
/// The step in which the manager is idle with both Releases.
pub(crate) const IDLE: &str = "releases-fleet: idle";
/// The restart with them.
pub(crate) const RESTART: &str = "releases-fleet: restart";

/// The steps of each rollout.
const STEPS: usize = 3;

/// The number of clusters for which figures are calculated.
pub(crate) const CALCULATED: f64 = 1_000.0;

/// The largest object that etcd stores, in bytes.
pub(crate) const LARGEST: f64 = 1_572_864.0;

/// The measurements besides the steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ReleasesFleet {
    #[serde(flatten)]
    pub(crate) shape: Shape,
    /// The time of the first rollout without a manager, in seconds: before and after.
    pub(crate) bare: Vec<f64>,
    /// Resident memory of the idle manager in MiB, by step.
    pub(crate) memory: Vec<(&'static str, Option<f64>)>,
    /// The requests of each rollout.
    pub(crate) asked: Vec<StepRequests>,
    /// The largest object of each kind that lists all clusters.
    pub(crate) stored: Vec<StoredObject>,
}

/// The requests of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepRequests {
    pub(crate) step: &'static str,
    pub(crate) sides: RequestCounts,
}

/// An object on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StoredObject {
    pub(crate) kind: &'static str,
    /// Size as JSON.
    pub(crate) bytes: usize,
}

impl ReleasesFleet {
    /// No measurements yet.
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            bare: Vec::new(),
            memory: Vec::new(),
            asked: Vec::new(),
            stored: Vec::new(),
        }
    }

    /// Adds a bare measurement.
    pub(crate) fn with_bare(mut self, took: Duration) -> Self {
        self.bare.push(took.as_secs_f64());
        self
    }

    /// The time of the first rollout relative to the mean of the bare ones; `None` for other steps.
    pub(crate) fn to_bare(&self, step: &Step) -> Option<f64> {
        let bare = ratio(self.bare.iter().sum(), number(self.bare.len()));
        (step.name == FIRST && bare > 0.0).then(|| ratio(step.timing.seconds, bare))
    }

    /// A number of requests, per cluster and step.
    pub(crate) fn each(&self, sent: u64) -> f64 {
        ratio(number(sent), number(self.shape.release_clusters * STEPS))
    }

    /// Writes at the hub per cluster and step.
    pub(crate) fn hub_writes(&self, step: &str) -> Option<f64> {
        let asked = self.asked.iter().find(|asked| asked.step == step)?;
        Some(self.each(asked.sides.hub.all_writes()))
    }

    /// A figure that is proportional to the number of clusters, for [`CALCULATED`] clusters.
    pub(crate) fn calculated(&self, measured: f64) -> f64 {
        measured * ratio(CALCULATED, number(self.shape.release_clusters))
    }

    /// The memory for [`CALCULATED`] clusters in MiB, if a step uses this much with the measured ones.
    pub(crate) fn calculated_memory(&self, measured: f64) -> Option<f64> {
        let without = self.memory.iter().find(|(step, _)| *step == NONE)?.1?;
        Some(without + self.calculated(measured - without))
    }

    /// The number of clusters at which an object is as large as the server stores.
    pub(crate) fn most_clusters(&self, stored: &StoredObject) -> f64 {
        let per_cluster = ratio(number(stored.bytes), number(self.shape.release_clusters));
        ratio(LARGEST, per_cluster)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::Timing;
    use super::*;
    use crate::served::tests::served;

    /// A rollout over ten clusters.
    pub(crate) fn releases_fleet() -> ReleasesFleet {
        let shape = Shape {
            release_clusters: 10,
            pods_per_cluster: 4,
        };
        let sides = RequestCounts {
            hub: served(&[("objectsets", "POST", 10), ("releases", "PUT", 50)]),
            clusters: served(&[("pods", "PATCH", 40)]),
        };
        ReleasesFleet {
            memory: vec![(NONE, Some(20.0)), (IDLE, None)],
            asked: vec![StepRequests { step: FIRST, sides }],
            stored: vec![StoredObject {
                kind: "capacitytargets",
                bytes: 15_728,
            }],
            ..ReleasesFleet::new(shape)
        }
        .with_bare(Duration::from_secs(1))
        .with_bare(Duration::from_secs(3))
    }

    #[test]
    fn figures_are_per_cluster_and_step() {
        let fleet = releases_fleet();
        let step = |name| Step::new(name, 1, Timing::of(0, Duration::from_secs(5)));
        assert_eq!(fleet.to_bare(&step(FIRST)), Some(2.5));
        assert_eq!(fleet.to_bare(&step(UPGRADE)), None);
        assert_eq!(fleet.hub_writes(FIRST), Some(2.0));
        assert_eq!(fleet.hub_writes(UPGRADE), None);
        assert_eq!(fleet.calculated_memory(21.0), Some(120.0));
        assert!((fleet.most_clusters(&fleet.stored[0]) - 1_000.0).abs() < 0.1);
    }
}
