//! Saves and restores the state of a bed, like a backup of its etcd.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::processes::COMPONENTS;
use super::{Bed, Error, Stop, processes};

/// The server with the state.
const ETCD: &str = "etcd";
/// The only client of that server.
const API_SERVER: &str = "kube-apiserver";

/// A copy of the data of a bed's etcd, below the directory of the bed.
#[derive(Debug)]
pub struct Snapshot(PathBuf);

impl Bed {
    /// Saves the present state. The servers are stopped meanwhile, and run again when this returns.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let (data, kept) = (self.dir.join("etcd"), self.dir.join("etcd-snapshot"));
        self.while_stopped(|| replace(&data, &kept)).await?;
        Ok(Snapshot(kept))
    }

    /// Restores a state. The versions of objects continue from their values in that state.
    pub async fn restore(&self, Snapshot(kept): &Snapshot) -> Result<(), Error> {
        let data = self.dir.join("etcd");
        self.while_stopped(|| replace(kept, &data)).await
    }

    /// Stops all running servers, clients before the servers that they use, and starts the same
    /// ones again.
    async fn while_stopped(&self, act: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
        let runs = |name: &&str| processes::running(&self.dir, name).is_ok_and(|it| it.is_some());
        let running: Vec<&str> = COMPONENTS.into_iter().filter(runs).collect();
        for name in running.iter().rev() {
            // An API server with watches ends orderly only after a minute.
            let how = if *name == API_SERVER {
                Stop::Abrupt
            } else {
                Stop::Orderly
            };
            self.stop(name, how).await?;
            // Without its id the server does not count as dead.
            processes::forget(&self.dir, name).map_err(|e| self.processes(e))?;
        }
        act().map_err(|source| Error::File {
            path: self.dir.join(ETCD),
            source,
        })?;
        self.spawn(ETCD)?;
        self.start_api_server().await?;
        let others = running.iter();
        for name in others.filter(|name| ![ETCD, API_SERVER].contains(name)) {
            self.spawn(name)?;
        }
        Ok(())
    }
}

/// Replaces the directory `to` by a copy of `from`.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    copy(from, to)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd refuses a data directory that other users may read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
