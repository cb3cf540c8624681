//! `completion`: completion scripts for shells.

use baton_terminal::output::Print as _;
use clap::{Args, Command};
use clap_complete::Shell;

use super::Exit;
use crate::{args::GlobalArgs, error::Error};

/// Print a script that completes command lines of this program
///
/// The script is for `kubectl-baton ...`; load it as any other, for example by
/// `source <(kubectl baton completion bash)`.
///
/// For `kubectl baton ...`, kubectl's own completion runs an executable `kubectl_complete-baton` on
/// the PATH. It also completes the names of deployments, namespaces and contexts, the numbers of
/// revisions and the states to wait for. It is a file with these two lines:
///
///   #!/bin/sh
///   exec kubectl-baton __complete "$@"
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionArgs {
    /// Shell to print the script for
    shell: Shell,
}

pub(crate) fn run(
    args: &CompletionArgs,
    command: &mut Command,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    global.output().print(&script(args.shell, command))?;
    Ok(Exit::Fine)
}

fn script(shell: Shell, command: &mut Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "kubectl-baton", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // The generator writes a hyphen in the program's name in two ways, and then does not find
        // the words of any command.
        Shell::Bash => script.replace("kubectl__subcmd__baton", "kubectl__baton"),
        _ => script,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn scripts_know_the_commands() {
        for shell in Shell::value_variants() {
            let script = script(*shell, &mut crate::cli::Cli::command());
            assert!(script.contains("kubectl-baton"), "{shell}");
            assert!(script.contains("rollback"), "{shell}");
            assert!(
                !script.contains("__complete"),
                "{shell} offers a word that is not completed"
            );
        }
    }

    /// In bash, words lead to a state, and the state to the possible next words.
    #[test]
    fn every_command_is_completed() {
        let script = script(Shell::Bash, &mut crate::cli::Cli::command());
        let states = script.lines().filter_map(|line| {
            let state = line.trim().strip_prefix("cmd=\"")?.strip_suffix('"')?;
            (!state.is_empty()).then_some(state)
        });
        let states: Vec<&str> = states.collect();
        assert!(states.len() > 10, "{states:?}");
        for state in states {
            let label = format!(" {state})\n");
            assert!(script.contains(&label), "{state} leads nowhere");
        }
    }
}
