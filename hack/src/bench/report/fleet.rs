//! The figures of a fleet.

use comfy_table::Table;

use super::{numbers, table};
use crate::bench::figures::fleet::{Fleet, Sides};
use crate::bench::figures::{number, ratio};
use crate::bench::served::{Count, Served};

/// What it consists of.
pub fn head(fleet: &Fleet) -> String {
    format!(
        "Delivered from one hub into {} clusters, {} sets each. {} Cluster objects name them in turn.",
        fleet.shape.clusters,
        fleet.shape.sets_per_cluster,
        fleet.shape.objects(),
    )
}

/// What the figures in the table of steps mean.
pub const NOTES: &str = "fleet: bare is the sum over all clusters, one after the other. idle: the manager is left alone, with one\n\
    Cluster object for each cluster (few) and with all of them. connect: from the first further Cluster\n\
    object until the last one says that it is connected. create: until the last set is available.\n\
    restart: until it is connected to all clusters and nothing is left to do. server: all API servers and\n\
    their storage.";

/// The tables about the fleet.
pub fn tables(fleet: &Fleet, objects: usize, sets: usize) -> String {
    let (hub, clusters) = fleet.requests_per_object(objects);
    let restart = if fleet.restart == Sides::default() {
        String::new()
    } else {
        format!(
            "\n\nFleet: requests by the restart\n{}",
            served(&fleet.restart, |sent| sent.to_string()).trim_fmt()
        )
    };
    let per_set = |sent: u64| format!("{:.2}", ratio(number(sent), number(sets)));
    format!(
        "Fleet: the manager's resident memory\n{}\n\n\
         Fleet: requests for each set, as the API servers count them\n{}\n\
         For each object {clusters:.2} at its cluster and {hub:.2} at the hub. Those of the bench are left out.{restart}\n\
         The restarted manager was ready after {:.2} s.",
        memory(fleet).trim_fmt(),
        served(&fleet.create, per_set).trim_fmt(),
        fleet.ready,
    )
}

fn memory(fleet: &Fleet) -> Table {
    let mut table = table(&["manager", "Clusters", "MiB", "MiB for each further one"]);
    let shown =
        |memory: Option<f64>| memory.map_or_else(String::new, |memory| format!("{memory:.2}"));
    let rows = [
        ("idle", fleet.shape.clusters, fleet.few, None),
        (
            "idle",
            fleet.shape.objects(),
            fleet.all,
            fleet.per_cluster(),
        ),
        (
            "idle after the delivery and a restart",
            fleet.shape.objects(),
            fleet.restarted,
            None,
        ),
    ];
    for (what, clusters, resident, each) in rows {
        let each = each.map_or_else(String::new, |each| format!("{each:.3}"));
        table.add_row([what.to_owned(), clusters.to_string(), shown(resident), each]);
    }
    numbers(&mut table);
    table
}

fn served(sides: &Sides, shown: impl Fn(u64) -> String) -> Table {
    let both = sides.hub.clone().plus(&sides.clusters);
    let verbs = both.verbs();
    let mut header = vec!["resource", "at"];
    header.extend(&verbs);
    header.extend(["all", "refused"]);
    let mut table = table(&header);
    let or_empty = |sent: u64| match sent {
        0 => String::new(),
        sent => shown(sent),
    };
    let mut add = |at: &str, served: &Served| {
        for resource in served.resources() {
            let Count { sent, refused } = served.about(resource);
            let mut row = vec![resource.to_owned(), at.to_owned()];
            row.extend(
                verbs
                    .iter()
                    .map(|verb| or_empty(served.of(resource, verb).sent)),
            );
            row.extend([or_empty(sent), or_empty(refused)]);
            table.add_row(row);
        }
    };
    add("hub", &sides.hub);
    add("clusters", &sides.clusters);
    numbers(&mut table);
    table
}
