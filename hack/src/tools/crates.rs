//! Tools that are installed from their crates into the cache, once per version.

use std::path::PathBuf;

use crate::paths::Dirs;
use crate::{cargo, exec};

/// A tool with its pinned version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrateTool {
    name: &'static str,
    version: &'static str,
    /// Further arguments of `cargo install`.
    args: &'static [&'static str],
}

/// Builds the book, with search, but without server and watch.
pub(crate) const MDBOOK: CrateTool = CrateTool {
    name: "mdbook",
    version: "0.5.4",
    args: &["--no-default-features", "--features", "search"],
};

/// Checks licenses, sources and duplicates of dependencies. The debug build saves more time than the
/// slower check costs.
pub(crate) const DENY: CrateTool = CrateTool {
    name: "cargo-deny",
    version: "0.20.2",
    args: &["--debug"],
};

/// Finds dependencies that no source names.
pub(crate) const MACHETE: CrateTool = CrateTool {
    name: "cargo-machete",
    version: "0.9.2",
    args: &[],
};

/// Lists the crates of a program.
pub(crate) const CYCLONEDX: CrateTool = CrateTool {
    name: "cargo-cyclonedx",
    version: "0.5.9",
    args: &["--debug"],
};

/// The path of a tool. It is installed if it is not in the cache.
pub(crate) async fn installed(dirs: &Dirs, tool: CrateTool) -> Result<PathBuf, exec::Error> {
    let CrateTool {
        name,
        version,
        args,
    } = tool;
    let root = dirs.cache.join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("tools: installing {name} {version}");
    let mut command = cargo::command(dirs);
    command
        .args(["install", "--locked", "--version", version, "--root"])
        .arg(&root)
        .args(args)
        .arg(name);
    exec::output(&mut command).await?;
    Ok(program)
}
