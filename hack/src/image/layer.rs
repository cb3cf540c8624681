//! The layers of the image: archives whose bytes depend on their files only.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::{Compression, GzBuilder};

use super::Error;
use super::programs::Programs;

/// User and group of the programs, as the chart has them.
pub(super) const USER: u64 = 65532;

/// A layer: a packed archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) packed: Vec<u8>,
    /// The archive itself, which a runtime identifies by its hash.
    pub(super) archive: Vec<u8>,
}

/// A file or folder of a layer.
enum Entry<'a> {
    /// With the mode and the owner.
    Folder(&'a str, u32, u64),
    File(&'a str, u32, &'a [u8]),
}

/// All layers; one that changes less often comes first. `time` is the time of all files, in seconds.
pub(super) fn all(programs: &Programs, time: u64) -> Result<Vec<Layer>, Error> {
    let certificates = certificates();
    let passwd = format!("root:x:0:0::/:/nologin\nbaton:x:{USER}:{USER}::/:/nologin\n");
    let group = format!("root:x:0:\nbaton:x:{USER}:\n");
    let base = [
        Entry::Folder("dev/", 0o755, 0),
        Entry::Folder("etc/", 0o755, 0),
        Entry::File("etc/group", 0o644, group.as_bytes()),
        // A static program has no other way to find addresses.
        Entry::File("etc/nsswitch.conf", 0o644, b"hosts: files dns\n"),
        Entry::File("etc/passwd", 0o644, passwd.as_bytes()),
        Entry::Folder("etc/ssl/", 0o755, 0),
        Entry::Folder("etc/ssl/certs/", 0o755, 0),
        Entry::File(
            "etc/ssl/certs/ca-certificates.crt",
            0o644,
            certificates.as_bytes(),
        ),
        Entry::Folder("proc/", 0o555, 0),
        Entry::Folder("sys/", 0o555, 0),
        Entry::Folder("tmp/", 0o1777, 0),
        Entry::Folder("usr/", 0o755, 0),
        Entry::Folder("usr/bin/", 0o755, 0),
        Entry::Folder("var/", 0o755, 0),
        Entry::Folder("var/cache/", 0o755, 0),
        Entry::Folder("var/cache/baton/", 0o755, USER),
        Entry::Folder("var/lib/", 0o755, 0),
        Entry::Folder("var/lib/baton/", 0o755, USER),
    ];
    let read = |path: &PathBuf| {
        let failed = |source| Error::File {
            path: path.clone(),
            source,
        };
        std::fs::read(path).map_err(failed)
    };
    let (helm, baton) = (read(&programs.helm)?, read(&programs.baton)?);
    let layers = [
        layer(&base, time),
        layer(&[Entry::File("usr/bin/helm", 0o755, &helm)], time),
        layer(&[Entry::File("usr/bin/baton", 0o755, &baton)], time),
    ];
    let layers: io::Result<Vec<Layer>> = layers.into_iter().collect();
    layers.map_err(|source| Error::File {
        path: "layer".into(),
        source,
    })
}

fn layer(entries: &[Entry<'_>], time: u64) -> io::Result<Layer> {
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
    let archive = archive.into_inner()?;
    let mut packed = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    io::Write::write_all(&mut packed, &archive)?;
    let packed = packed.finish()?;
    Ok(Layer { packed, archive })
}

/// The certificate authorities of Mozilla, as PEM.
fn certificates() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let body = BASE64_STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in body.as_bytes().chunks(64) {
            let _ = writeln!(text, "{}", String::from_utf8_lossy(line));
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_layer_depends_on_its_files_only() {
        let entries = || {
            [
                Entry::Folder("tmp/", 0o1777, 0),
                Entry::Folder("data/", 0o755, USER),
                Entry::File("bin/x", 0o755, b"program"),
            ]
        };
        let made = layer(&entries(), 1_000).unwrap();
        assert_eq!(layer(&entries(), 1_000).unwrap(), made);
        assert_ne!(layer(&entries(), 1_001).unwrap(), made);
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&*made.packed);
        reader.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, made.archive);
        let mut archive = tar::Archive::new(&*made.archive);
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
            ("data/", 0o755, USER),
            ("bin/x", 0o755, 0),
        ];
        assert_eq!(
            found,
            expected.map(|(path, mode, user)| (path.to_owned(), mode, user))
        );
    }

    #[test]
    fn certificates_are_a_bundle_that_a_client_reads() {
        let text = certificates();
        let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
        assert!(count > 100, "{count}");
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
