//! The command line of `cargo dev`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::bed::{self, Afterwards, Bed};
use crate::paths::{self, Dirs};
use crate::test::{self, retry};
use crate::tools::{self, Tool, Toolbox};
use crate::{
    adversary, book, browser, cargo, check, demo, exec, fuzz, generate, headlamp, image, interrupt,
    record, release,
};

/// The package and the binary of the bench.
const BENCH: &str = "baton-bench";

/// The package and the binary that searches worlds.
const MODEL: &str = "baton-model";

/// The tests that compare the pictures of the book, and write them if a variable is set.
const PICTURES: [&str; 8] = [
    "test",
    "--bed",
    "pictures",
    "--test",
    "suite",
    "--",
    "pages::start::a_deployment_is_rolled_back",
    "plugin_sites::a_rollout_over_sites_is_shown",
];

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
    /// Create the terminal recording in `docs` again, on a control plane started for it.
    Record,
    /// Run all tests, on a control plane started for them.
    Test(test::Options),
    /// Run a test binary for cargo, and its failed tests once more.
    #[command(hide = true)]
    RunTests(retry::Options),
    /// Measure how fast the manager is and what it costs, on a control plane started for it.
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments for the bench; `--help` lists its options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Make the image of the manager and the agent, without Docker: an OCI layout, and an archive for
    /// `docker load` and `kind load image-archive`, in `target/image`.
    ///
    /// The programs are static, and built as they are shipped, which takes a quarter of an hour. The
    /// same commit results in the same image.
    Image(image::Options),
    /// Make the files of a release in `target/releases`: programs, the image, the chart, manifests, the
    /// book, lists of components (SBOM), the manifest for krew, checksums, provenance and signatures.
    ///
    /// The version has to be that of the sources, which `--prepare` sets.
    Release(release::Options),
    /// Attack a manager with large inputs, as a tenant, a chart repository, a joined cluster and a thief
    /// of a token, and measure its memory and the delay of another tenant. Then let state lie: restored
    /// control planes, clocks that jump, and forged records.
    ///
    /// Takes about 35 minutes. A small file system and a memory limit need the rights to create a
    /// mount namespace and a control group.
    Adversary {
        /// Names of attacks, such as "large values" or "hub restored". Without one, all run.
        attacks: Vec<String>,
    },
    /// Check formatting, lints, documentation, dependencies, generated files, the book and tidiness.
    Check(check::Options),
    /// Write the pictures of the book into `docs/pictures` from what the plugin prints, on a control
    /// plane started for it.
    Pictures,
    /// Look at the pages of the dashboard in a headless Chromium, on a control plane started for it.
    ///
    /// Needs npm, and a Chromium: `chromium` or the program that `BATON_CHROMIUM` names.
    Browser {
        /// Write the pictures of the pages into `docs/pictures`.
        #[arg(long)]
        pictures: bool,
    },
    /// Make the plugin for Headlamp in `target/headlamp`: the pages of the dashboard on the pages of our
    /// kinds.
    ///
    /// Needs npm, and the standard library of Rust for `wasm32-wasip1`.
    Headlamp {
        /// Look at the plugin in Headlamp's frontend and a headless Chromium, on a control plane started
        /// for it. Needs a gigabyte for the plugin kit of Headlamp.
        #[arg(long)]
        test: bool,
        /// With `--test`: write the picture of the plugin into `docs/pictures`.
        #[arg(long, requires = "test")]
        pictures: bool,
    },
    /// Build the book in `docs` into `target/book`, with a pinned mdbook.
    Book,
    /// Search all states of small worlds of revisions and objects, with the real engine.
    #[command(disable_help_flag = true)]
    CheckModel {
        /// Arguments for the search; `--full` searches all worlds, `--help` lists the options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Search for inputs that break a property, guided by code coverage: libFuzzer on the tests
    /// named `fuzz`.
    ///
    /// `cargo dev test` tries the inputs in the `__fuzz__` directories and some random ones. This
    /// task runs the same tests for a long time with coverage, on the stable toolchain; it needs a
    /// C++ compiler. Inputs that reach new code are stored below `target/fuzz`. An input that
    /// breaks a property is written beside the seeds, so that the tests try it from then on: commit
    /// it with the fix.
    Fuzz(fuzz::Options),
    /// Write the generated files: definitions, access rights, the reference of the book, and the script
    /// of the dashboard. The last one needs npm if its sources have changed.
    #[command(visible_alias = "crds")]
    Generate {
        /// Write nothing, and fail if a file differs from its generated content.
        #[arg(long)]
        check: bool,
    },
    /// Start a control plane on this machine and leave it running.
    Up {
        /// Name of the bed; several can run at the same time.
        #[arg(default_value = "baton")]
        name: bed::Name,
        /// Port of its API server; by default a free one.
        #[arg(long)]
        port: Option<u16>,
    },
    /// End a control plane started by `up`.
    Down {
        /// Name of the bed.
        #[arg(default_value = "baton")]
        name: bed::Name,
    },
    /// Print the path of a running bed's kubeconfig, and nothing else.
    Kubeconfig {
        /// Name of the bed.
        #[arg(default_value = "baton")]
        name: bed::Name,
    },
    /// Run the bed's own kubectl against it.
    Kubectl {
        /// Name of the bed.
        #[arg(long, default_value = "baton")]
        bed: bed::Name,
        /// Arguments for kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// The reason that a task failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Error {
    Paths(#[from] paths::Error),
    Bed(#[from] bed::Error),
    Tools(#[from] tools::Error),
    Test(#[from] test::Error),
    Retry(#[from] retry::Error),
    Check(#[from] check::Failed),
    Generate(#[from] generate::Error),
    Browser(#[from] browser::Error),
    Headlamp(#[from] headlamp::Error),
    Image(#[from] image::Error),
    Release(#[from] release::Error),
    Book(#[from] book::Error),
    Demo(#[from] demo::Error),
    Record(#[from] record::Error),
    Fuzz(#[from] fuzz::Error),
    Adversary(#[from] adversary::Error),
    Cargo(#[from] cargo::Error),
    Exec(#[from] exec::Error),
}

/// The help of the bench, from the snapshot of its test.
fn bench_help() -> &'static str {
    let snapshot = include_str!("../../bench/src/snapshots/baton_bench__tests__help.snap");
    let text = snapshot.splitn(3, "---\n").nth(2);
    text.unwrap_or(snapshot)
}

/// Parses the arguments and runs the task.
#[must_use]
pub fn main() -> ExitCode {
    interrupt::run(run(Cli::parse().task))
}

/// Replaces this process by browser tests, which write pictures if these are wanted. Returns only with
/// an error.
fn run_browser_tests(mut tests: std::process::Command, pictures: bool) -> exec::Error {
    if pictures {
        tests.env("BATON_WRITE_PICTURES", "1");
    }
    exec::in_place(&mut tests)
}

async fn run(task: Task) -> Result<ExitCode, Error> {
    let dirs = Dirs::from_env()?;
    match task {
        Task::Test(options) => return Ok(exec::exit_code(test::run(&dirs, &options).await?)),
        Task::RunTests(options) => return Ok(retry::run(&options)?),
        Task::Demo(options) => demo::run(&dirs, &options).await?,
        Task::Record => record::run(&dirs).await?,
        Task::Bench { args } if args.iter().any(|arg| arg == "--help" || arg == "-h") => {
            print!("{}", bench_help());
        }
        Task::Bench { args } => {
            // The bench is optimised: it shares the machine with the API server and the manager,
            // and would slow them down.
            eprintln!("bench: building the bench with optimisation");
            let [bench] = cargo::build(&dirs, [BENCH], &["--release", "--package", BENCH]).await?;
            let mut command = std::process::Command::new(bench);
            // The figures are those of an API server with its defaults.
            command.args(args).env("GOGC", "100");
            return Err(exec::in_place(&mut command).into());
        }
        Task::Adversary { attacks } => {
            let mut command = adversary::command(&dirs, &attacks).await?;
            return Err(exec::in_place(&mut command).into());
        }
        Task::Check(options) => check::run(&dirs, &options, &Cli::command()).await?,
        Task::Pictures => {
            let own = std::env::current_exe().map_err(test::Error::Own)?;
            let mut tests = std::process::Command::new(own);
            tests.args(PICTURES).env("BATON_WRITE_PICTURES", "1");
            return Err(exec::in_place(&mut tests).into());
        }
        Task::Browser { pictures } => {
            let tests = browser::tests(&dirs, "browser::").await?;
            return Err(run_browser_tests(tests, pictures).into());
        }
        Task::Headlamp { test, pictures } => {
            let made = headlamp::build(&dirs).await?;
            if test {
                let host = headlamp::host(&dirs, &made.folder).await?;
                let mut tests = browser::tests(&dirs, "headlamp::").await?;
                tests.env("BATON_HEADLAMP", host);
                return Err(run_browser_tests(tests, pictures).into());
            }
            println!("{}\n{}", made.folder.display(), made.archive.display());
        }
        Task::Book => println!("{}", book::build(&dirs).await?.display()),
        Task::CheckModel { args } => {
            // With the features of the workspace, dependencies are not built twice.
            let [model] = cargo::build(&dirs, [MODEL], &["--workspace"]).await?;
            return Err(exec::in_place(std::process::Command::new(model).args(args)).into());
        }
        Task::Fuzz(options) => fuzz::run(&dirs, &options).await?,
        Task::Generate { check } => {
            generate::run(check)?;
            generate::install(&dirs, check).await?;
            generate::script(&dirs, check).await?;
            book::generate(&dirs, &Cli::command(), check).await?;
        }
        Task::Image(options) => image::run(&dirs, &options).await?,
        Task::Release(options) => release::run(&dirs, &options).await?,
        Task::Up { name, port } => {
            Bed::up(&dirs, &name, port, Afterwards::Keep).await?;
            println!("export KUBECONFIG=$(cargo dev kubeconfig {name})");
        }
        Task::Down { name } => {
            let ended = bed::down(&dirs, &name)?;
            let outcome = if ended { "ended" } else { "not running" };
            eprintln!("bed {name}: {outcome}");
        }
        Task::Kubeconfig { name } => println!("{}", bed::kubeconfig(&dirs, &name)?.display()),
        Task::Kubectl { bed, args } => {
            let kubeconfig = bed::kubeconfig(&dirs, &bed)?;
            let tools = Toolbox::prepare(&dirs).await?;
            let mut kubectl = std::process::Command::new(tools.path(Tool::Kubectl));
            kubectl.arg("--kubeconfig").arg(kubeconfig).args(args);
            return Err(exec::in_place(&mut kubectl).into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
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
    fn all_arguments_of_a_bench_are_passed_on() {
        let given = ["--scenario", "chain", "--keep", "--help"];
        let Task::Bench { args } = Cli::parse_from(["dev", "bench"].iter().chain(&given)).task
        else {
            panic!("another task");
        };
        assert_eq!(args, given);
        assert!(bench_help().contains("Usage: cargo dev bench [OPTIONS]"));
    }
}
