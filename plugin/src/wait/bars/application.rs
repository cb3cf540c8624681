//! The progress of a rollout, with a bar per cluster.

use baton_text::application::{pods, weights};
use baton_view::applications::{
    clusters::{ClusterPicture, clusters},
    observed::Observed,
};

use super::Bar;

/// The noun for the bars, in the plural.
pub(crate) const NOUN: &str = "clusters";

/// A bar for each cluster of the Release that the command waits for.
pub(crate) fn bars(observed: &Observed) -> Vec<Bar> {
    let release = observed.subject();
    let clusters = release.map_or_else(Vec::new, |release| clusters(observed, release));
    clusters.into_iter().map(bar).collect()
}

/// A bar with a text such as `capacity 2/3 pods (50%), traffic 10 of 50`.
fn bar(cluster: ClusterPicture) -> Bar {
    let achieved = cluster
        .capacity
        .and_then(|capacity| capacity.achieved_percent);
    let unknown = || "unknown".to_owned();
    let capacity = cluster.capacity.map_or_else(unknown, pods);
    let traffic = cluster.traffic.map_or_else(unknown, weights);
    Bar {
        percent: u64::try_from(achieved.unwrap_or(0)).unwrap_or(0),
        text: format!("capacity {capacity}, traffic {traffic}"),
        is_settled: cluster.is_settled(),
        name: cluster.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        applications::fixtures::{mid_rollout, observed},
        wait::bars::lines,
    };

    #[test]
    fn every_cluster_has_a_line() {
        let lines = lines(&bars(&observed(&mid_rollout())), "waits");
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "waits",
                "north: capacity 2/3 pods (50%), traffic 0 of 0",
                "south: capacity 3/3 pods (50%), traffic 0 of 0",
            ]
        );
    }
}
