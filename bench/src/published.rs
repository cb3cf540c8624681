//! Benchmarks that others publish, by their own names.

use clap::ValueEnum;

use super::{Options, Scenario};
use crate::load::Shape;

/// A benchmark of another project, measured with the kinds of Baton.
///
/// The names of Rancher Fleet are those of its suite; a bundle becomes an ObjectSet. Flux measures
/// applications of four objects, which become ObjectDeployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Published {
    /// Rancher Fleet: 50 bundles for all clusters (`--clusters`).
    #[value(name = "create-50-bundle")]
    Bundles50,
    /// Rancher Fleet: 150 bundles for all clusters (`--clusters`).
    #[value(name = "create-150-bundle")]
    Bundles150,
    /// Rancher Fleet: one bundle of 10 ConfigMaps in one cluster; 20 of them, one after the other.
    #[value(name = "create-1-bundledeployment-10-resources")]
    LoneBundle,
    /// Rancher Fleet: 50 bundles of 500 ConfigMaps in all, in one cluster.
    #[value(name = "create-50-bundledeployment-500-resources")]
    Resources500,
    /// Flux: 1,000 applications of four objects in one cluster.
    #[value(name = "flux-1000-apps")]
    Flux1000,
}

/// Bytes of a ConfigMap in the bundles that deploy resources: a bundle of ten has 123 kB.
const FLEET_PAD: usize = 12_000;
/// Number of chains of the benchmark of Flux.
const FLUX_APPLICATIONS: usize = 1000;

/// The amount of objects: sets, objects of the only phase of each, and bytes of each object.
const fn shape(sets: usize, per_phase: usize, pad: usize) -> Shape {
    Shape {
        sets,
        phases: 1,
        per_phase,
        pad,
        phase_class: None,
    }
}

impl Options {
    /// The options of the published benchmark that was chosen. The number of clusters and everything
    /// about the run stays.
    pub(crate) fn with_published(mut self) -> Self {
        let Some(published) = self.like else {
            return self;
        };
        (self.scenario, self.shape) = match published {
            Published::Bundles50 => (Scenario::Fleet, shape(50, 1, 256)),
            Published::Bundles150 => (Scenario::Fleet, shape(150, 1, 256)),
            Published::LoneBundle => (Scenario::Lone, shape(1, 10, FLEET_PAD)),
            Published::Resources500 => (Scenario::Rollout, shape(50, 10, FLEET_PAD)),
            Published::Flux1000 => (Scenario::Chain, shape(1, 4, 256)),
        };
        self.fleet.sets_per_cluster = self.shape.sets;
        // Each cluster has one Cluster object: more would name the same cluster.
        self.fleet.cluster_objects = self.fleet.clusters;
        self.chains.deployments = FLUX_APPLICATIONS;
        // Flux publishes no edits.
        self.chains.edits = 0;
        self
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_published_benchmark_has_its_own_amount_of_objects() {
        for (name, scenario, objects) in [
            ("create-50-bundle", Scenario::Fleet, 50),
            ("create-150-bundle", Scenario::Fleet, 150),
            ("create-1-bundledeployment-10-resources", Scenario::Lone, 10),
            (
                "create-50-bundledeployment-500-resources",
                Scenario::Rollout,
                500,
            ),
            ("flux-1000-apps", Scenario::Chain, 4),
        ] {
            let options = Options::parse_from(["bench", "--like", name, "--clusters", "3"]);
            let options = options.with_published();
            assert_eq!(options.scenario, scenario, "{name}");
            assert_eq!(options.shape.objects(), objects, "{name}");
            assert_eq!(options.fleet.sets_per_cluster, options.shape.sets, "{name}");
            assert_eq!(options.fleet.clusters, 3, "{name}");
        }
        let plain = Options::parse_from(["bench", "--sets", "7"]).with_published();
        assert_eq!((plain.shape.sets, plain.scenario), (7, Scenario::Full));
    }

    #[test]
    fn a_published_benchmark_cannot_have_another_amount_of_objects() {
        for flag in [
            "--scenario=lone",
            "--sets=1",
            "--edits=3",
            "--deployments=2",
        ] {
            let arguments = ["bench", "--like", "flux-1000-apps", flag];
            Options::try_parse_from(arguments).unwrap_err();
        }
    }
}
