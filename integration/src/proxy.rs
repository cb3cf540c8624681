//! A network between a manager and an API server, which belongs to one test and can be made to
//! fail.
//!
//! A [`Proxy`] listens on a port of the loopback interface and carries bytes to a real server and
//! back. TLS passes unchanged; the certificate of a bed's API server is valid for `127.0.0.1` on
//! any port. A test uses the proxy's address instead of the server's, and switches the [`Mode`]
//! while connections are open:
//!
//! ```ignore
//! let site = Site::get(PUSH).await;
//! let proxy = Proxy::start(site.address()).await;
//! let joined = site.join(&ns).through(&proxy.url()).create().await;
//! ..                                                 // something is delivered
//! proxy.set(Mode::BlackHole).await;                  // nothing signals that the line is dead
//! ..
//! proxy.set(Mode::Pass).await;                       // new connections pass; the old ones stay dead
//! proxy.until("a new connection", |facts| facts.accepted > 3).await;
//! ```
//!
//! To reset a connection in the middle of a watch, wait until there is no traffic,
//! `set(Mode::ResetLivingAfter(1))`, and change an object. The first byte of its event still
//! passes.
//!
//! # Guarantees
//!
//! - When [`Proxy::set`] returns, the new mode applies to every further byte. After [`Mode::Cut`]
//!   no connection is left, and the port refuses new ones.
//! - The port belongs to the proxy until it is dropped, also while it refuses connections.
//! - When the proxy is dropped, it resets its connections and stops listening.
//!
//! # Caveats
//!
//! - A proxy cannot lose the first packet of a connection: in a black hole `connect` succeeds, and
//!   then no answer follows.
//! - When the server itself refuses a connection, the client's connection is accepted and then
//!   reset.

mod connection;
mod line;
mod switch;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

pub use self::line::Slow;
pub use self::switch::Mode;

use self::connection::Connection;
use self::switch::Switch;
use crate::namespace::TIMEOUT;
use crate::network::network;

/// Number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// The counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open on the client's side, including dead ones.
    pub open: usize,
    /// Connections that were reset by the proxy.
    pub resets: u64,
    /// Bytes of clients that were discarded.
    pub swallowed: u64,
    /// Bytes that reached the server.
    pub to_server: u64,
    /// Bytes that reached clients.
    pub to_client: u64,
    /// Turns of the switch that the listener has carried out.
    turns: u64,
}

/// A TCP proxy in front of one server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// Ends the listener and all connections when it is dropped: they only have receivers.
    switch: std::sync::Arc<watch::Sender<Switch>>,
    facts: watch::Receiver<Facts>,
}

impl Proxy {
    /// Starts a proxy that passes everything.
    pub async fn start(upstream: SocketAddr) -> Self {
        let started = network().spawn(async move {
            let (port, address) = reserve()?;
            let (switch, turns) = watch::channel(Switch::default());
            let (facts, receiver) = watch::channel(Facts::default());
            let listener = Listener {
                address,
                upstream,
                switch: turns,
                facts,
                port,
            };
            // The port listens before any client has the address.
            let socket = listen(address)?;
            tokio::spawn(listener.run(socket));
            io::Result::Ok(Self {
                address,
                switch: std::sync::Arc::new(switch),
                facts: receiver,
            })
        });
        let started = started.await.unwrap();
        started.unwrap_or_else(|error| panic!("no proxy in front of {upstream}: {error}"))
    }

    /// Returns the address that the proxy listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the API server behind the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Switches the network to another mode.
    pub async fn set(&self, mode: Mode) {
        // Runs on the thread of the connections, so that none of them is between reading the old
        // mode and acting upon it.
        let switch = self.switch.clone();
        let turned = network().spawn(async move {
            let mut turn = 0;
            switch.send_modify(|switch| {
                switch.turn(mode);
                turn = switch.turns();
            });
            turn
        });
        let turn = turned.await.unwrap();
        let text = format!("the switch to {mode:?}");
        self.until(&text, |facts| {
            facts.turns >= turn && (mode != Mode::Cut || facts.open == 0)
        })
        .await;
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn facts(&self) -> Facts {
        *self.facts.borrow()
    }

    /// Waits until the counters satisfy a predicate, and returns them. Fails after the usual time
    /// limit.
    pub async fn until(&self, text: &str, holds: impl Fn(&Facts) -> bool) -> Facts {
        let mut facts = self.facts.clone();
        let found = timeout(TIMEOUT, facts.wait_for(holds)).await;
        let Ok(found) = found else {
            panic!(
                "waited in vain for {text}; the proxy saw {:?}",
                self.facts()
            );
        };
        *found.unwrap()
    }
}

/// The task that accepts or refuses connections.
struct Listener {
    address: SocketAddr,
    upstream: SocketAddr,
    switch: watch::Receiver<Switch>,
    facts: watch::Sender<Facts>,
    /// Bound but never listening. It reserves the port while no other socket listens on it.
    port: TcpSocket,
}

impl Listener {
    async fn run(mut self, socket: TcpListener) {
        let mut socket = Some(socket);
        loop {
            let switch = *self.switch.borrow_and_update();
            match switch.mode() {
                // The operating system resets the connections that wait to be accepted.
                Mode::Cut => socket = None,
                _ if socket.is_none() => socket = Some(listen(self.address).unwrap()),
                _ => {}
            }
            self.facts.send_modify(|facts| facts.turns = switch.turns());
            tokio::select! {
                biased;
                changed = self.switch.changed() => if changed.is_err() {
                    drop(self.port);
                    return;
                },
                client = accept(socket.as_ref()) => self.relay(client, switch.turns()),
            }
        }
    }

    fn relay(&self, client: TcpStream, born: u64) {
        self.facts.send_modify(|facts| {
            facts.accepted += 1;
            facts.open += 1;
        });
        let connection = Connection {
            born,
            switch: self.switch.clone(),
            facts: self.facts.clone(),
        };
        let upstream = self.upstream;
        tokio::spawn(async move {
            let facts = connection.facts.clone();
            let reset = connection.relay(client, upstream).await;
            facts.send_modify(|facts| {
                facts.open -= 1;
                facts.resets += u64::from(reset);
            });
        });
    }
}

async fn accept(socket: Option<&TcpListener>) -> TcpStream {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    loop {
        // A client may disconnect before it is accepted.
        if let Ok((client, _)) = socket.accept().await {
            return client;
        }
    }
}

/// Reserves a free port for as long as the socket exists.
fn reserve() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG)
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // The port is also used by the socket that reserves it, and by remains of ended connections.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
