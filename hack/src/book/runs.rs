//! Checks that a test runs the commands and manifests of a page.

use std::path::Path;

use super::{Block, Error, blocks, pages};
use crate::tidy;

/// The pages that the suite runs, by the beginnings of their paths.
const RUN: [&str; 4] = ["README.md", "docs/start/", "docs/guides/", "docs/operate/"];

/// The sources of the suite that name the pages.
const SUITE: &str = "integration/tests/suite/pages";

/// Checks that the suite names each page with commands or manifests.
///
/// A test that runs a page fails if a block is left, so the name is sufficient. A block behind
/// `norun=REASON` needs no test.
pub(crate) fn check(workspace: &Path) -> Result<(), Error> {
    let sources = tidy::sources(workspace, workspace)?;
    let suite = sources
        .into_iter()
        .filter(|(name, _)| name.starts_with(SUITE));
    let suite: String = suite.map(|(_, text)| text).collect();
    let pages = pages(workspace)?;
    let found = pages
        .iter()
        .flat_map(|(name, text)| unrun(name, text, &suite));
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Wrong(found))
    }
}

/// The blocks of a page that the suite neither runs nor may skip.
fn unrun(name: &str, text: &str, suite: &str) -> Vec<String> {
    let in_folder = RUN.iter().any(|start| name.starts_with(start));
    if !in_folder || suite.contains(&format!("\"{name}\"")) {
        return Vec::new();
    }
    let blocks = blocks(text);
    let unrun = blocks.iter().filter(|block| is_to_run(block));
    unrun
        .map(|block| {
            let line = block.line;
            format!("{name}:{line}: no test in {SUITE}* runs this block; a reason would be `norun=REASON`")
        })
        .collect()
}

/// True if a reader could run the block, and no reason against a test stands behind its fence.
fn is_to_run(block: &Block) -> bool {
    let is_for_readers = ["sh", "console", "yaml"].contains(&&*block.language)
        || block.text.lines().any(|line| line.starts_with("$ "));
    is_for_readers && block.norun.as_deref().is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_without_a_test_and_without_a_reason_is_refused() {
        let text = "```sh\nls\n```\n\n```text norun=tour\n$ ls\n```\n\n```text\n$ ls\n```\n\n\
                    ```yaml norun=\na: b\n```\n";
        let lines = |name: &str, suite: &str| -> Vec<String> {
            let found = unrun(name, text, suite).into_iter();
            let line = |text: String| text.split(": ").next().unwrap_or_default().to_owned();
            found.map(line).collect()
        };
        let name = "docs/start/a.md";
        let expected = [
            "docs/start/a.md:1",
            "docs/start/a.md:9",
            "docs/start/a.md:13",
        ];
        assert_eq!(lines(name, "\"docs/start/b.md\""), expected);
        assert!(lines(name, "\"docs/start/a.md\"").is_empty());
        assert!(lines("docs/contract/a.md", "").is_empty());
    }
}
