//! The `kubectl-baton` binary, which kubectl runs for `kubectl baton`.

use std::process::ExitCode;

use clap::Parser as _;
use kubectl_baton::{cli::Cli, commands};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    commands::run(Cli::parse()).await
}
