//! The `baton` binary.

use baton::{cli, clusters, run, telemetry};
use clap::Parser as _;
use std::process::ExitCode;

/// Gives memory back after a burst, which the system's allocator does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    if let Err(error) = execute(cli::Cli::parse().command).await {
        eprintln!("baton: {}", telemetry::one_line(&*error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn execute(command: cli::Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        cli::Command::PrintCrds(args) => cli::crds::print(&args)?,
        cli::Command::Cluster(args) => clusters::run(args).await?,
        cli::Command::Manager(args) => {
            telemetry::init(&args.process.log_level, args.process.log_format)?;
            run::manager(*args).await?;
        }
        cli::Command::Agent(args) => {
            telemetry::init(&args.process.log_level, args.process.log_format)?;
            run::agent::run(*args).await?;
        }
    }
    Ok(())
}
