//! Nothing that a test process starts outlives it, however it ends.
//!
//! A guard is a small process of its own that holds one end of a pipe. When the test process is
//! gone (returned, aborted, interrupted, killed) the operating system closes the other end, and the
//! guard ends its process or bed. Asking the kernel for a signal on the parent's death would need
//! unsafe code, and handlers in the test process itself do not run when it is killed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A guard over one process or one bed. Dropped, it does nothing any more.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Kills the process with this id when the present one is gone.
    #[must_use]
    pub fn over_process(id: u32) -> Self {
        Self::start(&["process".into(), id.to_string().into()])
    }

    /// Ends the bed of this name when the present process is gone.
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
            // A group of its own: what ends the tests by a signal to theirs must not end the guard.
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
    pub fn let_go(&mut self) {
        drop(self.0.stdin.take());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that cargo has put one directory above the test executable.
#[must_use]
pub fn beside_tests(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join(name)
}
