//! Runs cargo from a task of cargo.

use std::path::PathBuf;

use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;

/// The reason that there is no binary.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("building {0} failed")]
    Build(String),
}

/// The cargo that runs this task, in the root of the workspace.
///
/// The variables that the outer cargo sets about this package are removed. Build scripts, such as
/// that of ring, ask to be run again when these change, so everything that depends on them would be
/// built again whenever a task and a plain `cargo` command alternate. Build scripts do not get the
/// key of a release either.
#[must_use]
pub fn command(dirs: &Dirs) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(&dirs.workspace);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let starts = ["CARGO_PKG_", "CARGO_MANIFEST_", "COSIGN_"];
        if starts.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Builds binaries with further arguments of `cargo build`, and returns their paths.
pub async fn build<const N: usize>(
    dirs: &Dirs,
    names: [&str; N],
    args: &[&str],
) -> Result<[PathBuf; N], Error> {
    build_with(dirs, "build", names, args, &[]).await
}

/// As [`build`], with another task of cargo than `build`, and with variables.
pub(crate) async fn build_with<const N: usize>(
    dirs: &Dirs,
    task: &str,
    names: [&str; N],
    args: &[&str],
    variables: &[(&str, &str)],
) -> Result<[PathBuf; N], Error> {
    let mut command = command(dirs);
    command
        .args([task, "--message-format=json-render-diagnostics"])
        .envs(variables.iter().copied())
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .args(args);
    let (messages, _, status) = exec::captured(&mut command).await?;
    let built = names
        .into_iter()
        .map(|name| executable(&messages, name))
        .collect();
    let built = Some(built).filter(|_| status.success()).flatten();
    let built: Option<Vec<PathBuf>> = built;
    built
        .and_then(|built| built.try_into().ok())
        .ok_or_else(|| Error::Build(names.join(" and ")))
}

/// The test executable in the messages of cargo.
pub(crate) fn test_executable(messages: &str) -> Option<PathBuf> {
    reported(messages, |message| message["profile"]["test"] == true)
}

/// The executable with this name in the messages of cargo.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    reported(messages, |message| message["target"]["name"] == name)
}

fn reported(messages: &str, is_wanted: impl Fn(&serde_json::Value) -> bool) -> Option<PathBuf> {
    let path = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        is_wanted(&message).then_some(())?;
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.lines().find_map(path)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(executable(&messages, "baton"), Some("/t/baton".into()));
        assert_eq!(
            executable(&messages, "kubectl-baton"),
            Some("/t/kubectl-baton".into())
        );
        assert_eq!(executable("no json", "baton"), None);
    }

    #[test]
    fn the_test_executable_is_found_beside_a_program_of_the_same_name() {
        let messages = [
            r#"{"target":{"name":"a"},"profile":{"test":false},"executable":"/t/a"}"#,
            r#"{"target":{"name":"a"},"profile":{"test":true},"executable":"/t/deps/a-1"}"#,
        ];
        let found = test_executable(&messages.join("\n"));
        assert_eq!(found, Some("/t/deps/a-1".into()));
        assert_eq!(test_executable(messages[0]), None);
    }
}
