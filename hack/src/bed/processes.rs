//! The processes of a bed, identified by their arguments.
//!
//! kwokctl starts its servers as daemons and stores their process ids in files. A file may be
//! missing or stale after a process was killed, and an id may belong to another process by then.
//! The arguments are reliable: all servers are given paths below the directory of their bed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The servers, by the names that kwokctl gives their process id and log files.
pub(super) const COMPONENTS: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok-controller",
];

/// The time that killed processes may take to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The reason that a bed could not be removed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error("cannot list processes: {0}")]
    List(#[source] io::Error),
    #[error("still running after SIGKILL: {}", pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Stubborn { pids: Vec<i32> },
    #[error("cannot remove {path}: {source}")]
    Remove { path: PathBuf, source: io::Error },
}

/// The variable that identifies processes that are attached to a bed. Its value is the directory of
/// the bed.
pub(super) const MARK: &str = "BATON_BED_RUN";

/// The ids of all processes of the bed in `dir`, the starting kwokctl first.
fn of(dir: &Path) -> Result<Vec<i32>, Error> {
    let mut found: Vec<(i32, Vec<String>)> = list().map_err(Error::List)?;
    found.retain(|(_, args)| belongs(args, dir));
    // kwokctl is killed first, so that it cannot start a server after the list was made.
    found.sort_by_key(|(_, args)| {
        !args
            .first()
            .is_some_and(|program| program.ends_with("kwokctl"))
    });
    Ok(found.into_iter().map(|(pid, _)| pid).collect())
}

/// The servers that were started and do not run any more.
pub(super) fn dead(dir: &Path) -> Result<Vec<&'static str>, Error> {
    // The ids are read before the processes are listed, so that a server that starts in between
    // does not count as dead.
    let noted = COMPONENTS.map(|component| (component, started(dir, component)));
    let alive = of(dir)?;
    let ended = |pid: Option<i32>| pid.is_some_and(|pid| !alive.contains(&pid));
    let dead = noted.into_iter().filter(|(_, pid)| ended(*pid));
    Ok(dead.map(|(component, _)| component).collect())
}

/// True if all of these servers run.
pub(super) fn complete(dir: &Path, components: &[&str]) -> Result<bool, Error> {
    let alive = of(dir)?;
    let runs = |component: &&str| started(dir, component).is_some_and(|pid| alive.contains(&pid));
    Ok(components.iter().all(runs))
}

/// The id of a running server.
pub(super) fn running(dir: &Path, component: &str) -> Result<Option<i32>, Error> {
    let alive = of(dir)?;
    Ok(started(dir, component).filter(|pid| alive.contains(pid)))
}

/// Ends every process of the bed and all attached processes, and removes its directory. Returns
/// true if there was anything to remove.
///
/// # Guarantees
///
/// On return the processes have ended and closed their sockets, so their ports are free.
pub(super) fn sweep(dir: &Path) -> Result<bool, Error> {
    let start = Instant::now();
    let mut any = dir.exists();
    let mut ending = BTreeSet::new();
    loop {
        let mut running = of(dir)?;
        running.extend(marked(dir).map_err(Error::List)?);
        ending.extend(running.iter().copied());
        ending.retain(|pid| !is_gone(*pid));
        if ending.is_empty() {
            break;
        }
        if start.elapsed() > TIMEOUT {
            return Err(Error::Stubborn {
                pids: ending.into_iter().collect(),
            });
        }
        any = true;
        for pid in running {
            // A process that has ended meanwhile is fine; one that cannot be killed is found again
            // in the next round.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        sleep(Duration::from_millis(10));
    }
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Remove {
            path: dir.to_owned(),
            source,
        }),
        _ => Ok(any),
    }
}

/// True if a killed process has released everything. It loses its arguments some milliseconds
/// before its sockets, which its last thread closes.
pub(super) fn is_gone(pid: i32) -> bool {
    if !Path::new("/proc/self/stat").exists() {
        return Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid).is_err());
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The state follows the name, which is in parentheses and may contain parentheses.
    let state = stat.rsplit(") ").next().unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    state.starts_with(['Z', 'X']) && threads <= 1
}

/// The file in which kwokctl stores the process id of a server.
fn noted(dir: &Path, component: &str) -> PathBuf {
    dir.join("pids").join(component).with_extension("pid")
}

/// The process id that kwokctl stored.
fn started(dir: &Path, component: &str) -> Option<i32> {
    let text = fs::read_to_string(noted(dir, component)).ok()?;
    text.trim().parse().ok()
}

/// Removes the stored id, as if the server had never been started.
pub(super) fn forget(dir: &Path, component: &str) -> Result<(), Error> {
    let path = noted(dir, component);
    fs::remove_file(&path).map_err(|source| Error::Remove { path, source })
}

fn belongs(args: &[String], dir: &Path) -> bool {
    // With the separator, so that the bed `test` does not match `test-2`.
    let own = format!("{}/", dir.display());
    // kwokctl runs each server by a link in this directory.
    let servers = dir.join("bin");
    // The second argument is checked too, because the first one of a script is its interpreter.
    args.iter().take(2).map(Path::new).any(|program| {
        let Some(name) = program.file_name() else {
            return false;
        };
        let server = program.parent() == Some(&servers)
            && COMPONENTS.into_iter().any(|component| name == component);
        server || (name == "kwokctl" && args.iter().any(|arg| arg.contains(&own)))
    })
}

/// Process ids and arguments. A zombie, which its parent has not waited for, has no arguments.
fn list() -> io::Result<Vec<(i32, Vec<String>)>> {
    if Path::new("/proc/self/cmdline").exists() {
        list_proc()
    } else {
        list_ps()
    }
}

fn list_proc() -> io::Result<Vec<(i32, Vec<String>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // Processes start and end during the loop.
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
            continue;
        };
        let args = line
            .split(|byte| *byte == 0)
            .map(|arg| String::from_utf8_lossy(arg).into_owned())
            .collect();
        found.push((pid, args));
    }
    Ok(found)
}

/// The processes with the [`MARK`] of the bed. Empty on systems that do not list environments.
fn marked(dir: &Path) -> io::Result<Vec<i32>> {
    let mark = format!("{MARK}={}", dir.display());
    let carries = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let pids = list()?.into_iter().map(|(pid, _)| pid);
    Ok(pids.filter(|pid| *pid != own && carries(pid)).collect())
}

/// The list for systems without `/proc`. Arguments with spaces are split, which matters to
/// [`belongs`] only if the path of the cache has spaces.
fn list_ps() -> io::Result<Vec<(i32, Vec<String>)>> {
    let output = std::process::Command::new("ps")
        .args(["-axww", "-o", "pid=,command="])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| {
        let mut fields = line.split_whitespace().map(str::to_owned);
        Some((fields.next()?.parse().ok()?, fields.collect()))
    };
    Ok(text.lines().filter_map(parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_servers_of_the_same_bed_belong_to_it() {
        let dir = Path::new("/c/clusters/test");
        assert!(belongs(
            &args("/c/clusters/test/bin/etcd --data-dir=/c/clusters/test/etcd"),
            dir
        ));
        assert!(belongs(
            &args("/x/kwokctl --config /c/clusters/test/kwokctl.yaml create cluster"),
            dir
        ));
        assert!(!belongs(
            &args("/c/clusters/test-2/bin/etcd --data-dir=/c/clusters/test-2/etcd"),
            dir
        ));
        assert!(belongs(
            &args("/bin/sh /c/clusters/test/bin/etcd --data-dir=x"),
            dir
        ));
        assert!(!belongs(&args("ls -l /c/clusters/test/etcd"), dir));
        assert!(!belongs(
            &args("tail -f /c/clusters/test/logs/etcd.log"),
            dir
        ));
        assert!(!belongs(&[], dir));
    }

    #[test]
    fn a_stale_process_id_is_not_a_running_server() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pids")).unwrap();
        // This process runs, but is no server.
        fs::write(
            dir.path().join("pids/etcd.pid"),
            std::process::id().to_string(),
        )
        .unwrap();
        assert_eq!(dead(dir.path()).unwrap(), ["etcd"]);
        assert!(!complete(dir.path(), &COMPONENTS).unwrap());
    }

    #[test]
    fn processes_that_are_marked_with_a_bed_end_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let start = |value: &Path| {
            let mut command = std::process::Command::new("sleep");
            let child = command.arg("60").env(MARK, value).spawn().unwrap();
            // `spawn` returns when the child has dropped the memory of its parent, which is before
            // the kernel has written its new environment. Until then the environment reads as
            // empty, and `sweep` cannot identify the process.
            let environment = PathBuf::from(format!("/proc/{}/environ", child.id()));
            while environment.exists() && fs::read(&environment).unwrap().is_empty() {
                sleep(Duration::from_millis(1));
            }
            child
        };
        let (mut own, mut other) = (start(dir.path()), start(&dir.path().join("other")));
        assert!(sweep(dir.path()).unwrap());
        if Path::new("/proc/self/environ").exists() {
            assert!(own.try_wait().unwrap().is_some());
        }
        assert!(other.try_wait().unwrap().is_none());
        for child in [&mut own, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn zombies_are_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!is_gone(pid));
        child.kill().unwrap();
        if Path::new("/proc/self/stat").exists() {
            while !is_gone(pid) {
                sleep(Duration::from_millis(1));
            }
        }
        child.wait().unwrap();
        assert!(is_gone(pid));
    }

    #[test]
    fn both_process_lists_contain_this_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(list_proc().is_err() || list_proc().unwrap().iter().any(|(id, _)| *id == pid));
        assert!(list_ps().is_err() || list_ps().unwrap().iter().any(|(id, _)| *id == pid));
    }
}
