//! The rollouts of a deployment to sites, and the versions that can be rolled out.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::conditions::ABORTED;
use baton_engine::condition_list::find_true;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    observed::{Observed, status},
    record::Records,
    state::runs,
};

/// A rollout with revisions that still exist, or a kept version without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRow {
    /// Number of the rollout; `None` for a version without revisions.
    pub rollout: Option<i64>,
    /// The version that the rollout brings.
    pub version: String,
    /// Number of sites with a revision of the rollout.
    pub given: usize,
    /// Number of sites that run the version, brought by any rollout; `None` if a later line counts
    /// them.
    pub runs: Option<usize>,
    /// The time when the first site got the revision, or when the version appeared.
    pub created: Option<Timestamp>,
    /// True for the version that the deployment brings now.
    pub is_current: bool,
    /// True if the version is kept, so that a rollback can bring it; `None` if the records cannot
    /// be read.
    pub kept: Option<bool>,
    /// The note on the rollout, if it has one.
    #[serde(skip)]
    pub note: Option<RolloutNote>,
}

/// A fact that distinguishes a rollout from a regular one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutNote {
    /// The rollout restored a version in sites where another rollout had failed.
    PutBack,
    /// The rollout was aborted; contains the message of the manager.
    Aborted(String),
}

/// The rollouts of a deployment by number, preceded by the kept versions that it never brought.
/// `records` is `None` if they cannot be read.
pub fn lines(observed: &Observed, records: Option<&Records>) -> Vec<HistoryRow> {
    let status = status(&observed.deployment);
    let mut rollouts: BTreeMap<(i64, &str), HistoryRow> = BTreeMap::new();
    for chain in observed.chains.values() {
        let mut counted = BTreeSet::new();
        for revision in chain.iter().filter(|one| !one.is_skipped()) {
            let entry = &revision.entry;
            let key = (entry.rollout, entry.version.as_str());
            let line = rollouts.entry(key).or_default();
            line.created = match (line.created, revision.reported.created) {
                (Some(before), Some(own)) => Some(before.min(own)),
                (before, own) => before.or(own),
            };
            if entry.is_rollback {
                line.note = Some(RolloutNote::PutBack);
            }
            if counted.insert(key) {
                line.given += 1;
            }
        }
    }
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for version in observed.chains.values().filter_map(|chain| runs(chain)) {
        *running.entry(version).or_default() += 1;
    }
    let kept = |version: &str| {
        let mut all = records?.all().iter();
        Some(all.any(|record| record.version == version))
    };
    let mut lines: Vec<HistoryRow> = rollouts
        .into_iter()
        .map(|((rollout, version), line)| HistoryRow {
            rollout: Some(rollout),
            version: version.to_owned(),
            is_current: status.rollout == Some(rollout)
                && status.version.as_deref() == Some(version),
            kept: kept(version),
            ..line
        })
        .collect();
    // The newest line of a version counts the sites that run it.
    for line in lines.iter_mut().rev() {
        line.runs = running.remove(line.version.as_str());
    }
    if let Some(aborted) = find_true(&status.conditions, ABORTED)
        && let Some(line) = lines.iter_mut().find(|line| line.is_current)
    {
        line.note = Some(RolloutNote::Aborted(aborted.message.clone()));
    }
    let mut all: Vec<HistoryRow> = records.map_or_else(Vec::new, |records| unused(records, &lines));
    all.append(&mut lines);
    all
}

/// The kept versions without a revision, oldest first.
fn unused(records: &Records, lines: &[HistoryRow]) -> Vec<HistoryRow> {
    let versions = records.versions().into_iter().rev();
    let unused = versions.filter(|record| !lines.iter().any(|line| line.version == record.version));
    unused
        .map(|record| HistoryRow {
            version: record.version.clone(),
            created: record.created,
            kept: Some(true),
            ..HistoryRow::default()
        })
        .collect()
}
