//! The client for all requests of the manager: counted, retried where that is safe, never rate
//! limited.
//!
//! # Choices
//!
//! - *No rate limit.* The API server has priority and fairness; a limit here would only add delay.
//!   Callers bound the number of their concurrent requests. Only large writes are sent one after the
//!   other (module `large_writes`).
//! - *Retries.* kube retries 429, 503 and 504 up to 15 times over minutes, writes included. A write
//!   that was answered with 503 or 504 may have been carried out, and a blind second try would hide
//!   that: a repeated apply that created an object looks like one that merged into a foreign
//!   object. So writes are retried after 429 only (never carried out), reads also after 503 and
//!   504, and after a few seconds the error is returned to the caller.
//! - *Timeouts.* 10 s to connect. No read timeout on the connection, which would cut watches;
//!   instead every request but a watch is given up after 65 s (see [`crate::request_metrics`]).
//!   Watches detect silence by themselves.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header::RETRY_AFTER};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::time::{Instant, Sleep};
use tower::buffer::BufferLayer;
use tower::retry::backoff::{
    Backoff as _, ExponentialBackoff, ExponentialBackoffMaker, InvalidBackoff, MakeBackoff as _,
};
use tower::retry::{Policy, RetryLayer};
use tower::util::{MapResponseLayer, rng::HasherRng};
use tower::{BoxError, Service};

use crate::credentials::Sent;
use crate::error::{innermost, request_failure};
use crate::fence::Fence;
use crate::large_writes::LargeWrites;
use crate::request_metrics::{CountRequests, RequestMetrics, Verb};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of one blocking write to the connection, for a server that stopped reading.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit of the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

const RETRIES: u32 = 5;
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// The longest `Retry-After` that is obeyed; the error of a longer one is returned to the caller.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// Requests that may wait inside the client for the worker of kube's service, which only passes them on.
const BUFFER: usize = 1024;

/// Creates a client for `config`, whose requests are counted in `metrics`, and whose writes must
/// pass `fence`. Errors of the server do not repeat the credentials. Must be called within a tokio
/// runtime.
///
/// # Errors
///
/// If the TLS material or the credentials in `config` cannot be used.
pub fn instrumented_client(
    mut config: Config,
    metrics: &RequestMetrics,
    fence: &Fence,
) -> Result<Client, kube::Error> {
    tune(&mut config);
    // A retry needs a second handle to the service below it, and only a buffer makes kube's own cloneable.
    let sent = Sent::by(&config);
    let service = ClientBuilder::try_from((config, fence.clone()))?;
    let service = service.with_layer(&MapResponseLayer::new(move |answer| {
        sent.removed_from(answer)
    }));
    instrument(
        service.with_layer(&BufferLayer::new(BUFFER)),
        metrics,
        fence,
    )
}

/// Sets the timeouts and disables kube's own retries (see the documentation of the module).
pub fn tune(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.default_retry = false;
}

/// Builds a client on a service whose configuration is [`tune`]d. Requests are counted in
/// `metrics`, writes must pass `fence`, and both are retried where that is safe. Must be called
/// within a tokio runtime.
///
/// # Errors
///
/// Never, as long as the delays of the retries are well formed.
pub fn instrument<S, B>(
    service: ClientBuilder<S>,
    metrics: &RequestMetrics,
    fence: &Fence,
) -> Result<Client, kube::Error>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let retry = RetryPolicy::new().map_err(|error| kube::Error::Service(error.into()))?;
    let client = service
        .with_layer(&CountRequests::new(metrics))
        // Below the retries, so that each attempt is checked by itself.
        .with_layer(fence)
        .with_layer(&LargeWrites::new())
        .with_layer(&RetryLayer::new(retry))
        .build();
    Ok(client)
}

/// As [`instrument`], without retries: for callers that need the first response of the server.
pub fn counted<S, B>(service: ClientBuilder<S>, metrics: &RequestMetrics) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    service.with_layer(&CountRequests::new(metrics)).build()
}

/// The API server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server does not respond.
    #[error(
        "cannot reach the API server {url}: {cause}; \
         check that the cluster is up and that --kubeconfig and --context name it"
    )]
    Unreachable {
        /// Address of the server.
        url: Uri,
        /// The innermost cause.
        cause: String,
    },
    /// The server does not accept the credentials.
    #[error(
        "the API server {url} refuses the credentials ({cause}); renew them or choose others with --context"
    )]
    Refused {
        /// Address of the server.
        url: Uri,
        /// Message of the server.
        cause: String,
    },
    /// The server responds in any other way.
    #[error("the server {url} does not answer like an API server: {cause}")]
    Other {
        /// Address of the server.
        url: Uri,
        /// The cause of the failure.
        cause: String,
    },
}

/// Reads the version of the server (`v1.36.3`), so that a wrong address or refused credentials are
/// reported before any other request is sent.
///
/// # Errors
///
/// The text states in one line what is wrong and what to do about it.
pub async fn check_server(client: &Client, url: &Uri) -> Result<String, ServerError> {
    let url = || url.clone();
    let answer = tokio::time::timeout(FIRST_REQUEST_TIMEOUT, client.apiserver_version()).await;
    match answer {
        Ok(Ok(version)) => Ok(version.git_version),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
            Err(ServerError::Refused {
                url: url(),
                cause: status.message.clone(),
            })
        }
        Ok(Err(kube::Error::Service(error))) => Err(ServerError::Unreachable {
            url: url(),
            cause: innermost(&*error),
        }),
        Ok(Err(error @ kube::Error::HyperError(_))) => Err(ServerError::Unreachable {
            url: url(),
            cause: innermost(&error),
        }),
        Ok(Err(error)) => {
            let cause = request_failure(&error);
            Err(ServerError::Other { url: url(), cause })
        }
        Err(_elapsed) => {
            let cause = format!("no answer within {} s", FIRST_REQUEST_TIMEOUT.as_secs());
            Err(ServerError::Unreachable { url: url(), cause })
        }
    }
}

/// True if a request that was answered with `status` may be sent again.
fn may_retry(verb: Verb, status: StatusCode) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => match verb {
            Verb::Get | Verb::List | Verb::Watch | Verb::DryRun | Verb::Discovery => true,
            Verb::Create
            | Verb::Apply
            | Verb::Patch
            | Verb::Update
            | Verb::Status
            | Verb::Delete
            | Verb::Event
            | Verb::Lease => false,
        },
        _ => false,
    }
}

/// The `Retry-After` of a response, limited to `RETRY_AFTER_MAX`.
fn retry_after<R>(response: &Response<R>) -> Duration {
    let seconds = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    seconds
        .map_or(Duration::ZERO, Duration::from_secs)
        .min(RETRY_AFTER_MAX)
}

/// Retries requests that the server did not carry out (see the documentation of the module).
#[derive(Clone, Debug)]
struct RetryPolicy {
    backoff: ExponentialBackoff,
    left: u32,
}

impl RetryPolicy {
    fn new() -> Result<Self, InvalidBackoff> {
        let backoff = ExponentialBackoffMaker::new(RETRY_MIN, RETRY_MAX, 0.5, HasherRng::new())?
            .make_backoff();
        Ok(Self {
            backoff,
            left: RETRIES,
        })
    }
}

impl<R> Policy<Request<Body>, Response<R>, BoxError> for RetryPolicy {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Sleep> {
        let response = result.as_ref().ok()?;
        if !may_retry(Verb::of(request), response.status()) {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let sleep = self.backoff.next_backoff();
        let earliest = Instant::now() + retry_after(response);
        Some(if earliest > sleep.deadline() {
            tokio::time::sleep_until(earliest)
        } else {
            sleep
        })
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        // `None` for a body that is a stream: such a request is sent once.
        let body = request.body().try_clone()?;
        let mut copy = Request::new(body);
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        *copy.version_mut() = request.version();
        copy.headers_mut().clone_from(request.headers());
        copy.extensions_mut().clone_from(request.extensions());
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tower::{ServiceBuilder, ServiceExt as _};

    use super::*;

    #[test]
    fn only_requests_that_were_not_processed_are_retried() {
        for (verb, status, expected) in [
            (Verb::Apply, 429, true),
            (Verb::Get, 429, true),
            (Verb::Lease, 429, true),
            (Verb::Get, 503, true),
            (Verb::Watch, 503, true),
            (Verb::DryRun, 504, true),
            (Verb::Apply, 503, false),
            (Verb::Apply, 504, false),
            (Verb::Create, 504, false),
            (Verb::Delete, 503, false),
            (Verb::Status, 504, false),
            (Verb::Get, 500, false),
            (Verb::Get, 404, false),
            (Verb::Get, 200, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(may_retry(verb, status), expected, "{verb:?} {status}");
        }
    }

    #[test]
    fn the_retry_after_header_is_respected_up_to_a_limit() {
        for (header, expected) in [
            (None, 0),
            (Some("1"), 1),
            (Some("86400"), 5),
            (Some("soon"), 0),
        ] {
            let mut response = Response::builder();
            if let Some(value) = header {
                response = response.header(RETRY_AFTER, value);
            }
            assert_eq!(
                retry_after(&response.body(()).unwrap()),
                Duration::from_secs(expected),
                "{header:?}"
            );
        }
    }

    /// Sends one request to a server that always answers with `status`. Returns the number of
    /// requests that arrived, and the time taken.
    async fn arrivals(method: &str, status: u16) -> (usize, Duration) {
        let arrived = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&arrived);
        let service = tower::service_fn(move |_request: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, BoxError>(Response::builder().status(status).body(())?) }
        });
        let mut service = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::new().unwrap()))
            .layer(BufferLayer::new(1))
            .service(service);
        let request = Request::builder()
            .method(method)
            .uri("/api/v1/namespaces/a/configmaps/b");
        let start = Instant::now();
        let response = service
            .ready()
            .await
            .unwrap()
            .call(request.body(Body::from(vec![1])).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status().as_u16(), status);
        (arrived.load(Ordering::Relaxed), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_after_a_few_seconds() {
        assert_eq!(arrivals("PATCH", 409).await.0, 1);
        assert_eq!(arrivals("PATCH", 503).await.0, 1);
        let (arrived, took) = arrivals("PATCH", 429).await;
        assert_eq!(arrived, 6);
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(arrivals("GET", 503).await.0, 6);
    }

    #[tokio::test]
    async fn an_unreachable_server_is_a_one_line_error() {
        // A listener that is dropped leaves a port that nothing listens on.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url: Uri = format!("http://{address}/").parse().unwrap();
        let metrics = RequestMetrics::default();
        let client =
            instrumented_client(Config::new(url.clone()), &metrics, &Fence::closed()).unwrap();
        let error = check_server(&client, &url).await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "cannot reach the API server {url}: Connection refused"
            )),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
        assert_eq!(metrics.total(Verb::Discovery), 1);
    }
}
