//! Rules for the source text that neither the compiler nor clippy checks.
//!
//! An ordinary test of this crate checks them, and `cargo dev check`.

mod words;

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::pure;

/// Maximum number of lines of a file, without its tests. Integration tests, which are read from
/// start to end, may be longer.
const MAX_LINES: usize = 500;

/// Maximum number of columns of a line.
const MAX_COLUMNS: usize = 120;

/// Names that must not occur in pure code, so that each decision can be tested with tables and
/// repeated: clients, clocks, waiting, files, the network and the environment.
const IMPURE: [&str; 16] = [
    "kube::Client",
    "kube::Api",
    "kube::client",
    "kube::runtime",
    "tokio",
    "async fn",
    "async move",
    ".await",
    "::now(",
    "std::fs",
    "TcpStream",
    "UdpSocket",
    "ToSocketAddrs",
    "std::env",
    "std::process",
    "thread::sleep",
];

/// Macros for missing code. The names are split, so that this file does not contain them.
const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];

/// The reason that the sources are not tidy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("not tidy:\n{}", .0.join("\n"))]
    Untidy(Vec<String>),
}

/// Checks all sources of the workspace. The error lists every broken rule, as file, line and
/// reason.
pub(crate) fn check(workspace: &Path) -> Result<(), Error> {
    let mut found = Vec::new();
    for (name, text) in sources(workspace, workspace)? {
        let is_code = has_extension(Path::new(&name), "rs");
        found.extend(long_lines(&name, &text));
        found.extend(words::refused(&name, &text, !is_code));
        if is_code {
            found.extend(violations(&name, &text));
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Untidy(found))
    }
}

/// The broken rules in the file `name`, a path in the workspace.
fn violations(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut parts = name.split('/');
    let is_pure = parts.next() == Some("crates")
        && parts
            .next()
            .is_some_and(|name| pure::CRATES.contains(&name))
        && parts.next() == Some("src");
    for (number, line) in (1..).zip(text.lines()) {
        // Comments may contain the names that code must not.
        let code = line.split("//").next().unwrap_or_default();
        for pattern in IMPURE
            .iter()
            .filter(|pattern| is_pure && code.contains(**pattern))
        {
            found.push(format!(
                "{name}:{number}: this code is pure, and names `{pattern}`"
            ));
        }
        for pattern in UNFINISHED
            .iter()
            .filter(|pattern| code.contains(&format!("{pattern}!")))
        {
            found.push(format!("{name}:{number}: `{pattern}!` is unfinished work"));
        }
    }
    let lines = lines_without_tests(name, text);
    if lines > MAX_LINES {
        let rule = format!("{lines} lines without tests, more than {MAX_LINES}: split it");
        found.push(format!("{name}: {rule}"));
    }
    found
}

/// Lines that are too long. In Markdown, tables and code blocks may have longer lines.
fn long_lines(name: &str, text: &str) -> Vec<String> {
    let is_prose = has_extension(Path::new(name), "md");
    let mut found = Vec::new();
    for (number, line, is_code) in numbered(text) {
        let start = line.trim_start();
        let columns = line.chars().count();
        if columns > MAX_COLUMNS && !(is_prose && (is_code || start.starts_with('|'))) {
            found.push(format!(
                "{name}:{number}: {columns} columns, more than {MAX_COLUMNS}"
            ));
        }
    }
    found
}

/// The lines of a text with their numbers, and true for lines of fenced code.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut is_code = false;
    (1..).zip(text.lines()).map(move |(number, line)| {
        is_code ^= line.trim_start().starts_with("```");
        (number, line, is_code)
    })
}

/// Number of lines of a file that are not tests.
fn lines_without_tests(name: &str, text: &str) -> usize {
    if name.ends_with("/tests.rs") || name.contains("/tests/") {
        return 0;
    }
    before_tests(text).len()
}

/// The lines up to the first inline test module.
pub(crate) fn before_tests(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_test = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
    };
    let tests = lines.windows(2).position(is_test);
    lines.truncate(tests.unwrap_or(lines.len()));
    lines
}

/// The texts of all Rust and Markdown files below `dir`, by their paths in the workspace.
pub(crate) fn sources(workspace: &Path, dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    for path in files(dir)? {
        let name = path.strip_prefix(workspace).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        match fs::read_to_string(&path) {
            Ok(text) => found.push((name, text)),
            Err(source) => return Err(Error::Read { path, source }),
        }
    }
    Ok(found)
}

/// All Rust and Markdown files below `dir`, in order, without hidden directories and build
/// directories.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read {
        path: dir.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.extend(files(&path)?);
            }
        } else if has_extension(&path, "rs") || has_extension(&path, "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        if let Err(error) = check(workspace) {
            panic!("{error}");
        }
    }

    #[test]
    fn decisions_are_pure() {
        let impure = "// tokio\nuse tokio::time;\nlet now = Timestamp::now();\n";
        let found = violations("crates/engine/src/pass.rs", impure);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/engine/src/pass.rs:2:"),
            "{found:?}"
        );
        assert_eq!(violations("crates/probes/src/lib.rs", impure).len(), 2);
        assert_eq!(violations("crates/probes/src/cel.rs", impure).len(), 2);
        assert!(violations("crates/engineer/src/lib.rs", impure).is_empty());
    }

    #[test]
    fn unfinished_code_is_found_anywhere() {
        for pattern in UNFINISHED {
            assert_eq!(
                violations("integration/tests/a.rs", &format!("    {pattern}!()")).len(),
                1
            );
        }
    }

    #[test]
    fn long_lines_are_found_in_code_and_prose() {
        let long = "x ".repeat(61);
        let text = format!("{long}\n| {long}\n```\n{long}\n```\n{long}\n");
        assert_eq!(long_lines("src/a.rs", &text).len(), 4);
        let found = long_lines("README.md", &text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[1].starts_with("README.md:6: 122 columns"),
            "{found:?}"
        );
    }

    #[test]
    fn long_files_are_found_without_their_tests() {
        let lines = |count: usize| "\n".repeat(count);
        assert!(violations("src/a.rs", &lines(MAX_LINES)).is_empty());
        assert_eq!(violations("src/a.rs", &lines(MAX_LINES + 1)).len(), 1);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}",
            lines(10),
            lines(MAX_LINES)
        );
        assert!(violations("src/a.rs", &tested).is_empty());
        let file = format!("#[cfg(test)]\nmod tests;\n{}", lines(MAX_LINES));
        assert_eq!(
            violations("src/a.rs", &file).len(),
            1,
            "a module in another file ends nothing here"
        );
        assert!(violations("src/a/tests.rs", &lines(MAX_LINES + 1)).is_empty());
    }
}
