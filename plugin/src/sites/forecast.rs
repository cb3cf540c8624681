//! The effect of a file on an application for sites.

use baton_apis::{SiteApplication, SiteDeployment, kinds};
use baton_cluster::Cluster;
use baton_view::{
    diff::{Section, Topic, note::ObjectNote, outcome::DiffOutcome},
    object::text_at,
    sites::{
        compare::terms,
        forecast::{Effect, rollouts_of},
        record::Records,
        target::SiteTarget,
    },
};
use serde_json::Value;

use super::{compare::differences_from_file, read::read};
use crate::{diff::check::check_apply, error::Error, subject::check_name};

/// The changes that an apply of an application from a file would cause, and the deployments that
/// would roll it out to sites.
///
/// # Errors
/// If the file contains no valid application, or a live object cannot be read.
pub(crate) async fn forecast(cluster: &Cluster, object: &Value) -> Result<Vec<Section>, Error> {
    let name = text_at(object, "/metadata/name");
    check_name(name)?;
    let target = SiteTarget::application(name);
    let wanted: SiteApplication = serde_json::from_value(object.clone())
        .map_err(|error| Error::Usage(format!("{target}: {error}")))?;
    let namespace = text_at(object, "/metadata/namespace");
    let cluster = cluster.within(namespace);
    let before = match read::<SiteApplication>(&cluster, &target).await {
        Ok(application) => Some(application),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let records: Records = read(&cluster, &target).await?;
    let sections = differences_from_file(&cluster, records.newest(), &wanted.spec).await?;
    let deployments: Vec<SiteDeployment> = read(&cluster, &target).await?;
    let differs = !sections.is_empty();
    let fate = match &before {
        None => DiffOutcome::Added,
        Some(before) if before.spec != wanted.spec || differs => DiffOutcome::Changed,
        Some(_) => DiffOutcome::Unchanged,
    };
    let version = wanted.spec.version.clone();
    let found = Effect::of(&wanted.spec, &records, differs);
    let deployments = rollouts_of(&deployments, &version);
    let topic = Topic::Application(
        &kinds::SITE_APPLICATION,
        namespace.to_owned(),
        name.to_owned(),
    );
    let first = Section::new(topic).fate(fate);
    let first = first.notes([ObjectNote::Version(version, found, deployments)]);
    let path = target.path(namespace);
    let mut all = vec![check_apply(&cluster, object, &path, first).await?];
    all.extend(terms(before.as_ref(), &wanted));
    all.extend(sections);
    Ok(all)
}
