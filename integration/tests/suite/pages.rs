//! Applies the manifests of the book as its readers do.

use std::fs;
use std::path::{Path, PathBuf};

use baton_integration::prelude::*;

/// The page with the first revision.
const FIRST_REVISION: &str = "docs/start/first-revision.md";

/// The command of that page that archives the first revision.
const ARCHIVE: [&str; 6] = [
    "patch",
    "objectset",
    "web-v1",
    "--type=merge",
    "-p",
    r#"{"spec":{"lifecycleState":"Archived"}}"#,
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages of the book and the README, each with its path.
fn pages() -> Vec<(String, String)> {
    let mut waiting = vec![workspace().join("docs"), workspace().join("README.md")];
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

/// The documents in the YAML blocks of a page. Blocks with omissions are skipped.
fn documents(name: &str, page: &str) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut block: Option<(usize, Vec<&str>)> = None;
    for line in page.lines() {
        let text = line.trim_start();
        match &mut block {
            Some(_) if text == "```" => blocks.extend(block.take().map(|(_, lines)| lines)),
            Some((indentation, lines)) => lines.push(line.get(*indentation..).unwrap_or_default()),
            None if text == "```yaml" => block = Some((line.len() - text.len(), Vec::new())),
            None => {}
        }
    }
    // A comment may contain an ellipsis.
    let code = |line: &str| line.split(" #").next().unwrap_or_default().to_owned();
    blocks.retain(|lines| !lines.iter().any(|line| code(line).contains('…')));
    let texts = blocks.iter().map(|lines| lines.join("\n"));
    let documents = texts.flat_map(|text| {
        let documents = text.split("\n---\n").map(str::to_owned);
        documents.collect::<Vec<_>>()
    });
    documents
        .map(|text| {
            let parsed: Result<Value, _> = serde_saphyr::from_str(&text);
            assert!(parsed.is_ok(), "{name}: {parsed:?}\n{text}");
            parsed.unwrap()
        })
        .collect()
}

/// Moves a manifest into the namespace of the test.
fn placed(ns: &TestNamespace, mut manifest: Value) -> Value {
    if let Some(namespace) = manifest.pointer_mut("/metadata/namespace") {
        *namespace = json!(ns.name());
    }
    manifest
}

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
        for manifest in documents(&name, &page) {
            let version = manifest["apiVersion"].as_str().unwrap_or_default();
            if groups.iter().any(|group| version.starts_with(group)) {
                let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
                let manifest = placed(&ns, manifest);
                let printed = ns.kubectl(&args, &manifest).await;
                assert!(printed.ends_with("(server dry run)\n"), "{name}: {printed}");
                count += 1;
            }
        }
    }
    assert!(count >= 8, "{count} manifests");
}

#[tokio::test]
async fn the_first_revision_of_the_book_is_rolled_out_and_replaced() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let page = fs::read_to_string(workspace().join(FIRST_REVISION)).unwrap();
    let first = documents(FIRST_REVISION, &page).remove(0);
    let mut first = placed(&ns, first);
    let apply = ["apply", "-f", "-"];
    let _ = ns.kubectl(&apply, &first).await;
    ns.reaches("web-v1", &[Is("Available", "True")]).await;

    // The page describes the next revision in words and by an excerpt.
    first["metadata"]["name"] = json!("web-v2");
    first["spec"]["previous"] = json!([{ "name": "web-v1" }]);
    first["spec"]["phases"][0]["objects"][0]["object"]["data"] = json!({ "greeting": "hi" });
    let _ = ns.kubectl(&apply, &first).await;
    ns.reaches("web-v2", &[Is("Available", "True")]).await;

    let [verb, kind, name, flag, option, patch] = ARCHIVE;
    let command = format!("$ kubectl {verb} {kind} {name} {flag} {option} '{patch}'\n");
    assert!(page.contains(&command), "{command}");
    let _ = ns.kubectl(&ARCHIVE, &Value::Null).await;
    ns.reaches("web-v1", &[Is("Archived", "True")]).await;
    ns.reaches("web-v2", &[Is("Available", "True")]).await;
}
