//! The records of the chosen sites of deployments. Each is a `ControllerRevision` that the
//! deployment owns; its `revision` is the generation that the sites were chosen for.

use std::{cmp::Reverse, ops::Deref};

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::Deserialize;

#[derive(Deserialize)]
struct Data {
    sites: Vec<String>,
}

/// The record of the deployment with this UID and generation that is in force, and the others, which
/// are not needed. Of two records of the same generation, the one that was written last is in force.
/// Records that are being deleted do not count.
///
/// A record of a later generation is one that the controller has not written.
pub fn in_force<R: Deref<Target = ControllerRevision>>(
    records: impl IntoIterator<Item = R>,
    uid: &str,
    generation: i64,
) -> (Option<R>, Vec<R>) {
    let is_own = |record: &R| {
        let mut owners = record.metadata.owner_references.iter().flatten();
        record.metadata.deletion_timestamp.is_none() && owners.any(|owner| owner.uid == uid)
    };
    let mut records: Vec<_> = records.into_iter().filter(is_own).collect();
    let version = |record: &R| {
        let version = record.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse::<u64>().ok())
    };
    let mut others = records
        .extract_if(.., |record| record.revision > generation)
        .collect::<Vec<_>>();
    records.sort_by_key(|record| Reverse((record.revision, version(record))));
    let mut records = records.into_iter();
    let in_force = records.next();
    others.extend(records);
    (in_force, others)
}

/// The sites of a record; `None` if the record is invalid.
pub fn sites(record: &ControllerRevision) -> Option<Vec<String>> {
    let data = Data::deserialize(&record.data.as_ref()?.0).ok()?;
    Some(data.sites)
}
