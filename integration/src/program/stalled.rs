//! A thread of a program that stands still while the others go on, as on a machine that has no processor for it.

use std::fs;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::Program;

/// Holds a thread by tracing it, also while the program as a whole is stopped and goes on. Dropped, it lets it go on.
///
/// It borrows the program: one that is ended while a thread of it is traced cannot be waited for.
#[derive(Debug)]
pub struct Stalled<'a> {
    thread: Pid,
    _program: &'a Program,
    /// Only the thread that began to trace may end it.
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
            // It was killed meanwhile, and its process ends when that is known here.
            let _ = waitpid(self.thread, Some(WaitPidFlag::__WALL));
        }
    }
}

/// The id of a process's thread of this name.
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
