//! Orphans in a table.

use baton_apis::constants::ANNOTATION_REVISION;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::find::Orphan;
use crate::output::{Table, age, name};

/// One row per object; with the namespace where there are several.
pub fn table(orphans: &[Orphan], with_namespaces: bool, now: Timestamp) -> Table {
    let headings = ["NAMESPACE", "NAME", "REVISION", "LAST OWNER", "AGE"];
    let skip = usize::from(!with_namespaces);
    let mut table = Table::new(&headings[skip..]);
    for orphan in orphans {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).unwrap_or_default();
            text.to_owned()
        };
        let metadata = &orphan.object["metadata"];
        let revision = text(
            metadata
                .get("annotations")
                .and_then(|annotations| annotations.get(ANNOTATION_REVISION)),
        );
        let created = text(metadata.get("creationTimestamp")).parse().ok();
        let none = |text: String| {
            if text.is_empty() {
                "<none>".to_owned()
            } else {
                text
            }
        };
        let row = [
            text(metadata.get("namespace")),
            name(&orphan.object),
            none(revision),
            none(orphan.last_owner.clone().unwrap_or_default()),
            age(created, now),
        ];
        table.row(row.into_iter().skip(skip));
    }
    table
}
