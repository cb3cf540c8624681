//! A port that serves a site.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::{TryStreamExt as _, stream};
use http::{HeaderMap, Request, Response, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kube::client::Body;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::rewrite::Names;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 64;

/// The reason that a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Read(#[from] hyper::Error),
    #[error(transparent)]
    Path(#[from] http::uri::InvalidUri),
    #[error(transparent)]
    Plane(#[from] kube::Error),
}

/// A site and its port.
pub(super) struct Door {
    site: Arc<Site>,
    address: SocketAddr,
    is_open: watch::Receiver<bool>,
    /// This socket is bound but never listens: it reserves the port while the site is closed.
    _port: TcpSocket,
}

struct Site {
    acceptor: TlsAcceptor,
    plane: Client,
    names: Names,
}

impl Door {
    /// Reserves a port for a site.
    pub(super) fn new(
        name: &str,
        acceptor: TlsAcceptor,
        plane: Client,
        is_open: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let port = bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let site = Site {
            acceptor,
            plane,
            names: Names::of(name),
        };
        Ok(Self {
            site: Arc::new(site),
            address: port.local_addr()?,
            is_open,
            _port: port,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bind(self.address)?.listen(BACKLOG)
    }

    /// Serves the site until the sender of `is_open` is dropped.
    pub(super) async fn run(mut self, mut listener: TcpListener) {
        loop {
            let is_over = self.serve(listener).await.is_none();
            if is_over || self.is_open.wait_for(|is_open| *is_open).await.is_err() {
                return;
            }
            listener = match self.listen() {
                Ok(listener) => listener,
                Err(error) => {
                    eprintln!("bench: {} stays closed: {error}", self.address);
                    return;
                }
            };
        }
    }

    /// Serves the site while it is open. Returns when it is closed; all its connections have ended
    /// then.
    async fn serve(&mut self, listener: TcpListener) -> Option<()> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                closed = self.is_open.wait_for(|is_open| !is_open) => return closed.ok().map(drop),
                client = listener.accept() => {
                    // A client may have disconnected before it was accepted.
                    if let Ok((client, _)) = client {
                        connections.spawn(Arc::clone(&self.site).serve(client));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

impl Site {
    /// Serves a connection to its end. Errors are ignored, as the client sees them.
    async fn serve(self: Arc<Self>, client: TcpStream) {
        let _ = client.set_nodelay(true);
        let Ok(client) = self.acceptor.accept(client).await else {
            return;
        };
        let service = service_fn(move |request| {
            let site = Arc::clone(&self);
            async move { site.answer(request).await }
        });
        let _ = auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(client), service)
            .await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, kube::Error>>, Error> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Some(target) = head.uri.path_and_query() {
            head.uri = self.names.path(&head.method, target.as_str()).parse()?;
        }
        head.version = Version::HTTP_11;
        strip(&mut head.headers);
        for name in [header::HOST, header::AUTHORIZATION] {
            head.headers.remove(name);
        }
        let body = self.names.to_plane(&body);
        let answer = self
            .plane
            .send(Request::from_parts(head, Body::from(body)))
            .await?;
        let (mut head, body) = answer.into_parts();
        strip(&mut head.headers);
        Ok(Response::from_parts(head, lines(body, self.names.clone())))
    }
}

/// Forwards a body line by line: a watch has an event in each line, any other answer consists of
/// one line.
fn lines(body: Body, names: Names) -> UnsyncBoxBody<Bytes, kube::Error> {
    let chunks = BodyDataStream::new(body);
    let parts = stream::try_unfold((chunks, Vec::new()), move |(mut chunks, mut held)| {
        let names = names.clone();
        async move {
            while let Some(chunk) = chunks.try_next().await? {
                let end = chunk.iter().rposition(|byte| *byte == b'\n');
                let Some(end) = end else {
                    held.extend_from_slice(&chunk);
                    continue;
                };
                held.extend_from_slice(&chunk[..=end]);
                let whole = names.to_site(&held);
                return Ok(Some((
                    Frame::data(whole),
                    (chunks, chunk[end + 1..].to_vec()),
                )));
            }
            let rest = (!held.is_empty()).then(|| Frame::data(names.to_site(&held)));
            Ok(rest.map(|rest| (rest, (chunks, Vec::new()))))
        }
    });
    StreamBody::new(parts).boxed_unsync()
}

/// Removes the headers of a single connection, and the length, which changes with the body.
fn strip(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TE,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
    ] {
        headers.remove(name);
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // The address is also used by the socket that reserves the port, and by ended connections.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}
