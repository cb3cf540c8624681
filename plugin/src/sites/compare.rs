//! The differences of two versions of an application for sites.

use baton_apis::SiteApplicationSpec;
use baton_cluster::{Cluster, lists};
use baton_steering::diff::complete;
use baton_view::{
    chain::member::Revision,
    diff::{
        Section,
        revisions::{RevisionSide, compare},
    },
    sites::{
        compare::upgrade,
        record::{self, Record},
    },
};
use serde_json::{Value, json};

use crate::error::Error;

/// The differences of two recorded versions.
///
/// # Errors
/// If their slices cannot be read or do not exist.
pub(crate) async fn differences(
    cluster: &Cluster,
    from: &Record,
    to: &Record,
) -> Result<Vec<Section>, Error> {
    let after = (&as_revision(to)?, kept_upgrade(to));
    compared(cluster, Some(from), Some(to), after).await
}

/// The differences between a recorded version, if there is one, and an application from a file.
///
/// # Errors
/// If slices cannot be read, or the template is not valid.
pub(crate) async fn differences_from_file(
    cluster: &Cluster,
    from: Option<&Record>,
    spec: &SiteApplicationSpec,
) -> Result<Vec<Section>, Error> {
    let content = json!(spec.template.spec);
    let after = record::as_revision(&cluster.namespace, &content)
        .map_err(|error| Error::Usage(format!("the template: {error}")))?;
    compared(cluster, from, None, (&after, json!(spec.upgrade))).await
}

/// The differences between a recorded version, if there is one, and a content with its upgrade.
///
/// `to` is the record of the second content, if it is recorded.
async fn compared(
    cluster: &Cluster,
    from: Option<&Record>,
    to: Option<&Record>,
    (after, upgrade_after): (&Revision, Value),
) -> Result<Vec<Section>, Error> {
    let before = from.map(as_revision).transpose()?;
    let slices = lists::slices(cluster, before.iter().chain([after])).await?;
    let side = |revision: &Revision, record: Option<&Record>| {
        let side = RevisionSide::of_revision(revision, slices.content(revision));
        let Some(Record { version, name, .. }) = record else {
            return Ok(side);
        };
        complete(side, || {
            format!("version {version} (controllerrevision {name})")
        })
    };
    let before = before.map(|revision| side(&revision, from)).transpose()?;
    let mut sections = compare(&before.unwrap_or_default(), &side(after, to)?);
    sections.extend(upgrade(from.map(kept_upgrade), upgrade_after));
    Ok(sections)
}

fn as_revision(record: &Record) -> Result<Revision, Error> {
    let revision = record.as_revision();
    revision
        .map_err(|error| Error::Impossible(format!("controllerrevision {}: {error}", record.name)))
}

fn kept_upgrade(record: &Record) -> Value {
    record.object["data"]["upgrade"].clone()
}
