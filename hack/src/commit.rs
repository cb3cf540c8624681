//! The commit of the workspace, which image and release name as their origin.

use std::num::ParseIntError;

use k8s_openapi::jiff::Timestamp;
use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;

/// The variable with another time than that of the commit, as for other build tools.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The reason that the commit is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the sources have to be in a git repository: {0}")]
    Git(#[from] exec::Error),
    #[error("{EPOCH} is no time in seconds: {0}")]
    Time(#[from] ParseIntError),
}

/// The origin of built files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its hash.
    pub(crate) hash: String,
    /// The files that differ from the commit, as `git status --porcelain` lists them.
    pub(crate) changes: String,
    /// Its time in seconds.
    pub(crate) time: u64,
}

impl Commit {
    /// Reads the commit of the workspace.
    pub(crate) async fn read(dirs: &Dirs) -> Result<Self, Error> {
        let git = async |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(args).current_dir(&dirs.workspace);
            let output = exec::output(&mut command).await?;
            Ok::<_, exec::Error>(output.trim_end().to_owned())
        };
        let time = match std::env::var(EPOCH) {
            Ok(time) => time,
            Err(_) => git(&["log", "-1", "--format=%ct"]).await?,
        };
        Ok(Self {
            hash: git(&["rev-parse", "HEAD"]).await?,
            changes: git(&["status", "--porcelain"]).await?,
            time: time.parse()?,
        })
    }

    /// The hash, with a mark if files differ from the commit.
    pub(crate) fn revision(&self) -> String {
        let mark = if self.changes.is_empty() {
            ""
        } else {
            "-dirty"
        };
        format!("{}{mark}", self.hash)
    }

    /// The time as text.
    pub(crate) fn timestamp(&self) -> String {
        let seconds = i64::try_from(self.time).unwrap_or_default();
        Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_string()
    }
}
