//! The client of a cluster. It is made like the manager's own, but its connection can be exchanged.
//!
//! # Exchange of credentials
//!
//! The rest of the manager uses one [`Client`] for as long as the cluster has the same address. The
//! client counts and retries, and passes every request to a cell that contains the connection,
//! which is made from the credentials (see [`super::connection`]). For new credentials the cell
//! gets a new connection. So all kinds of credentials, the CA included, are exchanged in one way,
//! and kube does all of TLS and authentication. A request under way, such as a watch, ends on the
//! connection on which it began: servers check credentials when a request begins.
//!
//! A header from shared state would be sufficient for tokens only, and a TLS configuration behind a
//! lock would leave connections with the old one in the pool.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::Notify, time::Instant};
use tower::{BoxError, Service, ServiceExt as _};

use super::connection::{Answer, Connection, connection};
use super::credentials::{Credentials, Identity};
use super::paced::{Pace, Paced};
use baton_kubernetes::client::{counted, instrument, tune};
use baton_kubernetes::fence::Fence;
use baton_kubernetes::request_metrics::RequestMetrics;
use baton_kubernetes::wire::LONGEST_ANSWER;
use baton_terminal::proxy::Proxies;

/// A client with an exchangeable connection.
pub(super) struct ReconnectingClient {
    /// The client for all requests but checks. It stays the same.
    pub client: Client,
    /// Resolves when the outcome of requests is not the expected one.
    pub outcomes: Arc<UnexpectedOutcome>,
    /// Ends the requests under way.
    cancel: Arc<Notify>,
    config: Config,
    metrics: RequestMetrics,
    fence: Fence,
    current: Arc<RwLock<Connection>>,
}

impl ReconnectingClient {
    /// Creates a client without connecting it. Must be called within a tokio runtime.
    pub fn new(
        credentials: &Credentials,
        metrics: &RequestMetrics,
        fence: &Fence,
    ) -> Result<Self, kube::Error> {
        let config = config(credentials, &Proxies::of_environment())?;
        let current = Arc::new(RwLock::new(connection(config.clone(), fence)?));
        let outcomes = Arc::new(UnexpectedOutcome::default());
        let recorded = Arc::clone(&outcomes);
        let cancel = Arc::new(Notify::new());
        let pace = Arc::new(Mutex::new(Pace::new(Instant::now())));
        let connection = (Arc::clone(&current), pace);
        let requests = service(connection, Arc::clone(&cancel), move |result| {
            recorded.record(is_answer(result));
        });
        let client = instrument(ClientBuilder::new(requests, "default"), metrics, fence)?;
        Ok(Self {
            client,
            outcomes,
            cancel,
            config,
            metrics: metrics.clone(),
            fence: fence.clone(),
            current,
        })
    }

    /// A client for a check, without retries, so that the check sees the first response. It is made
    /// for each check, because a client that waits for the next check takes 9 KiB. Must be called
    /// within a tokio runtime.
    pub fn checks(&self) -> Client {
        // Checks are not ended by `end_requests`, because they detect if the cluster is lost.
        let pace = Arc::new(Mutex::new(Pace::new(Instant::now())));
        let checks = service((Arc::clone(&self.current), pace), Arc::default(), |_| {});
        counted(ClientBuilder::new(checks, "default"), &self.metrics)
    }

    /// Uses other credentials for requests from now on.
    pub fn exchange(&mut self, credentials: &Credentials) -> Result<(), kube::Error> {
        let config = config(credentials, &Proxies::of_environment())?;
        *self.current.write() = connection(config.clone(), &self.fence)?;
        self.config = config;
        Ok(())
    }

    /// Ends the requests under way, except checks, so that no caller waits for a lost cluster.
    pub fn end_requests(&self) {
        self.cancel.notify_waiters();
    }

    /// Uses new connections for requests from now on. Those in the pool may be dead without a sign:
    /// a request on each would have to time out first.
    pub fn renew(&self) {
        // The configuration was used before; only the certificates of the system, on disk, can have
        // become unreadable meanwhile.
        match connection(self.config.clone(), &self.fence) {
            Ok(connection) => *self.current.write() = connection,
            Err(error) => tracing::debug!(%error, "cannot make a new connection"),
        }
    }
}

/// The request was ended, because the connection was lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the cluster was lost meanwhile")]
struct ConnectionLost;

type Outcome = Result<Answer, BoxError>;

/// Passes each request to the connection that the cell contains at that time, and its outcome to
/// `answered`; `end_requests` ends the requests under way.
fn service(
    (cell, pace): (Arc<RwLock<Connection>>, Arc<Mutex<Pace>>),
    lost: Arc<Notify>,
    answered: impl Fn(&Outcome) + Clone + Send + 'static,
) -> impl Service<
    Request<Body>,
    Response = Answer,
    Error = BoxError,
    Future = impl Future<Output = Outcome> + Send,
> + Clone
+ Send {
    tower::service_fn(move |request| {
        let (connection, answered) = (cell.read().clone(), answered.clone());
        let lost = Arc::clone(&lost).notified_owned();
        let watched = is_watch(&request).then(|| Arc::clone(&pace));
        async move {
            tokio::select! {
                result = connection.oneshot(request) => {
                    answered(&result);
                    result.map(|answer| match watched {
                        Some(pace) => answer.map(|body| Paced::new(body, pace).boxed_unsync()),
                        None => bounded(answer),
                    })
                }
                () = lost => Err(ConnectionLost.into()),
            }
        }
    })
}

/// True for a watch, whose answer has no end. The reader of a watch limits each event.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|part| matches!(part, "watch=1" | "watch=true"))
}

/// An answer that fails at [`LONGEST_ANSWER`]: a cluster may send without an end.
fn bounded(answer: Answer) -> Answer {
    answer.map(|body| Limited::new(body, LONGEST_ANSWER).boxed_unsync())
}

/// True if an API server has accepted the request, with any response.
fn is_answer(result: &Outcome) -> bool {
    result.as_ref().is_ok_and(|response| {
        let status = response.status();
        status != StatusCode::UNAUTHORIZED && !status.is_server_error()
    })
}

fn config(credentials: &Credentials, proxies: &Proxies) -> Result<Config, kube::Error> {
    let mut config = Config::new(credentials.url.clone());
    tune(&mut config);
    let proxy = proxies.to(&credentials.url);
    config.proxy_url = proxy.map_err(|error| kube::Error::Service(error.into()))?;
    config.root_cert.clone_from(&credentials.ca);
    config.accept_invalid_certs = credentials.skip_verify;
    match &credentials.identity {
        Identity::Token(token) => config.auth_info.token = Some(token.clone().into()),
        Identity::Certificate { certificate, key } => {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        Identity::Anonymous => {}
    }
    Ok(config)
}

/// Signals that requests fail although the cluster counts as up, or are answered although it counts
/// as down, so that the cluster is checked at once and not at the next regular time.
#[derive(Debug, Default)]
pub(super) struct UnexpectedOutcome {
    expected: AtomicBool,
    last: AtomicBool,
    other: Notify,
}

impl UnexpectedOutcome {
    /// Sets the expected outcome of requests from now on: true if they are answered.
    pub fn expect(&self, answered: bool) {
        self.last.store(answered, Ordering::Relaxed);
        self.expected.store(answered, Ordering::Relaxed);
    }

    /// Resolves when the outcome of the last request is not the expected one.
    pub async fn changed(&self) {
        while self.last.load(Ordering::Relaxed) == self.expected.load(Ordering::Relaxed) {
            self.other.notified().await;
        }
    }

    fn record(&self, answered: bool) {
        self.last.store(answered, Ordering::Relaxed);
        if answered != self.expected.load(Ordering::Relaxed) {
            self.other.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http::{Response, Uri};
    use http_body_util::{BodyExt as _, Empty};

    use super::*;

    fn credentials(identity: Identity) -> Credentials {
        Credentials {
            url: Uri::from_static("https://127.0.0.1:1/"),
            identity,
            ca: None,
            skip_verify: true,
            checksum: 0,
        }
    }

    #[test]
    fn clusters_are_reached_through_the_proxy_of_the_environment() {
        let proxies = Proxies::read(|name| match name {
            "HTTPS_PROXY" => Some("http://proxy:3128".to_owned()),
            "NO_PROXY" => Some(".near".to_owned()),
            _ => None,
        });
        for (url, expected) in [
            ("https://cluster.far:6443", Some("http://proxy:3128/")),
            ("https://cluster.near:6443", None),
            ("https://127.0.0.1:6443", None),
        ] {
            let credentials = Credentials {
                url: url.parse().unwrap(),
                ..credentials(Identity::Token("t".to_owned()))
            };
            let config = config(&credentials, &proxies).unwrap();
            let proxy = config.proxy_url.map(|proxy| proxy.to_string());
            assert_eq!(proxy.as_deref(), expected, "{url}");
        }
        let unusable = Proxies::read(|name| {
            let is_named = name == "HTTPS_PROXY";
            is_named.then(|| "socks4://proxy:1080".to_owned())
        });
        for (url, expected) in [
            ("https://cluster.far:6443", true),
            ("https://127.0.0.1:6443", false),
        ] {
            let credentials = Credentials {
                url: url.parse().unwrap(),
                ..credentials(Identity::Anonymous)
            };
            let is_refused = config(&credentials, &unusable).is_err();
            assert_eq!(is_refused, expected, "{url}");
        }
    }

    #[tokio::test]
    async fn requests_to_a_cluster_that_is_lost_are_ended() {
        // Accepts connections and never responds.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let line = ReconnectingClient::new(
            &Credentials {
                url: format!("http://{address}/").parse().unwrap(),
                ..credentials(Identity::Anonymous)
            },
            &RequestMetrics::default(),
            &Fence::closed(),
        )
        .unwrap();
        let client = line.client.clone();
        let request = tokio::spawn(async move { client.apiserver_version().await });
        let _connection = silent.accept().await.unwrap();
        assert!(!request.is_finished());
        line.end_requests();
        let error = request.await.unwrap().unwrap_err();
        assert!(format!("{error:?}").contains("Lost"), "{error:?}");
    }

    /// No valid certificate, but in the form of one.
    const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

    #[tokio::test]
    async fn invalid_credentials_leave_the_connection_unchanged() {
        let metrics = RequestMetrics::default();
        let mut line = ReconnectingClient::new(
            &credentials(Identity::Token("a".to_owned())),
            &metrics,
            &Fence::closed(),
        )
        .unwrap();
        let url = line.config.cluster_url.clone();
        let no_key = credentials(Identity::Certificate {
            certificate: PEM.to_owned(),
            key: b"hunter2".to_vec(),
        });
        let no_ca = Credentials {
            ca: Some(vec![vec![1, 2, 3]]),
            ..credentials(Identity::Token("b".to_owned()))
        };
        for (bad, expected) in [
            (no_key, "missing a private key"),
            (no_ca, "root certificate"),
        ] {
            let error = line.exchange(&bad).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
            assert_eq!(line.config.cluster_url, url);
            assert!(line.config.auth_info.token.is_some());
            assert!(ReconnectingClient::new(&bad, &metrics, &Fence::closed()).is_err());
        }
    }

    #[test]
    fn only_unexpected_answers_are_signalled() {
        let outcomes = UnexpectedOutcome::default();
        let changed = || outcomes.changed().now_or_never().is_some();
        assert!(!changed());
        outcomes.record(false);
        assert!(!changed(), "nothing else was expected");
        outcomes.record(true);
        assert!(changed());
        outcomes.expect(true);
        assert!(!changed(), "the check has looked already");
        outcomes.record(true);
        assert!(!changed());
        outcomes.record(false);
        outcomes.record(true);
        assert!(!changed(), "it has passed by itself");
        outcomes.record(false);
        assert!(changed());
        outcomes.expect(false);
        assert!(!changed());
    }

    #[test]
    fn an_unauthorized_response_does_not_count_as_contact() {
        for (status, expected) in [
            (200, true),
            (404, true),
            (403, true),
            (409, true),
            (429, true),
            (401, false),
            (500, false),
            (503, false),
        ] {
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let response = Response::builder().status(status).body(body);
            assert_eq!(is_answer(&Ok(response.unwrap())), expected, "{status}");
        }
        assert!(!is_answer(&Err("broken".into())));
    }
}
