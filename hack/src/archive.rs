//! Archives whose bytes depend on their files only. Also hashes and empty folders.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};

/// A file or folder of an archive, with its mode.
pub(crate) enum Entry<'a> {
    /// A folder with its owner, as the number of a user and its group.
    Folder(&'a str, u32, u64),
    /// A file of root.
    File(&'a str, u32, &'a [u8]),
}

/// Archives files in this order. `time` is the time of all of them, in seconds.
pub(crate) fn tar(entries: &[Entry<'_>], time: u64) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mtime(time);
        let (path, owner, content) = match *entry {
            Entry::Folder(path, mode, owner) => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(mode);
                (path, owner, &[][..])
            }
            Entry::File(path, mode, content) => {
                header.set_mode(mode);
                (path, 0, content)
            }
        };
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content)?;
    }
    archive.into_inner()
}

/// Archives and compresses files, each with its path.
pub(crate) fn packed<'a>(
    files: impl IntoIterator<Item = (String, &'a [u8])>,
    time: u64,
    level: Compression,
) -> io::Result<Vec<u8>> {
    let files: Vec<_> = files.into_iter().collect();
    let entries: Vec<_> = files
        .iter()
        .map(|(path, content)| Entry::File(path, 0o644, content))
        .collect();
    gzip(&tar(&entries, time)?, level)
}

/// Compresses an archive.
pub(crate) fn gzip(archive: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), level);
    io::Write::write_all(&mut packed, archive)?;
    packed.finish()
}

/// Creates an empty folder. Earlier content is removed.
pub(crate) fn empty_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(path),
    }
}

/// The SHA-256 of a file in hexadecimal digits.
pub(crate) fn sha256(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest(&SHA256, content).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn an_archive_depends_on_its_files_only() {
        let entries = || {
            [
                Entry::Folder("tmp/", 0o1777, 0),
                Entry::Folder("data/", 0o755, 65532),
                Entry::File("bin/x", 0o755, b"program"),
            ]
        };
        let made = tar(&entries(), 1_000).unwrap();
        assert_eq!(tar(&entries(), 1_000).unwrap(), made);
        assert_ne!(tar(&entries(), 1_001).unwrap(), made);
        let packed = gzip(&made, Compression::best()).unwrap();
        assert_eq!(gzip(&made, Compression::best()).unwrap(), packed);
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&*packed);
        reader.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, made);
        let mut archive = tar::Archive::new(&*made);
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let expected = [
            ("tmp/", 0o1777, 0),
            ("data/", 0o755, 65532),
            ("bin/x", 0o755, 0),
        ];
        assert_eq!(
            found,
            expected.map(|(path, mode, user)| (path.to_owned(), mode, user))
        );
    }

    #[test]
    fn hashes_are_those_of_other_programs() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
