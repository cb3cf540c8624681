//! The rollouts of a deployment to sites, and the versions of an application, as tables.

use crate::time::age;
use baton_view::sites::{
    history::{HistoryRow, RolloutNote},
    record::Records,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::output::{
    Output, Paint,
    table::{Cell, Table},
};

/// The rollouts as a value for programs.
pub fn value(lines: &[HistoryRow]) -> Value {
    let lines = lines.iter().map(|line| {
        let mut value = json!(line);
        value["note"] = note(line).into();
        value
    });
    json!({ "rollouts": lines.collect::<Vec<_>>() })
}

/// The note on a rollout, in words; empty without one.
pub fn note(line: &HistoryRow) -> String {
    match &line.note {
        None => String::new(),
        Some(RolloutNote::PutBack) => "put back where a rollout failed".to_owned(),
        Some(RolloutNote::Aborted(message)) => format!("aborted: {message}"),
    }
}

/// One line per rollout, newest last. An asterisk marks the present one.
pub fn table(lines: &[HistoryRow], output: Output, now: Timestamp) -> String {
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
            note(line).into(),
        ]);
    }
    table.render(output)
}

/// The kept versions of an application, oldest first, with the number of their records.
pub fn version_table(records: &Records, newest: &str, output: Output, now: Timestamp) -> String {
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
    use baton_view::sites::history::lines;

    use super::{
        super::fixtures::{NOW, condition, mid_rollout, observed},
        *,
    };

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
