use baton_apis::{ClusterSpec, RegionRequirement};
use proptest::prelude::*;

use super::*;

pub(super) const APPLICATION: &str = "test-application";

/// A cluster from `name@region:capability,capability`.
fn cluster(text: &str) -> Cluster {
    let (name, rest) = text.split_once('@').unwrap();
    let (region, capabilities) = rest.split_once(':').unwrap_or((rest, ""));
    let capabilities = capabilities.split(',').filter(|it| !it.is_empty());
    let spec = ClusterSpec {
        region: region.into(),
        capabilities: capabilities.map(String::from).collect(),
        ..Default::default()
    };
    Cluster::new(name, spec)
}

pub(super) fn clusters(texts: &str) -> Vec<Cluster> {
    texts.split_whitespace().map(cluster).collect()
}

/// Requirements from `region=replicas region:capability,capability`.
pub(super) fn requirements(text: &str) -> ClusterRequirements {
    let (regions, capabilities) = text.split_once(':').unwrap_or((text, ""));
    let region = |text: &str| {
        let (name, replicas) = text.split_once('=').unwrap_or((text, ""));
        RegionRequirement {
            name: name.into(),
            replicas: replicas.parse().ok(),
        }
    };
    let capabilities = capabilities.split(',').filter(|it| !it.is_empty());
    ClusterRequirements {
        regions: Some(regions.split_whitespace().map(region).collect()),
        capabilities: capabilities.map(String::from).collect(),
    }
}

/// The selection in the form of the annotation, or the error.
fn selected(required: &str, clusters: &[Cluster]) -> String {
    match select(APPLICATION, &requirements(required), clusters) {
        Ok(clusters) => annotation(&clusters),
        Err(error) => error.to_string(),
    }
}

#[test]
fn scores_equal_those_of_the_contract() {
    for (name, expected_hash, expected_score) in [
        ("cluster-0", 0x6a48_7379_4fcb_5d6a, 87.907),
        ("cluster-1", 0x0408_3966_4a59_b403, 415.088),
        ("cluster-2", 0x627b_01d7_919e_4694, 95.532),
        ("cluster-3", 0xdd6a_f0d8_9169_597d, 14.513),
    ] {
        assert_eq!(hash(APPLICATION, name), expected_hash, "{name}");
        let mut cluster = cluster(&format!("{name}@a"));
        let found = score(APPLICATION, &cluster);
        assert!((found - expected_score).abs() < 0.000_5, "{name}: {found}");

        cluster.spec.scheduler.weight = Some(300);
        let tripled = score(APPLICATION, &cluster);
        assert!((tripled - 3.0 * found).abs() < 1e-9, "{name}: {tripled}");
        cluster.spec.scheduler.weight = Some(0);
        assert!(score(APPLICATION, &cluster).abs() < f64::EPSILON);

        // The identity replaces the name.
        let mut other = Cluster::new("other", ClusterSpec::default());
        other.spec.scheduler.identity = Some(name.into());
        assert!((score(APPLICATION, &other) - found).abs() < f64::EPSILON);
    }
}

#[test]
fn a_score_is_always_a_number() {
    for hash in [0, 1, u64::MAX / 2, u64::MAX] {
        for weight in [i32::MIN, -1, 0, 1, 100, i32::MAX] {
            assert!(!weighted(hash, weight).is_nan(), "{hash}, {weight}");
        }
    }
    assert!(weighted(0, 1) > weighted(1, i32::MAX));
    assert!(weighted(1, 1) > weighted(0, 0));
}

/// Each row: requirements, clusters, selection.
#[test]
fn clusters_are_selected_by_region_and_capability() {
    let few = |region: &str, required: i32, available: i32| {
        format!(
            "Not enough clusters in region \"{region}\". Required: {required} / Available: {available}"
        )
    };
    let incapable = |region: &str, names: &str, required: i32, available: i32| {
        format!(
            "Not enough clusters in region \"{region}\" with required capabilities \"{names}\". \
             Required: {required} / Available: {available}"
        )
    };
    for (required, existing, expected) in [
        ("a", "cluster-0@a", "cluster-0".to_owned()),
        ("a", "cluster-0@a cluster-1@b", "cluster-0".to_owned()),
        (
            "a=2",
            "cluster-0@a cluster-1@a",
            "cluster-0,cluster-1".to_owned(),
        ),
        ("a=2", "b@a a@a", "a,b".to_owned()),
        (
            "a:a,b",
            "cluster-0@a:a cluster-1@a:a,b",
            "cluster-1".to_owned(),
        ),
        ("a:b", "cluster-0@a:a,bb", incapable("a", "b", 1, 0)),
        (
            "a=2:b,c",
            "cluster-0@a:b,c cluster-1@a:b",
            incapable("a", "b,c", 2, 1),
        ),
        // Too few clusters are reported before too few capable ones.
        ("a=3:b", "cluster-0@a cluster-1@a", few("a", 3, 2)),
        ("c", "cluster-0@a cluster-1@b", few("c", 1, 0)),
        ("a", "", few("a", 1, 0)),
        (
            "",
            "cluster-0@a",
            "No regions specified in clusterRequirements. Must list at least one region".to_owned(),
        ),
        (
            "a:b,c,b",
            "cluster-0@a:b,c",
            "Capability \"b\" listed more than once in clusterRequirements".to_owned(),
        ),
        (
            "a b:x,y",
            "cluster-0@a:x,y cluster-1@a:x,y cluster-2@b:x,y cluster-3@b:x,y",
            "cluster-1,cluster-2".to_owned(),
        ),
        // The last entry of a region counts.
        ("a=5 a=1", "cluster-0@a cluster-1@a", "cluster-1".to_owned()),
        ("a=1 a", "cluster-0@a cluster-1@a", "cluster-1".to_owned()),
        // Clusters of different regions are not compared with each other.
        (
            "b=1 a=1",
            "cluster-1@a cluster-3@b cluster-2@a",
            "cluster-1,cluster-3".to_owned(),
        ),
        ("a=0", "cluster-0@a", String::new()),
        ("a=-3 b", "cluster-0@a cluster-1@b", "cluster-1".to_owned()),
    ] {
        assert_eq!(
            selected(required, &clusters(existing)),
            expected,
            "{required}, {existing}"
        );
    }
}

#[test]
fn a_slightly_larger_weight_does_not_change_the_selection() {
    let mut clusters = clusters("cluster-0@a cluster-1@a cluster-2@b cluster-3@b");
    clusters[0].spec.scheduler.weight = Some(101);
    assert_eq!(selected("a b", &clusters), "cluster-1,cluster-2");
    clusters[0].spec.scheduler.weight = Some(1_000);
    assert_eq!(selected("a b", &clusters), "cluster-0,cluster-2");
    clusters[0].spec.scheduler.weight = Some(-1_000);
    clusters[1].spec.scheduler.weight = Some(0);
    assert_eq!(selected("a b", &clusters), "cluster-1,cluster-2");
}

#[test]
fn unschedulable_clusters_are_not_selected() {
    let mut clusters = clusters("cluster-0@a cluster-1@a cluster-2@a");
    clusters[1].spec.scheduler.unschedulable = true;
    assert_eq!(selected("a", &clusters), "cluster-2");
    clusters[2].spec.scheduler.unschedulable = true;
    assert_eq!(
        selected("a=2", &clusters),
        "Not enough clusters in region \"a\". Required: 2 / Available: 1"
    );
}

#[test]
fn requirements_without_a_list_of_regions_are_refused() {
    let found = select(APPLICATION, &ClusterRequirements::default(), &[]);
    assert_eq!(found, Err(SelectionError::NoRegions));
}

#[test]
fn repeated_clusters_in_the_annotation_count_once() {
    assert_eq!(chosen("b,a,,b"), ["a", "b"]);
    assert_eq!(chosen(""), [""; 0]);
}

proptest! {
    /// Clusters with the same score are chosen independently of their order as well.
    #[test]
    fn the_order_of_the_clusters_does_not_matter(
        (clusters, shuffled) in prop::collection::btree_map("[a-d]{1,2}", (0..3_i32, "[ab]?"), 1..8)
            .prop_map(|clusters| {
                let made = clusters.into_iter().map(|(name, (weight, identity))| {
                    let mut cluster = cluster(&format!("{name}@a"));
                    cluster.spec.scheduler.weight = Some(weight);
                    cluster.spec.scheduler.identity = Some(identity);
                    cluster
                });
                made.collect::<Vec<_>>()
            })
            .prop_flat_map(|clusters| (Just(clusters.clone()), Just(clusters).prop_shuffle())),
        wanted in 1..4,
    ) {
        let required = format!("a={wanted}");
        prop_assert_eq!(selected(&required, &clusters), selected(&required, &shuffled));
    }

    /// In each region, a new cluster takes the place of at most one other.
    #[test]
    fn an_added_cluster_replaces_at_most_one_other(count in 2..20_usize, wanted in 1..5_i32) {
        let all: Vec<_> = (0..=count).map(|number| cluster(&format!("c{number}@a"))).collect();
        let requirements = requirements(&format!("a={wanted}"));
        let select = |clusters: &[Cluster]| select(APPLICATION, &requirements, clusters);
        if let (Ok(before), Ok(after)) = (select(&all[..count]), select(&all)) {
            let moved = before.iter().filter(|name| !after.contains(name)).count();
            prop_assert!(moved <= 1, "{before:?} -> {after:?}");
        }
    }
}
