//! Cargo, run by cargo.

use tokio::process::Command;

use crate::paths::Dirs;

/// The cargo that runs this task, in the root of the workspace.
///
/// What the outer cargo says about this very package is not passed on. Build scripts, ring's among
/// them, ask to be run again when it changes, so everything that depends on them would be built
/// anew whenever a task and a plain `cargo` command take turns.
#[must_use]
pub fn command(dirs: &Dirs) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(&dirs.workspace);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}
