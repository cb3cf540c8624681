//! The HTTP endpoints: `/metrics`, `/healthz`, `/readyz`, and those over HTTPS.

pub mod https;

use std::{
    fmt,
    future::ready,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    http::{
        HeaderMap, Method, StatusCode,
        header::{ACCEPT, ALLOW, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::{exposition::plain_text, metrics::Metrics};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Time limit of a client for its request line and headers, and of an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The same with TLS. The API server keeps a connection for 90 s, and repeats no request on one that was
/// closed.
const TLS_HEADER_TIMEOUT: Duration = Duration::from_mins(2);
/// Time limit for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of connections served at a time per listener; more wait in the kernel.
pub const CONNECTIONS: usize = 64;

/// The address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// The endpoint is turned off.
    Off,
    /// This port of every address, IPv6 and IPv4. Port 0 is a free one.
    AnyAddress(u16),
    /// This address. Port 0 is a free one.
    Socket(SocketAddr),
}

impl ListenAddr {
    /// The port; `None` if a free one is to be taken.
    pub fn fixed_port(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::AnyAddress(port) => Some(port),
            Self::Socket(address) => Some(address.port()),
        }
        .filter(|port| *port != 0)
    }
}

impl FromStr for ListenAddr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected :PORT, IP:PORT, localhost:PORT, or 0 to turn it off";
        if matches!(text, "" | "0") {
            return Ok(Self::Off);
        }
        let port = |port: &str| port.parse::<u16>().map_err(|_| EXPECTED);
        match text.split_once(':') {
            Some(("", digits)) => port(digits).map(Self::AnyAddress),
            Some(("localhost", digits)) => {
                Ok(Self::Socket((Ipv4Addr::LOCALHOST, port(digits)?).into()))
            }
            _ => text.parse().map(Self::Socket).map_err(|_| EXPECTED),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::AnyAddress(port) => write!(f, ":{port}"),
            Self::Socket(address) => write!(f, "{address}"),
        }
    }
}

/// The readiness of the manager, shared by the process and its endpoint.
#[derive(Clone, Debug)]
pub struct Readiness {
    waiting_for: Arc<Mutex<Option<String>>>,
}

impl Readiness {
    /// Creates a readiness that reports "not ready", for this reason.
    #[must_use]
    pub fn waiting_for(reason: impl Into<String>) -> Self {
        Self {
            waiting_for: Arc::new(Mutex::new(Some(reason.into()))),
        }
    }

    /// Reports that the manager is ready.
    pub fn set_ready(&self) {
        *self.waiting_for.lock() = None;
    }

    /// Reports that the manager is not ready, with the reason in one line.
    pub fn set_waiting_for(&self, reason: impl Into<String>) {
        *self.waiting_for.lock() = Some(reason.into());
    }

    /// The reason that the manager is not ready; `None` if it is.
    pub fn reason(&self) -> Option<String> {
        self.waiting_for.lock().clone()
    }
}

/// Listening on an address failed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for {purpose}: {source}; choose another with {flag}, or 0 to turn it off"
)]
pub struct BindError {
    address: ListenAddr,
    purpose: &'static str,
    flag: &'static str,
    source: io::Error,
}

/// The running endpoints. They end, with every connection, when this is dropped.
#[derive(Debug)]
pub struct Servers {
    /// Address of `/metrics`; `None` if turned off.
    pub metrics: Option<SocketAddr>,
    /// Address of `/healthz` and `/readyz`; `None` if turned off.
    pub health: Option<SocketAddr>,
    _listeners: JoinSet<()>,
}

/// Starts the endpoints. If both have the same address, it serves all paths.
///
/// `/healthz` answers 200 as long as the process can answer at all. `/readyz` answers 503 with the
/// reason in one line until `readiness` is set to ready.
///
/// # Errors
///
/// If listening on an address fails; the text names the flag to change.
pub async fn serve(
    metrics_addr: &ListenAddr,
    health_addr: &ListenAddr,
    metrics: Metrics,
    readiness: Readiness,
) -> Result<Servers, BindError> {
    let mut listeners = JoinSet::new();
    let mut start = |(listener, address), router| {
        listeners.spawn(accept(listener, router, None, CONNECTIONS));
        address
    };
    let both = metrics_addr == health_addr && metrics_addr.fixed_port().is_some();
    let routes = router(Some(metrics), both.then(|| readiness.clone()));
    let metrics = bind(metrics_addr, "metrics", "--metrics-addr").await?;
    let metrics = metrics.map(|listener| start(listener, routes));
    let health = if both {
        metrics
    } else {
        let routes = router(None, Some(readiness));
        let health = bind(health_addr, "health", "--health-addr").await?;
        health.map(|listener| start(listener, routes))
    };
    for (address, paths) in [(metrics, "/metrics"), (health, "/healthz and /readyz")] {
        if let Some(address) = address {
            info!(%address, "serving {paths}");
        }
    }
    Ok(Servers {
        metrics,
        health,
        _listeners: listeners,
    })
}

async fn bind(
    address: &ListenAddr,
    purpose: &'static str,
    flag: &'static str,
) -> Result<Option<(TcpListener, SocketAddr)>, BindError> {
    let bound = match address {
        ListenAddr::Off => return Ok(None),
        ListenAddr::Socket(socket) => TcpListener::bind(socket).await,
        // A socket on [::] accepts IPv4 as well, unless the kernel has no IPv6.
        ListenAddr::AnyAddress(port) => {
            match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await
                }
                bound => bound,
            }
        }
    };
    bound
        .and_then(|listener| listener.local_addr().map(|local| Some((listener, local))))
        .map_err(|source| BindError {
            address: *address,
            purpose,
            flag,
            source,
        })
}

/// Accepts connections up to `limit` at a time, and serves them, with TLS if it is given. `axum::serve` limits
/// neither their number nor the time that a client takes for its headers.
async fn accept(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>, limit: usize) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= limit {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _peer)) => {
                connections.spawn(serve_client(stream, router.clone(), tls.clone()));
            }
            Err(error) => {
                // In most cases the process has no file descriptors left. The loop continues when
                // others are closed.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve_client(stream: TcpStream, router: Router, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else {
        return serve_connection(stream, router, HEADER_TIMEOUT).await;
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve_connection(stream, router, TLS_HEADER_TIMEOUT).await,
        Ok(Err(error)) => debug!(%error, "a client does not accept the TLS of an endpoint"),
        Err(_) => debug!("a client took too long for the TLS of an endpoint"),
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    header_timeout: Duration,
) {
    let service = TowerToHyperService::new(router);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        debug!(%error, "a connection to an endpoint ended early");
    }
}

/// The router of one listener: a path for each part that is given.
fn router(metrics: Option<Metrics>, readiness: Option<Readiness>) -> Router {
    let mut router = Router::new();
    if let Some(metrics) = metrics {
        let answer = move |headers: HeaderMap| ready(render(&metrics, &headers));
        router = router.route("/metrics", get(answer));
    }
    if let Some(readiness) = readiness {
        let answer = move || {
            ready(match readiness.reason() {
                None => Ok("ok\n"),
                Some(reason) => Err((
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("not ready: {reason}\n"),
                )),
            })
        };
        router = router
            .route("/healthz", get("ok\n"))
            .route("/readyz", get(answer));
    }
    router.fallback(refuse).method_not_allowed_fallback(refuse)
}

async fn refuse(method: Method) -> Response {
    if matches!(method, Method::GET | Method::HEAD) {
        return (StatusCode::NOT_FOUND, "not found\n").into_response();
    }
    let headers = [(ALLOW, "GET, HEAD")];
    (
        StatusCode::METHOD_NOT_ALLOWED,
        headers,
        "only GET and HEAD\n",
    )
        .into_response()
}

/// Renders the metrics: as `OpenMetrics` if the client accepts it, as Prometheus does, and in the
/// older text format otherwise.
fn render(metrics: &Metrics, headers: &HeaderMap) -> Response {
    let mut accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let is_open = accepted.any(|value| value.contains("application/openmetrics-text"));
    match metrics.render() {
        Ok(body) if is_open => ([(CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Ok(body) => ([(CONTENT_TYPE, PLAIN_METRICS)], plain_text(&body)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let socket = |text: &str| ListenAddr::Socket(text.parse().unwrap());
        for (text, expected) in [
            (":8080", Some(ListenAddr::AnyAddress(8080))),
            (":0", Some(ListenAddr::AnyAddress(0))),
            ("0", Some(ListenAddr::Off)),
            ("", Some(ListenAddr::Off)),
            ("127.0.0.1:80", Some(socket("127.0.0.1:80"))),
            ("localhost:80", Some(socket("127.0.0.1:80"))),
            ("0.0.0.0:0", Some(socket("0.0.0.0:0"))),
            ("[::1]:80", Some(socket("[::1]:80"))),
            ("[::]:80", Some(socket("[::]:80"))),
            (":65536", None),
            (":", None),
            ("8080", None),
            ("example.org:80", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text:?}");
        }
        assert_eq!(ListenAddr::AnyAddress(0).fixed_port(), None);
        assert_eq!(ListenAddr::AnyAddress(8080).to_string(), ":8080");
    }

    const LOCAL: &str = "127.0.0.1:0";

    async fn servers(readiness: &Readiness) -> Servers {
        let any = LOCAL.parse().unwrap();
        serve(&any, &any, Metrics::new(), readiness.clone())
            .await
            .unwrap()
    }

    /// Sends a request as it is on the wire, and returns the whole response.
    async fn fetch(address: Option<SocketAddr>, request: &str) -> String {
        let mut stream = TcpStream::connect(address.unwrap()).await.unwrap();
        let request = format!("{request}\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_server_is_ready_only_after_it_is_set_ready() {
        let readiness = Readiness::waiting_for("the cache of ObjectSets");
        let servers = servers(&readiness).await;
        let answer = fetch(servers.health, "GET /readyz HTTP/1.1").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(
            answer.ends_with("\r\n\r\nnot ready: the cache of ObjectSets\n"),
            "{answer}"
        );
        assert!(
            fetch(servers.health, "GET /healthz HTTP/1.1")
                .await
                .starts_with("HTTP/1.1 200 ")
        );

        readiness.set_ready();
        assert!(
            fetch(servers.health, "GET /readyz HTTP/1.1")
                .await
                .ends_with("\r\n\r\nok\n")
        );
        readiness.set_waiting_for("the end");
        assert_eq!(readiness.reason().as_deref(), Some("the end"));
        assert!(
            fetch(servers.health, "HEAD /readyz HTTP/1.1")
                .await
                .starts_with("HTTP/1.1 503 ")
        );
    }

    #[tokio::test]
    async fn metrics_have_the_requested_content_type() {
        let servers = servers(&Readiness::waiting_for("nothing")).await;
        let plain = fetch(servers.metrics, "GET /metrics HTTP/1.1").await;
        assert!(
            plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{plain}"
        );
        assert!(plain.contains("# TYPE baton_build_info gauge\n"), "{plain}");
        assert!(!plain.contains("# EOF"), "{plain}");
        let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let open = fetch(
            servers.metrics,
            &format!("GET /metrics HTTP/1.1\r\n{accept}"),
        )
        .await;
        assert!(
            open.contains(
                "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
            ),
            "{open}"
        );
        assert!(open.ends_with("# EOF\n"), "{open}");
    }

    #[tokio::test]
    async fn unknown_paths_and_methods_are_refused() {
        let servers = servers(&Readiness::waiting_for("nothing")).await;
        for (address, request, expected) in [
            (servers.health, "GET /metrics HTTP/1.1", "404"),
            (servers.metrics, "GET /healthz HTTP/1.1", "404"),
            (servers.metrics, "GET / HTTP/1.1", "404"),
            (servers.metrics, "POST /metrics HTTP/1.1", "405"),
            (servers.metrics, "nonsense", "400"),
        ] {
            let answer = fetch(address, request).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {expected} ")),
                "{request}: {answer}"
            );
        }
    }

    #[tokio::test]
    async fn endpoints_can_be_off_or_share_an_address() {
        let metrics = Metrics::new();
        let readiness = Readiness::waiting_for("nothing");
        let off = serve(
            &ListenAddr::Off,
            &ListenAddr::Off,
            metrics.clone(),
            readiness.clone(),
        )
        .await
        .unwrap();
        assert_eq!((off.metrics, off.health), (None, None));

        let free = TcpListener::bind(LOCAL)
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let shared = ListenAddr::Socket(free);
        let servers = serve(&shared, &shared, metrics, readiness).await.unwrap();
        assert_eq!(servers.metrics, servers.health);
        for path in ["/metrics", "/healthz"] {
            assert!(
                fetch(servers.health, &format!("GET {path} HTTP/1.1"))
                    .await
                    .starts_with("HTTP/1.1 200 ")
            );
        }
    }

    #[tokio::test]
    async fn a_port_for_all_addresses_is_reached_over_ipv4() {
        let any = ListenAddr::AnyAddress(0);
        let readiness = Readiness::waiting_for("nothing");
        let servers = serve(&any, &ListenAddr::Off, Metrics::new(), readiness)
            .await
            .unwrap();
        let port = servers.metrics.unwrap().port();
        let address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        assert!(
            fetch(address, "GET /metrics HTTP/1.1")
                .await
                .starts_with("HTTP/1.1 200 ")
        );
    }

    #[tokio::test]
    async fn the_error_of_a_busy_port_names_the_flag_to_change() {
        let taken = TcpListener::bind(LOCAL).await.unwrap();
        let address = ListenAddr::Socket(taken.local_addr().unwrap());
        let readiness = Readiness::waiting_for("nothing");
        let error = serve(&ListenAddr::Off, &address, Metrics::new(), readiness)
            .await
            .unwrap_err();
        let expected = format!(
            "cannot listen on {address} for health: Address already in use (os error 98); \
             choose another with --health-addr, or 0 to turn it off"
        );
        assert_eq!(error.to_string(), expected);
    }
}
