//! Endpoints with other routes, over HTTPS with a certificate that can be replaced, or over HTTP.

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

/// The place and the limits of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The address that it listens on.
    pub address: ListenAddr,
    /// The purpose, for logs and errors.
    pub purpose: &'static str,
    /// The flag for the address, for errors.
    pub flag: &'static str,
    /// The number of connections that are served at a time; more wait in the kernel.
    pub connections: usize,
}

/// A running endpoint. It ends, with every connection, when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// The address that clients connect to.
    pub address: SocketAddr,
    _listener: JoinSet<()>,
}

/// Starts an endpoint with these routes: over HTTPS, or over HTTP without a certificate. `None` if it is
/// turned off.
///
/// # Errors
/// If listening on the address fails, or if TLS cannot be set up.
pub async fn serve_routes(
    endpoint: Endpoint,
    router: Router,
    certificate: Option<&Certificate>,
) -> Result<Option<Server>, HttpsError> {
    let Endpoint {
        address,
        purpose,
        flag,
        connections,
    } = endpoint;
    let Some((listener, address)) = bind(&address, purpose, flag).await? else {
        return Ok(None);
    };
    let tls = match certificate {
        None => None,
        Some(certificate) => {
            let provider = Arc::new(ring::default_provider());
            let tls = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(certificate.clone()));
            Some(TlsAcceptor::from(Arc::new(tls)))
        }
    };
    let mut listeners = JoinSet::new();
    listeners.spawn(accept(listener, router, tls, connections));
    info!(%address, "serving {purpose}");
    Ok(Some(Server {
        address,
        _listener: listeners,
    }))
}
