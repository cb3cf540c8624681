//! Renders drift as a table, and for programs.

use baton_engine::{ObjectKey, diff::drift::Drift};
use baton_text::{
    output::{
        Paint,
        table::{Cell, Table},
    },
    time::age,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Row, State};

/// An object as `Kind.group/name`.
pub(super) fn object(key: &ObjectKey) -> String {
    match key.group.as_str() {
        "" => format!("{}/{}", key.kind, key.name),
        group => format!("{}.{group}/{}", key.kind, key.name),
    }
}

/// One row per object and set of fields, with the namespace if there are several.
pub(super) fn table(rows: &[Row], with_namespaces: bool, now: Timestamp) -> Table {
    let headings = [
        "NAMESPACE",
        "STATE",
        "LAST SEEN",
        "OBJECT",
        "OWNER",
        "CHANGED",
    ];
    let skip = usize::from(!with_namespaces);
    let mut table = Table::new(&headings[skip..]);
    for row in rows {
        let (state, when): (Cell, String) = match &row.state {
            State::Repaired { last, times } | State::Reported { last, times, .. } => {
                let when = age(*last, now);
                let when = match times {
                    1 => when,
                    times => format!("{when} (x{times})"),
                };
                (Cell::painted(Paint::Good, "repaired"), when)
            }
            State::Standing(why) => (Cell::painted(Paint::Warn, why), "now".to_owned()),
        };
        let changed = match &row.state {
            State::Reported { text, .. } => text.clone(),
            State::Repaired { .. } | State::Standing(_) => row.drift.to_string(),
        };
        let cells: [Cell; 6] = [
            row.namespace.as_str().into(),
            state,
            when.into(),
            row.object.as_str().into(),
            row.owner.as_str().into(),
            changed.into(),
        ];
        table.row(cells.into_iter().skip(skip));
    }
    table
}

/// The rows as a value for programs, with warnings about objects that could not be compared.
pub(super) fn value(rows: &[Row], warnings: &[String]) -> Value {
    let items = rows.iter().map(|row| {
        let Drift {
            fields,
            more,
            is_deleted,
        } = &row.drift;
        let mut item = json!({
            "namespace": row.namespace, "object": row.object, "owner": row.owner, "fields": fields,
            "moreFields": more, "deleted": is_deleted,
        });
        let reported = match &row.state {
            State::Repaired { last, times } => json!({
                "repaired": true, "lastSeen": last.map(|it| it.to_string()), "times": times,
            }),
            State::Reported { last, times, text } => json!({
                "repaired": true, "lastSeen": last.map(|it| it.to_string()), "times": times, "message": text,
            }),
            State::Standing(why) => json!({ "repaired": false, "message": why }),
        };
        if let (Value::Object(item), Value::Object(reported)) = (&mut item, reported) {
            item.extend(reported);
        }
        item
    });
    json!({ "items": items.collect::<Vec<Value>>(), "warnings": warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_text::output::Output;

    fn rows() -> Vec<Row> {
        let last = "2026-01-01T00:00:50Z".parse().ok();
        let row = |object: &str, drift: Drift, state| Row {
            namespace: "shop".to_owned(),
            object: object.to_owned(),
            owner: "ObjectSet/web-1".to_owned(),
            drift,
            state,
        };
        vec![
            row(
                "",
                Drift::default(),
                State::Reported {
                    last,
                    times: 1,
                    text: "Repaired 1 object(s)".to_owned(),
                },
            ),
            row(
                "Deployment.apps/web",
                Drift::at(".spec.replicas"),
                State::Repaired { last, times: 3 },
            ),
            row(
                "ConfigMap/web",
                Drift::at(".data.k"),
                State::Standing("paused".to_owned()),
            ),
            row(
                "Service/web",
                Drift::deleted(),
                State::Repaired { last, times: 1 },
            ),
        ]
    }

    #[test]
    fn a_row_shows_object_time_and_count() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let text = table(&rows(), false, now).render(Output::plain());
        assert_eq!(
            text,
            "STATE      LAST SEEN   OBJECT                OWNER             CHANGED\n\
             repaired   10s                               ObjectSet/web-1   Repaired 1 object(s)\n\
             repaired   10s (x3)    Deployment.apps/web   ObjectSet/web-1   .spec.replicas\n\
             paused     now         ConfigMap/web         ObjectSet/web-1   .data.k\n\
             repaired   10s         Service/web           ObjectSet/web-1   deleted\n"
        );
        let wide = table(&rows(), true, now).render(Output::plain());
        assert!(wide.starts_with("NAMESPACE   STATE"), "{wide}");
    }

    #[test]
    fn json_output_has_the_same_rows_and_warnings() {
        let value = value(&rows(), &["v1 Secret not compared".to_owned()]);
        assert_eq!(value["warnings"], json!(["v1 Secret not compared"]));
        assert_eq!(value["items"][1]["times"], 3);
        assert_eq!(value["items"][1]["fields"][0]["path"], ".spec.replicas");
        assert_eq!(value["items"][2]["repaired"], false);
        assert_eq!(value["items"][2]["message"], "paused");
        assert_eq!(value["items"][0]["lastSeen"], "2026-01-01T00:00:50Z");
        let deleted = [2, 3].map(|n| value["items"][n]["deleted"].clone());
        assert_eq!(deleted, [json!(false), json!(true)]);
    }
}
