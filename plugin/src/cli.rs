//! The command line: its commands and exit codes.

use std::process::ExitCode;

use baton_terminal::output::report;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::{
    args::GlobalArgs,
    commands::{
        Exit, abort, adopt, backup, chart, clean, clusters, complete, completion, dashboard, diff,
        doctor, drift, events, give_back, history, list, orphans, pack, pause, promote, redeploy,
        restart, resume, rollback, sites, status, tree, uninstall, version, wait,
    },
    error::Error,
};

/// See and steer the revisions of ObjectDeployments
///
/// TARGET is `od/NAME` (ObjectDeployment), `cod/NAME` (ClusterObjectDeployment), `os/NAME`
/// (ObjectSet), `cos/NAME` (ClusterObjectSet), or a NAME alone: the ObjectDeployment with that
/// name, else the ObjectSet, else the ClusterObjectDeployment. The commands tree, status, history,
/// diff, rollback, promote, abort, pause, resume, wait, events and give-back also take `app/NAME`
/// (Application) of Shipper, and most of them `rel/NAME` (Release); tree, status, history and diff
/// take `sitedeploy/NAME` (SiteDeployment) and `siteapp/NAME` (SiteApplication); rollback, pause,
/// resume, abort, redeploy, wait and events take `sitedeploy/NAME`.
#[derive(Debug, Parser)]
#[command(name = "kubectl-baton", bin_name = "kubectl baton", version)]
pub(crate) struct Cli {
    /// The flags of all commands.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

// clap uses the doc comments of the argument types, unless a variant has one here.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tree(tree::TreeArgs),
    History(history::HistoryArgs),
    Diff(diff::DiffArgs),
    Rollback(rollback::RollbackArgs),
    Promote(promote::PromoteArgs),
    Abort(abort::AbortArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Restart(restart::RestartArgs),
    Redeploy(redeploy::RedeployArgs),
    Sites(sites::SitesArgs),
    Status(status::StatusArgs),
    Wait(wait::WaitArgs),
    Dashboard(dashboard::DashboardArgs),
    Events(events::EventsArgs),
    Drift(drift::DriftArgs),
    Orphans(orphans::OrphansArgs),
    Pack(Box<pack::PackArgs>),
    Adopt(Box<adopt::AdoptArgs>),
    GiveBack(give_back::GiveBackArgs),
    List(list::ListArgs),
    Clusters(clusters::ClustersArgs),
    Clean(clean::CleanArgs),
    Chart(chart::ChartArgs),
    Backup(backup::BackupArgs),
    Uninstall(uninstall::UninstallArgs),
    Doctor(doctor::DoctorArgs),
    Version(version::VersionArgs),
    Completion(completion::CompletionArgs),
}

/// Exit code after Ctrl-C, as shells report a process that a signal has ended.
const INTERRUPTED: u8 = 130;
/// Exit code after SIGTERM, as for [`INTERRUPTED`].
const TERMINATED: u8 = 143;
/// Exit code if the reader closes the output, as for [`INTERRUPTED`].
const CLOSED_PIPE: u8 = 141;
const FAILED: u8 = 2;
const REFUSED: u8 = 3;
const OVERTAKEN: u8 = 4;

/// Runs the command in the arguments of the process, and prints errors.
pub(crate) async fn run() -> ExitCode {
    // The process ends here and not by the signal, so that changes to the terminal are undone.
    let result = tokio::select! {
        result = answer() => result,
        Ok(()) = tokio::signal::ctrl_c() => return ExitCode::from(INTERRUPTED),
        Ok(()) = terminated() => return ExitCode::from(TERMINATED),
    };
    match result {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::Negative) => ExitCode::from(1),
        Ok(Exit::Refused) => ExitCode::from(REFUSED),
        Ok(Exit::Superseded) => ExitCode::from(OVERTAKEN),
        Err(error) if error.is_closed_pipe() => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            error.report_objects();
            report(&format!("error: {error}"));
            ExitCode::from(match error {
                Error::Foreseen(_) | Error::ForeseenObjects { .. } => REFUSED,
                Error::Overtaken(_) => OVERTAKEN,
                _ => FAILED,
            })
        }
    }
}

#[cfg(unix)]
async fn terminated() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// Never returns, because this system has no SIGTERM.
#[cfg(not(unix))]
async fn terminated() -> std::io::Result<()> {
    std::future::pending().await
}

async fn answer() -> Result<Exit, Error> {
    match complete::words_to_complete(std::env::args_os().skip(1)) {
        Some(words) => complete::run(&words, &Cli::command()).await,
        None => dispatch(Cli::parse()).await,
    }
}

async fn dispatch(cli: Cli) -> Result<Exit, Error> {
    let global = &cli.global;
    match &cli.command {
        Command::Tree(args) => tree::run(args, global).await,
        Command::History(args) => history::run(args, global).await,
        Command::Diff(args) => diff::run(args, global).await,
        Command::Rollback(args) => rollback::run(args, global).await,
        Command::Promote(args) => promote::run(args, global).await,
        Command::Abort(args) => abort::run(args, global).await,
        Command::Pause(args) => pause::run(args, global).await,
        Command::Resume(args) => resume::run(args, global).await,
        Command::Restart(args) => restart::run(args, global).await,
        Command::Redeploy(args) => redeploy::run(args, global).await,
        Command::Sites(args) => sites::run(args, global).await,
        Command::Status(args) => status::run(args, global).await,
        Command::Wait(args) => wait::run(args, global).await,
        Command::Dashboard(args) => dashboard::run(args, global).await,
        Command::Events(args) => events::run(args, global).await,
        Command::Drift(args) => drift::run(args, global).await,
        Command::Orphans(args) => orphans::run(args, global).await,
        Command::Pack(args) => pack::run(args, global).await,
        Command::Adopt(args) => adopt::run(args, global).await,
        Command::GiveBack(args) => give_back::run(args, global).await,
        Command::List(args) => list::run(args, global).await,
        Command::Clusters(args) => clusters::run(args, global).await,
        Command::Clean(args) => clean::run(args, global).await,
        Command::Chart(args) => chart::run(args, global).await,
        Command::Backup(args) => backup::run(args, global).await,
        Command::Uninstall(args) => uninstall::run(args, global).await,
        Command::Doctor(args) => doctor::run(args, global).await,
        Command::Version(args) => version::run(args, global).await,
        Command::Completion(args) => completion::run(args, &mut Cli::command(), global),
    }
}

#[cfg(test)]
mod tests {
    use clap::ColorChoice;

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
}
