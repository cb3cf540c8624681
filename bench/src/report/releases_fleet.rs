//! The figures of one Application in many clusters.

use super::table::{fixed, or_empty, served, table};
use crate::figures::releases::cpu;
use crate::figures::releases_fleet::{CALCULATED, ReleasesFleet, StepRequests, StoredObject};
use crate::figures::{Figures, Step, number};

/// The number of clusters and pods.
pub(super) fn head(fleet: &ReleasesFleet) -> String {
    format!(
        "One Application of {} pods in each of {} clusters, each a Cluster with a namespace of its own.",
        fleet.shape.pods_per_cluster, fleet.shape.release_clusters,
    )
}

/// The meaning of the figures in the table of steps.
pub(super) const NOTES: &str = "\
     releases-fleet: from the request until the Release is complete, in three steps. The bench sends the Release to\n\
     its next step as soon as it waits for a command. upgrade: a Release is replaced. server: of the hub alone.\n\
     Between manager and clusters there is TLS, and a proxy in the bench.";

/// The tables about the Application.
pub(super) fn tables(figures: &Figures, fleet: &ReleasesFleet) -> String {
    let mut parts = vec![format!(
        "One Application in many clusters\n{}\n{ROLLOUT_NOTES}",
        rollouts(figures, fleet)
    )];
    parts.extend(fleet.asked.iter().map(|asked| requests(fleet, asked)));
    parts.push(format!(
        "The largest objects that list all clusters\n{}",
        stored(fleet)
    ));
    parts.join("\n\n")
}

const ROLLOUT_NOTES: &str = "\
     bare s: every object, every number of pods and every label once by a plain request; each step ends when all\n\
     clusters have reached it (the mean). hub, manager: processor seconds, of the manager with helm. at 1000: in\n\
     proportion to the number of clusters, which assumes that no request becomes more expensive.";

fn rollouts(figures: &Figures, fleet: &ReleasesFleet) -> String {
    let at = format!("at {CALCULATED}");
    let header = [
        "step", "s", "bare s", "x bare", "writes", "hub", &at, "manager", &at, "peak MiB", &at,
    ];
    let steps = figures.steps.iter();
    let row = |step: &Step| {
        let to_bare = fleet.to_bare(step);
        let (hub, manager) = (step.timing.server, cpu(step));
        let peak = step.memory.map(|memory| memory.peak);
        vec![
            step.name.to_owned(),
            fixed(step.timing.seconds, 2),
            or_empty(to_bare.map(|to_bare| step.timing.seconds / to_bare), 2),
            or_empty(to_bare, 2),
            or_empty(fleet.hub_writes(step.name), 2),
            fixed(hub, 2),
            fixed(fleet.calculated(hub), 1),
            or_empty(manager, 2),
            or_empty(manager.map(|manager| fleet.calculated(manager)), 1),
            or_empty(peak, 1),
            or_empty(peak.and_then(|peak| fleet.calculated_memory(peak)), 0),
        ]
    };
    table(
        &header,
        steps.filter(|step| step.is_of_releases_fleet()).map(row),
    )
}

fn requests(fleet: &ReleasesFleet, StepRequests { step, sides }: &StepRequests) -> String {
    let each = |sent: u64| fixed(fleet.each(sent), 2);
    let sides = [("hub", &sides.hub), ("clusters", &sides.clusters)];
    format!(
        "{step}: requests for each cluster and step, as the API servers count them\n{}",
        served(&sides, each)
    )
}

fn stored(fleet: &ReleasesFleet) -> String {
    let clusters = number(fleet.shape.release_clusters);
    let row = |stored: &StoredObject| {
        vec![
            stored.kind.to_owned(),
            fixed(number(stored.bytes) / 1024.0, 1),
            fixed(number(stored.bytes) / clusters, 0),
            fixed(fleet.most_clusters(stored), 0),
        ]
    };
    table(
        &["kind", "KiB", "bytes per cluster", "clusters at 1.5 MiB"],
        fleet.stored.iter().map(row),
    )
}
