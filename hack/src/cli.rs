//! The command line of `cargo dev`.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitCode, ExitStatus};

use clap::{Parser, Subcommand};

use crate::bed::{self, Afterwards, Bed};
use crate::interrupt::{Interrupted, or_interrupted};
use crate::paths::{self, Dirs};
use crate::tools::{self, Tool, Toolbox};
use crate::{bench, check, demo, generate, test};

/// The tasks of the project.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo dev", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Show the main job on a cluster: rollout, handover, failure, rollback.
    Demo(demo::Options),
    /// Run all tests, on a control plane started for them.
    Test(test::Options),
    /// Measure how fast the manager is and what it costs, on a control plane started for it.
    Bench(bench::Options),
    /// Check formatting, lints, documentation, generated files and tidiness.
    Check,
    /// Write the generated files of `config/`.
    Crds {
        /// Write nothing, and fail when a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Start a control plane on this machine and leave it running.
    Up {
        /// The name of the bed; several run side by side.
        #[arg(default_value = "baton")]
        name: bed::Name,
        /// The port of its API server; a free one if not given.
        #[arg(long)]
        port: Option<u16>,
    },
    /// End a control plane started by `up`.
    Down {
        /// The name of the bed.
        #[arg(default_value = "baton")]
        name: bed::Name,
    },
    /// Print the path of a running bed's kubeconfig, and nothing else.
    Kubeconfig {
        /// The name of the bed.
        #[arg(default_value = "baton")]
        name: bed::Name,
    },
    /// Run the bed's own kubectl against it.
    Kubectl {
        /// The name of the bed.
        #[arg(long, default_value = "baton")]
        bed: bed::Name,
        /// Passed on to kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Paths(#[from] paths::Error),
    #[error(transparent)]
    Bed(#[from] bed::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Test(#[from] test::Error),
    #[error(transparent)]
    Check(#[from] check::Failed),
    #[error(transparent)]
    Generate(#[from] generate::Error),
    #[error(transparent)]
    Demo(#[from] demo::Error),
    #[error(transparent)]
    Bench(#[from] bench::Error),
    #[error("cannot run kubectl: {0}")]
    Kubectl(#[source] std::io::Error),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Parses the arguments and runs the task.
#[must_use]
pub fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(code) => code,
        // Not an error: it is what somebody wanted.
        Err(Error::Interrupted(interrupted)) => {
            eprintln!("{interrupted}");
            interrupted.exit_code().into()
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<ExitCode, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(or_interrupted(run(cli.task)))?
}

async fn run(task: Task) -> Result<ExitCode, Error> {
    let dirs = Dirs::from_env()?;
    match task {
        Task::Test(options) => return Ok(exit_code(test::run(&dirs, &options).await?)),
        Task::Demo(options) => demo::run(&dirs, &options).await?,
        Task::Bench(options) => bench::run(&dirs, &options).await?,
        Task::Check => check::run(&dirs).await?,
        Task::Crds { check } => generate::run(check)?,
        Task::Up { name, port } => {
            Bed::up(&dirs, &name, port, Afterwards::Keep).await?;
            println!("export KUBECONFIG=$(cargo dev kubeconfig {name})");
        }
        Task::Down { name } => {
            let ended = bed::down(&dirs, &name)?;
            eprintln!(
                "bed {name}: {}",
                if ended { "ended" } else { "not running" }
            );
        }
        Task::Kubeconfig { name } => println!("{}", bed::kubeconfig(&dirs, &name)?.display()),
        Task::Kubectl { bed, args } => {
            let kubeconfig = bed::kubeconfig(&dirs, &bed)?;
            let tools = Toolbox::prepare(&dirs).await?;
            // In place of this process, so that it has the terminal to itself.
            let mut kubectl = std::process::Command::new(tools.path(Tool::Kubectl));
            return Err(Error::Kubectl(
                kubectl
                    .arg("--kubeconfig")
                    .arg(kubeconfig)
                    .args(args)
                    .exec(),
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a process as a shell tells it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_a_test_run_come_before_what_is_passed_on() {
        let Task::Test(options) =
            Cli::parse_from(["dev", "test", "--keep", "--release", "--keep"]).task
        else {
            panic!("another task");
        };
        let text = format!("{options:?}");
        assert!(
            text.contains("keep: true") && text.contains(r#"["--release", "--keep"]"#),
            "{text}"
        );
    }

    #[test]
    fn exit_codes_are_those_of_the_process() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), ExitCode::SUCCESS);
        assert_eq!(
            exit_code(ExitStatus::from_raw(101 << 8)),
            ExitCode::from(101)
        );
        assert_eq!(exit_code(ExitStatus::from_raw(9)), ExitCode::from(137));
    }
}
