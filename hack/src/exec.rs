//! Child processes that never outlive the task that started them.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// The reason that a command has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error("cannot run {program}: {source}")]
    Spawn {
        program: String,
        source: std::io::Error,
    },
    #[error("{program} failed ({status}):\n{output}")]
    Failed {
        program: String,
        status: ExitStatus,
        output: String,
    },
    #[error("cannot wait for {program}: {source}")]
    Wait {
        program: String,
        source: std::io::Error,
    },
}

/// A child process in a process group of its own, with everything that it starts in turn.
///
/// # Guarantees
///
/// When this value is dropped, the whole group ends: it gets SIGTERM, and after [`GRACE`] it is
/// killed. A Ctrl-C of the terminal does not reach the group; the task decides when the group ends,
/// by dropping this value.
#[derive(Debug)]
pub struct Group {
    program: String,
    child: Child,
    id: Option<Pid>,
}

/// The time that a group may take to end by itself.
pub const GRACE: Duration = Duration::from_secs(5);

impl Group {
    /// Starts `command`.
    pub fn spawn(command: &mut Command) -> Result<Self, Error> {
        let program = program(command);
        let spawned = command.process_group(0).kill_on_drop(true).spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(source) => return Err(Error::Spawn { program, source }),
        };
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        Ok(Self { program, child, id })
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The process id of the child, until the child has ended and was waited for.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        let id = i32::try_from(self.child.id()?).ok();
        id.and_then(Pid::from_raw)
    }

    /// Waits until the child has ended. Other processes of the group end when the group is dropped.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().await.map_err(|source| self.lost(source))
    }

    /// Reads the standard output and the standard error to their ends, if they are pipes, and
    /// waits.
    async fn finish(&mut self) -> Result<(String, String, ExitStatus), Error> {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let (out, err, status) = tokio::join!(read(out), read(err), self.child.wait());
        let lost = |source| self.lost(source);
        let (out, err) = (out.map_err(lost)?, err.map_err(lost)?);
        Ok((out, err, status.map_err(lost)?))
    }

    fn lost(&self, source: std::io::Error) -> Error {
        let program = self.program.clone();
        Error::Wait { program, source }
    }

    fn end(&mut self) {
        let Some(id) = self.id.take() else { return };
        let start = Instant::now();
        // The signal fails when the group has no member any more.
        while kill_process_group(id, Signal::TERM).is_ok() && start.elapsed() < GRACE {
            // The child has to be waited for, since it counts as a member until then.
            let _ = self.child.try_wait();
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(id, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes the variables that configure Baton's programs from the inherited environment.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let own = name.starts_with("BATON_") || name.starts_with("PKO_");
        if own || matches!(&*name, "LOG_LEVEL" | "POD_NAMESPACE") {
            command.env_remove(&*name);
        }
    }
}

/// Runs `command` to its end, with the output of this process.
pub(crate) async fn status(command: &mut Command) -> Result<ExitStatus, Error> {
    Group::spawn(command)?.wait().await
}

/// Runs `command` to its end and returns what it wrote to its standard output.
pub async fn output(command: &mut Command) -> Result<String, Error> {
    command.stderr(Stdio::piped());
    let (out, err, status) = captured(command).await?;
    if status.success() {
        return Ok(out);
    }
    Err(Error::Failed {
        program: program(command),
        status,
        output: tail(&[out, err].concat(), 20),
    })
}

/// Runs `command` to its end, and returns what it wrote to its standard output, and to its standard
/// error if that is a pipe.
pub async fn captured(command: &mut Command) -> Result<(String, String, ExitStatus), Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Group::spawn(command)?.finish().await
}

/// The last `lines` lines of `text`.
#[must_use]
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Reads a pipe of a child to its end.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Replaces this process by a program, so that the program has the terminal to itself. Returns only
/// if that fails.
pub(crate) fn in_place(command: &mut std::process::Command) -> Error {
    let source = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Error::Spawn { program, source }
}

/// The exit code of a process as shells report it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

fn program(command: &Command) -> String {
    let program = command.as_std().get_program();
    program.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn a_failure_is_reported_with_its_output_and_exit_code() {
        assert_eq!(
            output(&mut shell("echo out; echo err >&2")).await.unwrap(),
            "out\n"
        );
        let error = output(&mut shell("echo why >&2; exit 3"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
        let error = output(&mut Command::new("/no/such/program"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("/no/such/program"), "{error}");
    }

    #[tokio::test]
    async fn dropping_a_group_ends_grandchildren_too() {
        let mut command = shell("sleep 60 & echo $!; wait");
        command.stdout(Stdio::piped());
        let mut group = Group::spawn(&mut command).unwrap();
        let mut pid = [0; 16];
        let read = group
            .child()
            .stdout
            .as_mut()
            .unwrap()
            .read(&mut pid)
            .await
            .unwrap();
        let pid: i32 = String::from_utf8_lossy(&pid[..read])
            .trim()
            .parse()
            .unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_ok());
        drop(group);
        // A zombie that init has not waited for yet still accepts signals; its command line is
        // empty.
        let gone = || {
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                .is_ok_and(|line| line.is_empty())
        };
        assert!(rustix::process::test_kill_process(pid).is_err() || gone());
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
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
