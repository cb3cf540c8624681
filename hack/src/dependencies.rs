//! Checks of dependencies: their licenses, sources and duplicates, and those that nothing uses.

use std::process::ExitStatus;

use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;
use crate::tools::crates::{self, DENY, MACHETE};

/// The checks of `deny.toml` that need no network.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks licenses, sources and duplicates. With `advisories`, the database of known vulnerabilities
/// is downloaded and read as well. The output is that of cargo-deny.
pub(crate) async fn rules(dirs: &Dirs, advisories: bool) -> Result<ExitStatus, exec::Error> {
    let mut deny = Command::new(crates::installed(dirs, DENY).await?);
    deny.args(["--locked", "check"]).args(CHECKS);
    if advisories {
        deny.arg("advisories");
    }
    exec::status(deny.current_dir(&dirs.workspace)).await
}

/// Finds dependencies that nothing uses. The output is that of cargo-machete.
pub(crate) async fn unused(dirs: &Dirs) -> Result<ExitStatus, exec::Error> {
    let mut machete = Command::new(crates::installed(dirs, MACHETE).await?);
    exec::status(machete.current_dir(&dirs.workspace)).await
}
