//! Isolation of the renderer from files and networks.
//!
//! On Linux it is enforced by Landlock, as far as the kernel has it. The other limits of the renderer
//! do not depend on it.

use std::{io, path::Path};

/// The paths that an isolated process can use, with everything below them.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// Paths to read, and to execute programs from, besides those of the system's programs.
    pub readable: &'a [&'a Path],
    /// The path to read and to write.
    pub writable: &'a Path,
}

/// Runs a function on a thread of its own. The thread, and the processes that it starts, can use no
/// other files than those of `paths`, open no connection, and send no signal to other processes.
///
/// # Errors
/// If the kernel refuses an isolation that it supports. The function has not run then.
#[cfg(target_os = "linux")]
pub fn within<T: Send>(paths: Paths<'_>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let isolated = || {
        linux::isolate(paths)
            .map_err(io::Error::other)
            .map(|()| work())
    };
    let ended = std::thread::scope(|scope| scope.spawn(isolated).join());
    ended.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has panicked")))
}

/// Runs a function. This system has no such isolation.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn within<T: Send>(_: Paths<'_>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    Ok(work())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{path::Path, sync::Once};

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };

    use super::Paths;

    /// Paths of the system's programs and their libraries, and an empty file.
    const SYSTEM: [&str; 5] = ["/bin", "/lib", "/lib64", "/usr", "/dev/null"];

    /// Restricts the current thread.
    pub(super) fn isolate(paths: Paths<'_>) -> Result<(), RulesetError> {
        static WARNED: Once = Once::new();
        let abi = ABI::V6;
        let read = AccessFs::from_read(abi);
        let all = AccessFs::from_all(abi);
        let readable = SYSTEM
            .iter()
            .map(Path::new)
            .chain(paths.readable.iter().copied());
        let status = Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .add_rules(path_beneath_rules(readable, read))?
            .add_rules(path_beneath_rules([paths.writable], all))?
            .restrict_self()?;
        if status.ruleset != RulesetStatus::FullyEnforced {
            WARNED.call_once(|| {
                tracing::warn!(
                    status = ?status.ruleset,
                    "the kernel cannot isolate helm from all files and networks (Landlock of Linux 6.12)"
                );
            });
        }
        Ok(())
    }
}
