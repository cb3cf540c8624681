//! Chart repositories of an attacker.

use std::net::{Ipv4Addr, SocketAddr};

use baton_integration::hostile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Size of a large index in bytes.
const INDEX: usize = 12 << 20;

/// Repositories on one port: below `/large-N` with a large index, below `/endless-N` with one without
/// an end, and below any other path without an answer.
pub(crate) struct Repositories {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Repositories {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let index: &str = Box::leak(hostile::index(INDEX).into_boxed_str());
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, index));
            }
        });
        Self { address, server }
    }

    /// The URL of a repository.
    pub(crate) fn url(&self, name: &str, number: usize) -> String {
        format!("http://{}/{name}-{number}", self.address)
    }
}

impl Drop for Repositories {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers a request; the client ends the connection.
async fn answer(mut stream: TcpStream, index: &str) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let length = stream.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    if request.starts_with("GET /large-") {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", index.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(index.as_bytes()).await?;
    } else if request.starts_with("GET /endless-") {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\n\r\nentries:\n")
            .await?;
        let lines = "  a: []\n".repeat(1_000);
        loop {
            stream.write_all(lines.as_bytes()).await?;
        }
    }
    stream.read(&mut [0; 1]).await.map(drop)
}
