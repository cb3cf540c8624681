//! Files that other projects publish as Go modules, for example their manifests.

use std::path::PathBuf;

use serde::Deserialize;
use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;

/// A pinned version of a Go module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path of the module.
    pub path: &'static str,
    /// Version, with its `v`.
    pub version: &'static str,
    /// Hash of the files, as in `go.sum`.
    pub sum: &'static str,
}

/// The reason that the files of a module are not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module could not be downloaded.
    #[error("cannot download a Go module: {0}")]
    Download(#[from] exec::Error),
    /// The output of Go could not be parsed.
    #[error("cannot parse the output of `go mod download`: {0}")]
    Output(#[from] serde_json::Error),
    /// The folder of tools could not be created.
    #[error("{}: {source}", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The files are not those of the pinned version.
    #[error("Go module {module} has the hash {found:?}, wanted: {wanted:?}")]
    Sum {
        /// Path and version of the module.
        module: String,
        /// Hash of the downloaded files.
        found: String,
        /// Pinned hash.
        wanted: &'static str,
    },
}

/// The output of `go mod download -json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: PathBuf,
    sum: String,
}

impl Module {
    /// Returns the folder with the files of the module, which is in the module cache of Go. Files
    /// that the cache does not have are downloaded.
    pub async fn folder(&self, dirs: &Dirs) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(&dirs.cache).map_err(|source| Error::Cache {
            path: dirs.cache.clone(),
            source,
        })?;
        let module = format!("{}@{}", self.path, self.version);
        let mut command = Command::new("go");
        command
            .args(["mod", "download", "-json", &module])
            // Outside of the modules of this directory.
            .current_dir(&dirs.cache)
            .env("GOWORK", "off")
            .env_remove("GOFLAGS");
        let Downloaded { dir, sum } = serde_json::from_str(&exec::output(&mut command).await?)?;
        if sum != self.sum {
            return Err(Error::Sum {
                module,
                found: sum,
                wanted: self.sum,
            });
        }
        Ok(dir)
    }
}
