//! Checks that pages that list items of the code are complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

/// The values of the constants in the module `reasons` of a file.
fn listed(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let module = text.split("\npub mod reasons {").nth(1).unwrap_or_default();
    let module = module.split("\n}\n").next().unwrap_or_default();
    // Some constants take two lines.
    let module = module.split_whitespace().collect::<Vec<_>>().join(" ");
    let constants = module.split("pub const ").skip(1);
    let values = constants.filter_map(|constant| {
        let (_, value) = constant.split_once(": &str = \"")?;
        Some(value.split('"').next()?.to_owned())
    });
    values.collect()
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

#[test]
fn every_reason_has_a_cause_and_a_way_out() {
    let mut listed: BTreeSet<_> = ["apis/src/conditions.rs", "apis/src/conditions/shipper.rs"]
        .into_iter()
        .flat_map(listed)
        .collect();
    let page = read("docs/operate/troubleshooting.md");
    // These reasons are in the text: no condition for users has them.
    for reason in ["NotReported", "Started", "Stopped"] {
        assert!(listed.remove(reason), "{reason} is no reason any more");
        assert!(page.contains(&format!("`{reason}`")), "{reason}");
    }
    assert!(listed.len() > 60, "{listed:?}");
    assert_eq!(described(&page), listed);
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
