//! The book in `docs`: its generated reference, its checks, and its build by mdbook.

mod commands;
mod links;
#[cfg(test)]
mod lists;
mod markdown;
mod reference;
mod runs;

use std::path::{Path, PathBuf};

use tokio::process::Command;

pub(crate) use links::check as check_links;
pub use markdown::{Block, blocks};
pub(crate) use reference::{check, generate};
pub(crate) use runs::check as check_runs;

use crate::exec;
use crate::paths::Dirs;
use crate::tidy;
use crate::tools::crates;
use crate::{cargo, generate};

/// An error of the build or of a check of the book.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error(transparent)]
    File(#[from] generate::Error),
    #[error(transparent)]
    Read(#[from] tidy::Error),
    #[error("the book is wrong:\n{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

/// Builds the book into `target/book`, and returns the path of its first page.
pub(crate) async fn build(dirs: &Dirs) -> Result<PathBuf, Error> {
    let mdbook = crates::installed(dirs, crates::MDBOOK).await?;
    let mut command = Command::new(mdbook);
    command.arg("build").arg(dirs.workspace.join("docs")).env(
        "MDBOOK_BOOK__TITLE",
        concat!("Baton ", env!("CARGO_PKG_VERSION")),
    );
    exec::output(&mut command).await?;
    Ok(dirs.workspace.join("target/book/index.html"))
}

/// Reads all Markdown pages of the workspace: the book and others. Each page has its path in the
/// workspace.
fn pages(workspace: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut pages = tidy::sources(workspace, workspace)?;
    pages.retain(|(name, _)| tidy::has_extension(Path::new(name), "md"));
    Ok(pages)
}
