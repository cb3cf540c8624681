//! The folder with the files of a release.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use serde_json::Value;

use super::{Error, components};
use crate::archive::{self, Entry, sha256};
use crate::charts;
use crate::paths::Dirs;

/// The folder, with the hash of each file by its name.
pub(super) struct Files {
    folder: PathBuf,
    hashes: BTreeMap<String, String>,
    /// Time in seconds of the files in archives.
    time: u64,
}

impl Files {
    /// Creates an empty folder. Earlier content is removed.
    pub(super) fn create(folder: &Path, time: u64) -> Result<Self, Error> {
        archive::empty_folder(folder).map_err(|source| Error::File {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            hashes: BTreeMap::new(),
            time,
        })
    }

    /// Moves the complete folder to its place, in place of an earlier one.
    pub(super) fn finish(mut self, place: &Path) -> Result<Self, Error> {
        let moved = archive::empty_folder(place).and_then(|()| fs::rename(&self.folder, place));
        moved.map_err(|source| Error::File {
            path: place.to_owned(),
            source,
        })?;
        place.clone_into(&mut self.folder);
        Ok(self)
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
        write(&self.path(name), content)
    }

    /// Writes the list of the components of another file, whose name is without its ending.
    pub(super) fn add_components(&mut self, name: &str, list: &Value) -> Result<(), Error> {
        self.add(&components::file(name), format!("{list:#}\n").as_bytes())
    }

    /// Packs a program with the license. `archive` is the name without its ending.
    pub(super) fn add_program(
        &mut self,
        dirs: &Dirs,
        archive: &str,
        name: &str,
        program: &Path,
    ) -> Result<(), Error> {
        let (license, program) = (bytes(&dirs.workspace.join("LICENSE"))?, bytes(program)?);
        let entries = [
            Entry::File("LICENSE", 0o644, &license),
            Entry::File(name, 0o755, &program),
        ];
        let packed = archive::tar(&entries, self.time)
            .and_then(|archive| archive::gzip(&archive, Compression::best()));
        self.add_archive(&format!("{archive}.tar.gz"), packed)
    }

    /// Packs a folder, under its own name.
    pub(super) fn add_folder(&mut self, archive: &str, folder: &Path) -> Result<(), Error> {
        let name = folder.file_name().unwrap_or_default();
        let files = charts::files(folder, Path::new(name)).map_err(|error| Error::File {
            path: folder.to_owned(),
            source: io::Error::other(error),
        })?;
        let files = files
            .iter()
            .map(|(path, content)| (path.display().to_string(), content.as_slice()));
        let packed = archive::packed(files, self.time, Compression::best());
        self.add_archive(archive, packed)
    }

    fn add_archive(&mut self, name: &str, packed: io::Result<Vec<u8>>) -> Result<(), Error> {
        let packed = packed.map_err(|source| Error::File {
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

pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    fs::write(path, content).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
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
        let [unfinished, place] = ["unfinished", "0.1.0"].map(|name| folder.path().join(name));
        let mut files = Files::create(&unfinished, 0).unwrap();
        files.add("b", b"two").unwrap();
        files.add("a", b"one").unwrap();
        files.add_unlisted("c", b"three").unwrap();
        let expected = format!("{}  a\n{}  b\n", sha256(b"one"), sha256(b"two"));
        assert_eq!(files.checksums(), expected);
        assert!(!place.exists());
        assert!(files.finish(&place).unwrap().path("c").is_file());
        // A second release of the version leaves nothing of the first one.
        let files = Files::create(&unfinished, 0).unwrap();
        assert!(!files.finish(&place).unwrap().path("c").exists());
    }
}
