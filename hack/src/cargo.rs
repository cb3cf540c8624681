//! Cargo, run by cargo.

use tokio::process::Command;

use crate::paths::Dirs;

/// The cargo that runs this task, in the root of the workspace.
#[must_use]
pub fn command(dirs: &Dirs) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(&dirs.workspace);
    command
}
