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
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Kubeconfig to use instead of KUBECONFIG and ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Namespace to use instead of the context's
    #[arg(long, short, global = true, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,

    /// User to act as
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,

    /// When to use colours: always, never, or auto, which is on a terminal and unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
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
        connect(&connection, self.namespace(), self.as_user.as_deref()).await
    }

    /// The namespace that was asked for. An empty one is none, as for kubectl.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref();
        namespace.filter(|namespace| !namespace.is_empty())
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

/// Reads the name of a namespace, which becomes a part of URLs. An empty one is allowed, as in kubectl.
///
/// # Errors
/// What is expected.
pub fn namespace(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = text.len() <= 63
        && text.chars().all(fits)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if well_formed {
        Ok(text.to_owned())
    } else {
        Err("names of namespaces consist of up to 63 lower-case letters, digits and '-'".to_owned())
    }
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
    fn namespaces_are_names() {
        for text in ["", "shop", "kube-system", "0"] {
            assert_eq!(namespace(text).unwrap(), text);
        }
        for text in ["Shop", "a/b", "a.b", "-a", "a-", "a b", &"a".repeat(64)] {
            namespace(text).unwrap_err();
        }
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
