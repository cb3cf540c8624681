//! Guards, which end the processes and beds of a test process however it ends.
//!
//! A guard is a small process that holds one end of a pipe. When the test process is gone
//! (returned, aborted, interrupted, killed), the operating system closes the other end, and the
//! guard ends its process or bed. To ask the kernel for a signal on the parent's death would
//! require unsafe code, and handlers in the test process itself do not run when it is killed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A guard of one process or one bed. It does nothing after the value is dropped.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Kills the process with this id when the current process is gone.
    #[must_use]
    pub fn over_process(id: u32) -> Self {
        Self::start(&["process".into(), id.to_string().into()])
    }

    /// Ends the bed of this name when the current process is gone.
    #[must_use]
    pub fn over_bed(name: &str) -> Self {
        Self::start(&["bed".into(), name.into()])
    }

    fn start(args: &[OsString]) -> Self {
        let program = beside_tests("baton-test-guard");
        let child = Command::new(&program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The guard has its own process group: a signal to the group of the tests must not end
            // the guard.
            .process_group(0)
            .spawn();
        match child {
            Ok(child) => Self(child),
            Err(error) => panic!("cannot run {}: {error}", program.display()),
        }
    }
}

impl Guard {
    /// Closes this end of the pipe, as the end of the process does.
    pub fn close(&mut self) {
        drop(self.0.stdin.take());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of a program that cargo has put one directory above the test executable.
#[must_use]
pub fn beside_tests(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join(name)
}
