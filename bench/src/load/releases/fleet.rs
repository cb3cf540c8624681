//! An Application that is rolled out over many clusters.

use clap::Args;
use serde::Serialize;

use super::super::at_least_one;
use super::super::sites::names;

/// The name of the Application.
pub(crate) const NAME: &str = "shop";

/// The size of the rollout.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct ReleasesFleet {
    /// Number of clusters of the Application in the scenario `releases-fleet`. Each is a Cluster object, and a
    /// namespace in one of `--clusters` control planes
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    pub(crate) release_clusters: usize,
    /// Number of pods of the Application in each cluster
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub(crate) pods_per_cluster: usize,
}

impl ReleasesFleet {
    /// The names of all clusters.
    pub(crate) fn names(self) -> impl Iterator<Item = String> + use<> {
        names(self.release_clusters)
    }
}
