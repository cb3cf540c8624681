//! The HTTP endpoints: `/metrics`, `/healthz`, `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::metrics::Metrics;
use crate::cli::values::ListenAddr;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// How long a connection may take over its request line and headers, and stay idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections served side by side per listener; more wait in the kernel.
const CONNECTIONS: usize = 64;

/// Whether the manager is ready, shared by who knows and who is asked.
#[derive(Clone, Debug)]
pub struct Readiness {
    waiting_for: Arc<Mutex<Option<String>>>,
}

impl Readiness {
    /// Not ready, and why.
    #[must_use]
    pub fn waiting_for(reason: impl Into<String>) -> Self {
        Self {
            waiting_for: Arc::new(Mutex::new(Some(reason.into()))),
        }
    }

    /// From now on ready.
    pub fn set_ready(&self) {
        *self.waiting_for.lock() = None;
    }

    /// From now on not ready, and why, in one line.
    pub fn set_waiting_for(&self, reason: impl Into<String>) {
        *self.waiting_for.lock() = Some(reason.into());
    }

    /// Why it is not ready; `None` when it is.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.waiting_for.lock().clone()
    }
}

/// An address could not be listened on.
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
    /// Where `/metrics` is served; `None` when turned off.
    pub metrics: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` are served; `None` when turned off.
    pub health: Option<SocketAddr>,
    _listeners: JoinSet<()>,
}

/// Starts the endpoints. One address given for both serves all paths.
///
/// `/healthz` answers 200 as long as the process can answer at all. `/readyz` answers 503 with the reason in one line
/// until `readiness` says otherwise.
///
/// # Errors
///
/// Fails when an address cannot be listened on, and says which flag to change.
pub async fn serve(
    metrics_addr: &ListenAddr,
    health_addr: &ListenAddr,
    metrics: Metrics,
    readiness: Readiness,
) -> Result<Servers, BindError> {
    let mut listeners = JoinSet::new();
    let mut start = |listener: (TcpListener, SocketAddr), routes: Routes| {
        listeners.spawn(accept(listener.0, routes));
        listener.1
    };
    let both = metrics_addr == health_addr && metrics_addr.fixed_port().is_some();
    let routes = Routes {
        metrics: Some(metrics),
        readiness: both.then(|| readiness.clone()),
    };
    let metrics = bind(metrics_addr, "metrics", "--metrics-addr")
        .await?
        .map(|listener| start(listener, routes));
    let health = if both {
        metrics
    } else {
        let routes = Routes {
            metrics: None,
            readiness: Some(readiness),
        };
        bind(health_addr, "health", "--health-addr")
            .await?
            .map(|listener| start(listener, routes))
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
        // A socket on [::] takes IPv4 as well, except where the kernel has no IPv6.
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

async fn accept(listener: TcpListener, routes: Routes) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _peer)) => {
                connections.spawn(serve_connection(stream, routes.clone()));
            }
            Err(error) => {
                // Out of file descriptors, as a rule. It heals when others are closed.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, routes: Routes) {
    let service = service_fn(move |request: Request<_>| {
        let response = routes.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection to an endpoint ended early");
    }
}

/// What one listener answers.
#[derive(Clone, Debug)]
struct Routes {
    metrics: Option<Metrics>,
    readiness: Option<Readiness>,
}

impl Routes {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(
                StatusCode::METHOD_NOT_ALLOWED,
                PLAIN_TEXT,
                "only GET and HEAD\n",
            );
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match (request.uri().path(), &self.metrics, &self.readiness) {
            ("/metrics", Some(metrics), _) => match metrics.render() {
                Ok(body) => text(StatusCode::OK, metrics_type(request), body),
                Err(error) => text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    PLAIN_TEXT,
                    format!("{error}\n"),
                ),
            },
            ("/healthz", _, Some(_)) => text(StatusCode::OK, PLAIN_TEXT, "ok\n"),
            ("/readyz", _, Some(readiness)) => match readiness.reason() {
                None => text(StatusCode::OK, PLAIN_TEXT, "ok\n"),
                Some(reason) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    PLAIN_TEXT,
                    format!("not ready: {reason}\n"),
                ),
            },
            _ => text(StatusCode::NOT_FOUND, PLAIN_TEXT, "not found\n"),
        }
    }
}

/// The content type of the metrics for who asks.
///
/// Prometheus asks for `OpenMetrics`. Others get the same text under the older type: its parsers take the few additions
/// for comments.
fn metrics_type<B>(request: &Request<B>) -> &'static str {
    let mut accepted = request
        .headers()
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    if accepted.any(|value| value.contains("application/openmetrics-text")) {
        OPEN_METRICS
    } else {
        PLAIN_METRICS
    }
}

fn text(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LOCAL: &str = "127.0.0.1:0";

    async fn servers(readiness: &Readiness) -> Servers {
        let any = LOCAL.parse().unwrap();
        serve(&any, &any, Metrics::new(), readiness.clone())
            .await
            .unwrap()
    }

    /// Sends a request as it goes over the wire and gives the whole answer.
    async fn fetch(address: Option<SocketAddr>, request: &str) -> String {
        let mut stream = TcpStream::connect(address.unwrap()).await.unwrap();
        let request = format!("{request}\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn ready_only_once_somebody_says_so() {
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
    async fn metrics_come_in_the_type_that_was_asked_for() {
        let servers = servers(&Readiness::waiting_for("nothing")).await;
        let plain = fetch(servers.metrics, "GET /metrics HTTP/1.1").await;
        assert!(
            plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{plain}"
        );
        assert!(plain.ends_with("# EOF\n"), "{plain}");
        let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
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
    }

    #[tokio::test]
    async fn what_is_not_served_is_refused() {
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
    async fn a_busy_port_is_told_with_the_flag_to_change() {
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
