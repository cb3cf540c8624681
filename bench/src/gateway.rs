//! The servers of sites: each has a part of a control plane of its own.
//!
//! The objects of a version have the same names in all sites, so sites must not share a namespace. A [`Gateway`]
//! listens at one port for each site, ends TLS there, and passes requests on to the control plane of the site. What the
//! manager calls the namespace [`Gateway::NAMESPACE`] is a namespace with the name of the site there, in paths and in
//! objects, and a collection that spans all namespaces is that of this namespace. So a manager sees what it would see
//! of a control plane that is the site's alone.
//!
//! # Caveats
//!
//! - Only collections of ConfigMaps are confined so. Other kinds that have namespaces are not seen by themselves.
//! - Requests go on with the credentials of an administrator: what a site's account may do is not measured.

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

/// Why sites cannot be served.
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
    sites: BTreeMap<String, Switch>,
    _doors: JoinSet<()>,
}

struct Switch {
    url: String,
    is_open: watch::Sender<bool>,
}

impl Gateway {
    /// The namespace that each site has.
    pub(crate) const NAMESPACE: &str = "bench";

    /// Begins to serve these sites, in front of the control planes in turn, with the keys of the bed that has this
    /// kubeconfig: its certificate is for any port of `127.0.0.1`.
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
            sites.insert(name, Switch { url, is_open });
        }
        Ok(Self {
            ca,
            sites,
            _doors: doors,
        })
    }

    /// The CA that signed the certificate of all of them, as PEM.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// The names of the sites, and where each is served.
    pub(crate) fn urls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sites
            .iter()
            .map(|(name, site)| (name.as_str(), site.url.as_str()))
    }

    /// Lets these sites be reached, or not: their connections end, and new ones are refused.
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
    // As API servers do.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
