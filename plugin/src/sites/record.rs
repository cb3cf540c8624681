//! The versions of an application that are kept, with their content.

use baton_apis::{SiteApplicationSpec, SiteUpgrade, constants::LABEL_SITE_APPLICATION};
use baton_view::{
    chain::{kind::ChainKind, member::Revision},
    lists::ListQuery,
    object::text_at,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{read::records_path, revision::time_at};
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
    output::format::first,
};

/// How many versions a message names.
const NAMED: usize = 10;

/// A version of an application as it was at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Tells apart what the version was before and after a change without another version.
    pub(crate) edit: String,
    /// By order of appearance.
    pub(crate) number: i64,
    pub(crate) created: Option<Timestamp>,
    /// All of it, as the server has it.
    pub(crate) object: Value,
}

/// The records of an application, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Vec<Record>);

impl Record {
    /// From an object as the server has it; `None` for a record of something else.
    fn read(object: Value) -> Option<Self> {
        let text = |pointer| text_at(&object, pointer).to_owned();
        let [name, version, edit] = ["/metadata/name", "/data/version", "/data/edit"].map(text);
        (!version.is_empty()).then(|| Self {
            name,
            version,
            edit,
            number: object["revision"].as_i64().unwrap_or_default(),
            created: time_at(&object, "/metadata/creationTimestamp"),
            object,
        })
    }

    /// The content as that of a revision of a site.
    ///
    /// # Errors
    /// If it is not as the content of a revision is.
    fn as_revision(&self) -> Result<Revision, Error> {
        let namespace = text_at(&self.object, "/metadata/namespace");
        as_revision(namespace, &self.object["data"]).map_err(|error| {
            Error::Impossible(format!("controllerrevision {}: {error}", self.name))
        })
    }

    fn upgrade(&self) -> Value {
        self.object["data"]["upgrade"].clone()
    }
}

/// Something with phases and probes as if it were a revision.
fn as_revision(namespace: &str, content: &Value) -> Result<Revision, serde_json::Error> {
    Revision::parse(json!({
        "apiVersion": "package-operator.run/v1alpha1",
        "kind": ChainKind::ObjectSet.name,
        "metadata": { "name": "", "namespace": namespace },
        "spec": content,
    }))
}

impl Records {
    /// Reads those of an application, by one list.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) async fn read(cluster: &Cluster, application: &str) -> Result<Self, Error> {
        let query = ListQuery::labelled(format!("{LABEL_SITE_APPLICATION}={application}"));
        let path = records_path(&cluster.namespace);
        Ok(Self::from_objects(cluster.list_at(&path, &query).await?))
    }

    pub(crate) fn from_objects(objects: Vec<Value>) -> Self {
        let mut records: Vec<Record> = objects.into_iter().filter_map(Record::read).collect();
        records.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        Self(records)
    }

    pub(crate) fn all(&self) -> &[Record] {
        &self.0
    }

    /// The newest record.
    pub(crate) fn newest(&self) -> Option<&Record> {
        self.0.last()
    }

    /// The versions, the newest first, each with its newest record.
    pub(crate) fn versions(&self) -> Vec<&Record> {
        let mut versions: Vec<&Record> = Vec::new();
        for record in self.0.iter().rev() {
            if !versions.iter().any(|one| one.version == record.version) {
                versions.push(record);
            }
        }
        versions
    }

    /// The newest record of a version, or the record of a name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(&self, version: &str) -> Result<&Record, Error> {
        let named = self.0.iter().find(|one| one.name == version);
        self.version(version).or_else(|error| named.ok_or(error))
    }

    /// The newest record of a version.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn version(&self, version: &str) -> Result<&Record, Error> {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find(|one| one.version == version);
        found.ok_or_else(|| {
            Error::NotFound(format!(
                "version {version} is not kept; {}",
                kept(self.versions().iter().map(|one| one.version.clone()))
            ))
        })
    }
}

/// `there are 1.2.0, 1.1.0`
pub(crate) fn kept(versions: impl Iterator<Item = String>) -> String {
    let versions: Vec<String> = versions.collect();
    match versions.as_slice() {
        [] => "none is".to_owned(),
        [only] => format!("there is {only}"),
        all => format!("there are {}", first(all, NAMED)),
    }
}

/// The differences of two records.
///
/// # Errors
/// If their slices cannot be read, or are gone.
pub(crate) async fn differences(
    cluster: &Cluster,
    from: &Record,
    to: &Record,
) -> Result<Vec<Section>, Error> {
    let (before, after) = (from.as_revision()?, to.as_revision()?);
    let slices = lists::slices(cluster, [&before, &after]).await?;
    let sides = [(from, before), (to, after)].map(|(record, revision)| {
        let side = Side::of_revision(&revision, slices.content(&revision));
        complete(record, side)
    });
    let [before, after] = sides;
    let mut sections = compare(&before?, &after?);
    sections.extend(upgrade(Some(from.upgrade()), to.upgrade()));
    Ok(sections)
}

/// What an application of a file has differently from a record, or has at all.
///
/// # Errors
/// If the slices cannot be read, or the content is not as that of a revision is.
pub(crate) async fn differences_from_file(
    cluster: &Cluster,
    from: Option<&Record>,
    spec: &SiteApplicationSpec,
) -> Result<Vec<Section>, Error> {
    let content = json!(spec.template.spec);
    let after = as_revision(&cluster.namespace, &content)
        .map_err(|error| Error::Usage(format!("the template: {error}")))?;
    let before = from.map(Record::as_revision).transpose()?;
    let slices = lists::slices(cluster, before.iter().chain([&after])).await?;
    let side = |revision: &Revision| Side::of_revision(revision, slices.content(revision));
    let before = match (from, &before) {
        (Some(record), Some(revision)) => complete(record, side(revision))?,
        _ => Side::default(),
    };
    let mut sections = compare(&before, &side(&after));
    let wanted = json!(spec.upgrade);
    sections.extend(upgrade(from.map(Record::upgrade), wanted));
    Ok(sections)
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

/// How the way in which a site is upgraded differs, as far as it is part of a version.
fn upgrade(from: Option<Value>, to: Value) -> Option<Section> {
    // What a record leaves out is the default.
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

    fn records() -> Records {
        let record = |name: &str, number: i64, version: &str, edit: &str| {
            json!({
                "metadata": { "name": name, "namespace": "edge" }, "revision": number,
                "data": {
                    "version": version, "edit": edit, "phases": [{ "name": "main", "slices": ["s"] }],
                    "availabilityProbes": [],
                },
            })
        };
        Records::from_objects(vec![
            record("c", 3, "1.1.0", "y"),
            record("a", 1, "1.0.0", "x"),
            record("b", 2, "1.1.0", "x"),
            json!({ "metadata": { "name": "shop-sites-1" }, "revision": 9, "data": { "sites": [] } }),
        ])
    }

    #[test]
    fn versions_are_found_by_what_they_are_called() {
        let records = records();
        let versions = records.versions();
        let versions: Vec<&str> = versions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(versions, ["c", "a"]);
        assert_eq!(records.find("1.1.0").unwrap().name, "c");
        assert_eq!(records.find("b").unwrap().edit, "x");
        assert_eq!(
            records.find("9.9").unwrap_err().to_string(),
            "version 9.9 is not kept; there are 1.1.0, 1.0.0"
        );
        assert_eq!(kept([].into_iter()), "none is");
    }

    #[test]
    fn a_record_is_as_a_revision() {
        let records = records();
        let revision = records.newest().unwrap().as_revision().unwrap();
        let phases = revision.spec.phases.unwrap();
        assert_eq!(phases[0].slices, ["s"]);
        assert_eq!(revision.metadata.namespace.as_deref(), Some("edge"));
    }

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
