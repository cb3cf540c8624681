//! Draws the sites of the inventory as a table.

use baton_apis::UpgradeWindow;
use baton_sites::window::Windows;
use baton_view::{
    sites::{
        cluster::SiteCluster,
        inventory::{Running, SiteLine},
    },
    tree::Health,
};
use k8s_openapi::jiff::Timestamp;

use super::{since, some};
use crate::output::{
    Output, Paint,
    format::first,
    table::{Cell, Table},
};

/// The largest number of labels, and of deployments, that the line of a site names.
const MAX_NAMED: usize = 3;

/// The table of the sites, with one line per site.
pub fn table(lines: &[SiteLine], output: Output, now: Timestamp) -> String {
    let mut table = Table::new(&[
        "NAME",
        "REGION",
        "LABELS",
        "CONNECTION",
        "CONNECTED",
        "SINCE",
        "RUNS",
        "QUEUE",
        "WINDOW",
        "MESSAGE",
    ]);
    for line in lines {
        let site = &line.cluster;
        let labels: Vec<String> = site
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let runs: Vec<String> = line.runs.iter().map(running).collect();
        table.row([
            Cell::painted(Paint::Strong, &site.name),
            site.region.as_str().into(),
            first(&labels, MAX_NAMED).into(),
            site.connection.as_str().into(),
            connected(site),
            since(site.since, now),
            first(&runs, MAX_NAMED).into(),
            some(line.queue),
            window(&site.windows, now),
            line.message.as_str().into(),
        ]);
    }
    table.render(output)
}

/// The cell for the upgrade windows of a site's provider: open, or the next opening. Empty if there
/// are no windows.
fn window(windows: &[UpgradeWindow], now: Timestamp) -> Cell {
    if windows.is_empty() {
        return "".into();
    }
    let Ok(windows) = Windows::compile(windows) else {
        return Cell::painted(Paint::Bad, "invalid");
    };
    match windows.next_opening(now) {
        Some(at) if at <= now => Cell::painted(Paint::Good, "open"),
        Some(at) => format!("opens {at:.0}").into(),
        None => Cell::painted(Paint::Warn, "never open"),
    }
}

fn connected(site: &SiteCluster) -> Cell {
    match site.connected {
        Health::True => Cell::painted(Paint::Good, "True"),
        Health::False if !site.reason.is_empty() => {
            Cell::painted(Paint::Bad, format!("False ({})", site.reason))
        }
        other => Cell::painted(Paint::Warn, other.as_str()),
    }
}

/// A deployment with its version: `shop 1.2.0`, `edge/shop 1.2.0`.
fn running(of: &Running) -> String {
    let version = of.version.as_deref().unwrap_or("<none>");
    match &of.namespace {
        Some(namespace) => format!("{namespace}/{} {version}", of.deployment),
        None => format!("{} {version}", of.deployment),
    }
}

#[cfg(test)]
mod tests {
    use baton_view::sites::{cluster::by_name, inventory::lines, revision::SiteRevision};
    use serde_json::json;

    use super::{
        super::fixtures::{NOW, mid_rollout},
        *,
    };

    fn revisions() -> Vec<SiteRevision> {
        let objects = mid_rollout();
        let sets = objects
            .iter()
            .filter(|object| object["kind"] == "ObjectSet");
        sets.flat_map(SiteRevision::read).collect()
    }

    #[test]
    fn the_inventory_lists_sites_with_their_versions() {
        let mut objects = mid_rollout();
        objects.retain(|object| object["kind"] == "Cluster");
        objects[6]["spec"]["upgradeWindows"] = json!([
            { "cron": "0 3 * * *", "duration": "4h", "timeZone": "Europe/Berlin" },
            { "cron": "0 2 * * 6", "duration": "9h" },
        ]);
        objects[1]["spec"]["upgradeWindows"] = json!([{ "cron": "0 * * * *", "duration": "1h" }]);
        objects[2]["spec"]["upgradeWindows"] = json!([{ "cron": "0 2 30 2 *", "duration": "1h" }]);
        objects[0]["metadata"]["labels"] = json!({ "a": "1", "b": "2", "c": "3", "d": "4" });
        let lines = lines(&Ok(by_name(objects.iter())), revisions(), false);
        insta::assert_snapshot!(table(&lines, Output::plain(), NOW));
    }

    #[test]
    fn clusters_with_revisions_are_listed_if_clusters_are_unreadable() {
        let lines = lines(&Err("forbidden".to_owned()), revisions(), true);
        assert_eq!(lines.len(), 10);
        let text = table(&lines, Output::plain(), NOW);
        assert!(text.contains("edge/shop 1.2.0"), "{text}");
    }
}
