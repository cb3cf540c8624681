//! The sites of the inventory, with what runs in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    cluster::{Clusters, SiteCluster},
    revision::SiteRevision,
    state::runs,
};

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteLine {
    /// Its Cluster; where that does not exist or cannot be read, it has a name and nothing else.
    #[serde(flatten)]
    pub cluster: SiteCluster,
    /// What runs there.
    pub runs: Vec<Running>,
    /// How many revisions wait there, of all deployments.
    pub queue: usize,
    /// What the first revision in a queue waits for, in the words of the manager.
    pub message: String,
}

/// What a deployment has in a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Its namespace; `None` where all are of one.
    pub namespace: Option<String>,
    /// Its name.
    pub deployment: String,
    /// `None` before any has begun.
    pub version: Option<String>,
}

/// A deployment, perhaps with its namespace.
pub type Owner = (Option<String>, String);

/// The revisions of sites, by site and deployment.
#[derive(Clone, Debug, Default)]
pub struct Chains(BTreeMap<String, BTreeMap<Owner, Vec<SiteRevision>>>);

impl Chains {
    /// Adds a revision; with its namespace where those of several are looked at.
    pub fn add(&mut self, namespace: Option<String>, revision: SiteRevision) {
        let site = self.0.entry(revision.entry.site.clone()).or_default();
        let owner = (namespace, revision.entry.deployment.clone());
        site.entry(owner).or_default().push(revision);
    }

    /// The sites with what runs in them, by name: the Clusters, or where those cannot be read the sites that have
    /// revisions.
    #[must_use]
    pub fn lines(mut self, clusters: &Clusters) -> Vec<SiteLine> {
        let clusters: Vec<SiteCluster> = match clusters {
            Ok(clusters) => clusters.values().cloned().collect(),
            Err(_) => self.0.keys().map(|name| named(name)).collect(),
        };
        let line = |cluster: SiteCluster| {
            let chains = self.0.remove(&cluster.name).unwrap_or_default();
            line(cluster, chains)
        };
        clusters.into_iter().map(line).collect()
    }
}

/// A site of which only the name is known.
fn named(name: &str) -> SiteCluster {
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
        cluster,
        runs: running,
        queue,
        message: waits.into_iter().next().unwrap_or_default(),
    }
}
