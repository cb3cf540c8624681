//! Checks the links, anchors and paths in all pages.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::markdown::{self, Page};
use super::{Error, pages};

/// Prefixes of paths in code that must exist.
const FOLDERS: [&str; 11] = [
    "apis/",
    "bench/",
    "config/",
    "crates/",
    "docs/",
    "hack/",
    "integration/",
    "model/",
    "plugin/",
    "src/",
    ".ci/",
];

/// The page that lists all pages of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks every relative link and anchor, every path in code, and that the summary lists each page
/// of `docs`.
///
/// The error lists all findings. Links to other hosts are not followed.
pub(crate) fn check(workspace: &Path) -> Result<(), Error> {
    let pages: BTreeMap<String, Page> = pages(workspace)?
        .into_iter()
        .map(|(name, text)| (name, markdown::read(&text)))
        .collect();
    let exists = |name: &str| workspace.join(name).exists();
    let mut found = Vec::new();
    for (name, page) in &pages {
        found.extend(broken_links(name, page, &pages, exists));
        found.extend(broken_paths(name, page, exists));
    }
    found.extend(unlisted(&pages));
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Wrong(found))
    }
}

/// The links of a page that lead nowhere, or out of the book.
fn broken_links(
    name: &str,
    page: &Page,
    pages: &BTreeMap<String, Page>,
    exists: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (line, link) in &page.links {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() {
            name.to_owned()
        } else {
            resolved(name, path)
        };
        let is_in_book = |name: &str| name.starts_with("docs/");
        if !exists(&target) {
            found.push(format!("{name}:{line}: there is no {target}"));
        } else if is_in_book(name) && !is_in_book(&target) {
            found.push(format!("{name}:{line}: {target} is not in the book"));
        } else if !anchor.is_empty() {
            let has_anchor = |page: &Page| page.anchors.iter().any(|other| other == anchor);
            if !pages.get(&target).is_some_and(has_anchor) {
                found.push(format!("{name}:{line}: {target} has no heading #{anchor}"));
            }
        }
    }
    found
}

/// The paths in the code of a page that do not exist.
fn broken_paths(name: &str, page: &Page, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let blocks = page.blocks.iter().filter(|block| {
        // Other blocks show what programs print.
        block.language == "sh" || block.language == "console"
    });
    let blocks = blocks.map(|block| (block.line, block.text.as_str()));
    let code = page.code.iter().map(|(line, text)| (*line, text.as_str()));
    let mut found = Vec::new();
    for (line, text) in code.chain(blocks) {
        for word in text.split_whitespace() {
            let is_path = FOLDERS.iter().any(|folder| word.starts_with(folder));
            let is_pattern = word.contains(['*', '<', '…']) || word.contains("...");
            if is_path && !is_pattern && !exists(word) {
                found.push(format!("{name}:{line}: there is no {word}"));
            }
        }
    }
    found
}

/// The pages of `docs` that the summary does not list.
fn unlisted(pages: &BTreeMap<String, Page>) -> Vec<String> {
    let links = pages.get(SUMMARY).map(|page| page.links.as_slice());
    let listed: Vec<_> = links
        .unwrap_or_default()
        .iter()
        .map(|(_, link)| resolved(SUMMARY, link))
        .collect();
    let unlisted =
        |name: &&String| name.starts_with("docs/") && *name != SUMMARY && !listed.contains(name);
    let found = pages.keys().filter(unlisted);
    found
        .map(|name| format!("{name}: it is not in {SUMMARY}"))
        .collect()
}

/// The path in the workspace of the target of a link in a page.
fn resolved(page: &str, link: &str) -> String {
    let mut path = PathBuf::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_this_repository_lead_somewhere() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        if let Err(error) = check(workspace) {
            panic!("{error}");
        }
    }

    #[test]
    fn broken_links_are_found() {
        let page = markdown::read(
            "[a](b.md) [c](../d.md#e) [f](#g) [h](../../README.md) <https://x.y/z>\n\n`src/no.rs` `src/*`\n",
        );
        let other = markdown::read("# E\n");
        let pages = BTreeMap::from([
            ("docs/x/y.md".to_owned(), page),
            ("docs/d.md".to_owned(), other),
        ]);
        let exists = |name: &str| name == "README.md" || pages.contains_key(name);
        let page = &pages["docs/x/y.md"];
        assert_eq!(
            broken_links("docs/x/y.md", page, &pages, exists),
            [
                "docs/x/y.md:1: there is no docs/x/b.md",
                "docs/x/y.md:1: docs/x/y.md has no heading #g",
                "docs/x/y.md:1: README.md is not in the book",
            ]
        );
        assert_eq!(
            broken_paths("docs/x/y.md", page, exists),
            ["docs/x/y.md:3: there is no src/no.rs"]
        );
        assert_eq!(unlisted(&pages).len(), 2);
    }
}
