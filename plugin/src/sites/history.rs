//! What was rolled out over the sites of a deployment, and what can be.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::condition_list::find;
use baton_terminal::time::age;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::{
    read::{Observed, status},
    record::Records,
    state::runs,
};
use crate::output::{
    Output, Paint,
    table::{Cell, Table},
};

/// A rollout, as far as revisions of it are left; or a version that is kept and of which none is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// Its number; `None` for a version without revisions.
    pub(crate) rollout: Option<i64>,
    pub(crate) version: String,
    /// How many sites have a revision of it.
    pub(crate) given: usize,
    /// How many sites run the version, whichever rollout brought it there; `None` where a later line counts them.
    pub(crate) runs: Option<usize>,
    /// When the first site got it, or when the version appeared.
    pub(crate) created: Option<Timestamp>,
    /// Whether it is what the deployment brings now.
    pub(crate) is_current: bool,
    /// Whether the version is kept, so that a rollback can bring it; `None` where nobody can tell.
    pub(crate) kept: Option<bool>,
    pub(crate) note: String,
}

/// The rollouts of a deployment by number, after the versions that it has never brought; `None` for records that cannot
/// be read.
pub(crate) fn lines(observed: &Observed, records: Option<&Records>) -> Vec<Line> {
    let status = status(&observed.deployment);
    let mut rollouts: BTreeMap<(i64, &str), Line> = BTreeMap::new();
    for (site, chain) in &observed.chains {
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
                "put back where a rollout failed".clone_into(&mut line.note);
            }
            if counted.insert((key, site)) {
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
    let mut lines: Vec<Line> = rollouts
        .into_iter()
        .map(|((rollout, version), line)| Line {
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
    note_abort(observed, &mut lines);
    let mut all: Vec<Line> = records.map_or_else(Vec::new, |records| unused(records, &lines));
    all.append(&mut lines);
    all
}

/// The versions that are kept and of which there is no revision, the oldest first.
fn unused(records: &Records, lines: &[Line]) -> Vec<Line> {
    let versions = records.versions().into_iter().rev();
    let unused = versions.filter(|record| !lines.iter().any(|line| line.version == record.version));
    unused
        .map(|record| Line {
            version: record.version.clone(),
            created: record.created,
            kept: Some(true),
            ..Line::default()
        })
        .collect()
}

fn note_abort(observed: &Observed, lines: &mut [Line]) {
    let status = status(&observed.deployment);
    let aborted = find(&status.conditions, baton_apis::conditions::ABORTED);
    if let Some(aborted) = aborted.filter(|condition| condition.status == "True")
        && let Some(line) = lines.iter_mut().find(|line| line.is_current)
    {
        line.note = format!("aborted: {}", aborted.message);
    }
}

/// One line per rollout, the newest last. The present one is marked with an asterisk.
pub(crate) fn table(lines: &[Line], output: Output, now: Timestamp) -> String {
    let mut table = Table::new(&[
        "", "ROLLOUT", "VERSION", "SITES", "RUNS", "AGE", "KEPT", "NOTE",
    ]);
    for line in lines {
        let kept = match line.kept {
            Some(true) => Cell::from("yes"),
            Some(false) => Cell::painted(Paint::Warn, "no"),
            None => Cell::from("<unknown>"),
        };
        table.row([
            Cell::from(if line.is_current { "*" } else { "" }),
            line.rollout
                .map_or_else(|| "<none>".to_owned(), |rollout| rollout.to_string())
                .into(),
            if line.is_current {
                Cell::painted(Paint::Strong, &line.version)
            } else {
                line.version.as_str().into()
            },
            line.given.to_string().into(),
            line.runs.unwrap_or(0).to_string().into(),
            age(line.created, now).into(),
            kept,
            line.note.as_str().into(),
        ]);
    }
    table.render(output)
}

/// The versions of an application that are kept, the oldest first, with how many records each has.
pub(crate) fn version_table(
    records: &Records,
    newest: &str,
    output: Output,
    now: Timestamp,
) -> String {
    let mut table = Table::new(&["", "VERSION", "EDIT", "RECORD", "AGE"]);
    for record in records.all() {
        let is_current = records
            .versions()
            .iter()
            .any(|one| one.name == record.name && one.version == newest);
        table.row([
            Cell::from(if is_current { "*" } else { "" }),
            record.version.as_str().into(),
            record.edit.as_str().into(),
            record.name.as_str().into(),
            age(record.created, now).into(),
        ]);
    }
    table.render(output)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sites::fixtures::{NOW, condition, mid_rollout, observed};

    fn records(versions: &[&str]) -> Records {
        let record = |(at, version): (usize, &&str)| {
            json!({
                "metadata": {
                    "name": format!("shop-{at}"), "creationTimestamp": "2025-12-31T01:00:00Z",
                },
                "revision": at, "data": { "version": version, "edit": "abc", "phases": [] },
            })
        };
        Records::from_objects(versions.iter().enumerate().map(record).collect())
    }

    #[test]
    fn rollouts_by_number() {
        let mut objects = mid_rollout();
        let aborted = condition("Aborted", "True", "SiteFailed", "eu-4 failed");
        objects[0]["status"]["conditions"] = json!([aborted]);
        let records = records(&["0.9.0", "1.0.0", "1.2.0"]);
        let lines = lines(&observed(&objects), Some(&records));
        insta::assert_snapshot!(table(&lines, Output::plain(), NOW));
    }

    #[test]
    fn versions_that_cannot_be_read_are_unknown() {
        let lines = lines(&observed(&mid_rollout()), None);
        assert!(lines.iter().all(|line| line.kept.is_none()));
        let text = table(&lines, Output::plain(), NOW);
        assert!(text.contains("<unknown>"), "{text}");
    }

    #[test]
    fn versions_by_their_records() {
        let records = records(&["1.0.0", "1.1.0", "1.1.0"]);
        let text = version_table(&records, "1.1.0", Output::plain(), NOW);
        assert_eq!(
            text,
            "    VERSION   EDIT   RECORD   AGE\n\
             \x20   1.0.0     abc    shop-0   24h\n\
             \x20   1.1.0     abc    shop-1   24h\n\
             *   1.1.0     abc    shop-2   24h\n"
        );
    }
}
