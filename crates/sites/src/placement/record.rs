//! The records of which sites deployments have chosen. Each is a `ControllerRevision` that the deployment owns, whose
//! `revision` is the generation that the sites were chosen for.

use std::{cmp::Reverse, ops::Deref};

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::Deserialize;

#[derive(Deserialize)]
struct Data {
    sites: Vec<String>,
}

/// The records of the deployment with this uid, the one in force first: of two of one generation that is the one that
/// was written last. What is being deleted chooses nothing.
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

/// The sites that a record names; `None` where somebody has spoilt it.
pub fn sites(record: &ControllerRevision) -> Option<Vec<String>> {
    let data = Data::deserialize(&record.data.as_ref()?.0).ok()?;
    Some(data.sites)
}
