//! The differences of versions of an application for sites.

use baton_apis::{SiteApplicationSpec, SiteUpgrade};
use baton_view::{
    chain::member::Revision,
    sites::record::{self, Record},
};
use serde_json::{Value, json};

use crate::{
    cluster::lists,
    connect::Cluster,
    diff::{
        Pair, Section,
        fate::Fate,
        gone,
        revisions::{Side, compare},
    },
    error::Error,
};

/// The differences of two records.
///
/// # Errors
/// If their slices cannot be read, or are gone.
pub(crate) async fn differences(
    cluster: &Cluster,
    from: &Record,
    to: &Record,
) -> Result<Vec<Section>, Error> {
    let after = (&as_revision(to)?, kept_upgrade(to));
    compared(cluster, Some(from), Some(to), after).await
}

/// The differences of a record, if there is one, and an application of a file.
///
/// # Errors
/// If the slices cannot be read, or the content is not as that of a revision is.
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

/// The differences of a record, if there is one, and a content with its upgrade, which may be that of a record as well.
async fn compared(
    cluster: &Cluster,
    from: Option<&Record>,
    to: Option<&Record>,
    (after, upgrade_after): (&Revision, Value),
) -> Result<Vec<Section>, Error> {
    let before = from.map(as_revision).transpose()?;
    let slices = lists::slices(cluster, before.iter().chain([after])).await?;
    let side = |revision: &Revision, record: Option<&Record>| {
        let side = Side::of_revision(revision, slices.content(revision));
        match record {
            Some(record) => complete(record, side),
            None => Ok(side),
        }
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

/// Refuses a record of which parts are lost.
fn complete(record: &Record, side: Side) -> Result<Side, Error> {
    let missing = side.missing_slices();
    if missing.is_empty() {
        return Ok(side);
    }
    Err(Error::Impossible(format!(
        "version {} (controllerrevision {}) cannot be compared: {}",
        record.version,
        record.name,
        gone(&missing)
    )))
}

/// The difference of the ways in which a site is upgraded, as far as they are part of a version.
fn upgrade(from: Option<Value>, to: Value) -> Option<Section> {
    // A field that a record leaves out has its default.
    let whole = |value: Value| {
        let known: SiteUpgrade = serde_json::from_value(value).unwrap_or_default();
        json!({ "method": known.method, "services": known.services })
    };
    let pair = Pair::new(from.map(whole), Some(whole(to)));
    let section = Section::new("upgrade", "upgrade method");
    let is_new = pair.before().is_none();
    (!is_new && !pair.is_same()).then(|| section.fate(Fate::Changed).pair(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_leaves_out_of_the_upgrade_is_the_default() {
        let default = json!({ "method": "PerService" });
        assert_eq!(upgrade(Some(Value::Null), default.clone()), None);
        assert_eq!(upgrade(None, default.clone()), None);
        let other = json!({ "method": "StopAndRestart" });
        assert!(upgrade(Some(default), other).unwrap().differs());
    }

    /// Those count as they are now, whatever version they came with.
    #[test]
    fn what_is_no_part_of_a_version_is_no_difference_of_versions() {
        let kept = json!({ "method": "PerService" });
        let asked = json!({ "skipPatchVersions": true, "windowsApplyToEdits": true });
        assert!(upgrade(Some(kept.clone()), asked).is_none());
        let stopped = json!({ "method": "StopAndRestart" });
        assert!(upgrade(Some(kept), stopped).is_some());
    }
}
