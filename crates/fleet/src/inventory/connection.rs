//! The connections to a cluster: one for all requests, if the server supports HTTP/2, as API
//! servers do.
//!
//! kube's own client uses HTTP/1.1, where each watch, and each concurrent request, has a connection
//! of its own. A connection with TLS takes 30 KiB of memory here and more at the server, and a
//! handshake; another request on an HTTP/2 connection takes 5 KiB. `docs/operate/scale.md` lists
//! the costs of a cluster.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{Client as Connections, connect::HttpConnector};
use kube::{
    Config,
    client::{Body, ClientBuilder, ConfigExt as _},
};
use rustls::client::Resumption;
use tower::{
    BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn, util::BoxCloneSyncService,
};

use baton_kubernetes::{credentials::Sent, fence::Fence};

/// Sends requests to a cluster, without counting, retries or traces.
pub(super) type Connection = BoxCloneSyncService<Request<Body>, Answer, BoxError>;

/// The response of a server.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Number of TLS sessions that can be resumed: a server has up to eight, and there is one server.
const SESSIONS: usize = 8;

/// Size of the table of response headers that the server may refer to, in bytes. A table takes 8
/// KiB of memory for each connection, and saves 150 bytes of a response.
const HEADER_TABLE: u32 = 0;

/// Creates a service that connects on its first request. Its connections end with the lease of
/// `fence`, and errors of the server do not repeat the credentials. Must be called within a tokio
/// runtime.
///
/// # Errors
/// If the credentials, the CA or the proxy in `config` cannot be used.
///
/// # Caveats
/// Connections through a proxy are those of kube's own client, which supports all kinds of proxies,
/// with HTTP/1.1.
pub(super) fn connection(config: Config, fence: &Fence) -> Result<Connection, kube::Error> {
    let sent = Sent::by(&config);
    if config.proxy_url.is_some() {
        let client = ClientBuilder::try_from((config, fence.clone()))?.build();
        let service = service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        return Ok(boxed(service, sent));
    }
    let mut tls = config.rustls_client_config()?;
    tls.resumption = Resumption::in_memory_sessions(SESSIONS);
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(tcp);
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let connections: Connections<_, Body> = Connections::builder(fence.clone())
        .http2_header_table_size(HEADER_TABLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(boxed(service, sent))
}

fn boxed<S, B>(service: S, sent: Sent) -> Connection
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service.map_response(move |answer: Response<B>| sent.removed_from(answer));
    BoxCloneSyncService::new(service.map_err(Into::into))
}
