//! Checks of dependencies: their licenses, sources and duplicates, and those that nothing uses.

use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;
use crate::tools::crates::{self, DENY, MACHETE};

/// The checks of `deny.toml` that need no network.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks the dependencies of the workspace. With `advisories`, the database of known
/// vulnerabilities is downloaded and read as well.
///
/// # Errors
/// If a tool cannot be installed, or it reports a violation.
pub(crate) async fn check(dirs: &Dirs, advisories: bool) -> Result<(), exec::Error> {
    let mut deny = Command::new(crates::installed(dirs, DENY).await?);
    deny.args(["--locked", "check"]).args(CHECKS);
    if advisories {
        deny.arg("advisories");
    }
    exec::output(deny.current_dir(&dirs.workspace)).await?;
    let mut machete = Command::new(crates::installed(dirs, MACHETE).await?);
    exec::output(machete.current_dir(&dirs.workspace)).await?;
    Ok(())
}
