//! Kept versions of an application, with their content.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    chain::{kind::ChainKind, member::Revision},
    object::{text_at, time_at},
};

/// A version of an application as it was at one time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Name of the `ControllerRevision`.
    pub name: String,
    /// The version.
    pub version: String,
    /// Distinguishes the contents of a version that was edited under the same name.
    pub edit: String,
    /// Number of the record, in the order of appearance.
    pub number: i64,
    /// The time when the record was created.
    pub created: Option<Timestamp>,
    /// The whole object, as the server returned it.
    pub object: Value,
}

/// The records of an application, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<Record>);

impl Record {
    /// Reads an object as the server returned it; `None` for an object that is no record, and for a
    /// record that is being deleted: the manager does not use those.
    fn read(object: Value) -> Option<Self> {
        let text = |pointer| text_at(&object, pointer).to_owned();
        let [name, version, edit] = ["/metadata/name", "/data/version", "/data/edit"].map(text);
        let is_deleting = !text_at(&object, "/metadata/deletionTimestamp").is_empty();
        (!version.is_empty() && !is_deleting).then(|| Self {
            name,
            version,
            edit,
            number: object["revision"].as_i64().unwrap_or_default(),
            created: time_at(&object, "/metadata/creationTimestamp"),
            object,
        })
    }

    /// The content as a revision of a site.
    ///
    /// # Errors
    /// If the content cannot be parsed as that of a revision.
    pub fn as_revision(&self) -> Result<Revision, serde_json::Error> {
        let namespace = text_at(&self.object, "/metadata/namespace");
        as_revision(namespace, &self.object["data"])
    }
}

/// An object with phases and probes, as a revision.
///
/// # Errors
/// If the content cannot be parsed as that of a revision.
pub fn as_revision(namespace: &str, content: &Value) -> Result<Revision, serde_json::Error> {
    Revision::parse(json!({
        "apiVersion": "package-operator.run/v1alpha1",
        "kind": ChainKind::ObjectSet.name,
        "metadata": { "name": "", "namespace": namespace },
        "spec": content,
    }))
}

impl Records {
    /// The records among objects as the server returned them.
    #[must_use]
    pub fn from_objects(objects: Vec<Value>) -> Self {
        let mut records: Vec<Record> = objects.into_iter().filter_map(Record::read).collect();
        records.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        Self(records)
    }

    /// All records, oldest first.
    pub fn all(&self) -> &[Record] {
        &self.0
    }

    /// The newest record.
    pub fn newest(&self) -> Option<&Record> {
        self.0.last()
    }

    /// The versions, newest first, each with its newest record.
    pub fn versions(&self) -> Vec<&Record> {
        let mut versions: Vec<&Record> = Vec::new();
        for record in self.0.iter().rev() {
            if !versions.iter().any(|one| one.version == record.version) {
                versions.push(record);
            }
        }
        versions
    }

    /// The newest record of a version, or the record with this name.
    pub fn find(&self, version: &str) -> Option<&Record> {
        let named = || self.0.iter().find(|one| one.name == version);
        self.version(version).or_else(named)
    }

    /// The newest record of a version.
    pub fn version(&self, version: &str) -> Option<&Record> {
        self.0.iter().rev().find(|one| one.version == version)
    }
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
        let mut deleted = record("d", 4, "1.2.0", "x");
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        Records::from_objects(vec![
            deleted,
            record("c", 3, "1.1.0", "y"),
            record("a", 1, "1.0.0", "x"),
            record("b", 2, "1.1.0", "x"),
            json!({ "metadata": { "name": "shop-sites-1" }, "revision": 9, "data": { "sites": [] } }),
        ])
    }

    #[test]
    fn versions_are_found_by_name() {
        let records = records();
        let versions = records.versions();
        let versions: Vec<&str> = versions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(versions, ["c", "a"]);
        assert_eq!(records.find("1.1.0").unwrap().name, "c");
        assert_eq!(records.find("b").unwrap().edit, "x");
        assert!(records.find("9.9").is_none());
    }

    #[test]
    fn a_record_is_converted_to_a_revision() {
        let records = records();
        let revision = records.newest().unwrap().as_revision().unwrap();
        let phases = revision.spec.phases.unwrap();
        assert_eq!(phases[0].slices, ["s"]);
        assert_eq!(revision.metadata.namespace.as_deref(), Some("edge"));
    }
}
