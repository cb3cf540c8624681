//! The kubectl plugin as a child process.

mod seen;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub use self::seen::SeenPlugin;
use crate::guard::{Guard, beside_tests};
use crate::manifest::object;
use crate::namespace::TestNamespace;

/// How long the plugin may take to write what is waited for, or to end when it is interrupted.
const PATIENCE: Duration = Duration::from_mins(1);

/// Instead of the exit code of a run that a signal has ended.
pub const BY_A_SIGNAL: i32 = -1;

/// What a run of the plugin has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code, or [`BY_A_SIGNAL`].
    pub code: i32,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

impl Ran {
    /// The standard output of a run that had nothing to complain about.
    #[must_use]
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self.stdout
    }

    /// A run that did what it was to do, whatever it remarked.
    #[allow(
        clippy::must_use_candidate,
        clippy::return_self_not_must_use,
        reason = "that it did so may be all there is to know"
    )]
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// The standard error of a run that could not do its work, and wrote nothing else.
    #[must_use]
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:?}");
        self.stderr
    }
}

/// A run of the plugin that goes on by itself. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    _guard: Guard,
}

impl TestNamespace {
    /// Runs the plugin in the namespace, to its end.
    #[must_use]
    pub fn plugin(&self, args: &[&str]) -> Ran {
        let output = self.plugin_command(args).output();
        ran(output.unwrap_or_else(|error| panic!("cannot run the plugin: {error}")))
    }

    /// Runs the plugin in the namespace with something on its standard input.
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
            // One that ends without reading closes the pipe.
            scope.spawn(move || stdin.unwrap().write_all(input.as_bytes()));
            ran(child.wait_with_output().unwrap())
        })
    }

    /// Gives a user rights in the namespace, as the rules of a Role. The server takes its time to see them.
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

    /// Starts the plugin in the namespace and lets it go on. Its standard input stays open.
    #[must_use]
    pub fn plugin_started(&self, args: &[&str]) -> Running {
        let mut command = self.plugin_command(args);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let guard = Guard::over_process(child.id());
        let lines = lines(child.stdout.take());
        Running {
            child,
            lines,
            seen: Vec::new(),
            _guard: guard,
        }
    }

    /// The plugin, to be run in the namespace, as anybody would who has nothing configured but the cluster.
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
        if !is_placed {
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

/// The lines of a pipe, as they come.
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
    /// Waits until the lines written since the last such wait satisfy a predicate, and returns them.
    pub fn writes(&mut self, text: &str, predicate: impl Fn(&[String]) -> bool) -> Vec<String> {
        let asked = Instant::now();
        while !predicate(&self.seen) {
            let left = PATIENCE.saturating_sub(asked.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!(
                    "the plugin was to write {text} ({error}), and wrote\n{}",
                    self.seen.join("\n")
                ),
            }
        }
        std::mem::take(&mut self.seen)
    }

    /// Writes a text to its standard input, and returns once all has been read but what a pipe holds.
    pub fn reads(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// Interrupts it as Ctrl-C does, and returns its exit code, or [`BY_A_SIGNAL`].
    #[must_use]
    pub fn interrupt(mut self) -> i32 {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(BY_A_SIGNAL);
            }
            assert!(
                asked.elapsed() < PATIENCE,
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

/// Snapshots of what the plugin prints, with what is never the same replaced: the namespace, ages, UIDs. The
/// namespace is replaced by one of the same length, so that columns stay aligned.
#[must_use]
pub fn snapshots(namespace: &TestNamespace) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let name = namespace.name();
    let stars = "*".repeat(name.len().saturating_sub("namespace".len()));
    settings.add_filter(name, format!("namespace{stars}"));
    // An age in a table is followed by the blanks that fill its column, or by the end of the line.
    settings.add_filter(r"\b\d{1,3}s old\b", "[age] old");
    settings.add_filter(r"\b\d{1,3}s {3,}", "[age]   ");
    settings.add_filter(r"(?m)\b\d{1,3}s$", "[age]");
    settings.add_filter(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[uid]",
    );
    settings
}

/// As [`snapshots`], of objects whose conditions were written long ago.
#[must_use]
pub fn dated_snapshots(namespace: &TestNamespace) -> insta::Settings {
    let mut settings = snapshots(namespace);
    settings.add_filter(r"\b\d+(d|y|y\d+d|d\d+h) {3,}", "[since]   ");
    settings.add_filter(r"(?m)\b\d+(d|y|y\d+d|d\d+h)$", "[since]");
    settings
}
