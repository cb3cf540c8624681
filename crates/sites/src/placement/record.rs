//! The records of the chosen sites of deployments. Each is a `ControllerRevision` that the
//! deployment owns; its `revision` is the generation that the sites were chosen for.

use std::{cmp::Reverse, ops::Deref};

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::Deserialize;

#[derive(Deserialize)]
struct Data {
    sites: Vec<String>,
}

/// The records of the deployment with this UID, the one in force first. Of two records of the same
/// generation, the one that was written last is in force. A record that is being deleted does not
/// count.
pub fn newest_first<R: Deref<Target = ControllerRevision>>(
    records: impl IntoIterator<Item = R>,
    uid: &str,
) -> Vec<R> {
    let is_own = |record: &R| {
        let mut owners = record.metadata.owner_references.iter().flatten();
        record.metadata.deletion_timestamp.is_none() && owners.any(|owner| owner.uid == uid)
    };
    let mut records: Vec<_> = records.into_iter().filter(is_own).collect();
    let version = |record: &R| {
        let version = record.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse::<u64>().ok())
    };
    records.sort_by_key(|record| Reverse((record.revision, version(record))));
    records
}

/// The sites of a record; `None` if the record is invalid.
pub fn sites(record: &ControllerRevision) -> Option<Vec<String>> {
    let data = Data::deserialize(&record.data.as_ref()?.0).ok()?;
    Some(data.sites)
}
