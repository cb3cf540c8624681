//! The proxy in front of an echo server.

use std::time::Duration;

use std::io::ErrorKind;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// A server that returns every byte, and closes when the client does.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

async fn proxy() -> Proxy {
    Proxy::start(echo().await).await
}

impl Proxy {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }
}

/// Sends a text and waits until it returns.
async fn ask(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; text.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, text.as_bytes());
}

/// Returns the end of a connection without an answer. The connection may fail before it is
/// established.
async fn end(proxy: &Proxy) -> Result<(), ErrorKind> {
    match TcpStream::connect(proxy.address()).await {
        Ok(client) => rest(client).await.1,
        Err(error) => Err(error.kind()),
    }
}

/// Returns the rest of the content, and the end of the connection.
async fn rest(mut client: TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut text = Vec::new();
    let end = client.read_to_end(&mut text).await;
    let text = String::from_utf8(text).unwrap();
    (text, end.map(drop).map_err(|error| error.kind()))
}

#[tokio::test]
async fn bytes_are_passed_on_and_counted() {
    let proxy = proxy().await;
    let mut client = proxy.connect().await;
    ask(&mut client, "hello").await;
    client.write_all(b"bye").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(client).await, ("bye".to_owned(), Ok(())));
    let facts = proxy.until("its end", |facts| facts.open == 0).await;
    assert_eq!((facts.to_server, facts.to_client), (8, 8));
    assert_eq!((facts.accepted, facts.resets, facts.swallowed), (1, 0, 0));
}

#[tokio::test]
async fn a_long_stream_arrives_in_order() {
    let proxy = proxy().await;
    let mut client = proxy.connect().await;
    let sent: Vec<u8> = (0..4_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let (mut from, mut to) = client.split();
    let mut received = vec![0; sent.len()];
    let write = to.write_all(&sent);
    let (written, read) = tokio::join!(write, from.read_exact(&mut received));
    written.and(read.map(drop)).unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn a_cut_resets_open_connections_and_refuses_new_ones() {
    let proxy = proxy().await;
    let mut client = proxy.connect().await;
    ask(&mut client, "hello").await;
    for _ in 0..3 {
        proxy.set(Mode::Cut).await;
        let end = rest(client).await.1;
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
        let refused = TcpStream::connect(proxy.address()).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);

        proxy.set(Mode::Pass).await;
        client = proxy.connect().await;
        ask(&mut client, "hello again").await;
    }
    assert_eq!(proxy.facts().resets, 3);
}

#[tokio::test]
async fn a_black_hole_reports_no_error_and_loses_all_bytes() {
    let proxy = proxy().await;
    let mut old = proxy.connect().await;
    ask(&mut old, "hello").await;
    proxy.set(Mode::BlackHole).await;
    old.write_all(b"anybody").await.unwrap();
    let mut during = proxy.connect().await;
    during.write_all(b"there?").await.unwrap();
    proxy
        .until("both texts", |facts| facts.swallowed == 13)
        .await;

    proxy.set(Mode::Pass).await;
    old.write_all(b"now?").await.unwrap();
    proxy
        .until("the last text", |facts| facts.swallowed == 17)
        .await;
    ask(&mut proxy.connect().await, "new").await;
    proxy
        .until("the response", |facts| facts.to_client == 8)
        .await;
    assert_eq!(proxy.facts().to_server, 8);
    for client in [&old, &during] {
        let read = client.try_read(&mut [0]);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    drop((old, during));
    proxy
        .until("the clients to go", |facts| facts.open == 0)
        .await;
}

#[tokio::test]
async fn a_stalled_proxy_delivers_all_bytes_afterwards() {
    let proxy = proxy().await;
    let mut old = proxy.connect().await;
    ask(&mut old, "hello").await;
    proxy.set(Mode::Stall).await;
    old.write_all(b"patience").await.unwrap();
    let mut new = proxy.connect().await;
    new.write_all(b"pays").await.unwrap();
    proxy
        .until("the new one", |facts| facts.accepted == 2)
        .await;
    assert_eq!(proxy.facts().to_server, 5);

    proxy.set(Mode::Pass).await;
    for (mut client, text) in [(old, "patience"), (new, "pays")] {
        client.shutdown().await.unwrap();
        assert_eq!(rest(client).await, (text.to_owned(), Ok(())));
    }
}

#[tokio::test]
async fn a_slow_line_delays_both_directions() {
    let proxy = proxy().await;
    let mut client = proxy.connect().await;
    let slow = Slow {
        delay: Duration::from_millis(50),
        bytes_per_second: Some(1000),
    };
    proxy.set(Mode::Slow(slow)).await;
    let start = Instant::now();
    // Both directions have the delay, and the limited bandwidth for 100 bytes; the way back begins
    // before the way there ends.
    ask(&mut client, &"x".repeat(100)).await;
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");

    // A line that is fast again delivers delayed bytes at once.
    let slow = Slow {
        delay: Duration::from_hours(1),
        bytes_per_second: None,
    };
    proxy.set(Mode::Slow(slow)).await;
    client.write_all(b"hello").await.unwrap();
    proxy.set(Mode::Pass).await;
    client.shutdown().await.unwrap();
    assert_eq!(rest(client).await, ("hello".to_owned(), Ok(())));
}

#[tokio::test]
async fn a_connection_is_reset_after_the_given_number_of_bytes() {
    let proxy = proxy().await;
    let mut old = proxy.connect().await;
    ask(&mut old, "hello").await;
    proxy.set(Mode::ResetLivingAfter(3)).await;
    ask(&mut proxy.connect().await, "new ones pass").await;
    old.write_all(b"hello").await.unwrap();
    let reset = Err(ErrorKind::ConnectionReset);
    assert_eq!(rest(old).await, ("hel".to_owned(), reset));

    proxy.set(Mode::ResetEachAfter(2)).await;
    for _ in 0..2 {
        let mut new = proxy.connect().await;
        new.write_all(b"hello").await.unwrap();
        assert_eq!(rest(new).await, ("he".to_owned(), reset));
    }
    proxy.set(Mode::ResetEachAfter(0)).await;
    assert_eq!(end(&proxy).await, reset);
    proxy.until("four resets", |facts| facts.resets == 4).await;
}

#[tokio::test]
async fn connections_and_listener_end_with_their_proxy() {
    let proxy = proxy().await;
    let mut client = proxy.connect().await;
    ask(&mut client, "hello").await;
    let address = proxy.address();
    drop(proxy);
    assert_eq!(rest(client).await.1, Err(ErrorKind::ConnectionReset));
    // The listener ends on the same thread, at about the same time.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_to_a_stopped_server_is_reset() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let proxy = Proxy::start(address).await;
    assert_eq!(end(&proxy).await, Err(ErrorKind::ConnectionReset));
}
