//! The way of a Release out of clusters that accept no Releases any more.
//!
//! Another cluster is added first, and gets capacity and traffic by the steps of the strategy. Then the
//! cluster is left. So a Release has the wanted number of clusters all the time, and one more in
//! between.

use std::collections::BTreeMap;

use baton_apis::{Cluster, ClusterRequirements};

use super::{error::SelectionError, in_order, name_of};

/// The next change of the clusters of a Release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The Release gets this cluster as well.
    Add(String),
    /// The Release leaves this cluster: it has enough others.
    Leave(String),
    /// The Release stays in this cluster, because there is no other one.
    Stay(String, SelectionError),
}

/// A Release and the clusters that it has.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Name of the application.
    pub application: &'a str,
    /// The required clusters.
    pub requirements: &'a ClusterRequirements,
    /// Names of the clusters that the Release has.
    pub chosen: &'a [&'a str],
}

/// The next changes of the clusters of the newest Release, and of the one before it. Both are to be made
/// in the same pass, and both Releases have to be installed in all of their clusters before.
///
/// # Guarantees
/// - Both Releases get another cluster before one of them leaves a cluster: a step back, or an abort,
///   needs the older one there.
/// - The older Release gets the cluster first, and none in which the newest one is already: a Release
///   cannot be installed after a newer one.
pub fn next_moves(
    newest: Placed<'_>,
    before: Option<Placed<'_>>,
    clusters: &[Cluster],
) -> [Option<Move>; 2] {
    let own = next_move(newest, clusters);
    let theirs = before.and_then(|before| next_move(before, clusters));
    let is_late =
        |it: &Move| matches!(it, Move::Add(name) if newest.chosen.contains(&name.as_str()));
    match (own, theirs.filter(|it| !is_late(it))) {
        (_, Some(theirs @ Move::Add(_))) => [None, Some(theirs)],
        (own @ Some(Move::Add(_)), _) => [own, None],
        moves => moves.into(),
    }
}

/// The next change of the clusters of a Release of an application: `None` if all of its clusters accept
/// Releases. A cluster that does not exist is none to leave, because nothing can be removed there.
///
/// One cluster is added or left at a time, regions in the order of their names.
pub fn next_move(placed: Placed<'_>, clusters: &[Cluster]) -> Option<Move> {
    let Placed {
        application,
        requirements,
        chosen,
    } = placed;
    let candidates = in_order(application, clusters);
    let is_chosen = |cluster: &&Cluster| chosen.contains(&name_of(cluster));
    // If a region is listed twice, the last entry counts.
    let regions: BTreeMap<_, _> = requirements
        .regions
        .iter()
        .flatten()
        .map(|region| (&region.name, region.replicas.unwrap_or(1)))
        .collect();
    let mut stays = None;
    for (region, wanted) in regions {
        let drained = clusters
            .iter()
            .filter(|it| it.spec.scheduler.unschedulable && it.spec.region == *region)
            .filter(is_chosen);
        let Some(drained) = drained.map(name_of).min() else {
            continue;
        };
        let offered = candidates.iter().copied().filter(|it| {
            let capabilities = &it.spec.capabilities;
            it.spec.region == *region
                && requirements
                    .capabilities
                    .iter()
                    .all(|name| capabilities.contains(name))
        });
        let (staying, others): (Vec<_>, Vec<_>) = offered.partition(is_chosen);
        if staying.len() >= usize::try_from(wanted).unwrap_or(0) {
            return Some(Move::Leave(drained.to_owned()));
        }
        if let Some(next) = others.first() {
            return Some(Move::Add(name_of(next).to_owned()));
        }
        let error = SelectionError::NotEnoughCapableClusters {
            region: region.clone(),
            capabilities: requirements.capabilities.clone(),
            required: wanted,
            available: staying.len(),
        };
        stays.get_or_insert(Move::Stay(drained.to_owned(), error));
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::{
        select,
        tests::{APPLICATION, clusters, requirements},
    };

    /// The clusters of `texts`, of which `drained` accept no Releases.
    fn with_drained(texts: &str, drained: &str) -> Vec<Cluster> {
        let mut clusters = clusters(texts);
        for cluster in &mut clusters {
            let is_drained = drained.split(' ').any(|name| name == name_of(cluster));
            cluster.spec.scheduler.unschedulable = is_drained;
        }
        clusters
    }

    fn placed<'a>(requirements: &'a ClusterRequirements, chosen: &'a [&'a str]) -> Placed<'a> {
        Placed {
            application: APPLICATION,
            requirements,
            chosen,
        }
    }

    #[test]
    fn the_older_release_gets_another_cluster_first() {
        let add = || Some(Move::Add("b".to_owned()));
        let leave = || Some(Move::Leave("a".to_owned()));
        let clusters = with_drained("a@eu b@eu", "a");
        let required = requirements("eu");
        let both = ["a", "b"];
        for (newest, before, expected) in [
            (&["a"][..], &["a"][..], [None, add()]),
            (&["a"], &both, [add(), None]),
            (&both, &both, [leave(), leave()]),
            (&["b"], &both, [None, leave()]),
            // It cannot be installed after the newest Release.
            (&["b"], &["a"], [None, None]),
            (&both, &["a"], [leave(), None]),
        ] {
            let before = Some(placed(&required, before));
            let found = next_moves(placed(&required, newest), before, &clusters);
            assert_eq!(found, expected, "{newest:?}, {before:?}");
        }
        let alone = next_moves(placed(&required, &["a"]), None, &clusters);
        assert_eq!(alone, [add(), None]);
    }

    #[test]
    fn a_release_leaves_a_cluster_after_it_has_another() {
        let add = |name: &str| Some(Move::Add(name.to_owned()));
        let leave = |name: &str| Some(Move::Leave(name.to_owned()));
        let stay = |name: &str, region: &str, available| {
            let error = SelectionError::NotEnoughCapableClusters {
                region: region.to_owned(),
                capabilities: Vec::new(),
                required: 1,
                available,
            };
            Some(Move::Stay(name.to_owned(), error))
        };
        for (required, texts, drained, chosen, expected) in [
            ("eu", "a@eu b@eu", "", "a", None),
            ("eu", "a@eu b@eu", "b", "a", None),
            ("eu", "a@eu b@eu", "a", "a", add("b")),
            ("eu", "a@eu b@eu", "a", "a b", leave("a")),
            ("eu", "a@eu b@eu", "a b", "a b", stay("a", "eu", 0)),
            ("eu", "a@eu b@us", "a", "a", stay("a", "eu", 0)),
            ("eu=2", "a@eu b@eu c@eu", "a", "a b", add("c")),
            ("eu=2", "a@eu b@eu c@eu", "a", "a b c", leave("a")),
            ("eu=0", "a@eu", "a", "a", leave("a")),
            ("eu us", "a@eu b@us c@us", "a b", "a b", add("c")),
            ("eu us", "a@eu b@us c@us", "a b", "a b c", leave("b")),
            ("eu us", "a@eu b@us c@us", "a b", "a c", stay("a", "eu", 0)),
            // The Cluster "gone" does not exist.
            ("eu", "b@eu", "", "gone", None),
            ("eu:gpu", "a@eu:gpu b@eu c@eu:gpu", "a", "a", add("c")),
        ] {
            let clusters = with_drained(texts, drained);
            let chosen: Vec<_> = chosen.split(' ').collect();
            let found = next_move(placed(&requirements(required), &chosen), &clusters);
            assert_eq!(found, expected, "{required}, {texts}, drained {drained}");
        }
    }

    /// Moves end, and never leave a Release with fewer clusters than it had or wants.
    #[test]
    fn moves_end_in_clusters_that_accept_releases() {
        let texts = "a@eu b@eu c@eu d@us e@us";
        let required = requirements("eu=2 us");
        for drained in 0_u32..32 {
            let names = ["a", "b", "c", "d", "e"].iter().enumerate();
            let names = names.filter(|(at, _)| drained >> at & 1 == 1);
            let drained = names.map(|(_, name)| *name).collect::<Vec<_>>().join(" ");
            let before = with_drained(texts, "");
            let after = with_drained(texts, &drained);
            let mut chosen = select(APPLICATION, &required, &before).unwrap();
            let count = chosen.len();
            for round in 0.. {
                assert!(round < 10, "{drained}: {chosen:?}");
                let names: Vec<_> = chosen.iter().map(String::as_str).collect();
                match next_move(placed(&required, &names), &after) {
                    Some(Move::Add(name)) => chosen.push(name),
                    Some(Move::Leave(name)) => chosen.retain(|it| *it != name),
                    Some(Move::Stay(..)) => break,
                    None => {
                        let left = |name: &String| drained.split(' ').any(|it| it == name);
                        assert!(!chosen.iter().any(left), "{drained}: {chosen:?}");
                        break;
                    }
                }
                assert!(chosen.len() >= count, "{drained}: {chosen:?}");
            }
        }
    }
}
