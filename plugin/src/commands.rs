//! The commands, and how they end.

pub mod complete;
pub mod completion;
pub mod diff;
pub mod events;
pub mod history;
pub mod orphans;
pub mod pack;
pub mod pause;
pub mod restart;
pub mod resume;
pub mod rollback;
pub mod status;
pub mod tree;
pub mod wait;

use std::process::ExitCode;

use crate::{
    cli::{Cli, Command},
    error::Error,
    output::tell,
};

/// How a command ends when it could do its work. Errors are exit code 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Code 0.
    Fine,
    /// Code 1, a negative answer: there are differences, it is not rolled out, the time was up.
    Negative,
}

/// After Ctrl-C, as shells report a process that a signal has ended.
const INTERRUPTED: u8 = 130;
/// After SIGTERM, as above.
const TERMINATED: u8 = 143;
/// After the reader of the output has gone, as above.
const CLOSED_PIPE: u8 = 141;
/// After an error.
const FAILED: u8 = 2;

/// Runs a command and tells how it ended; errors are printed.
pub async fn run(cli: Cli) -> ExitCode {
    // Ended here rather than by the signal itself, so that what was done to the terminal is undone.
    let result = tokio::select! {
        result = dispatch(cli) => result,
        Ok(()) = tokio::signal::ctrl_c() => return ExitCode::from(INTERRUPTED),
        Ok(()) = terminated() => return ExitCode::from(TERMINATED),
    };
    match result {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::Negative) => ExitCode::from(1),
        Err(error) if error.is_closed_pipe() => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            tell(&format!("error: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Waits for SIGTERM.
#[cfg(unix)]
async fn terminated() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// Never: there is no such signal.
#[cfg(not(unix))]
async fn terminated() -> std::io::Result<()> {
    std::future::pending().await
}

async fn dispatch(cli: Cli) -> Result<Exit, Error> {
    let global = &cli.global;
    match &cli.command {
        Command::Tree(args) => tree::run(args, global).await,
        Command::History(args) => history::run(args, global).await,
        Command::Diff(args) => diff::run(args, global).await,
        Command::Rollback(args) => rollback::run(args, global).await,
        Command::Pause(args) => pause::run(args, global).await,
        Command::Resume(args) => resume::run(args, global).await,
        Command::Restart(args) => restart::run(args, global).await,
        Command::Status(args) => status::run(args, global).await,
        Command::Wait(args) => wait::run(args, global).await,
        Command::Events(args) => events::run(args, global).await,
        Command::Orphans(args) => orphans::run(args, global).await,
        Command::Pack(args) => pack::run(args, global).await,
        Command::Completion(args) => completion::run(args, global),
        Command::Complete(args) => complete::run(args).await,
    }
}
