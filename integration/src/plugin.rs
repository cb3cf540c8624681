//! The kubectl plugin as a child process.

mod requests;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub use self::requests::SeenPlugin;
use crate::guard::{Guard, beside_tests};
use crate::manifest::object;
use crate::namespace::{TIMEOUT, TestNamespace};

/// Replaces the exit code of a run that ended by a signal.
pub const BY_A_SIGNAL: i32 = -1;

/// The result of a run of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Exit code, or [`BY_A_SIGNAL`].
    pub code: i32,
    /// Standard output of the run.
    pub stdout: String,
    /// Standard error of the run.
    pub stderr: String,
}

impl Ran {
    /// Requires success without warnings, and returns the standard output.
    #[must_use]
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self.stdout
    }

    /// Requires success and returns the run. Warnings are allowed.
    #[allow(
        clippy::must_use_candidate,
        clippy::return_self_not_must_use,
        reason = "a caller that only requires success needs no result"
    )]
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// Requires failure without standard output, and returns the standard error.
    #[must_use]
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:?}");
        self.stderr
    }
}

/// A run of the plugin in the background. It is killed when the value is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    reported: Vec<String>,
    _guard: Guard,
}

impl TestNamespace {
    /// Runs the plugin in the namespace and waits for its end.
    #[must_use]
    pub fn plugin(&self, args: &[&str]) -> Ran {
        let output = self.plugin_command(args).output();
        ran(output.unwrap_or_else(|error| panic!("cannot run the plugin: {error}")))
    }

    /// Runs the plugin in the namespace with this text on its standard input.
    #[must_use]
    pub fn plugin_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.plugin_command(args);
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // The write fails if the plugin ends without reading and so closes the pipe.
            scope.spawn(move || stdin.unwrap().write_all(input.as_bytes()));
            ran(child.wait_with_output().unwrap())
        })
    }

    /// Grants a user the rules of a Role in the namespace. The server applies them with a delay.
    pub async fn grant(&self, user: &str, rules: Value) {
        const RBAC: &str = "rbac.authorization.k8s.io";
        let api_version = format!("{RBAC}/v1");
        let role = object(&api_version, "Role", user).with("/rules", rules);
        let binding = object(&api_version, "RoleBinding", user)
            .with(
                "/roleRef",
                json!({ "apiGroup": RBAC, "kind": "Role", "name": user }),
            )
            .with(
                "/subjects",
                json!([{ "apiGroup": RBAC, "kind": "User", "name": user }]),
            );
        self.create(&role).await;
        self.create(&binding).await;
    }

    /// Starts the plugin in the namespace and returns at once. Its standard input stays open.
    #[must_use]
    pub fn plugin_started(&self, args: &[&str]) -> Running {
        Running::start(self.plugin_command(args))
    }

    /// Starts a command that waits. Returns after its first line on standard error: by then, it has
    /// read the state once.
    #[must_use]
    pub fn plugin_waiting(&self, args: &[&str]) -> Child {
        let mut command = self.plugin_command(args);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut first = String::new();
        let errors = child.stderr.as_mut().unwrap();
        BufReader::new(errors).read_line(&mut first).unwrap();
        child
    }

    /// Returns a command that runs the plugin in the namespace, with no configuration but the
    /// cluster.
    #[must_use]
    pub fn plugin_command(&self, args: &[&str]) -> Command {
        let program = std::env::var_os("BATON_PLUGIN_BIN")
            .map_or_else(|| beside_tests("kubectl-baton"), PathBuf::from);
        let mut command = Command::new(program);
        command
            .args(args)
            .env("KUBECONFIG", self.cluster().kubeconfig())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        let is_placed = args
            .iter()
            .any(|arg| arg.starts_with("-n") || arg.starts_with("--namespace"));
        // It concerns the whole cluster.
        let has_place = args.first() != Some(&"uninstall");
        if !is_placed && has_place {
            command.args(["--namespace", self.name()]);
        }
        command
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(BY_A_SIGNAL),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the lines of a pipe as they arrive.
fn lines(pipe: Option<ChildStdout>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe.unwrap()).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Running {
    /// Starts a command and returns at once. Its standard input stays open.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let guard = Guard::over_process(child.id());
        let lines = lines(child.stdout.take());
        Self {
            child,
            lines,
            reported: Vec::new(),
            _guard: guard,
        }
    }

    /// Waits until the lines since the last call satisfy a predicate, and returns them.
    pub fn writes(&mut self, text: &str, predicate: impl Fn(&[String]) -> bool) -> Vec<String> {
        let start = Instant::now();
        while !predicate(&self.reported) {
            let left = TIMEOUT.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.reported.push(line),
                Err(error) => panic!(
                    "the plugin was to write {text} ({error}), ended with {:?}, and wrote\n{}",
                    self.child.try_wait(),
                    self.reported.join("\n")
                ),
            }
        }
        std::mem::take(&mut self.reported)
    }

    /// Writes a text to the standard input, and returns when the plugin has read all but the
    /// content of the pipe's buffer.
    pub fn reads(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// Interrupts the plugin as Ctrl-C does, and returns its exit code, or [`BY_A_SIGNAL`].
    #[must_use]
    pub fn interrupt(mut self) -> i32 {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(BY_A_SIGNAL);
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "the plugin does not end on SIGINT"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the settings for snapshots of the plugin's output.
///
/// They replace all values that differ per run: the namespace, ages, UIDs. The substitute of the
/// namespace has the same length, so that columns stay aligned.
#[must_use]
pub fn snapshots(namespace: &TestNamespace) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let name = namespace.name();
    let stars = "*".repeat(name.len().saturating_sub("namespace".len()));
    settings.add_filter(name, format!("namespace{stars}"));
    // In a table, the blanks that fill the column, or the end of the line, follow an age.
    settings.add_filter(r"\b\d{1,3}s old\b", "[age] old");
    settings.add_filter(r"\b\d{1,3}s {3,}", "[age]   ");
    settings.add_filter(r"(?m)\b\d{1,3}s$", "[age]");
    settings.add_filter(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[uid]",
    );
    settings
}

/// As [`snapshots`], for objects whose conditions were written long ago.
#[must_use]
pub fn dated_snapshots(namespace: &TestNamespace) -> insta::Settings {
    let mut settings = snapshots(namespace);
    settings.add_filter(r"\b\d+(d|y|y\d+d|d\d+h) {3,}", "[since]   ");
    settings.add_filter(r"(?m)\b\d+(d|y|y\d+d|d\d+h)$", "[since]");
    settings
}
