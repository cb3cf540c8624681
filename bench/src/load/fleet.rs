//! A fleet: clusters that one hub delivers into.

use std::collections::BTreeMap;

use baton_apis::constants::CLASS_CLUSTER_PREFIX;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{Shape, at_least_one, class, set_name};

/// The size of a fleet, and the objects delivered into it.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct Fleet {
    /// Number of clusters of a fleet, besides the hub. Each is a control plane of its own, which
    /// takes about 420 MiB
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    pub(crate) clusters: usize,
    /// Number of Cluster objects on the hub of a fleet. There is at least one for each cluster;
    /// further ones name the same clusters in turn, and nothing is delivered by them
    #[arg(long, default_value_t = 500)]
    pub(crate) cluster_objects: usize,
    /// Number of ObjectSets that are delivered into each cluster of a fleet (`--sets` does not
    /// apply to fleets)
    #[arg(long, default_value_t = 50, value_parser = at_least_one)]
    pub(crate) sets_per_cluster: usize,
}

impl Fleet {
    /// The names of the Cluster objects with deliveries, one for each cluster.
    pub(crate) fn used(self) -> impl Iterator<Item = String> + use<> {
        (0..self.clusters).map(name)
    }

    /// The names of the further Cluster objects, each with the number of its cluster.
    pub(crate) fn further(self) -> impl Iterator<Item = (String, usize)> + use<> {
        let numbers = self.clusters..self.cluster_objects;
        numbers.map(move |number| (name(number), number % self.clusters))
    }

    /// Number of Cluster objects.
    pub(crate) fn objects(self) -> usize {
        self.cluster_objects.max(self.clusters)
    }

    /// The shape of all deliveries together, with sets as in `shape`.
    pub(crate) fn all(self, shape: &Shape) -> Shape {
        Shape {
            sets: self.clusters * self.sets_per_cluster,
            // Each set names the class of its cluster.
            phase_class: None,
            ..*shape
        }
    }

    /// The shape of the deliveries into each cluster.
    pub(crate) fn for_each(self, shape: &Shape) -> Shape {
        Shape {
            sets: self.sets_per_cluster,
            phase_class: None,
            ..*shape
        }
    }

    /// All sets, for each cluster in turn, by name. They have the same names as those of
    /// [`Fleet::all`].
    pub(crate) fn sets(self, shape: &Shape) -> BTreeMap<String, Value> {
        let of_cluster = |name: String| {
            let Ok(class) = class(&format!("{CLASS_CLUSTER_PREFIX}{name}"));
            Shape {
                phase_class: Some(class),
                ..*shape
            }
        };
        let shapes: Vec<Shape> = self.used().map(of_cluster).collect();
        let sets = shapes.iter().cycle().take(self.all(shape).sets);
        let sets = sets.zip(0..);
        sets.map(|(shape, number)| (set_name(number, 1), shape.set(number, 1)))
            .collect()
    }
}

fn name(number: usize) -> String {
    format!("site-{:03}", number + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Two clusters, four Cluster objects and six sets.
    pub(crate) const FLEET: Fleet = Fleet {
        clusters: 2,
        cluster_objects: 4,
        sets_per_cluster: 3,
    };

    #[test]
    fn further_names_refer_to_clusters_in_use() {
        let names: Vec<String> = FLEET.used().collect();
        assert_eq!(names, ["site-001", "site-002"]);
        let further: Vec<(String, usize)> = FLEET.further().collect();
        let expected = [("site-003", 0), ("site-004", 1)];
        assert_eq!(further, expected.map(|(name, of)| (name.to_owned(), of)));
        assert_eq!(FLEET.objects(), 4);
        let small = Fleet {
            cluster_objects: 0,
            ..FLEET
        };
        assert_eq!((small.objects(), small.further().count()), (2, 0));
    }

    #[test]
    fn sets_are_distributed_evenly_over_clusters() {
        let shape = Shape {
            sets: 200,
            phases: 2,
            per_phase: 5,
            pad: 1,
            phase_class: Some("default"),
        };
        let sets = FLEET.sets(&shape);
        assert_eq!(sets.len(), FLEET.all(&shape).sets);
        let mut per_class = BTreeMap::<&str, usize>::new();
        for (name, set) in &sets {
            assert_eq!(set["metadata"]["name"], name.as_str());
            let phases = set["spec"]["phases"].as_array().unwrap();
            let classes = phases.iter().map(|phase| phase["class"].as_str().unwrap());
            for class in classes {
                *per_class.entry(class).or_default() += 1;
            }
        }
        let expected = [("cluster.site-001", 6), ("cluster.site-002", 6)];
        assert_eq!(per_class, BTreeMap::from(expected));
        let each = FLEET.for_each(&shape);
        assert_eq!((each.sets, each.phase_class), (3, None));
    }
}
