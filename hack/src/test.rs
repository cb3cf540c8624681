//! `cargo dev test`: every test of the workspace, with a bed for those that need one.

pub(crate) mod retry;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use clap::Args;

use self::retry::Flaky;

use crate::bed::{self, Afterwards, Bed};
use crate::cargo;
use crate::exec;
use crate::interrupt::print_line;
use crate::kubernetes::{self, Kubernetes};
use crate::paths::Dirs;
use crate::tools;

/// The options of a test run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave the bed running afterwards; later runs use it as it is.
    #[arg(long)]
    keep: bool,
    /// Name of the bed. Concurrent runs need different names.
    #[arg(long, default_value = "test")]
    bed: bed::Name,
    /// Test this manager instead of building it.
    #[arg(long, value_name = "FILE")]
    manager: Option<PathBuf>,
    /// Test against another version of Kubernetes, such as 1.33; only the tests of the usual tasks run,
    /// unless arguments choose others
    #[arg(long, value_name = "MINOR")]
    kubernetes: Option<Kubernetes>,
    /// Do not repeat failed tests.
    #[arg(long)]
    once: bool,
    /// Arguments for `cargo test`, including those after a `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// The reason that the tests did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Bed(#[from] bed::Error),
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error("the path of this program is unknown: {0}")]
    Own(std::io::Error),
    #[error("the output of flaky tests of the run before cannot be removed: {0}")]
    Kept(std::io::Error),
    #[error("{0} tests are flaky, more than {MOST_FLAKY}")]
    Flaky(usize),
}

/// The tests of the usual tasks: rollouts, handovers, deployments, other clusters, Releases, sites,
/// admission policies, and what depends on the answers of the server.
const SMOKE: [&str; 20] = [
    "handover::",
    "archival::",
    "phases::",
    "preflight::",
    "collisions::",
    "deployments::",
    "definitions::",
    "dry_runs::",
    "unions::",
    "real_manifests::",
    "repair::",
    "deletion::",
    "push::",
    "agent::",
    "releases::",
    "releases_blocks::",
    "releases_blocks_webhook::",
    "site_rollouts::",
    "adoption::",
    "own_chart::",
];

/// Maximum number of tests that may fail by chance in one run.
const MOST_FLAKY: usize = 2;

/// Builds the manager and the plugin, starts a bed with the custom resource definitions, runs the
/// tests and ends the bed.
///
/// The tests read from the environment: `KUBECONFIG` and `BATON_TEST_KUBECONFIG`, the kubeconfig of
/// the bed; `BATON_BIN`, the manager; `BATON_PLUGIN_BIN`, the plugin; `HELM_BIN`, helm;
/// `BATON_HEALTH_BIN`, the program of `hack/health`.
///
/// # Guarantees
///
/// Unless the bed is to be kept it has ended when this returns or is dropped, and so have the tests
/// and all processes that they started. A failed test is no error but an exit status; the other
/// binaries run nevertheless, and a test that failed on the bed runs once more, alone, unless `once` is
/// set. If it passes then, its name is written to the standard error, and so is the name of a server
/// of the bed that has ended meanwhile.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<ExitStatus, Error> {
    let mut args = passed_on(std::env::args_os().collect(), &options.args);
    let mut dirs = dirs.clone();
    let mut bed = options.bed.clone();
    if let Some(version) = options.kubernetes {
        dirs.kubernetes = version;
        // A bed of another version may have been kept.
        bed = bed.of_version(version);
        if args.is_empty() {
            args = [&["--test", "suite", "--"], &SMOKE[..]]
                .concat()
                .into_iter()
                .map(Into::into)
                .collect();
        }
    }
    let dirs = &dirs;
    let cargo_args = || args.iter().take_while(|arg| *arg != "--");
    let release = cargo_args().any(|arg| arg == "--release" || arg == "-r");
    // With the whole workspace selected, dependencies have the same features as for `cargo test
    // --workspace`, and are not built twice.
    let selection = &["--workspace", "--release"][..=usize::from(release)];
    let [manager, plugin] = cargo::build(dirs, ["baton", "kubectl-baton"], selection).await?;
    let manager = options.manager.clone().unwrap_or(manager);
    let own = std::env::current_exe().map_err(Error::Own)?;
    let helm = tools::helm(dirs).await?;
    let health = tools::health(dirs).await?;
    let afterwards = Afterwards::kept(options.keep);
    let name = bed;
    let bed = Bed::up(dirs, &name, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    bed.install(&dirs.release_crds()).await?;
    let flaky = dirs.workspace.join("target/flaky").join(name.to_string());
    match std::fs::remove_dir_all(&flaky) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::Kept(error)),
        _ => {}
    }
    let mut command = cargo::command(dirs);
    command.args(["test", "--workspace"]);
    if !options.once {
        command.args(["--config", &runner(&own, &flaky)]);
    }
    // A failure in one binary has no meaning for the next one.
    command.args((!cargo_args().any(|arg| arg == "--no-fail-fast")).then_some("--no-fail-fast"));
    command
        .args(args)
        .env("BATON_TEST_KUBECONFIG", bed.kubeconfig())
        .env("BATON_BIN", manager)
        .env("BATON_PLUGIN_BIN", plugin)
        .env("HELM_BIN", helm)
        .env(kubernetes::VARIABLE, dirs.kubernetes.to_string())
        .env("BATON_HEALTH_BIN", health);
    bed.attach(&mut command);
    let status = exec::status(&mut command).await?;
    // The output of tests that failed because of an ended server does not show that.
    for ended in bed.ended() {
        print_line(&ended.to_string());
    }
    let flaky = retry::kept(&flaky);
    for test in &flaky {
        let Flaky { name, output } = test;
        print_line(&format!(
            "FLAKY {name}: failed, and passed alone; {}\n{}",
            output.display(),
            test.cause()
        ));
    }
    if status.success() && flaky.len() > MOST_FLAKY {
        return Err(Error::Flaky(flaky.len()));
    }
    Ok(status)
}

/// The configuration by which cargo runs the test binaries with this program.
fn runner(own: &Path, kept: &Path) -> String {
    let words = [
        own.display().to_string(),
        "run-tests".to_owned(),
        kept.display().to_string(),
    ];
    // A quoted string of JSON is valid TOML.
    format!("target.'cfg(all())'.runner={}", serde_json::json!(words))
}

/// The arguments for `cargo test`. The parser drops a leading `--`, which has a meaning for cargo.
fn passed_on(raw: Vec<OsString>, parsed: &[OsString]) -> Vec<OsString> {
    let before = raw.len().checked_sub(parsed.len() + 1);
    let separator = before.is_some_and(|at| !parsed.is_empty() && raw[at] == OsStr::new("--"));
    let start = if separator {
        raw.len() - parsed.len() - 1
    } else {
        raw.len() - parsed.len()
    };
    raw.into_iter().skip(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_a_separator_reach_cargo() {
        let check = |raw: &[&str], parsed: usize, expected: &[&str]| {
            let raw: Vec<OsString> = raw.iter().map(Into::into).collect();
            let parsed = raw[raw.len() - parsed..].to_vec();
            assert_eq!(passed_on(raw, &parsed), expected);
        };
        check(&["dev", "test"], 0, &[]);
        check(&["dev", "test", "--"], 0, &[]);
        check(&["dev", "test", "--keep", "name"], 1, &["name"]);
        check(
            &["dev", "test", "--", "--nocapture"],
            1,
            &["--", "--nocapture"],
        );
        check(
            &["dev", "test", "name", "--", "--nocapture"],
            3,
            &["name", "--", "--nocapture"],
        );
    }
}
