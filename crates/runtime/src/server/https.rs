//! An HTTPS endpoint whose certificate can be replaced while it serves.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::info;

use super::{BindError, ListenAddr, accept, bind};

/// The certificate of an endpoint. Clones share it. Without one, no client can connect.
#[derive(Clone, Debug, Default)]
pub struct Certificate(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A text is not in the PEM format, or has no certificate or key.
    #[error("the certificate or its key cannot be read: {0}")]
    Pem(#[from] pem::Error),
    /// The key is of an unknown type, or does not belong to the certificate.
    #[error("the certificate cannot be used: {0}")]
    Key(#[from] rustls::Error),
}

/// An endpoint cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// Listening failed.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// Uses a certificate for the connections from now on, given it and its key in the PEM format.
    ///
    /// # Errors
    /// If they cannot be used. The certificate before stays in use.
    pub fn set(&self, certificate: &str, key: &str) -> Result<(), CertificateError> {
        let chain: Result<_, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let usable = CertifiedKey::from_der(chain?, key, &ring::default_provider())?;
        *self.0.write() = Some(Arc::new(usable));
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// A running endpoint. It ends, with every connection, when this is dropped.
#[derive(Debug)]
pub struct HttpsServer {
    /// The address that clients connect to.
    pub address: SocketAddr,
    _listener: JoinSet<()>,
}

/// Starts an endpoint with these routes. `None` if it is turned off. `purpose` and `flag` are for the
/// error.
///
/// # Errors
/// If listening on the address fails, or if TLS cannot be set up.
pub async fn serve_https(
    address: &ListenAddr,
    (purpose, flag): (&'static str, &'static str),
    router: Router,
    certificate: &Certificate,
) -> Result<Option<HttpsServer>, HttpsError> {
    let Some((listener, address)) = bind(address, purpose, flag).await? else {
        return Ok(None);
    };
    let provider = Arc::new(ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate.clone()));
    let tls = TlsAcceptor::from(Arc::new(tls));
    let mut listeners = JoinSet::new();
    listeners.spawn(accept(listener, router, Some(tls)));
    info!(%address, "serving {purpose}");
    Ok(Some(HttpsServer {
        address,
        _listener: listeners,
    }))
}
