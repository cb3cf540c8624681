//! Checks that pages that list items of the code are complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_apis::conditions::{EventReason, Reason};

use crate::tidy;

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

/// The product code of all Rust files below a folder.
fn sources(folder: &str) -> Vec<String> {
    let root = workspace();
    let mut files = tidy::sources(&root, &root.join(folder)).unwrap();
    files.retain(|(name, _)| {
        let is_test = name.ends_with("/tests.rs") || name.contains("/tests/");
        tidy::has_extension(Path::new(name), "rs") && !is_test
    });
    let files = files.iter();
    files
        .map(|(_, text)| tidy::before_tests(text).join("\n"))
        .collect()
}

#[test]
fn every_metric_is_in_the_contract() {
    let texts: Vec<_> = ["src", "crates"].into_iter().flat_map(sources).collect();
    let is_name = |text: &&str| {
        let families = ["baton_", "package_operator_", "shipper_"];
        let fits = |c: char| c.is_ascii_lowercase() || c == '_';
        families.iter().any(|family| text.starts_with(family)) && text.chars().all(fits)
    };
    let texts = texts
        .iter()
        .flat_map(|text| text.split('"').filter(is_name));
    let names: BTreeSet<_> = texts.collect();
    assert!(names.len() > 20, "{names:?}");

    let page = read("docs/contract/metrics.md") + &read("docs/contract/releases.md");
    let words: Vec<_> = page.split('`').skip(1).step_by(2).collect();
    let is_described = |name: &&&str| {
        words.iter().any(|word| match word.strip_suffix('*') {
            Some(family) => name.starts_with(family),
            None => word.starts_with(**name),
        })
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_described(name)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
