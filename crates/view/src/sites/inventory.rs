//! The sites of the inventory, with the versions that run there.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    constants::{LABEL_SITE, LABEL_SITE_DEPLOYMENT},
    kinds,
};
use baton_engine::names::is_label_value;
use serde::Serialize;
use serde_json::Value;

use super::{
    cluster::{self, Clusters, SiteCluster},
    revision::{self, Report, SiteRevision},
    state::runs,
};
use crate::lists::{ListRequest, Lists, NoAnswer, Question};

/// A question about sites and about the versions that deployments run there.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// Names of the sites; empty for all sites.
    pub names: Vec<String>,
    /// Label selector of the sites, in the syntax of the API; `None` for all sites.
    pub labels: Option<String>,
    /// Namespace of the deployments; `None` for all namespaces.
    pub namespace: Option<String>,
}

/// A site, as a line of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteLine {
    /// The Cluster of the site. A Cluster that does not exist or cannot be read has a name and
    /// nothing else.
    #[serde(flatten)]
    pub cluster: SiteCluster,
    /// The deployments with their versions.
    pub runs: Vec<Running>,
    /// Number of queued revisions, of all deployments.
    pub queue: usize,
    /// The reason that a version failed in the site, or else that the first queued revision waits, in
    /// the words of the manager.
    pub message: String,
}

/// A deployment that runs in a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Namespace of the deployment; `None` if all deployments are in one namespace.
    pub namespace: Option<String>,
    /// Name of the deployment.
    pub deployment: String,
    /// The version that runs; `None` before any has begun.
    pub version: Option<String>,
}

impl Question for Inventory {
    /// The sites, and the reason if Clusters cannot be read. Without Clusters, the sites are those
    /// that revisions name.
    type Answer = (Vec<SiteLine>, Option<String>);

    // There are many sites, and their revisions and Clusters are small.
    const PAGE: u32 = 10_000;

    fn answer(&self, read: &Lists) -> Result<Self::Answer, NoAnswer> {
        let mut of_clusters = ListRequest::all(cluster::path());
        of_clusters.query.labels.clone_from(&self.labels);
        // Only Clusters have the labels of sites.
        let clusters = match self.labels {
            Some(_) => read.required(&of_clusters),
            None => read.optional(&of_clusters),
        };
        // A name that is no valid label value cannot be selected.
        let can_be_asked = self.names.iter().all(|name| is_label_value(name));
        let labels = if self.names.is_empty() || !can_be_asked {
            LABEL_SITE_DEPLOYMENT.to_owned()
        } else {
            format!("{LABEL_SITE} in ({})", self.names.join(","))
        };
        let path = kinds::OBJECT_SET.path(self.namespace.as_deref());
        let revisions = read.required(&ListRequest::labelled(path, labels));
        let mut clusters = cluster::read(clusters?);
        if let Ok(clusters) = &mut clusters {
            clusters.retain(|name, _| self.names.is_empty() || self.names.contains(name));
        }
        let revisions = SiteRevision::read_all(revisions?.objects(), read);
        let lines = lines(&clusters, revisions, self.namespace.is_none());
        Ok((lines, clusters.err()))
    }

    fn trim(object: &mut Value) {
        revision::trim(object);
    }
}

/// The revisions of a site by deployment, with its namespace if there are several.
type Chains = BTreeMap<(Option<String>, String), Vec<SiteRevision>>;

/// The sites in the order of their names, with the versions that run there. If Clusters cannot be
/// read, the sites are those that revisions name. If `with_namespaces` is true, each deployment has
/// its namespace.
pub fn lines(
    clusters: &Clusters,
    revisions: impl IntoIterator<Item = SiteRevision>,
    with_namespaces: bool,
) -> Vec<SiteLine> {
    let mut sites: BTreeMap<String, Chains> = BTreeMap::new();
    for revision in revisions {
        let namespace = with_namespaces.then(|| revision.namespace.clone());
        let owner = (namespace, revision.entry.deployment.clone());
        let site = sites.entry(revision.entry.site.clone()).or_default();
        site.entry(owner).or_default().push(revision);
    }
    let clusters: Vec<SiteCluster> = match clusters {
        Ok(clusters) => clusters.values().cloned().collect(),
        Err(_) => sites.keys().map(|name| SiteCluster::named(name)).collect(),
    };
    let line = |cluster: SiteCluster| {
        let chains = sites.remove(&cluster.name).unwrap_or_default();
        line(cluster, chains)
    };
    clusters.into_iter().map(line).collect()
}

fn line(cluster: SiteCluster, chains: Chains) -> SiteLine {
    let (mut running, mut queue) = (Vec::new(), 0);
    let (mut failed, mut waits) = (BTreeSet::new(), BTreeSet::new());
    for ((namespace, deployment), mut chain) in chains {
        chain.sort_by_key(|one| one.number);
        failed.extend(trouble(&chain));
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
        cluster,
        runs: running,
        queue,
        message: failed.into_iter().chain(waits).next().unwrap_or_default(),
    }
}

/// The reason that the newest version that has begun is not available; `None` if it is, or is only
/// not reported yet.
fn trouble(chain: &[SiteRevision]) -> Option<String> {
    let newest = chain.iter().rev().find(|one| one.is_live())?;
    let Report { reason, message } = newest.report();
    let is_failing = !newest.is_available() && !reason.is_empty() && !message.is_empty();
    is_failing.then(|| format!("{}: {reason}: {message}", newest.entry.version))
}
