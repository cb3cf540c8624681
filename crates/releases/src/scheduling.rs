//! The clusters of a Release.
//!
//! The order of clusters depends on the application alone, so successive Releases get the same
//! clusters, and a new cluster changes little.

pub mod error;
pub mod moves;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{Cluster, ClusterRequirements, shipper::ClusterScheduler};
use twox_hash::XxHash64;

use self::error::SelectionError;

/// The weight of a cluster without a weight.
const DEFAULT_WEIGHT: i32 = 100;

/// The clusters in the annotation of a Release, sorted, without duplicates. Empty: no clusters are
/// chosen yet.
pub fn chosen(annotation: &str) -> Vec<&str> {
    let names = annotation.split(',').filter(|name| !name.is_empty());
    Vec::from_iter(names.collect::<BTreeSet<_>>())
}

/// The annotation of a Release with its clusters.
pub fn annotation(clusters: &[String]) -> String {
    clusters.join(",")
}

/// Chooses the clusters for a Release of an application, sorted by name.
///
/// # Guarantees
/// The order of `clusters` does not matter; of clusters with the same score the first by name is preferred.
///
/// # Errors
/// If the requirements contradict themselves, or there are not enough clusters.
pub fn select(
    application: &str,
    requirements: &ClusterRequirements,
    clusters: &[Cluster],
) -> Result<Vec<String>, SelectionError> {
    let ClusterRequirements {
        regions,
        capabilities,
    } = requirements;
    let regions = regions.as_deref().unwrap_or_default();
    if regions.is_empty() {
        return Err(SelectionError::NoRegions);
    }
    let mut required = BTreeSet::new();
    if let Some(twice) = capabilities.iter().find(|name| !required.insert(*name)) {
        return Err(SelectionError::DuplicateCapability(twice.clone()));
    }
    let candidates = in_order(application, clusters);
    let mut selected = BTreeSet::new();
    // If a region is listed twice, the last entry counts.
    let last: BTreeMap<_, _> = regions
        .iter()
        .map(|region| (&region.name, region))
        .collect();
    for (name, region) in last {
        let wanted = region.replicas.unwrap_or(1);
        let of_region = candidates.iter().filter(|it| it.spec.region == *name);
        let of_region: Vec<_> = of_region.collect();
        let capable = of_region.iter().filter(|cluster| {
            let offered = &cluster.spec.capabilities;
            required.iter().all(|name| offered.contains(name))
        });
        let capable: Vec<_> = capable.collect();
        // A negative number counts as zero.
        let count = usize::try_from(wanted).unwrap_or(0);
        if count > of_region.len() {
            return Err(SelectionError::NotEnoughClusters {
                region: name.clone(),
                required: wanted,
                available: of_region.len(),
            });
        }
        if count > capable.len() {
            return Err(SelectionError::NotEnoughCapableClusters {
                region: name.clone(),
                capabilities: capabilities.clone(),
                required: wanted,
                available: capable.len(),
            });
        }
        selected.extend(capable.iter().take(count).map(|cluster| name_of(cluster)));
    }
    Ok(selected.into_iter().map(str::to_owned).collect())
}

/// The clusters that accept new Releases, the preferred ones first.
fn in_order<'a>(application: &str, clusters: &'a [Cluster]) -> Vec<&'a Cluster> {
    let schedulable = clusters
        .iter()
        .filter(|cluster| !cluster.spec.scheduler.unschedulable);
    let scored = schedulable.map(|cluster| (score(application, cluster), cluster));
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by(|(a, one), (b, other)| {
        let descending = b.total_cmp(a);
        descending.then_with(|| name_of(one).cmp(name_of(other)))
    });
    scored.into_iter().map(|(_, cluster)| cluster).collect()
}

fn score(application: &str, cluster: &Cluster) -> f64 {
    let ClusterScheduler {
        unschedulable: _,
        weight,
        identity,
    } = &cluster.spec.scheduler;
    let identity = identity.as_deref().filter(|identity| !identity.is_empty());
    let hash = hash(application, identity.unwrap_or_else(|| name_of(cluster)));
    weighted(hash, weight.unwrap_or(DEFAULT_WEIGHT))
}

/// The score of weighted rendezvous hashing. It is never NaN.
fn weighted(hash: u64, weight: i32) -> f64 {
    if weight == 0 {
        // With a hash of zero, the product would be zero times infinity.
        return 0.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "the score is defined so: the division is one of floats"
    )]
    let share = hash as f64 / u64::MAX as f64;
    -f64::from(weight) * share.ln()
}

fn hash(application: &str, identity: &str) -> u64 {
    XxHash64::oneshot(0, format!("{application}{identity}").as_bytes())
}

fn name_of(cluster: &Cluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
