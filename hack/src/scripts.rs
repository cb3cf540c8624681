//! Scripts for browsers: sources in TypeScript, bundled by esbuild.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{archive::empty_folder, exec};

/// A source with its name.
pub(crate) type Source = (String, Vec<u8>);

/// The reason that a script cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// npm has failed.
    #[error(transparent)]
    Npm(#[from] exec::Error),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The conversion of an error about a file.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::File { path, source }
}

/// The files of a folder, by name.
pub(crate) fn sources(folder: &Path) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let content = fs::read(&path).map_err(at(&path))?;
            sources.push((name.into_owned(), content));
        }
    }
    sources.sort();
    Ok(sources)
}

/// Runs the script `build` of a package in a folder of its own, and returns the file `built` that it
/// makes.
pub(crate) async fn build(folder: &Path, sources: &[Source], built: &str) -> Result<String, Error> {
    empty_folder(folder).map_err(at(folder))?;
    for (name, content) in sources {
        let path = folder.join(name);
        fs::write(&path, content).map_err(at(&path))?;
    }
    for arguments in [&["ci", "--no-audit", "--no-fund"][..], &["run", "build"]] {
        let mut command = Command::new("npm");
        exec::output(command.args(arguments).current_dir(folder)).await?;
    }
    let path = folder.join(built);
    fs::read_to_string(&path).map_err(at(&path))
}
