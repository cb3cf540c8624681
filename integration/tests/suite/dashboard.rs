//! The dashboard: pages about a cluster, live, with the rights of the user.

mod actions;
pub(crate) mod login;

use std::net::SocketAddr;

use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// A browser that has opened the address of a dashboard.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    cookie: String,
}

impl Browser {
    /// Opens the address that the plugin has printed.
    async fn open(printed: &str) -> Self {
        let rest = printed.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut browser = Self {
            address: host.parse().unwrap(),
            cookie: String::new(),
        };
        let (head, _) = browser.get(&format!("/{path}")).await;
        let cookie = head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.unwrap().split(';').next().unwrap();
        cookie.clone_into(&mut browser.cookie);
        browser
    }

    pub(crate) async fn request(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (host, cookie) = (self.address, &self.cookie);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The head and the body of the answer to a request for a page.
    async fn get(&self, path: &str) -> (String, String) {
        answer(&mut self.request(path, "").await).await
    }

    /// The head and the body of the answer to a form.
    async fn post(&self, path: &str, headers: &str, form: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (host, cookie, length) = (self.address, &self.cookie, form.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n{headers}\r\n{form}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        answer(&mut stream).await
    }

    /// The events of a page after the given content of it.
    async fn events(&self, path: &str, page: &str) -> Events {
        let version = page.split_once("data-version=\"").unwrap().1;
        let version = version.split_once('"').unwrap().0;
        let headers = format!("Accept: text/event-stream\r\nLast-Event-ID: {version}\r\n");
        Events {
            stream: self.request(path, &headers).await,
            read: String::new(),
        }
    }
}

/// The head and the body of an answer.
pub(crate) async fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The events of a page.
struct Events {
    stream: TcpStream,
    read: String,
}

impl Events {
    /// Waits until the events since the last call contain a text.
    async fn contain(&mut self, text: &str) {
        let mut part = vec![0; 16 * 1024];
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.read.find(text) {
                self.read.drain(..at + text.len());
                return;
            }
            let read = timeout_at(end, self.stream.read(&mut part)).await;
            let count = read.map_or(0, Result::unwrap);
            assert!(count > 0, "no event contains {text:?}: {}", self.read);
            self.read.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }
}

#[tokio::test]
async fn a_page_follows_a_rollout_until_its_deployment_is_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = |data: &str| {
        let map = configmap("menu").with("/data/dish", data);
        ns.content().phase("a", [map, configmap("other")])
    };
    ns.deployment("web").content(content("soup")).create().await;
    ns.existing("web").concluded().await;
    let mut plugin = ns.plugin_started(&["dashboard", "--no-browser"]);
    let printed = plugin.writes("its address", |lines| lines.len() == 1);
    let browser = Browser::open(&printed[0]).await;
    let path = format!("/chains/od/{}/web", ns.name());
    let (head, page) = browser.get(&path).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(page.contains("rolled out and available"), "{page}");
    let (_, overview) = browser.get("/").await;
    assert!(overview.contains(&format!("href=\"{path}\"")), "{overview}");

    let mut events = browser.events(&path, &page).await;
    ns.existing("web").edit(content("stew")).await;
    events.contain("event: page").await;
    events.contain(r#"<span class=\"number\">2</span>"#).await;
    ns.existing("web").concluded_as(2).await;
    ns.eventually("the page to show the end of the rollout", async || {
        let (_, page) = browser.get(&path).await;
        page.contains("Revision 2 (") && page.contains("is rolled out and available")
    })
    .await;

    ns.existing("web").delete("Background").await;
    events.contain("event: ended").await;
    events.contain("od/web has been deleted").await;
    assert_eq!(plugin.interrupt(), 130);
}

#[tokio::test]
async fn a_page_shows_only_what_its_user_may_read() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut plugin = ns.plugin_started(&["dashboard", "--no-browser", "--as", "eve"]);
    let printed = plugin.writes("its address", |lines| lines.len() == 1);
    let browser = Browser::open(&printed[0]).await;
    for path in [
        "/".to_owned(),
        "/clusters".to_owned(),
        format!("/chains/od/{}/web", ns.name()),
    ] {
        let (head, page) = browser.get(&path).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{path}: {head}");
        assert!(
            page.contains("User &quot;eve&quot; cannot list resource"),
            "{page}"
        );
    }
    let stranger = Browser {
        cookie: String::new(),
        ..browser
    };
    let (head, _) = stranger.get("/").await;
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
}
