//! One connection through a proxy.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Facts;
use super::line::{Line, MAX_PIECE};
use super::switch::{ConnectionFate, Switch};

/// Number of bytes that may be in transit per direction. A slower reader blocks the sender.
const ROOM: usize = 256 * 1024;

/// The reason for the end of a connection.
#[derive(Debug)]
enum End {
    /// The proxy resets the connection.
    Reset,
    /// The proxy passes no more bytes, and neither side is notified.
    Lost,
    /// The client's or the server's side has failed.
    Broken,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

pub(super) struct Connection {
    /// Number of changes of the switch before the connection began.
    pub(super) born: u64,
    pub(super) switch: watch::Receiver<Switch>,
    pub(super) facts: watch::Sender<Facts>,
}

impl Connection {
    /// Carries the connection until it ends. Returns true if the proxy had to reset it.
    pub(super) async fn relay(mut self, mut client: TcpStream, upstream: SocketAddr) -> bool {
        let mut server = None;
        let end = match self.open(upstream).await {
            Ok(connected) => self.pass(&mut client, server.insert(connected)).await,
            Err(end) => Err(end),
        };
        let end = match end {
            // The server's side is left open: it is half-open as well.
            Err(End::Lost) => self.discard_input(&mut client).await,
            end => end,
        };
        if matches!(end, Err(End::Reset | End::Broken)) {
            // Without this option the connection would be closed regularly instead of reset.
            for stream in [Some(&client), server.as_ref()].into_iter().flatten() {
                let _ = stream.set_zero_linger();
            }
        }
        matches!(end, Err(End::Reset))
    }

    /// Connects to the server as soon as bytes may pass.
    async fn open(&mut self, upstream: SocketAddr) -> Result<TcpStream, End> {
        loop {
            match self.fate() {
                ConnectionFate::Reset => return Err(End::Reset),
                ConnectionFate::Swallow => return Err(End::Lost),
                ConnectionFate::Hold => changed(&mut self.switch).await?,
                ConnectionFate::Flow { .. } => tokio::select! {
                    biased;
                    changed = changed(&mut self.switch) => changed?,
                    server = TcpStream::connect(upstream) => return Ok(server?),
                },
            }
        }
    }

    fn fate(&mut self) -> ConnectionFate {
        self.switch.borrow_and_update().fate(self.born)
    }

    /// Carries bytes both ways until both ends have closed.
    async fn pass(&self, client: &mut TcpStream, server: &mut TcpStream) -> Result<(), End> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let up = self.pump(Way::ToServer);
        let down = self.pump(Way::ToClient);
        tokio::try_join!(
            up.run(&mut from_client, &mut to_server),
            down.run(&mut from_server, &mut to_client),
        )?;
        Ok(())
    }

    fn pump(&self, way: Way) -> Pump {
        Pump {
            way,
            born: self.born,
            switch: self.switch.clone(),
            facts: self.facts.clone(),
            turn: None,
            line: Line::new(Instant::now()),
            reset_after: None,
            held: false,
            queue: VecDeque::new(),
            queued: 0,
        }
    }

    /// Discards all bytes of the client without an answer, until the client closes the connection.
    async fn discard_input(&mut self, client: &mut TcpStream) -> Result<(), End> {
        let mut lost = vec![0; 4096];
        loop {
            if self.fate() == ConnectionFate::Reset {
                return Err(End::Reset);
            }
            tokio::select! {
                biased;
                changed = changed(&mut self.switch) => changed?,
                read = client.read(&mut lost) => match read? {
                    0 => return Ok(()),
                    bytes => self.facts.send_modify(|facts| facts.swallowed += count(bytes)),
                },
            }
        }
    }
}

/// One direction of a connection.
struct Pump {
    way: Way,
    born: u64,
    switch: watch::Receiver<Switch>,
    facts: watch::Sender<Facts>,
    /// The change of the switch from which the following fields are derived.
    turn: Option<u64>,
    line: Line,
    reset_after: Option<u64>,
    held: bool,
    /// The bytes in transit, each piece with the time of its arrival.
    queue: VecDeque<(Instant, Bytes)>,
    queued: usize,
}

impl Pump {
    async fn run(mut self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> Result<(), End> {
        let mut open = true;
        let mut buffer = vec![0; MAX_PIECE];
        loop {
            self.apply_mode()?;
            if self.held {
                changed(&mut self.switch).await?;
                continue;
            }
            if !open && self.queue.is_empty() {
                // The other end may be gone already.
                let _ = to.shutdown().await;
                return Ok(());
            }
            let piece = self.line.piece();
            let room = open && self.queued < ROOM;
            tokio::select! {
                biased;
                changed = changed(&mut self.switch) => changed?,
                written = write(to, self.queue.front(), self.reset_after) => self.arrived(written?)?,
                read = from.read(&mut buffer[..piece]), if room => match read? {
                    0 => open = false,
                    bytes => self.enter(Bytes::copy_from_slice(&buffer[..bytes])),
                },
            }
        }
    }

    /// Applies a change of the switch.
    fn apply_mode(&mut self) -> Result<(), End> {
        let switch = *self.switch.borrow_and_update();
        if self.turn.replace(switch.turns()) == Some(switch.turns()) {
            return Ok(());
        }
        self.held = false;
        self.reset_after = None;
        match switch.fate(self.born) {
            ConnectionFate::Reset => return Err(End::Reset),
            ConnectionFate::Swallow => return Err(End::Lost),
            ConnectionFate::Hold => self.held = true,
            ConnectionFate::Flow { slow, reset_after } => {
                self.line.set(slow);
                if slow.is_none() {
                    // A line that is fast again delivers delayed bytes at once.
                    let now = Instant::now();
                    self.queue.iter_mut().for_each(|(due, _)| *due = now);
                }
                if self.way == Way::ToClient {
                    self.reset_after = reset_after;
                }
            }
        }
        if self.reset_after == Some(0) {
            return Err(End::Reset);
        }
        Ok(())
    }

    fn enter(&mut self, piece: Bytes) {
        let due = self.line.send(Instant::now(), piece.len());
        self.queued += piece.len();
        self.queue.push_back((due, piece));
    }

    fn arrived(&mut self, bytes: usize) -> Result<(), End> {
        self.queued -= bytes;
        if let Some((_, piece)) = self.queue.front_mut() {
            piece.advance(bytes);
            if piece.is_empty() {
                self.queue.pop_front();
            }
        }
        self.facts.send_modify(|facts| match self.way {
            Way::ToServer => facts.to_server += count(bytes),
            Way::ToClient => facts.to_client += count(bytes),
        });
        match &mut self.reset_after {
            Some(left) => {
                *left = left.saturating_sub(count(bytes));
                if *left == 0 { Err(End::Reset) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }
}

/// Writes the allowed part of the next piece when it is due. If the future is dropped before it
/// returns, nothing is written.
async fn write(
    to: &mut WriteHalf<'_>,
    next: Option<&(Instant, Bytes)>,
    at_most: Option<u64>,
) -> io::Result<usize> {
    let Some((due, piece)) = next else {
        return std::future::pending().await;
    };
    sleep_until(*due).await;
    let at_most = at_most.and_then(|bytes| usize::try_from(bytes).ok());
    let end = at_most.map_or(piece.len(), |bytes| bytes.min(piece.len()));
    to.write(&piece[..end]).await
}

/// Waits for the next change of the switch. A dropped proxy resets its connections.
async fn changed(switch: &mut watch::Receiver<Switch>) -> Result<(), End> {
    switch.changed().await.map_err(|_| End::Reset)
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
