//! The command line: the commands and the flags that all of them share.

use std::{path::PathBuf, time::Duration};

use baton::cli::ConnectionArgs;
use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;

use crate::{
    commands::{
        complete, completion, diff, events, history, orphans, pack, pause, restart, resume,
        rollback, status, tree, wait,
    },
    connect::{Cluster, connect},
    error::Error,
    output::{ColorChoice, Output},
};

/// See and steer the revisions of ObjectDeployments
///
/// TARGET is `od/NAME` (ObjectDeployment), `cod/NAME` (ClusterObjectDeployment), `os/NAME` (ObjectSet),
/// `cos/NAME` (ClusterObjectSet), or a NAME alone: the ObjectDeployment of that name, else the ObjectSet.
#[derive(Debug, Parser)]
#[command(name = "kubectl-baton", bin_name = "kubectl baton", version)]
pub struct Cli {
    /// The flags that all commands share.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(
    missing_docs,
    reason = "clap takes the help from the types of the arguments, unless something else stands here"
)]
pub enum Command {
    Tree(tree::TreeArgs),
    History(history::HistoryArgs),
    Diff(diff::DiffArgs),
    Rollback(rollback::RollbackArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Restart(restart::RestartArgs),
    Status(status::StatusArgs),
    Wait(wait::WaitArgs),
    Events(events::EventsArgs),
    Orphans(orphans::OrphansArgs),
    Pack(Box<pack::PackArgs>),
    Completion(completion::CompletionArgs),
    #[command(name = "__complete")]
    Complete(complete::CompleteArgs),
}

/// The flags that all commands share.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArgs {
    /// Kubeconfig to use instead of KUBECONFIG and ~/.kube/config
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of the current one
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub context: Option<String>,

    /// Namespace to use instead of the context's
    #[arg(
        long,
        short,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub namespace: Option<String>,

    /// User to act as
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        help_heading = "Global options"
    )]
    pub as_user: Option<String>,

    /// When to use colours: always, never, or auto, which is on a terminal and unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub color: ColorChoice,
}

impl GlobalArgs {
    /// Connects to the chosen cluster. Sends no request yet, unless the kubeconfig names a program
    /// that has to be asked for credentials.
    ///
    /// # Errors
    /// What is wrong with the flags or with the kubeconfig.
    pub async fn connect(&self) -> Result<Cluster, Error> {
        let connection = ConnectionArgs {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        connect(
            &connection,
            self.namespace.as_deref(),
            self.as_user.as_deref(),
        )
        .await
    }

    /// How to write to the standard output.
    #[must_use]
    pub fn output(&self) -> Output {
        Output::stdout(self.color)
    }
}

/// The flag of commands that can look at all namespaces.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct AllNamespaces {
    /// Look at all namespaces, and at what is in none
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
}

/// Reads a duration as in `kubectl --timeout`: `90s`, `5m`, `1h30m`, and `0`, which means no limit.
///
/// # Errors
/// What is expected.
pub fn timeout(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration: SignedDuration = text
        .parse()
        .map_err(|_| "expected a duration such as 90s, 5m or 1h30m".to_owned())?;
    Duration::try_from(duration).map_err(|_| "must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_may_follow_the_command() {
        let cli =
            Cli::try_parse_from(["kubectl-baton", "completion", "bash", "-n", "shop"]).unwrap();
        assert_eq!(cli.global.namespace.as_deref(), Some("shop"));
        assert_eq!(cli.global.color, ColorChoice::Auto);
    }

    #[test]
    fn durations_are_those_of_kubectl() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
        ] {
            assert_eq!(timeout(text).unwrap(), Duration::from_secs(seconds));
        }
        assert_eq!(timeout("500ms").unwrap(), Duration::from_millis(500));
        for text in ["", "5", "-5s", "soon"] {
            timeout(text).unwrap_err();
        }
    }
}
