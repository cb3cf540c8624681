//! Reads deployments to sites and their applications, at a fixed number of lists however many sites there are.

use std::collections::BTreeMap;

use baton_apis::{SiteApplication, SiteDeployment, kinds};
use baton_terminal::error::is_not_served;
use baton_view::{
    lists::ListQuery,
    sites::{
        cluster::{self, Clusters, SiteCluster},
        observed::{Observed, placements, revisions},
        overview::Overview,
        record::{self, Records},
        revision::SiteRevision,
        target::{SiteKind, SiteTarget},
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{connect::Cluster, error::Error, output::report_once};

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
            found.extend(revision(&object));
        }),
        clusters(cluster),
        cluster.list_at(&records.path, &records.query),
    );
    read?;
    let placements = placements.unwrap_or_default();
    Ok(Observed::new(deployment, found, clusters, &placements))
}

/// A revision of a site. One that does not say which site it is of is reported and left out.
pub(crate) fn revision(object: &Value) -> Option<SiteRevision> {
    let read = SiteRevision::read(object);
    read.map_err(|left_out| report_once(&format!("warning: {left_out}")))
        .ok()
}

/// Reads all Clusters. That they cannot be read is kept: the right to do so is one for the whole cluster.
async fn clusters(cluster: &Cluster) -> Clusters {
    let mut clusters = BTreeMap::new();
    let take = |object: Value| {
        let cluster = SiteCluster::read(&object);
        clusters.insert(cluster.name.clone(), cluster);
    };
    let read = cluster
        .each_at(&cluster::path(), &ListQuery::default(), take)
        .await;
    read.map(|()| clusters).map_err(|error| error.to_string())
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
    let found = cluster.list_at(&path, &ListQuery::default()).await;
    let found = found.map_err(|error| unserved(cluster, SiteKind::Deployment, error))?;
    let parsed = found.into_iter().filter_map(|object| {
        let parsed = serde_json::from_value::<SiteDeployment>(object).ok()?;
        (parsed.spec.application == application).then_some(parsed)
    });
    Ok(parsed.collect())
}

/// The versions of an application that are kept.
///
/// # Errors
/// If they cannot be read.
pub(crate) async fn records(cluster: &Cluster, application: &str) -> Result<Records, Error> {
    let request = record::records(&cluster.namespace, application);
    let objects = cluster.list_at(&request.path, &request.query).await?;
    Ok(Records::from_objects(objects))
}

/// An application with its deployments and versions: the object, and two lists.
///
/// # Errors
/// If it does not exist or something of it cannot be read.
pub(crate) async fn overview(cluster: &Cluster, name: &str) -> Result<Overview, Error> {
    let application = application(cluster, name).await?;
    let (deployments, records) =
        futures::join!(deployments_of(cluster, name), records(cluster, name));
    Ok(Overview {
        application,
        deployments: deployments?,
        records: records?,
    })
}

async fn get(cluster: &Cluster, target: &SiteTarget) -> Result<Value, Error> {
    let path = target.path(&cluster.namespace);
    let read = cluster.send(http::Method::GET, &path, None).await;
    read.map_err(|error| match unserved(cluster, target.kind, error) {
        error if error.is_code(404) => not_found(target, &cluster.namespace),
        error => error,
    })
}

/// Says that a kind is not served, if that is the error.
pub(crate) fn unserved(cluster: &Cluster, kind: SiteKind, error: Error) -> Error {
    match error {
        Error::Refused(status) if is_not_served(&status) => Error::NoSites {
            server: cluster.server.clone(),
            kind: kind.plural,
        },
        error => error,
    }
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
