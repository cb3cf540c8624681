//! The folder with the files of a release.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;

use super::{Error, Plan};
use crate::archive::{self, Entry, sha256};
use crate::charts;
use crate::paths::Dirs;

/// The folder, with the hash of each file by its name.
pub(super) struct Files {
    folder: PathBuf,
    hashes: BTreeMap<String, String>,
}

impl Files {
    /// Creates an empty folder. What was there before is removed.
    pub(super) fn create(folder: &Path) -> Result<Self, Error> {
        let failed = |source| Error::File {
            path: folder.to_owned(),
            source,
        };
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::create_dir_all(folder).map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            hashes: BTreeMap::new(),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file that checksums and provenance list.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.add_unlisted(name, content)?;
        self.hashes.insert(name.to_owned(), sha256(content));
        Ok(())
    }

    /// Writes a file about the other files.
    pub(super) fn add_unlisted(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|source| Error::File { path, source })
    }

    /// Packs a program with the license.
    pub(super) fn add_program(
        &mut self,
        dirs: &Dirs,
        plan: &Plan,
        archive: &str,
        name: &str,
        program: &Path,
    ) -> Result<(), Error> {
        let (license, program) = (bytes(&dirs.workspace.join("LICENSE"))?, bytes(program)?);
        let entries = [
            Entry::File("LICENSE", 0o644, &license),
            Entry::File(name, 0o755, &program),
        ];
        self.add_archive(archive, &entries, plan)
    }

    /// Packs a folder, under its own name.
    pub(super) fn add_folder(
        &mut self,
        archive: &str,
        folder: &Path,
        plan: &Plan,
    ) -> Result<(), Error> {
        let name = folder.file_name().unwrap_or_default();
        let files = charts::files(folder, Path::new(name)).map_err(|error| Error::File {
            path: folder.to_owned(),
            source: io::Error::other(error),
        })?;
        let named: Vec<_> = files
            .iter()
            .map(|(path, content)| (path.display().to_string(), content))
            .collect();
        let named = named.iter();
        let entries: Vec<_> = named
            .map(|(path, content)| Entry::File(path, 0o644, content))
            .collect();
        self.add_archive(archive, &entries, plan)
    }

    fn add_archive(&mut self, name: &str, entries: &[Entry<'_>], plan: &Plan) -> Result<(), Error> {
        let packed = pack(entries, plan.commit.time).map_err(|source| Error::File {
            path: self.path(name),
            source,
        })?;
        self.add(name, &packed)
    }

    /// The hash of each listed file, in the order of their names.
    pub(super) fn hashes(&self) -> &BTreeMap<String, String> {
        &self.hashes
    }

    /// The hashes as `sha256sum --check` reads them.
    pub(super) fn checksums(&self) -> String {
        let mut text = String::new();
        for (name, hash) in &self.hashes {
            let _ = writeln!(text, "{hash}  {name}");
        }
        text
    }
}

/// Packs an archive whose bytes depend on its files only.
pub(super) fn pack(entries: &[Entry<'_>], time: u64) -> io::Result<Vec<u8>> {
    archive::gzip(&archive::tar(entries, time)?, Compression::best())
}

pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_list_the_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(&folder.path().join("0.1.0")).unwrap();
        files.add("b", b"two").unwrap();
        files.add("a", b"one").unwrap();
        files.add_unlisted("c", b"three").unwrap();
        let expected = format!("{}  a\n{}  b\n", sha256(b"one"), sha256(b"two"));
        assert_eq!(files.checksums(), expected);
        assert!(files.path("c").is_file());
        // A second release of the version leaves nothing of the first one.
        let files = Files::create(&folder.path().join("0.1.0")).unwrap();
        assert!(!files.path("c").exists());
    }
}
