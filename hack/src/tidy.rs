//! Rules about the source text that neither the compiler nor clippy knows.
//!
//! They are checked by an ordinary test of this crate, and by `cargo dev check`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the rules hold.
const SOURCES: [&str; 6] = [
    "src",
    "apis/src",
    "plugin/src",
    "hack/src",
    "integration/src",
    "integration/tests",
];

/// Where a file may not be long. Tests that read like a book may be.
const SHORT: [&str; 4] = ["src", "apis/src", "hack/src", "plugin/src"];

/// The most lines of a file, its tests left out.
const MAX_LINES: usize = 600;

/// What the engine must not name: clients, clocks, waiting and the world outside. It decides from
/// what it is given, so that each decision can be tested as a table and repeated.
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

/// Macros that stand for missing code. In two words, so that this file does not contain them.
const UNFINISHED: [&str; 2] = ["todo", "unimplemented"];

/// Why the sources are not tidy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Rules are broken.
    #[error("not tidy:\n{}", .0.join("\n"))]
    Untidy(Vec<String>),
}

/// Checks all sources of the workspace.
///
/// # Errors
///
/// Every broken rule, as file, line and reason.
pub fn check(workspace: &Path) -> Result<(), Error> {
    let mut found = Vec::new();
    for root in SOURCES {
        for path in rust_files(&workspace.join(root))? {
            let text = fs::read_to_string(&path).map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })?;
            let name = path
                .strip_prefix(workspace)
                .unwrap_or(&path)
                .display()
                .to_string();
            found.extend(violations(&name, &text));
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Untidy(found))
    }
}

/// What is wrong with the file `name`, a path in the workspace.
fn violations(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let engine = name == "src/engine.rs" || name.starts_with("src/engine/");
    for (number, line) in text.lines().enumerate() {
        // Comments may name what the code must not.
        let code = line.split("//").next().unwrap_or_default();
        let at = || format!("{name}:{}", number + 1);
        if engine {
            let impure = IMPURE.into_iter().filter(|word| code.contains(word));
            found.extend(
                impure.map(|word| format!("{}: the engine is pure, and names `{word}`", at())),
            );
        }
        let unfinished = UNFINISHED
            .into_iter()
            .filter(|word| code.contains(&format!("{word}!")));
        found.extend(unfinished.map(|word| format!("{}: `{word}!` is unfinished work", at())));
    }
    let lines = lines_without_tests(name, text);
    let short = SHORT
        .into_iter()
        .any(|root| name.starts_with(&format!("{root}/")));
    if short && lines > MAX_LINES {
        found.push(format!(
            "{name}: {lines} lines without tests, more than {MAX_LINES}: split it"
        ));
    }
    found
}

/// The lines up to the first inline test module.
fn lines_without_tests(name: &str, text: &str) -> usize {
    if name.ends_with("/tests.rs") || name.contains("/tests/") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let is_test = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(is_test).unwrap_or(lines.len())
}

/// All Rust files below `dir`, in order; none when there is no such directory.
fn rust_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read {
        path: dir.to_owned(),
        source,
    };
    let mut files = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
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
    fn the_engine_is_pure() {
        let impure = "// tokio\nuse tokio::time;\nlet now = Timestamp::now();\n";
        let found = violations("src/engine/pass.rs", impure);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("src/engine/pass.rs:2:"), "{found:?}");
        assert_eq!(violations("src/engine.rs", impure).len(), 2);
        assert!(violations("src/engineer.rs", impure).is_empty());
    }

    #[test]
    fn unfinished_code_is_found_anywhere() {
        for word in UNFINISHED {
            assert_eq!(
                violations("integration/tests/a.rs", &format!("    {word}!()")).len(),
                1
            );
        }
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
