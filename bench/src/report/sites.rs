//! The figures of sites.

use super::table::{fixed, or_empty, served, table};
use crate::figures::sites::{CONNECTED, NONE, Sites, StepRequests};
use crate::traffic::Bytes;

/// The number and shape of the sites.
pub(super) fn head(sites: &Sites) -> String {
    format!(
        "One SiteDeployment brings versions of {} ConfigMaps to {} sites, each a Cluster with a namespace of its own.",
        sites.shape.objects_per_site, sites.shape.sites,
    )
}

/// The meaning of the figures in the table of steps.
pub(super) const NOTES: &str = "\
     sites: from the request of a version until the deployment reports that all sites in reach have it. In waves:\n\
     a tenth each, healthy for a second. a tenth offline: until their Clusters report it. back online: until they\n\
     have the version as well. restart: until it is connected to all sites and no work is left. server: all API\n\
     servers and their storage. Between manager and sites there is TLS, and a proxy in the bench.";

/// The tables about sites.
pub(super) fn tables(sites: &Sites) -> String {
    let mut parts = vec![format!(
        "Sites: the manager's resident memory\n{}",
        memory(sites)
    )];
    parts.extend(sites.asked.iter().map(requests));
    parts.push(format!(
        "The longest status of the deployment had {} bytes.\n\nSites: steps of the planner, the fastest each\n{}",
        sites.status,
        planned(sites)
    ));
    parts.join("\n\n")
}

fn memory(sites: &Sites) -> String {
    let rows = sites.memory.iter().map(|(step, resident)| {
        let beyond = |earlier| or_empty(sites.per_site(step, earlier), 1);
        vec![
            (*step).to_owned(),
            or_empty(*resident, 2),
            beyond(NONE),
            beyond(CONNECTED),
        ]
    });
    table(
        &["manager", "MiB", "KiB per site", "beyond connections"],
        rows,
    )
}

fn requests(requests: &StepRequests) -> String {
    let per_site = |sent: u64| fixed(requests.per_site(sent), 2);
    let sides = [
        ("hub", &requests.sides.hub),
        ("sites", &requests.sides.clusters),
    ];
    format!(
        "{}: requests for each of {} sites, as the API servers count them\n{}\n{}",
        requests.step,
        requests.sites,
        served(&sides, per_site),
        bytes(requests),
    )
}

fn bytes(requests: &StepRequests) -> String {
    let row = |resource: &str, bytes: Bytes| {
        let Bytes {
            sent,
            answered,
            watched,
        } = bytes;
        let mut row = vec![resource.to_owned()];
        row.extend(
            [sent, answered, watched, bytes.all()].map(|bytes| fixed(requests.per_site(bytes), 0)),
        );
        row
    };
    let rows = requests
        .traffic
        .iter()
        .map(|(resource, bytes)| row(resource, bytes));
    let rows = rows.chain([row("all", requests.traffic.all())]);
    table(
        &[
            "bytes per site, at the hub",
            "sent",
            "answered",
            "watched",
            "all",
        ],
        rows,
    )
}

fn planned(sites: &Sites) -> String {
    let rows = sites.planned.iter().map(|planned| {
        vec![
            planned.what.to_owned(),
            planned.sites.to_string(),
            fixed(planned.milliseconds, 2),
        ]
    });
    table(&["step", "sites", "ms"], rows)
}
