//! Repairs, as the events report them.

use std::collections::BTreeMap;

use baton_apis::constants::ANNOTATION_REPAIRS;
use baton_cluster::Cluster;
use baton_engine::diff::drift::{Drift, from_annotation};
use baton_view::{
    chain::Chain,
    events::{Occurrence, Subjects},
    lists::ListQuery,
    object::text_at,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Row, State};
use crate::error::Error;

/// The reason of events about repairs.
const REASON: &str = "Repaired";
/// Reads the events about the revisions of chains, and about the objects of their phases.
pub(super) async fn find(cluster: &Cluster, chains: &[Chain]) -> Result<Vec<Row>, Error> {
    let mut about = Subjects::default();
    for revision in chains.iter().flat_map(|chain| &chain.revisions) {
        about.add_revision(revision);
    }
    let query = ListQuery {
        fields: Some(format!("reason={REASON}")),
        ..ListQuery::default()
    };
    let mut events = Vec::new();
    for source in about.sources() {
        events.extend(cluster.list_at(&source.path, &query).await?);
    }
    Ok(rows(&events, &about))
}

/// A row for each object, owner and set of fields, newest last.
fn rows(events: &[Value], about: &Subjects) -> Vec<Row> {
    let mut found: BTreeMap<String, Row> = BTreeMap::new();
    let is_repair = |event: &&Value| text_at(event, "/reason") == REASON && about.has(event);
    for event in events.iter().filter(is_repair) {
        let text = |field: &str| text_at(&event["involvedObject"], field);
        let (kind, namespace, name) = (text("/kind"), text("/namespace"), text("/name"));
        for row in of_event(event, format!("{kind}/{name}"), namespace) {
            let id = format!(
                "{}\n{}\n{}\n{:?}",
                row.namespace, row.object, row.owner, row.drift
            );
            match found.get_mut(&id) {
                Some(earlier) => earlier.state.add(&row.state),
                None => {
                    found.insert(id, row);
                }
            }
        }
    }
    let mut rows: Vec<Row> = found.into_values().collect();
    rows.sort_by_key(|row| row.state.last());
    rows
}

fn of_event(event: &Value, owner: String, namespace: &str) -> Vec<Row> {
    let annotations = event.pointer("/metadata/annotations");
    let annotation = annotations.and_then(|it| it.get(ANNOTATION_REPAIRS)?.as_str());
    let objects = from_annotation(annotation.unwrap_or_default());
    let Occurrence { last, times } = Occurrence::of(event);
    if objects.is_empty() {
        // An event of an earlier release has only a text.
        let text = text_at(event, "/message").to_owned();
        return vec![Row {
            namespace: namespace.to_owned(),
            object: String::new(),
            owner,
            drift: Drift::default(),
            state: State::Reported { last, times, text },
        }];
    }
    let rows = objects.into_iter().map(|object| Row {
        object: super::render::object(&object.key()),
        namespace: object.namespace,
        owner: owner.clone(),
        drift: object.drift,
        state: State::Repaired { last, times },
    });
    rows.collect()
}

impl State {
    /// The time of the last repair; `None` for drift that exists now.
    fn last(&self) -> Option<Timestamp> {
        match self {
            Self::Repaired { last, .. } | Self::Reported { last, .. } => *last,
            Self::Standing(_) => None,
        }
    }

    /// Adds another event about the same drift.
    fn add(&mut self, other: &Self) {
        let (Self::Repaired { last, times } | Self::Reported { last, times, .. }) = self else {
            return;
        };
        if let Self::Repaired { last: at, times: n }
        | Self::Reported {
            last: at, times: n, ..
        } = other
        {
            *last = (*last).max(*at);
            *times += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::GROUP;
    use baton_engine::{
        ObjectKey,
        diff::drift::{Drifted, to_annotation},
    };
    use serde_json::json;

    use super::*;

    fn web() -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        }
    }

    fn event(owner: &str, seconds: u8, count: Option<i64>, objects: &[Drifted]) -> Value {
        let mut event = json!({
            "metadata": {"name": owner, "namespace": "shop"},
            "involvedObject": {
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "namespace": "shop", "name": owner,
            },
            "reason": "Repaired", "message": "Repaired 1 object(s) that differed: x",
            "eventTime": format!("2026-01-01T00:00:{seconds:02}.000000Z"),
        });
        if let Some(count) = count {
            event["series"] =
                json!({"count": count, "lastObservedTime": "2026-01-01T00:00:59.000000Z"});
        }
        if !objects.is_empty() {
            event["metadata"]["annotations"] =
                json!({ANNOTATION_REPAIRS: to_annotation(objects, 8192)});
        }
        event
    }

    fn about() -> Subjects {
        let mut about = Subjects::default();
        about.insert(GROUP, "ObjectSet", Some("shop"), "web-1");
        about
    }

    #[test]
    fn repeated_repairs_are_one_row() {
        let one = Drifted::new(&web(), Drift::at(".spec.a"));
        let other = Drifted::new(&web(), Drift::at(".spec.b"));
        let events = [
            event("web-1", 10, Some(4), &[one.clone(), other.clone()]),
            event("web-1", 20, None, std::slice::from_ref(&one)),
            event("web-2", 30, None, std::slice::from_ref(&one)),
        ];
        let rows = rows(&events, &about());
        let found: Vec<(&str, String, i64)> = rows
            .iter()
            .map(|row| {
                let State::Repaired { times, .. } = row.state else {
                    panic!("{row:?}");
                };
                (row.object.as_str(), row.drift.to_string(), times)
            })
            .collect();
        let name = "Deployment.apps/web";
        assert_eq!(
            found,
            [
                (name, ".spec.a".to_owned(), 5),
                (name, ".spec.b".to_owned(), 4)
            ]
        );
        let last: Timestamp = "2026-01-01T00:00:59Z".parse().unwrap();
        assert_eq!(rows[0].state.last(), Some(last));
    }

    #[test]
    fn events_about_other_objects_are_left_out() {
        let object = Drifted::new(&web(), Drift::at(".spec.a"));
        let mut other = event("web-1", 10, None, std::slice::from_ref(&object));
        other["involvedObject"]["apiVersion"] = "apps/v1".into();
        let mut created = event("web-1", 10, None, std::slice::from_ref(&object));
        created["reason"] = "Recreated".into();
        assert_eq!(rows(&[other, created], &about()), []);
    }

    #[test]
    fn an_event_without_an_annotation_is_shown_by_its_text() {
        let rows = rows(&[event("web-1", 10, None, &[])], &about());
        let [
            Row {
                state: State::Reported { text, times: 1, .. },
                ..
            },
        ] = &rows[..]
        else {
            panic!("{rows:?}");
        };
        assert_eq!(text, "Repaired 1 object(s) that differed: x");
    }
}
