//! A deployment to sites, with the revisions of its sites and the Clusters.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{SiteDeployment, SiteDeploymentStatus};
use baton_sites::placement::record;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::Deserialize as _;
use serde_json::Value;

use super::{cluster::Clusters, revision::SiteRevision, target::SiteTarget};

/// A deployment to sites with the objects that belong to it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The deployment.
    pub deployment: SiteDeployment,
    /// The revisions of each site, oldest first.
    pub chains: BTreeMap<String, Vec<SiteRevision>>,
    /// The sites of the inventory.
    pub clusters: Clusters,
    /// The selected sites; `None` if no record has them.
    pub placed: Option<BTreeSet<String>>,
}

impl Observed {
    /// Assembles objects of the server; `placements` are the records of the selected sites.
    pub fn new<'v>(
        deployment: SiteDeployment,
        revisions: impl IntoIterator<Item = SiteRevision>,
        clusters: Clusters,
        placements: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let mut chains: BTreeMap<String, Vec<SiteRevision>> = BTreeMap::new();
        for revision in revisions {
            let site = revision.entry.site.clone();
            chains.entry(site).or_default().push(revision);
        }
        for chain in chains.values_mut() {
            chain.sort_by_key(|one| (one.number, one.reported.created, one.name.clone()));
        }
        let placed = placed(&deployment, placements);
        Self {
            deployment,
            chains,
            clusters,
            placed,
        }
    }

    /// Name of the deployment.
    pub fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    /// The reference to the deployment, as users type it.
    pub fn target(&self) -> SiteTarget {
        SiteTarget::deployment(self.name())
    }

    /// All sites that are selected or have revisions.
    pub(super) fn sites(&self) -> BTreeSet<&str> {
        let placed = self.placed.iter().flatten();
        let sites = self.chains.keys().chain(placed);
        sites.map(String::as_str).collect()
    }
}

/// The sites in the effective record of a deployment.
fn placed<'v>(
    deployment: &SiteDeployment,
    placements: impl IntoIterator<Item = &'v Value>,
) -> Option<BTreeSet<String>> {
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let placements = placements.into_iter();
    let records: Vec<_> = placements
        .flat_map(ControllerRevision::deserialize)
        .collect();
    // The deployment may have been read before the record.
    let (in_force, _) = record::in_force(&records, uid, i64::MAX);
    Some(record::sites(in_force?)?.into_iter().collect())
}

/// The status of a deployment; the default value if nothing was reported.
pub fn status(deployment: &SiteDeployment) -> SiteDeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::sites::fixtures::{mid_rollout, observed};

    /// The record was deleted by the manager or by others: the sites are selected again, or read
    /// from the record before.
    #[test]
    fn a_record_that_is_being_deleted_chooses_nothing() {
        let mut objects = mid_rollout();
        let is_newest = |it: &&mut serde_json::Value| it["metadata"]["name"] == "shop-sites-3";
        let newest = objects.iter_mut().find(is_newest).unwrap();
        newest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(observed(&objects).placed.unwrap().contains("us-1"));
    }
}
