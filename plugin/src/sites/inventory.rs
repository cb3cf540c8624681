//! The sites of the inventory, with what runs in them.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::UpgradeWindow;
use baton_sites::window::Windows;
use baton_terminal::time::age;
use baton_view::tree::Health;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::{
    cluster::{Clusters, SiteCluster},
    revision::SiteRevision,
    state::runs,
};
use crate::output::{
    Output, Paint,
    format::first,
    table::{Cell, Table},
};

/// How many labels and deployments of a site a line names.
const NAMED: usize = 3;

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteLine {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) region: String,
    /// Who connects to whom; empty where the Cluster does not exist or cannot be read.
    pub(crate) connection: String,
    /// Whether it can be reached; unknown as above.
    pub(crate) connected: Health,
    /// Why it is not connected, in one word.
    pub(crate) reason: String,
    /// Since when that is so.
    pub(crate) since: Option<Timestamp>,
    /// What runs there.
    pub(crate) runs: Vec<Running>,
    /// How many revisions wait there, of all deployments.
    pub(crate) queue: usize,
    /// When its provider has upgrades begin.
    pub(crate) windows: Vec<UpgradeWindow>,
    /// What the first revision in a queue waits for.
    pub(crate) message: String,
}

/// What a deployment has in a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Running {
    /// Its namespace; `None` where all are of one.
    pub(crate) namespace: Option<String>,
    pub(crate) deployment: String,
    /// `None` before any has begun.
    pub(crate) version: Option<String>,
}

/// A deployment, perhaps with its namespace.
pub(crate) type Owner = (Option<String>, String);

/// The revisions of sites, by site and deployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains(BTreeMap<String, BTreeMap<Owner, Vec<SiteRevision>>>);

impl Chains {
    /// Adds a revision; with its namespace where those of several are looked at.
    pub(crate) fn add(&mut self, namespace: Option<String>, revision: SiteRevision) {
        let site = self.0.entry(revision.entry.site.clone()).or_default();
        let owner = (namespace, revision.entry.deployment.clone());
        site.entry(owner).or_default().push(revision);
    }

    /// The sites with what runs in them, by name: the Clusters, or where those cannot be read the sites that have
    /// revisions.
    pub(crate) fn lines(mut self, clusters: &Clusters) -> Vec<SiteLine> {
        let clusters: Vec<SiteCluster> = match clusters {
            Ok(clusters) => clusters.values().cloned().collect(),
            Err(_) => self.0.keys().map(|name| nameless(name)).collect(),
        };
        let line = |cluster: SiteCluster| {
            let chains = self.0.remove(&cluster.name).unwrap_or_default();
            line(cluster, chains)
        };
        clusters.into_iter().map(line).collect()
    }
}

/// A site of which only the name is known.
fn nameless(name: &str) -> SiteCluster {
    SiteCluster {
        name: name.to_owned(),
        ..SiteCluster::default()
    }
}

fn line(cluster: SiteCluster, chains: BTreeMap<Owner, Vec<SiteRevision>>) -> SiteLine {
    let (mut running, mut queue, mut waits) = (Vec::new(), 0, BTreeSet::new());
    for ((namespace, deployment), mut chain) in chains {
        chain.sort_by_key(|one| one.number);
        let mut queued = chain.iter().filter(|one| one.is_queued());
        let head = queued.next();
        queue += queued.count() + usize::from(head.is_some());
        let message = head.map(|head| head.message().to_owned());
        waits.extend(message.filter(|message| !message.is_empty()));
        if head.is_some() || chain.iter().any(SiteRevision::is_live) {
            running.push(Running {
                namespace,
                deployment,
                version: runs(&chain).map(str::to_owned),
            });
        }
    }
    SiteLine {
        windows: cluster.windows,
        name: cluster.name,
        labels: cluster.labels,
        region: cluster.region,
        connection: cluster.connection,
        connected: cluster.connected,
        reason: cluster.reason,
        since: cluster.since,
        runs: running,
        queue,
        message: waits.into_iter().next().unwrap_or_default(),
    }
}

/// One line per site.
pub(crate) fn table(lines: &[SiteLine], output: Output, now: Timestamp) -> String {
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
        let labels: Vec<String> = line
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let running: Vec<String> = line.runs.iter().map(Running::text).collect();
        let queue = match line.queue {
            0 => String::new(),
            queue => queue.to_string(),
        };
        table.row([
            Cell::painted(Paint::Strong, &line.name),
            line.region.as_str().into(),
            first(&labels, NAMED).into(),
            line.connection.as_str().into(),
            connected(line),
            line.since
                .map_or_else(String::new, |_| age(line.since, now))
                .into(),
            first(&running, NAMED).into(),
            queue.into(),
            window(&line.windows, now),
            line.message.as_str().into(),
        ]);
    }
    table.render(output)
}

/// Whether upgrades may begin as far as the provider of a site is concerned, or when they may.
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

fn connected(line: &SiteLine) -> Cell {
    match line.connected {
        Health::True => Cell::painted(Paint::Good, "True"),
        Health::False if !line.reason.is_empty() => {
            Cell::painted(Paint::Bad, format!("False ({})", line.reason))
        }
        other => Cell::painted(Paint::Warn, other.as_str()),
    }
}

impl Running {
    /// `shop 1.2.0`, `edge/shop 1.2.0`
    fn text(&self) -> String {
        let version = self.version.as_deref().unwrap_or("<none>");
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{} {version}", self.deployment),
            None => format!("{} {version}", self.deployment),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sites::{
        cluster::by_name,
        fixtures::{NOW, mid_rollout},
    };

    fn chains(namespace: Option<&str>) -> Chains {
        let mut chains = Chains::default();
        let objects = mid_rollout();
        let sets = objects
            .iter()
            .filter(|object| object["kind"] == "ObjectSet");
        for revision in sets.filter_map(SiteRevision::read) {
            chains.add(namespace.map(str::to_owned), revision);
        }
        chains
    }

    #[test]
    fn sites_and_what_runs_there() {
        let mut objects = mid_rollout();
        objects.retain(|object| object["kind"] == "Cluster");
        objects[6]["spec"]["upgradeWindows"] = json!([
            { "cron": "0 3 * * *", "duration": "4h", "timeZone": "Europe/Berlin" },
            { "cron": "0 2 * * 6", "duration": "9h" },
        ]);
        objects[1]["spec"]["upgradeWindows"] = json!([{ "cron": "0 * * * *", "duration": "1h" }]);
        objects[2]["spec"]["upgradeWindows"] = json!([{ "cron": "0 2 30 2 *", "duration": "1h" }]);
        objects[0]["metadata"]["labels"] = json!({ "a": "1", "b": "2", "c": "3", "d": "4" });
        let lines = chains(None).lines(&Ok(by_name(objects.iter())));
        insta::assert_snapshot!(table(&lines, Output::plain(), NOW));
    }

    #[test]
    fn where_clusters_cannot_be_read_there_are_those_with_revisions() {
        let lines = chains(Some("edge")).lines(&Err("forbidden".to_owned()));
        assert_eq!(lines.len(), 10);
        let text = table(&lines, Output::plain(), NOW);
        assert!(text.contains("edge/shop 1.2.0"), "{text}");
    }
}
