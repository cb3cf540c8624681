//! The lease of a bed: only one task works with it at a time.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Name;

/// The reason that the lease cannot be taken.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(
        "bed `{name}` is in use by process {holder}: wait for it or end it, or take a bed of another name"
    )]
    InUse { name: Name, holder: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

/// The right to start, use and end a bed. The operating system releases it when the process ends in
/// any way.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
    bed: PathBuf,
}

impl Lease {
    /// Takes the lease on the bed `name`, which has its directory in `clusters`.
    pub fn acquire(clusters: &Path, name: &Name) -> Result<Self, Error> {
        let path = clusters.join(format!("{name}.lock"));
        Self::open(clusters, &path)
            .map_err(|source| Error::File {
                path: path.clone(),
                source,
            })?
            .map(|file| Self {
                file,
                path,
                bed: clusters.join(name.as_str()),
            })
            .map_err(|holder| Error::InUse {
                name: name.clone(),
                holder,
            })
    }

    /// The locked file, or the process that has locked it.
    fn open(clusters: &Path, path: &Path) -> io::Result<Result<File, String>> {
        fs::create_dir_all(clusters)?;
        loop {
            let mut options = OpenOptions::new();
            let mut file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder)?;
                    return Ok(Err(holder.trim().to_owned()));
                }
            }
            // The last holder may have removed the file after it was opened here; a third process
            // then locks another file of the same name.
            if fs::metadata(path).is_ok_and(|now| is_same(&now, &file)) {
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Ok(file));
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The file is removed, so that names that are used only once leave nothing behind. A file
        // that another process has replaced stays.
        let own = fs::metadata(&self.path).is_ok_and(|now| is_same(&now, &self.file));
        if own && !self.bed.exists() {
            let _ = fs::remove_file(&self.path);
        }
        // Closing the file is not enough: a process that is being started concurrently has the file
        // open as well, for a moment.
        let _ = self.file.unlock();
    }
}

fn is_same(metadata: &Metadata, file: &File) -> bool {
    file.metadata()
        .is_ok_and(|own| (own.dev(), own.ino()) == (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bed_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let (name, other) = ("a".parse().unwrap(), "b".parse().unwrap());
        let lease = Lease::acquire(dir.path(), &name).unwrap();
        let error = Lease::acquire(dir.path(), &name).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(Lease::acquire(dir.path(), &other).is_ok());
        drop(lease);
        assert!(Lease::acquire(dir.path(), &name).is_ok());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left of ended beds"
        );

        let lease = Lease::acquire(dir.path(), &name).unwrap();
        let _inherited = lease.file.try_clone().unwrap();
        drop(lease);
        assert!(
            Lease::acquire(dir.path(), &name).is_ok(),
            "the process that inherited it"
        );

        fs::create_dir(dir.path().join("a")).unwrap();
        drop(Lease::acquire(dir.path(), &name).unwrap());
        assert!(dir.path().join("a.lock").exists(), "the bed goes on");
    }
}
