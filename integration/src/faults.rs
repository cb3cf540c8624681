//! A fault injector: it answers some requests as a script says, and passes all others to the real
//! API server.
//!
//! [`Faults`] stands in front of a real API server and ends TLS with the server's own certificate,
//! so that no client detects a difference. Requests are forwarded to the real server with their own
//! credentials. The credentials must be in the request (a bearer token), because a client
//! certificate is not forwarded.
//!
//! ```ignore
//! let faults = Faults::start(site.endpoint()).await;
//! let joined = site.join(&ns).through(&faults.url()).create().await;
//! let conflict = faults.inject(On::verb(Verb::Apply).path("/configmaps/").times(2), Answer::conflict());
//! ..                                                             // something is delivered
//! conflict.used(2).await;
//! faults.end_watches("/configmaps", WatchEnd::Error(Status::gone()));   // the watches that are open now
//! let writes = faults.requests().iter().filter(|seen| seen.is_write()).count();
//! ```
//!
//! [`Answer`] lists the faults of a script: a request may be answered without the server, carried
//! out with the answer lost, cut in the middle of the body, or held back until a gate opens.
//!
//! # Guarantees
//!
//! - A request meets the first injection that matches it and is not used up.
//! - [`Faults::requests`] contains each request from the moment its answer begins, in that order.
//! - When the injector is dropped, it stops listening, and all its connections end.
//!
//! # Caveats
//!
//! Only HTTP/1.1 is supported, without upgrades: no `exec`, no `port-forward`.

mod observed;
mod script;
mod status;
mod stream;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub use self::observed::{ObservedRequest, Verb};
pub use self::script::{Answer, Gate, On};
pub use self::status::Status;
pub use self::stream::WatchEnd;

use self::script::Script;
use crate::endpoint::Endpoint;
use crate::namespace::TIMEOUT;
use crate::network::network;

/// An error that ends a connection without an answer.
type Error = Box<dyn std::error::Error + Send + Sync>;

type Answered = Response<UnsyncBoxBody<Bytes, Error>>;

/// A fault injector in front of an API server.
#[derive(Debug)]
pub struct Faults {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    /// Ends the listener and all connections when it is dropped.
    _running: watch::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<ObservedRequest>>,
    ends: broadcast::Sender<(String, WatchEnd)>,
}

/// An injection of the script.
#[derive(Debug)]
pub struct Injection {
    text: String,
    used: watch::Receiver<usize>,
}

impl Faults {
    /// Starts a fault injector in front of an API server.
    pub async fn start(upstream: &Endpoint) -> Self {
        let acceptor = acceptor(upstream);
        let config = config(upstream);
        let shared = Arc::new(Shared {
            script: Mutex::default(),
            requests: watch::Sender::new(Vec::new()),
            ends: broadcast::Sender::new(16),
        });
        let (running, runs) = watch::channel(());
        let state = shared.clone();
        let started = network().spawn(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let upstream = Client::try_from(config).unwrap();
            let server = Server {
                acceptor,
                upstream,
                shared: state,
            };
            tokio::spawn(server.run(listener, runs));
            address
        });
        Self {
            endpoint: upstream.at(started.await.unwrap()),
            shared,
            _running: running,
        }
    }

    /// Returns the endpoint of the injector, as clients see it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the address that the injector listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// Returns the URL of the injector.
    #[must_use]
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// Adds an injection, which applies to all further requests.
    #[expect(
        clippy::must_use_candidate,
        reason = "a caller that does not wait needs no result"
    )]
    pub fn inject(&self, on: On, answer: Answer) -> Injection {
        let text = format!("{on:?} to meet {answer:?}");
        let used = self.shared.script.lock().unwrap().add(on, answer);
        Injection { text, used }
    }

    /// Ends all injections. Gates are not opened.
    pub fn heal(&self) {
        *self.shared.script.lock().unwrap() = Script::default();
    }

    /// Ends the watches that are open now on paths that match a regular expression, each between
    /// two events.
    pub fn end_watches(&self, path: &str, end: WatchEnd) {
        // There is no receiver if no watch is open.
        let _ = self.shared.ends.send((path.to_owned(), end));
    }

    /// Holds the watch of a path, a regular expression, from now on: the watch that is open now
    /// ends, and the next one gets no answer before the gate opens. Returns when it is requested.
    pub async fn hold_watch(&self, path: &str, gate: &Gate) {
        let on = On::verb(Verb::Watch).path(path);
        let held = self.inject(on, Answer::Held(gate.clone()));
        self.end_watches(path, WatchEnd::Close);
        held.used(1).await;
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Waits until the requests satisfy a predicate, and returns them. Fails after the usual time
    /// limit.
    pub async fn until(
        &self,
        text: &str,
        holds: impl Fn(&[ObservedRequest]) -> bool,
    ) -> Vec<ObservedRequest> {
        let mut requests = self.shared.requests.subscribe();
        let found = timeout(TIMEOUT, requests.wait_for(|requests| holds(requests))).await;
        let Ok(found) = found else {
            panic!("waited in vain for {text} among {:#?}", self.requests());
        };
        found.unwrap().clone()
    }

    /// Waits until one of the objects is read after the first `earlier` requests. Each is named by a
    /// part of its path.
    pub async fn until_read(&self, earlier: usize, paths: [&str; 2]) {
        let is_get = |request: &ObservedRequest| {
            request.verb == Verb::Get && paths.iter().any(|path| request.path.contains(path))
        };
        let text = format!("a GET of {}", paths.join(" or "));
        self.until(&text, |requests| requests[earlier..].iter().any(is_get))
            .await;
    }
}

impl Injection {
    /// Waits until the injection has applied to this number of requests.
    pub async fn used(&self, times: usize) {
        let mut used = self.used.clone();
        // The result holds a lock that the counting thread would wait for.
        let reached = timeout(TIMEOUT, used.wait_for(|used| *used >= times)).await;
        let is_reached = reached.is_ok();
        drop(reached);
        let met = *self.used.borrow();
        assert!(is_reached, "waited in vain for {}: {met} did", self.text);
    }

    /// Returns the number of requests that the injection has applied to.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.used.borrow()
    }
}

/// The server of the fault injector.
#[derive(Clone)]
struct Server {
    acceptor: TlsAcceptor,
    upstream: Client,
    shared: Arc<Shared>,
}

impl Server {
    async fn run(self, listener: TcpListener, mut runs: watch::Receiver<()>) {
        loop {
            let client = tokio::select! {
                _ = runs.changed() => return,
                client = listener.accept() => client,
            };
            // A client may disconnect before it is accepted.
            if let Ok((client, _)) = client {
                let (server, mut runs) = (self.clone(), runs.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = runs.changed() => {}
                        () = server.serve(client) => {}
                    }
                });
            }
        }
    }

    /// Serves a connection until it ends. The client sees the errors of its connection.
    async fn serve(self, client: TcpStream) {
        let _ = client.set_nodelay(true);
        let Ok(client) = self.acceptor.accept(client).await else {
            return;
        };
        let service = service_fn(|request| self.answer(request));
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(client), service)
            .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Answered, Error> {
        let mut observed = ObservedRequest::new(&request);
        let answer = self.shared.script.lock().unwrap().next(&observed);
        observed.injected = answer.is_some();
        let watches = observed.verb == Verb::Watch;
        let mut end = None;
        let mut cut = None;
        match answer {
            None => {}
            Some(Answer::Status(status)) => return Ok(self.instead(observed, &status)),
            Some(Answer::Echo) => {
                observed.status = 500;
                self.note(observed);
                return Ok(status::echo(request.headers()));
            }
            Some(Answer::Object(object)) => {
                observed.status = 200;
                self.note(observed);
                return Ok(status::object(&object));
            }
            Some(Answer::Lost(status)) => {
                observed.carried_out = self.forward(request).await?.status().is_success();
                return Ok(self.instead(observed, &status));
            }
            Some(Answer::HangUp { carried_out }) => {
                if carried_out {
                    observed.carried_out = self.forward(request).await?.status().is_success();
                }
                self.note(observed);
                return Err("hung up".into());
            }
            Some(Answer::Held(gate)) => gate.pass().await,
            Some(Answer::CutBody(after)) => cut = Some(after),
            Some(Answer::EndWatch { after, how }) => end = Some((after, how)),
        }
        // Subscribes before the watch begins at the server, so that no request to end watches is
        // missed.
        let ends = self.shared.ends.subscribe();
        let answer = self.forward(request).await?;
        observed.status = answer.status().as_u16();
        observed.carried_out = answer.status().is_success();
        let path = observed.path.clone();
        self.note(observed);
        let (head, body) = answer.into_parts();
        let body = body.map_err(Error::from);
        let body = match cut {
            Some(after) => stream::cut(body, after),
            None if watches && head.status.is_success() => stream::watch(body, path, end, ends),
            None => BodyExt::boxed_unsync(body),
        };
        Ok(Response::from_parts(head, body))
    }

    /// Passes a request to the real server and returns its answer.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, Error> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        strip(&mut head.headers);
        let request = Request::from_parts(head, Body::from(body));
        let mut answer = self.upstream.send(request).await?;
        strip_connection(answer.headers_mut());
        Ok(answer)
    }

    fn instead(&self, mut observed: ObservedRequest, status: &Status) -> Answered {
        observed.status = status.code();
        self.note(observed);
        status.answer()
    }

    fn note(&self, observed: ObservedRequest) {
        self.shared.requests.send_modify(|all| all.push(observed));
    }
}

/// Removes the headers that concern one connection, and those that the other connection's client
/// sets by itself.
fn strip(headers: &mut HeaderMap) {
    strip_connection(headers);
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
}

fn strip_connection(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TE, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

/// Accepts connections with the certificate of a bed.
pub(crate) fn acceptor(endpoint: &Endpoint) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(endpoint.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(endpoint.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Returns the configuration of a client without credentials of its own and without retries.
fn config(endpoint: &Endpoint) -> Config {
    let ca = CertificateDer::from_pem_slice(endpoint.ca.as_bytes()).unwrap();
    let mut config = Config::new(endpoint.url().parse().unwrap());
    config.root_cert = Some(vec![ca.to_vec()]);
    config.read_timeout = None;
    config.default_retry = false;
    config
}
