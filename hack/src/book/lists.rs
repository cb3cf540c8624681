//! Checks that pages that list items of the code are complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_apis::conditions::{EventReason, Reason};
use baton_apis::metrics::{FAMILIES, MetricFamily};

/// The root of the repository.
fn workspace() -> PathBuf {
    let hack = Path::new(env!("CARGO_MANIFEST_DIR"));
    hack.parent().unwrap().to_owned()
}

/// Reads a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The inline code in the columns of tables with the title `reason`.
fn described(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut column = None;
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            column = None;
        } else if let Some(at) = cells.iter().position(|cell| *cell == "reason") {
            column = Some(at);
        } else if let Some(cell) = column.and_then(|at| cells.get(at)) {
            let code = cell.split('`').skip(1).step_by(2);
            found.extend(code.map(str::to_owned));
        }
    }
    found
}

/// Reasons that are in the text of the page, not in its tables, because users find them outside of
/// the conditions of the tables.
const IN_TEXT: [Reason; 4] = [
    Reason::NotReported,
    Reason::Other,
    Reason::Started,
    Reason::Stopped,
];

#[test]
fn every_reason_has_a_cause_and_a_way_out() {
    let page = read("docs/operate/troubleshooting.md");
    for reason in IN_TEXT {
        assert!(page.contains(&format!("`{reason}`")), "{reason}");
    }
    let listed = Reason::ALL.iter().filter(|it| !IN_TEXT.contains(it));
    // Of the sentences for errors that have no reason in Shipper, the page has the beginning.
    let beginning = |it: &Reason| it.as_str().split_inclusive('!').next().map(str::to_owned);
    let listed: BTreeSet<_> = listed.filter_map(beginning).collect();
    assert_eq!(described(&page), listed);
}

#[test]
fn every_reason_of_an_event_is_in_a_page() {
    let pages = [
        "docs/contract/status.md",
        "docs/contract/releases.md",
        "docs/guides/sites.md",
    ];
    let page = pages.map(read).concat();
    let missing: Vec<_> = EventReason::own()
        .filter(|reason| !page.contains(&format!("`{reason}`")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// The words of a text that begin like the name of one of our series.
fn series_names(text: &str) -> BTreeSet<&str> {
    let families = ["baton_", "package_operator_", "shipper_", "process_"];
    text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':'))
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| families.iter().any(|family| word.starts_with(family)))
        .collect()
}

#[test]
fn rules_and_dashboard_use_series_that_exist() {
    let exposed: BTreeSet<_> = FAMILIES.iter().flat_map(MetricFamily::series).collect();
    let labels: BTreeSet<_> = FAMILIES.iter().flat_map(|family| family.labels).collect();
    let texts = ["rules.yaml", "rules.test.yaml", "dashboard.json"];
    let texts = texts.map(|file| read(&format!("config/monitoring/{file}")));
    let used: BTreeSet<_> = texts.iter().flat_map(|text| series_names(text)).collect();
    assert!(used.len() > 10, "{used:?}");
    let is_listed = |name: &&&str| exposed.contains(**name) || labels.contains(*name);
    let missing: Vec<_> = used.iter().filter(|name| !is_listed(name)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn pages_name_series_that_exist() {
    let pages = [
        "contract/metrics",
        "contract/releases",
        "operate/monitoring",
    ];
    let pages = pages.map(|page| read(&format!("docs/{page}.md")));
    let words = pages
        .iter()
        .flat_map(|page| page.split('`').skip(1).step_by(2));
    let series: Vec<_> = FAMILIES.iter().flat_map(MetricFamily::series).collect();
    let labels: BTreeSet<_> = FAMILIES.iter().flat_map(|family| family.labels).collect();
    let exists = |name: &str| {
        let name = name.split_once('{').map_or(name, |(name, _)| name);
        match name.strip_suffix('*') {
            Some(prefix) => series.iter().any(|it| it.starts_with(prefix)),
            None => labels.contains(&name) || series.iter().any(|it| it.starts_with(name)),
        }
    };
    let prefixes = ["baton_", "package_operator_", "shipper_", "process_"];
    let words = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    let missing: Vec<_> = words.filter(|word| !exists(word)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
