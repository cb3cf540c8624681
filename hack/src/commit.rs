//! The commit of the workspace, which image and release name as their origin.

use k8s_openapi::jiff::Timestamp;
use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;

/// The origin of built files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its hash, or empty outside of a repository.
    pub(crate) hash: String,
    /// True if files differ from the commit.
    pub(crate) is_dirty: bool,
    /// Its time in seconds.
    pub(crate) time: u64,
}

impl Commit {
    /// Reads the commit of the workspace. `SOURCE_DATE_EPOCH` sets another time, as for other build
    /// tools.
    pub(crate) async fn read(dirs: &Dirs) -> Self {
        let git = async |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(args).current_dir(&dirs.workspace);
            let output = exec::output(&mut command).await.unwrap_or_default();
            output.trim().to_owned()
        };
        let given = std::env::var("SOURCE_DATE_EPOCH").ok();
        let time = match given {
            Some(time) => time,
            None => git(&["log", "-1", "--format=%ct"]).await,
        };
        Self {
            hash: git(&["rev-parse", "HEAD"]).await,
            is_dirty: !git(&["status", "--porcelain"]).await.is_empty(),
            time: time.parse().unwrap_or_default(),
        }
    }

    /// The hash, with a mark if files differ from the commit.
    pub(crate) fn revision(&self) -> String {
        let mark = if self.is_dirty { "-dirty" } else { "" };
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
