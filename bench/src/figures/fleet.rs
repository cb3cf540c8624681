//! The measurements of a fleet, and the figures per cluster and per object.

use serde::Serialize;

use super::{number, ratio};
use crate::load::fleet::Fleet as Shape;
use crate::served::Served;

/// The step in which the manager is idle with one Cluster object for each cluster.
pub(crate) const IDLE_SMALL: &str = "fleet: idle, few";
/// The step that creates the other Cluster objects.
pub(crate) const CONNECT: &str = "fleet: connect";
/// The step in which the manager is idle with all of them.
pub(crate) const IDLE_ALL: &str = "fleet: idle, all";
/// The step that creates the sets.
pub(crate) const CREATE: &str = "fleet: create";
/// The step that restarts the manager.
pub(crate) const RESTART: &str = "fleet: restart";

/// A fleet, and the counts of its API servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Fleet {
    /// The size of the fleet.
    #[serde(flatten)]
    pub(crate) shape: Shape,
    /// Resident memory of the idle manager in MiB, with one Cluster object for each cluster; `None`
    /// if the system does not report it.
    pub(crate) few: Option<f64>,
    /// The same with all Cluster objects.
    pub(crate) all: Option<f64>,
    /// The same after the restart, with the objects that were delivered.
    pub(crate) restarted: Option<f64>,
    /// Requests while the manager was idle with all Cluster objects.
    pub(crate) idle: RequestCounts,
    /// Requests about the sets and their objects, without those of the bench.
    pub(crate) create: RequestCounts,
    /// Requests of the restart.
    pub(crate) restart: RequestCounts,
    /// Seconds from the restart until the manager was ready.
    pub(crate) ready: f64,
}

/// Requests as the API servers counted them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RequestCounts {
    /// Requests to the hub.
    pub(crate) hub: Served,
    /// Requests to all clusters together.
    pub(crate) clusters: Served,
}

impl RequestCounts {
    /// The requests answered since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            hub: self.hub.since(&earlier.hub),
            clusters: self.clusters.since(&earlier.clusters),
        }
    }

    /// Number of writes, on both sides.
    pub(crate) fn writes(&self) -> u64 {
        self.hub.all_writes() + self.clusters.all_writes()
    }
}

impl Fleet {
    /// Resident memory in MiB per connected Cluster object without deliveries; `None` if it was not
    /// measured or there is none.
    pub(crate) fn per_cluster(&self) -> Option<f64> {
        let further = self.shape.objects() - self.shape.clusters;
        let grown = self.all? - self.few?;
        (further > 0).then(|| ratio(grown, number(further)))
    }

    /// Requests per object, at the hub and at the clusters.
    pub(crate) fn requests_per_object(&self, objects: usize) -> (f64, f64) {
        let per = |served: &Served| ratio(number(served.all().sent), number(objects));
        (per(&self.create.hub), per(&self.create.clusters))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::fleet::tests::FLEET;
    use crate::served::tests::served;

    /// A fleet of two clusters and four Cluster objects, with 60 delivered objects.
    pub(crate) fn fleet() -> Fleet {
        Fleet {
            shape: FLEET,
            few: Some(20.0),
            all: Some(23.0),
            restarted: Some(24.5),
            idle: RequestCounts::default(),
            create: RequestCounts {
                hub: served(&[
                    ("objectsetphases", "POST", 12),
                    ("objectsetphases/status", "PUT", 12),
                    ("objectsets/status", "PUT", 18),
                ]),
                clusters: served(&[("configmaps", "dry run", 60), ("configmaps", "APPLY", 63)]),
            },
            restart: RequestCounts {
                hub: served(&[("objectsets/status", "PUT", 1), ("objectsets", "GET", 3)]),
                clusters: served(&[("configmaps", "APPLY", 2), ("configmaps", "dry run", 5)]),
            },
            ready: 0.25,
        }
    }

    #[test]
    fn fleet_figures_are_per_cluster_and_per_object() {
        let mut fleet = fleet();
        assert_eq!(fleet.per_cluster(), Some(1.5));
        let (hub, clusters) = fleet.requests_per_object(60);
        assert!((hub - 0.7).abs() < 1e-9, "{hub}");
        assert!((clusters - 2.05).abs() < 1e-9, "{clusters}");
        assert_eq!(fleet.restart.writes(), 3, "neither reads nor dry runs");
        fleet.shape.cluster_objects = 2;
        assert_eq!(fleet.per_cluster(), None);
    }
}
