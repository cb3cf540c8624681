//! The servers of sites: each is a part of a control plane, presented as one of its own.
//!
//! The objects of a version have the same names in all sites, so sites must not share a namespace.
//! A [`Gateway`] listens on one port for each site, terminates TLS, and forwards requests to the
//! control plane of the site. It renames the namespace [`Gateway::NAMESPACE`] of the manager to the
//! namespace with the name of the site, in paths and in objects, and restricts a collection of all
//! namespaces to that namespace. So a manager reads the same objects as on a control plane that
//! belongs to the site alone.
//!
//! # Caveats
//!
//! - Only collections of ConfigMaps, and of the kinds of a Release, are restricted. For other namespaced
//!   kinds the manager sees the objects of all sites.
//! - Requests are forwarded with the credentials of an administrator: the rights of a site's
//!   account are not measured.

mod door;
mod rewrite;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use self::door::Door;

/// The reason that sites cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read the keys of a bed: {0}")]
    Read(#[from] io::Error),
    #[error("cannot use the keys of a bed: {0}")]
    Pem(#[from] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("cannot serve TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("cannot listen for a site: {0}")]
    Listen(#[source] io::Error),
}

/// The servers of all sites. They end when this is dropped.
pub(crate) struct Gateway {
    /// The CA of their certificate, as PEM.
    ca: String,
    sites: BTreeMap<String, SiteSwitch>,
    _doors: JoinSet<()>,
}

struct SiteSwitch {
    url: String,
    is_open: watch::Sender<bool>,
}

impl Gateway {
    /// The namespace that each site has.
    pub(crate) const NAMESPACE: &str = "bench";

    /// Starts to serve these sites. They are distributed over the control planes in turn. The keys
    /// are those of the bed with this kubeconfig: its certificate is valid for any port of
    /// `127.0.0.1`.
    pub(crate) fn start(
        kubeconfig: &Path,
        names: impl Iterator<Item = String>,
        planes: &[Client],
    ) -> Result<Self, Error> {
        let pki = kubeconfig.with_file_name("pki");
        let read = |file: &str| std::fs::read(pki.join(file));
        let acceptor = acceptor(&read("admin.crt")?, &read("admin.key")?)?;
        let ca = std::fs::read_to_string(pki.join("ca.crt"))?;
        let mut doors = JoinSet::new();
        let mut sites = BTreeMap::new();
        for (name, plane) in names.zip(planes.iter().cycle()) {
            let (is_open, opened) = watch::channel(true);
            let door =
                Door::new(&name, acceptor.clone(), plane.clone(), opened).map_err(Error::Listen)?;
            let url = format!("https://{}", door.address());
            let listener = door.listen().map_err(Error::Listen)?;
            doors.spawn(door.run(listener));
            sites.insert(name, SiteSwitch { url, is_open });
        }
        Ok(Self {
            ca,
            sites,
            _doors: doors,
        })
    }

    /// The CA that signed the certificate of all sites, as PEM.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// The names of the sites with their URLs.
    pub(crate) fn urls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sites
            .iter()
            .map(|(name, site)| (name.as_str(), site.url.as_str()))
    }

    /// Opens these sites, or closes them: their connections end, and new ones are refused.
    pub(crate) fn open(&self, names: impl Iterator<Item = String>, is_open: bool) {
        for name in names {
            if let Some(site) = self.sites.get(&name) {
                site.is_open.send_replace(is_open);
            }
        }
    }
}

fn acceptor(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, Error> {
    let certificate = CertificateDer::from_pem_slice(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    // API servers offer the same protocols.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
