//! Checks that pages that list items of the code are complete.

use std::collections::BTreeSet;
use std::{fs, path::Path};

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(path).expect("the file is part of the repository")
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

/// Adds the product code of all Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the folder is part of the repository") {
        let path = entry.expect("the folder is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "tests" && name != "target" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("the file is readable");
            let product = text.split("#[cfg(test)]\nmod ").next();
            found.extend(product.map(str::to_owned));
        }
    }
}

#[test]
fn every_metric_is_in_the_contract() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = Vec::new();
    for folder in ["src", "crates"] {
        sources(&root.join(folder), &mut texts);
    }
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
