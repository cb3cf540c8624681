//! The layers of the image: archives whose bytes depend on their files only.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;

use super::Error;
use super::programs::Programs;
use crate::archive::{self, Entry};

/// User and group of the programs, as the chart has them.
pub(super) const USER: u64 = 65532;

/// A layer: a packed archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) packed: Vec<u8>,
    /// The archive itself, which a runtime identifies by its hash.
    pub(super) archive: Vec<u8>,
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
    let archive = archive::tar(entries, time)?;
    let packed = archive::gzip(&archive, Compression::best())?;
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
    use super::*;

    #[test]
    fn certificates_are_a_bundle_that_a_client_reads() {
        let text = certificates();
        let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
        assert!(count > 100, "{count}");
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
