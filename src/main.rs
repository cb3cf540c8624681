//! The `baton` binary: the manager, the agent of a cluster, and the commands that join clusters.
//!
//! - [`delivery`] runs the conversation between the decisions (`baton-engine`) and the requests to
//!   an API server (`baton-kubernetes`).
//! - [`controllers`] reconcile one object at a time.
//! - [`agent`] connects the controllers in another cluster to the hub.
//! - [`dashboard`] serves web pages to people.
//! - [`webhook`] answers the API server about overrides of rollout blocks.
//! - [`run`] wires the processes together; [`cli`] and [`logs`] are their interface.

mod agent;
mod cli;
mod controllers;
mod dashboard;
mod delivery;
mod error;
mod logs;
mod run;
mod webhook;

use baton_fleet::membership;
use baton_kubernetes::error::one_line;
use baton_terminal::output::report;
use clap::Parser as _;
use std::process::ExitCode;

/// Returns memory to the system after a burst, which the default allocator does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    if let Err(error) = execute(cli::Cli::parse().command).await {
        eprintln!("baton: {}", one_line(&*error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn execute(command: cli::Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        cli::Command::PrintCrds(args) => cli::crds::print(&args)?,
        cli::Command::Version => report(concat!("baton ", env!("CARGO_PKG_VERSION"))),
        cli::Command::Cluster(args) => membership::run(args).await?,
        cli::Command::Manager(args) => {
            logs::init(&args.process.log_level, args.process.log_format)?;
            run::manager(*args).await?;
        }
        cli::Command::Agent(args) => {
            logs::init(&args.process.log_level, args.process.log_format)?;
            agent::run::run(*args).await?;
        }
        cli::Command::Dashboard(args) => {
            logs::init(&args.log_level, args.log_format)?;
            dashboard::run(*args).await?;
        }
    }
    Ok(())
}
