//! The figures of a fleet.

use super::table::{fixed, or_empty, served, table};
use crate::figures::fleet::{Fleet, RequestCounts};
use crate::figures::{number, ratio};

/// The size of the fleet.
pub(super) fn head(fleet: &Fleet) -> String {
    format!(
        "Delivered from one hub into {} clusters, {} sets each. {} Cluster objects name them in turn.",
        fleet.shape.clusters,
        fleet.shape.sets_per_cluster,
        fleet.shape.objects(),
    )
}

/// The meaning of the figures in the table of steps.
pub(super) const NOTES: &str = "\
     fleet: bare is the sum over all clusters, one after the other. idle: the manager has no work, with one\n\
     Cluster object for each cluster (few) and with all of them. connect: from the first further Cluster\n\
     object until the last one reports that it is connected. create: until the last set is available.\n\
     restart: until it is connected to all clusters and nothing is left to do. server: all API servers and\n\
     their storage.";

/// The tables about the fleet.
pub(super) fn tables(fleet: &Fleet, objects: usize, sets: usize) -> String {
    let (hub, clusters) = fleet.requests_per_object(objects);
    let of = |sides: &RequestCounts, shown: &dyn Fn(u64) -> String| {
        served(&[("hub", &sides.hub), ("clusters", &sides.clusters)], shown)
    };
    let per_set = |sent: u64| fixed(ratio(number(sent), number(sets)), 2);
    let restart = if fleet.restart == RequestCounts::default() {
        String::new()
    } else {
        let table = of(&fleet.restart, &|sent| sent.to_string());
        format!("\n\nFleet: requests by the restart\n{table}")
    };
    format!(
        "Fleet: the manager's resident memory\n{}\n\n\
         Fleet: requests for each set, as the API servers count them\n{}\n\
         For each object {clusters:.2} at its cluster and {hub:.2} at the hub. Those of the bench are left out.\
         {restart}\nThe restarted manager was ready after {:.2} s.",
        memory(fleet),
        of(&fleet.create, &per_set),
        fleet.ready,
    )
}

fn memory(fleet: &Fleet) -> String {
    let row = |what: &str, clusters: usize, resident, each| {
        let (resident, each) = (or_empty(resident, 2), or_empty(each, 3));
        vec![what.to_owned(), clusters.to_string(), resident, each]
    };
    let (few, all) = (fleet.shape.clusters, fleet.shape.objects());
    let rows = [
        row("idle", few, fleet.few, None),
        row("idle", all, fleet.all, fleet.per_cluster()),
        row(
            "idle after the delivery and a restart",
            all,
            fleet.restarted,
            None,
        ),
    ];
    let header = ["manager", "Clusters", "MiB", "MiB for each further one"];
    table(&header, rows)
}
