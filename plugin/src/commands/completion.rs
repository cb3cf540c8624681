//! `completion`: scripts for shells.
//!
//! kubectl itself completes the command lines of plugins with an executable named `kubectl_complete-baton`
//! on the `PATH`; the help of this command shows one.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Exit;
use crate::{
    cli::{Cli, GlobalArgs},
    error::Error,
};

/// Print a script that completes command lines of this program
#[derive(Clone, Debug, Args)]
pub struct CompletionArgs {
    /// For which shell
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// The output is closed.
pub fn run(args: &CompletionArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    global.output().print(&script(args.shell))?;
    Ok(Exit::Fine)
}

fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "kubectl-baton", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
