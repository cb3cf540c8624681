//! The manager as a child process.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::OnceLock;

use crate::clock::ShiftedClock;
use crate::program::{Log, Program};

/// The interval of the agents' heartbeats in seconds. An agent is reported as lost after six
/// seconds without a heartbeat.
pub const HEARTBEAT: &str = "--agent-heartbeat=2";

/// A running manager.
///
/// # Guarantees
///
/// The process ends when this value is dropped, and when the test process ends in any way.
#[derive(Debug)]
pub struct Manager(Program);

impl Manager {
    /// Returns the manager that all tests of this process share, on the cluster of the test run.
    pub fn shared(kubeconfig: &Path) -> &'static Self {
        static SHARED: OnceLock<Manager> = OnceLock::new();
        let manager = SHARED.get_or_init(|| Self::start(kubeconfig, "shared"));
        assert!(
            manager.exited().is_none(),
            "the manager has ended by itself; its log is {}",
            manager.log().path().display()
        );
        manager
    }

    /// Starts a manager and waits until it is ready. Its log is named after the purpose.
    #[must_use]
    pub fn start(kubeconfig: &Path, purpose: &str) -> Self {
        Self::start_with(kubeconfig, purpose, &[])
    }

    /// As [`Manager::start`], with additional flags.
    #[must_use]
    pub fn start_with(kubeconfig: &Path, purpose: &str, flags: &[&str]) -> Self {
        let flags = [&["--leader-elect=false", HEARTBEAT], flags].concat();
        let args = args(kubeconfig, &flags);
        Self(Program::start("/readyz", &log(purpose), &args, &[]))
    }

    /// As [`Manager::start`], with a clock of the test.
    #[must_use]
    pub fn start_at(kubeconfig: &Path, purpose: &str, clock: &ShiftedClock) -> Self {
        let args = args(kubeconfig, &["--leader-elect=false", HEARTBEAT]);
        let variables = clock.variables();
        Self(Program::start("/readyz", &log(purpose), &args, &variables))
    }

    /// Starts a manager with additional flags and does not wait until it is ready.
    #[must_use]
    pub fn spawn(kubeconfig: &Path, purpose: &str, flags: &[&str]) -> Self {
        Self(Program::spawn(&log(purpose), &args(kubeconfig, flags), &[]))
    }

    /// Kills the manager (SIGKILL), and returns when it is gone.
    pub fn kill(self) {
        drop(self);
    }

    /// Asks the manager to end (SIGTERM), and returns its exit status.
    #[must_use]
    pub fn terminate(self) -> ExitStatus {
        self.0.terminate()
    }
}

impl Deref for Manager {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

fn log(purpose: &str) -> Log {
    Log::of(&format!("manager-{purpose}"))
}

fn args(kubeconfig: &Path, flags: &[&str]) -> Vec<OsString> {
    let mut args = vec!["manager".into(), "--kubeconfig".into(), kubeconfig.into()];
    args.extend(flags.iter().map(OsString::from));
    args
}
