//! Renders orphans as a table.

use baton_apis::constants::ANNOTATION_REVISION;
use baton_text::{
    output::{format::name, table::Table},
    time::age,
};
use baton_view::object::text_at;
use k8s_openapi::jiff::Timestamp;

use super::find::Orphan;

/// One row per object, with the namespace if there are several.
pub(crate) fn table(orphans: &[Orphan], with_namespaces: bool, now: Timestamp) -> Table {
    let headings = ["NAMESPACE", "NAME", "REVISION", "LAST OWNER", "AGE"];
    let skip = usize::from(!with_namespaces);
    let mut table = Table::new(&headings[skip..]);
    for orphan in orphans {
        let text = |pointer| text_at(&orphan.object, pointer);
        let metadata = &orphan.object["metadata"];
        let revision = metadata["annotations"][ANNOTATION_REVISION]
            .as_str()
            .filter(|text| !text.is_empty());
        let created = text("/metadata/creationTimestamp").parse().ok();
        let row = [
            text("/metadata/namespace").to_owned(),
            name(&orphan.object),
            revision.unwrap_or("<none>").to_owned(),
            orphan
                .last_owner
                .clone()
                .unwrap_or_else(|| "<none>".to_owned()),
            age(created, now),
        ];
        table.row(row.into_iter().skip(skip));
    }
    table
}
