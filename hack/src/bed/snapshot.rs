//! The state of a bed, kept and restored as by a backup of its etcd.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::processes::COMPONENTS;
use super::{Bed, Error, Stop, processes};

/// The server that has the state.
const ETCD: &str = "etcd";
/// The only one that uses it.
const API_SERVER: &str = "kube-apiserver";

/// A copy of all that a bed's etcd had, below the directory of the bed.
#[derive(Debug)]
pub struct Snapshot(PathBuf);

impl Bed {
    /// Keeps the present state. The servers are stopped meanwhile, and run again when this returns.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let (data, kept) = (self.dir.join("etcd"), self.dir.join("etcd-snapshot"));
        self.while_stopped(|| replace(&data, &kept)).await?;
        Ok(Snapshot(kept))
    }

    /// Goes back to a state. Versions of objects go on from where they were then.
    pub async fn restore(&self, Snapshot(kept): &Snapshot) -> Result<(), Error> {
        let data = self.dir.join("etcd");
        self.while_stopped(|| replace(kept, &data)).await
    }

    /// Stops every server, those that use others first, and starts again what has run.
    async fn while_stopped(&self, act: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
        let runs = |name: &&str| processes::running(&self.dir, name).is_ok_and(|it| it.is_some());
        let running: Vec<&str> = COMPONENTS.into_iter().filter(runs).collect();
        for name in running.iter().rev() {
            self.stop(name, Stop::Orderly).await?;
            // Without it nobody takes the server for one that has died.
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

/// Copies a directory, in the place of another one.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    copy(from, to)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd takes no data that others may read.
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
