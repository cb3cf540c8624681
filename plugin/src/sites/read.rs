//! What is known of a deployment to sites: itself, the revisions of its sites, and the sites.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    SiteApplication, SiteDeployment, SiteDeploymentStatus, constants::LABEL_SITE_DEPLOYMENT, kinds,
    url::escape,
};
use baton_sites::placement::record;
use baton_view::lists::{ListQuery, ListRequest};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use super::{
    cluster::{self, Clusters},
    revision::SiteRevision,
    target::{SiteKind, SiteTarget},
};
use crate::{connect::Cluster, error::Error};

/// A deployment to sites with all that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) deployment: SiteDeployment,
    /// The revisions of each site, the oldest first.
    pub(crate) chains: BTreeMap<String, Vec<SiteRevision>>,
    pub(crate) clusters: Clusters,
    /// The sites that were chosen; `None` where nobody has said.
    pub(crate) placed: Option<BTreeSet<String>>,
}

impl Observed {
    /// From what the server holds; `placements` are the records of which sites were chosen.
    pub(crate) fn new<'v>(
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

    pub(crate) fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> SiteTarget {
        SiteTarget::new(SiteKind::Deployment, self.name())
    }

    /// All sites that are placed or have revisions.
    pub(crate) fn sites(&self) -> BTreeSet<&str> {
        let placed = self.placed.iter().flatten();
        let sites = self.chains.keys().chain(placed);
        sites.map(String::as_str).collect()
    }
}

/// The sites of the record of a deployment that is in force.
fn placed<'v>(
    deployment: &SiteDeployment,
    placements: impl IntoIterator<Item = &'v Value>,
) -> Option<BTreeSet<String>> {
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let placements = placements.into_iter();
    let records: Vec<_> = placements
        .flat_map(ControllerRevision::deserialize)
        .collect();
    let in_force = *record::newest_first(&records, uid).first()?;
    Some(record::sites(in_force)?.into_iter().collect())
}

/// What was reported of a deployment.
pub(crate) fn status(deployment: &SiteDeployment) -> SiteDeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

/// Revisions of a deployment; of one site where that is named.
pub(crate) fn revisions(namespace: &str, deployment: &str) -> ListRequest {
    ListRequest {
        path: kinds::OBJECT_SET.path(Some(namespace)),
        query: labelled(deployment),
    }
}

/// The records of which sites a deployment has.
pub(crate) fn placements(namespace: &str, deployment: &str) -> ListRequest {
    ListRequest {
        path: records_path(namespace),
        query: labelled(deployment),
    }
}

/// URL path of all records of a namespace.
pub(crate) fn records_path(namespace: &str) -> String {
    format!(
        "/apis/apps/v1/namespaces/{}/controllerrevisions",
        escape(namespace)
    )
}

fn labelled(deployment: &str) -> ListQuery {
    ListQuery::labelled(format!("{LABEL_SITE_DEPLOYMENT}={deployment}"))
}

/// Reads a deployment with its sites, however many: the object, and three lists.
///
/// # Errors
/// If it does not exist, the kind is not served, or its revisions cannot be read. That Clusters cannot be is kept;
/// which sites were chosen is then, as without that record, known from the revisions alone.
pub(crate) async fn read(cluster: &Cluster, target: &SiteTarget) -> Result<Observed, Error> {
    let deployment = deployment(cluster, target).await?;
    let (namespace, name) = (cluster.namespace.as_str(), target.name.as_str());
    let mut found = Vec::new();
    let (source, records) = (revisions(namespace, name), placements(namespace, name));
    let (read, clusters, placements) = futures::join!(
        cluster.each_at(&source.path, &source.query, |object| {
            found.extend(SiteRevision::read(&object));
        }),
        cluster::read(cluster),
        cluster.list_at(&records.path, &records.query),
    );
    read?;
    let placements = placements.unwrap_or_default();
    Ok(Observed::new(deployment, found, clusters, &placements))
}

/// Reads a deployment itself.
///
/// # Errors
/// If it does not exist or cannot be read, or the kind is not served.
pub(crate) async fn deployment(
    cluster: &Cluster,
    target: &SiteTarget,
) -> Result<SiteDeployment, Error> {
    parse(get(cluster, target).await?, target)
}

/// Reads an application itself.
///
/// # Errors
/// If it does not exist or cannot be read, or the kind is not served.
pub(crate) async fn application(cluster: &Cluster, name: &str) -> Result<SiteApplication, Error> {
    let target = SiteTarget::new(SiteKind::Application, name);
    parse(get(cluster, &target).await?, &target)
}

/// The deployments of a namespace that bring an application to sites.
///
/// # Errors
/// If they cannot be read.
pub(crate) async fn deployments_of(
    cluster: &Cluster,
    application: &str,
) -> Result<Vec<SiteDeployment>, Error> {
    let path = kinds::SITE_DEPLOYMENT.path(Some(&cluster.namespace));
    let found = cluster.list_at(&path, &ListQuery::default()).await?;
    let parsed = found.into_iter().filter_map(|object| {
        let parsed = serde_json::from_value::<SiteDeployment>(object).ok()?;
        (parsed.spec.application == application).then_some(parsed)
    });
    Ok(parsed.collect())
}

async fn get(cluster: &Cluster, target: &SiteTarget) -> Result<Value, Error> {
    let path = target.kind.path(Some(&cluster.namespace));
    let mut found = cluster
        .list_at(&path, &ListQuery::named(&target.name))
        .await?;
    found
        .pop()
        .ok_or_else(|| not_found(target, &cluster.namespace))
}

/// As kubectl says it.
pub(crate) fn not_found(target: &SiteTarget, namespace: &str) -> Error {
    Error::NotFound(format!(
        "{} {:?} not found in namespace {namespace:?}",
        target.kind.plural, target.name
    ))
}

/// An object of a kind of ours.
///
/// # Errors
/// If it is not as the kind is.
pub(crate) fn parse<T: DeserializeOwned>(object: Value, target: &SiteTarget) -> Result<T, Error> {
    serde_json::from_value(object)
        .map_err(|error| Error::Impossible(format!("{target} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::sites::fixtures::{mid_rollout, observed};

    /// The manager has deleted it, or somebody else has: it makes its choice anew or from the one before.
    #[test]
    fn a_record_that_is_being_deleted_chooses_nothing() {
        let mut objects = mid_rollout();
        let is_newest = |it: &&mut serde_json::Value| it["metadata"]["name"] == "shop-sites-3";
        let newest = objects.iter_mut().find(is_newest).unwrap();
        newest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(observed(&objects).placed.unwrap().contains("us-1"));
    }
}
