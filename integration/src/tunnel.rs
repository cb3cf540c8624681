//! An HTTP proxy as in company networks: it carries TLS by CONNECT and is the only party that
//! resolves names.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::network::network;

/// A proxy in front of one server. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Tunnel {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<TunnelRequest>>>,
    listener: AbortHandle,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelRequest {
    /// Host and port, as the client named them.
    pub target: String,
    /// The header `Proxy-Authorization`.
    pub authorization: Option<String>,
}

impl Tunnel {
    /// Starts a proxy that connects every name to this server.
    pub async fn start(server: SocketAddr) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = requests.clone();
        let started = network().spawn(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let accepting = tokio::spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    // The end of a connection, good or bad, is reported to the client only.
                    tokio::spawn(relay(client, server, noted.clone()));
                }
            });
            (address, accepting.abort_handle())
        });
        let (address, listener) = started.await.unwrap();
        Self {
            address,
            requests,
            listener,
        }
    }

    /// Returns the address of the proxy, without a scheme.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<TunnelRequest> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.clone()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn relay(
    client: TcpStream,
    server: SocketAddr,
    noted: Arc<Mutex<Vec<TunnelRequest>>>,
) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        client.read_line(&mut line).await?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let request = head.first().cloned().unwrap_or_default();
    let Some(target) = request.strip_prefix("CONNECT ") else {
        return client
            .write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
            .await;
    };
    let authorization = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("Proxy-Authorization")
            .then(|| value.trim().to_owned())
    });
    let request = TunnelRequest {
        target: target.split(' ').next().unwrap_or_default().to_owned(),
        authorization,
    };
    noted
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request);
    let mut server = TcpStream::connect(server).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
