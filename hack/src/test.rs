//! `cargo dev test`: every test of the workspace, with a bed for those that need one.

pub(crate) mod retry;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitStatus;

use clap::Args;

use self::retry::Flaky;

use crate::bed::{self, Afterwards, Bed};
use crate::cargo;
use crate::exec::{self, Group};
use crate::interrupt::tell;
use crate::paths::Dirs;
use crate::tools;

/// What to test, and on which bed.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave the bed running afterwards; later runs use it as it is.
    #[arg(long)]
    keep: bool,
    /// The name of the bed. Runs side by side need different ones.
    #[arg(long, default_value = "test")]
    bed: bed::Name,
    /// Passed on to `cargo test`, also what follows a `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Why the tests did not run.
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
    #[error("the path of this program is not known: {0}")]
    Own(std::io::Error),
    #[error("the output of flaky tests of the run before cannot be removed: {0}")]
    Kept(std::io::Error),
    #[error("{0} tests are flaky, more than {MOST_FLAKY}")]
    Flaky(usize),
}

/// More tests than that do not fail by chance in one run.
const MOST_FLAKY: usize = 2;

/// Builds the manager and the plugin, starts a bed with the custom resource definitions on it, runs the
/// tests and ends the bed.
///
/// The tests find what they need in the environment: `KUBECONFIG` and `BATON_TEST_KUBECONFIG`, the
/// kubeconfig of the bed; `BATON_BIN`, the manager; `BATON_PLUGIN_BIN`, the plugin; `HELM_BIN`, helm;
/// `BATON_HEALTH_BIN`, the program of `hack/health`.
///
/// # Guarantees
///
/// Unless the bed is to be kept it has ended when this returns or is dropped, and so have the tests
/// and what they started. Failed tests are no error but an exit status; other binaries run all the same,
/// and what failed on the bed runs once more, alone. What passes then is named on the standard error, and
/// so is a server of the bed that has ended meanwhile.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<ExitStatus, Error> {
    let args = passed_on(std::env::args_os().collect(), &options.args);
    let cargo_args = || args.iter().take_while(|arg| *arg != "--");
    let release = cargo_args().any(|arg| arg == "--release" || arg == "-r");
    // With the whole workspace selected, dependencies have the features that they have for `cargo
    // test --workspace`, and are not built twice.
    let selection = &["--workspace", "--release"][..=usize::from(release)];
    let [manager, plugin] = cargo::build(dirs, ["baton", "kubectl-baton"], selection).await?;
    let own = std::env::current_exe().map_err(Error::Own)?;
    let helm = tools::helm(dirs).await?;
    let health = tools::health(dirs).await?;
    let afterwards = Afterwards::kept(options.keep);
    let bed = Bed::up(dirs, &options.bed, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    bed.install(&dirs.release_crds()).await?;
    let flaky = dirs
        .workspace
        .join("target/flaky")
        .join(options.bed.to_string());
    match std::fs::remove_dir_all(&flaky) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::Kept(error)),
        _ => {}
    }
    let mut command = cargo::command(dirs);
    command.args(["test", "--workspace", "--config", &runner(&own, &flaky)]);
    // One binary says nothing about the next.
    command.args((!cargo_args().any(|arg| arg == "--no-fail-fast")).then_some("--no-fail-fast"));
    command
        .args(args)
        .env("BATON_TEST_KUBECONFIG", bed.kubeconfig())
        .env("BATON_BIN", manager)
        .env("BATON_PLUGIN_BIN", plugin)
        .env("HELM_BIN", helm)
        .env("BATON_HEALTH_BIN", health);
    bed.attach(&mut command);
    let status = Group::spawn(&mut command)?.wait().await?;
    // Tests that failed for it do not say so.
    for ended in bed.ended() {
        tell(&ended.to_string());
    }
    let flaky = retry::kept(&flaky);
    for Flaky { name, output } in &flaky {
        tell(&format!(
            "FLAKY {name}: failed, and passed alone; {}",
            output.display()
        ));
    }
    if status.success() && flaky.len() > MOST_FLAKY {
        return Err(Error::Flaky(flaky.len()));
    }
    Ok(status)
}

/// The configuration by which cargo has this program run the binaries.
fn runner(own: &Path, kept: &Path) -> String {
    let words = [
        own.display().to_string(),
        "run-tests".to_owned(),
        kept.display().to_string(),
    ];
    // What JSON quotes, TOML reads.
    format!("target.'cfg(all())'.runner={}", serde_json::json!(words))
}

/// The arguments for `cargo test`. The parser swallows a `--` in front of them, which means
/// something to cargo too.
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
    fn separators_reach_cargo() {
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
