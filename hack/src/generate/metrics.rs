//! The page of the book with all metric families, generated from their list.

use baton_apis::metrics::{FAMILIES, MetricFamily, MetricType};

use super::PAGE_HEADER;

/// Generates the page.
pub(super) fn page() -> String {
    let mut page = format!(
        "# Metrics\n\n{PAGE_HEADER}\n\nAll families that `/metrics` of the manager, of the agents and of the dashboard \
         serves.\nThe [contract](../contract/metrics.md) says more about values of labels, and\n\
         [Monitoring](../operate/monitoring.md) has alerts and a dashboard.\nA name with `*` is the \
         prefix of `_bucket`, `_sum` and `_count`.\n\n\
         | name | type | labels | meaning |\n|---|---|---|---|\n"
    );
    for family in FAMILIES {
        let MetricFamily { labels, help, .. } = family;
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels) = (name(family), labels.join(", "));
        let metric_type = family.metric_type.as_str();
        page.push_str("| ");
        page.push_str(&[&*format!("`{name}`"), metric_type, &labels, help].join(" | "));
        page.push_str(" |\n");
    }
    page
}

/// The name of the family's series.
fn name(family: &MetricFamily) -> String {
    match family.metric_type {
        MetricType::Histogram => format!("{}_*", family.name),
        _ => family.series().concat(),
    }
}
