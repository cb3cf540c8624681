//! The `baton` binary.

use std::error::Error;
use std::process::ExitCode;

use baton::cli::{Cli, Command, crds};
use baton::{run, telemetry};
use clap::Parser as _;

/// Gives memory back after a burst, which the system's allocator does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let Err(error) = execute(Cli::parse().command).await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("baton: {}", telemetry::one_line(&*error));
    ExitCode::FAILURE
}

async fn execute(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::PrintCrds(args) => Ok(crds::print(&args)?),
        Command::Manager(args) => {
            telemetry::init(&args.log_level, args.log_format)?;
            Ok(run::manager(args).await?)
        }
    }
}
