//! `cargo dev test`: every test of the workspace, with a bed for those that need one.

use std::ffi::{OsStr, OsString};
use std::process::ExitStatus;

use clap::Args;

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
#[error(transparent)]
pub(crate) enum Error {
    Bed(#[from] bed::Error),
    Cargo(#[from] cargo::Error),
    Exec(#[from] exec::Error),
    Tools(#[from] tools::Error),
}

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
/// and what they started. Failed tests are no error but an exit status. A server of the bed that has
/// ended meanwhile is named on the standard error.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<ExitStatus, Error> {
    let args = passed_on(std::env::args_os().collect(), &options.args);
    let cargo_args = || args.iter().take_while(|arg| *arg != "--");
    let release = cargo_args().any(|arg| arg == "--release" || arg == "-r");
    // With the whole workspace selected, dependencies have the features that they have for `cargo
    // test --workspace`, and are not built twice.
    let selection = &["--workspace", "--release"][..=usize::from(release)];
    let [manager, plugin] = cargo::build(dirs, ["baton", "kubectl-baton"], selection).await?;
    let helm = tools::helm(dirs).await?;
    let health = tools::health(dirs).await?;
    let afterwards = Afterwards::kept(options.keep);
    let bed = Bed::up(dirs, &options.bed, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    bed.install(&dirs.release_crds()).await?;
    let mut command = cargo::command(dirs);
    command
        .args(["test", "--workspace"])
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
    Ok(status)
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
