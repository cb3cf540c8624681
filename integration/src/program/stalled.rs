//! A thread that is stopped while the rest of the program continues, as on a machine without a free
//! processor.

use std::fs;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::Program;

/// Stops a thread by tracing it, even if the whole program is stopped and continued meanwhile. The
/// thread continues when the value is dropped.
///
/// The value borrows the program: a program that is ended while one of its threads is traced cannot
/// be waited for.
#[derive(Debug)]
pub struct Stalled<'a> {
    thread: Pid,
    _program: &'a Program,
    /// Only the thread that began to trace may stop tracing.
    _here: PhantomData<*const ()>,
}

impl<'a> Stalled<'a> {
    pub(super) fn new(program: &'a Program, name: &str) -> Self {
        let process = program.child.lock().unwrap().id();
        let thread = thread(process, name);
        let held = ptrace::seize(thread, Options::empty())
            .and_then(|()| ptrace::interrupt(thread))
            .and_then(|()| waitpid(thread, Some(WaitPidFlag::__WALL)));
        held.unwrap_or_else(|error| panic!("cannot trace the thread {name}: {error}"));
        Self {
            thread,
            _program: program,
            _here: PhantomData,
        }
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        if ptrace::detach(self.thread, None) == Err(Errno::ESRCH) {
            // The thread was killed meanwhile. Its process ends once the end of the thread is read
            // here.
            let _ = waitpid(self.thread, Some(WaitPidFlag::__WALL));
        }
    }
}

/// Returns the id of the thread of this name.
fn thread(process: u32, name: &str) -> Pid {
    let tasks = format!("/proc/{process}/task");
    let found = fs::read_dir(&tasks).unwrap().find_map(|task| {
        let task = task.unwrap().path();
        let comm = fs::read_to_string(task.join("comm")).unwrap_or_default();
        let id = task.file_name()?.to_str()?.parse().ok()?;
        (comm.trim_end() == name).then_some(id)
    });
    Pid::from_raw(found.unwrap_or_else(|| panic!("no thread of the name {name} in {tasks}")))
}
