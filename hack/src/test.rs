//! `cargo dev test`: every test of the workspace, with a bed for those that need one.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use clap::Args;
use tokio::process::Command;

use crate::bed::{self, Afterwards, Bed};
use crate::cargo;
use crate::exec::{self, Group};
use crate::paths::Dirs;

/// The binaries that the tests start.
const MANAGER: &str = "baton";
const PLUGIN: &str = "kubectl-baton";

/// What to test, and on which bed.
#[derive(Debug, Args)]
pub struct Options {
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
pub enum Error {
    /// There is no bed.
    #[error(transparent)]
    Bed(#[from] bed::Error),
    /// Cargo does not run.
    #[error(transparent)]
    Exec(#[from] exec::Error),
    /// Cargo runs and its end is not known.
    #[error("cannot wait for cargo: {0}")]
    Wait(#[source] std::io::Error),
    /// The programs that the tests start do not build.
    #[error("building the manager and the plugin failed")]
    Build,
}

/// Builds the manager and the plugin, starts a bed with the custom resource definitions on it, runs the
/// tests and ends the bed.
///
/// The tests find what they need in the environment: `KUBECONFIG` and `BATON_TEST_KUBECONFIG`, the
/// kubeconfig of the bed; `BATON_BIN`, the manager; `BATON_PLUGIN_BIN`, the plugin.
///
/// # Guarantees
///
/// Unless the bed is to be kept it has ended when this returns or is dropped, and so have the tests
/// and what they started.
///
/// # Errors
///
/// When the tests could not be run. Failed tests are no error but an exit status.
pub async fn run(dirs: &Dirs, options: &Options) -> Result<ExitStatus, Error> {
    let args = passed_on(std::env::args_os().collect(), &options.args);
    let programs = build(dirs, &args).await?;
    let afterwards = if options.keep {
        Afterwards::Keep
    } else {
        Afterwards::End
    };
    let bed = Bed::up(dirs, &options.bed, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    let mut command = cargo::command(dirs);
    command
        .args(["test", "--workspace"])
        .args(args)
        .env("BATON_TEST_KUBECONFIG", bed.kubeconfig())
        .env("BATON_BIN", programs.manager)
        .env("BATON_PLUGIN_BIN", programs.plugin);
    bed.attach(&mut command);
    wait(&mut command).await
}

async fn wait(command: &mut Command) -> Result<ExitStatus, Error> {
    Group::spawn(command)?.wait().await.map_err(Error::Wait)
}

/// What the tests start.
struct Programs {
    manager: PathBuf,
    plugin: PathBuf,
}

/// Builds the programs and returns where they are.
async fn build(dirs: &Dirs, args: &[OsString]) -> Result<Programs, Error> {
    let release = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--release" || arg == "-r");
    let mut command = cargo::command(dirs);
    // With the whole workspace selected, dependencies have the features that they have for `cargo
    // test --workspace`, and are not built twice.
    command.args([
        "build",
        "--workspace",
        "--bin",
        MANAGER,
        "--bin",
        PLUGIN,
        "--message-format=json-render-diagnostics",
    ]);
    command
        .args(release.then_some("--release"))
        .stdout(Stdio::piped());
    let mut group = Group::spawn(&mut command)?;
    let messages = exec::read(group.child().stdout.take())
        .await
        .map_err(Error::Wait)?;
    let status = group.wait().await.map_err(Error::Wait)?;
    let built = |name| {
        let path = status.success().then(|| executable(&messages, name));
        path.flatten().ok_or(Error::Build)
    };
    Ok(Programs {
        manager: built(MANAGER)?,
        plugin: built(PLUGIN)?,
    })
}

/// The executable of this name that cargo reports.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let path = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == name).then_some(())?;
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.lines().find_map(path)
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

    #[test]
    fn executables_are_found_among_the_messages() {
        let artifact = |name: &str, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"target\":{{\"name\":\"{name}\"}},\"executable\":{executable}}}\n"
            )
        };
        let messages = [
            artifact("baton", "null"),
            artifact("baton", "\"/t/baton\""),
            artifact("kubectl-baton", "\"/t/kubectl-baton\""),
            "{\"reason\":\"build-finished\"}\n".to_owned(),
        ]
        .concat();
        assert_eq!(executable(&messages, MANAGER), Some("/t/baton".into()));
        assert_eq!(
            executable(&messages, PLUGIN),
            Some("/t/kubectl-baton".into())
        );
        assert_eq!(executable("", MANAGER), None);
    }
}
