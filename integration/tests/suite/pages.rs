//! Runs the pages of the book as their readers do.

mod guides;
mod operate;
mod start;

use std::fs;
use std::path::{Path, PathBuf};

use baton_hack::book::blocks;
use baton_integration::prelude::*;

/// Returns the pages of the book and the README, each with its path.
fn pages() -> Vec<(String, String)> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut waiting: Vec<PathBuf> = vec![workspace.join("docs"), workspace.join("README.md")];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.display().to_string(), text));
        }
    }
    found
}

/// Returns the documents in the YAML blocks of a page. Excerpts are skipped.
fn documents(name: &str, page: &str) -> Vec<Value> {
    let blocks = blocks(page);
    let blocks = blocks
        .iter()
        .filter(|block| block.language == "yaml" && block.norun.as_deref() != Some("excerpt"));
    let texts = blocks.flat_map(|block| block.text.split("\n---\n"));
    texts
        .map(|text| {
            let parsed: Result<Value, _> = serde_saphyr::from_str(text);
            assert!(parsed.is_ok(), "{name}: {parsed:?}\n{text}");
            parsed.unwrap()
        })
        .collect()
}

/// The server checks the manifests of pages that no test runs, too: for example, of the contract.
/// Incomplete manifests and manifests of other API groups are skipped.
#[tokio::test]
async fn every_manifest_of_the_book_is_taken_by_the_server() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let groups = [
        "baton.run/",
        "package-operator.run/",
        "shipper.booking.com/",
        "v1",
    ];
    let mut count = 0;
    for (name, page) in pages() {
        for mut manifest in documents(&name, &page) {
            let version = manifest["apiVersion"].as_str().unwrap_or_default();
            if groups.iter().any(|group| version.starts_with(group)) {
                if let Some(namespace) = manifest.pointer_mut("/metadata/namespace") {
                    *namespace = json!(ns.name());
                }
                let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
                let printed = ns.kubectl(&args, &manifest).await;
                assert!(printed.ends_with("(server dry run)\n"), "{name}: {printed}");
                count += 1;
            }
        }
    }
    assert!(count >= 8, "{count} manifests");
}
