//! List and watch one collection, over raw JSON.
//!
//! Why not `kube::runtime::watcher`: it hides the list's `resourceVersion` and the bookmarks, which
//! [`super::store`] needs to tell whether a write's answer is newer than all that the watch has
//! told; and it buffers typed objects, one allocation per field. Here an object stays the bytes
//! the server sent, borrowed for the duration of one call.
//!
//! # Guarantees
//!
//! - A list is one consistent state: [`Event::ListStarted`], one [`Event::Listed`] per object,
//!   [`Event::ListDone`]. A list that fails half-way starts again with `ListStarted`.
//! - After `ListDone` come the changes since that state, in the order of their `resourceVersion`.
//!   A watch that ends is resumed from the last version seen (but see [`WatchSpec::resumes`]). When the server no longer knows that
//!   version (410), everything is listed again.
//! - [`Event::Unserved`] says that the collection is gone. The loop goes on asking, and lists again
//!   when it is back.
//! - [`run`] never ends and never panics on what a server sends. Dropping its future ends it and
//!   closes its connection.
//!
//! # Caveats
//!
//! The sink is called on the task of the loop and must not block.

mod fault;
mod stream;

use std::time::Duration;

use http::{Request, header};
use http_body_util::{BodyExt as _, Collected};
use kube::{Client, client::Body, core::Status};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub(crate) use self::{fault::permille, stream::number};
use self::{
    fault::{Backoff, Fault, Next},
    stream::{Line, Lines, ListMeta, Page, Position, version_of},
};
use super::wire::{self, WireError};

/// How long the server is asked to keep a watch open, before jitter.
const WATCH_SECONDS: u64 = 290;
/// A watch that the server should have ended by now is ended from here.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// A silent watch is given up earlier, and everything is listed again. The API server sends a
/// bookmark every minute, also when nothing changes. Silence means a half-open connection; or a
/// cluster that was restored from a backup, whose server waits without a word until it comes to the
/// version that it was asked to start from. Where a server sends no bookmarks the price is a list.
const WATCH_SILENCE: Duration = Duration::from_secs(100);
/// A watch that lived as long as this was a success, even if it told nothing.
const HEALTHY_WATCH: Duration = Duration::from_secs(2);

const JSON: &str = "application/json";
const LIST_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const WATCH_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchSpec {
    /// Path of the collection, such as `/apis/apps/v1/deployments`.
    pub path: String,
    /// Selects by labels, in the syntax of the API.
    pub label_selector: Option<String>,
    /// Selects by fields, in the syntax of the API.
    pub field_selector: Option<String>,
    /// Whether to fetch `PartialObjectMetadata` only.
    pub metadata_only: bool,
    /// Objects per page of a list.
    pub page_size: u32,
    /// Whether a watch that broke goes on where it was. Otherwise everything is listed again, and what
    /// has passed meanwhile is not told.
    pub resumes: bool,
}

/// What the loop tells.
#[derive(Debug)]
pub enum Event<'a> {
    /// A list begins; the state it will tell is at least as new as this moment.
    ListStarted,
    /// An object of the list. Lists of built-in kinds leave `apiVersion` and `kind` out.
    Listed(&'a RawValue),
    /// The list is complete.
    ListDone {
        /// The state that was listed; 0 when the server's versions are no integers.
        resource_version: u64,
    },
    /// An object appeared or changed.
    Upsert(&'a RawValue),
    /// An object is gone, or no longer selected. Its `resourceVersion` is that of the deletion.
    Deleted(&'a RawValue),
    /// Everything up to this version has been told.
    Bookmark(u64),
    /// The server does not serve the collection (any more).
    Unserved,
    /// Listing or watching failed, for this reason. It is tried again. Not told when the server
    /// only asks to wait.
    Failed(&'a str),
}

/// Lists and watches for ever; see the module's guarantees.
pub async fn run(client: Client, spec: WatchSpec, mut sink: impl FnMut(Event<'_>) + Send) {
    let mut backoff = Backoff::default();
    loop {
        let mut position = match list(&client, &spec, &mut sink).await {
            Ok(position) => position,
            Err(fault) => {
                pause(&mut backoff, &fault, &spec, &mut sink).await;
                continue;
            }
        };
        loop {
            let started = Instant::now();
            let end = watch(&client, &spec, &mut position, &mut sink).await;
            if position.moved() || (end.is_ok() && started.elapsed() >= HEALTHY_WATCH) {
                backoff = Backoff::default();
            }
            match end {
                Ok(()) if started.elapsed() >= HEALTHY_WATCH => {}
                // Some proxies close a stream at once; without a pause this would be a busy loop.
                Ok(()) => sleep(backoff.delay(None)).await,
                Err(fault) => {
                    pause(&mut backoff, &fault, &spec, &mut sink).await;
                    if fault.next != Next::Resume || !spec.resumes {
                        break;
                    }
                }
            }
        }
    }
}

/// Tells about a failure and waits as long as it demands.
async fn pause(
    backoff: &mut Backoff,
    fault: &Fault,
    spec: &WatchSpec,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) {
    tracing::debug!(path = spec.path, next = ?fault.next, cause = fault.text, "watch interrupted");
    match fault.next {
        // Expected after a long silence, and whenever the server has compacted its history.
        Next::RelistNow => {}
        Next::Unserved => sink(Event::Unserved),
        // A server that names a time is not failing: it starts, or holds back load. The first list
        // of a new custom resource is answered so for a second.
        Next::Relist | Next::Resume if fault.retry_after.is_some() => {}
        Next::Relist | Next::Resume => sink(Event::Failed(&fault.text)),
    }
    let first = backoff.failures == 0;
    let delay = backoff.delay(fault.retry_after);
    if !(first && fault.next == Next::RelistNow) {
        sleep(delay).await;
    }
}

/// Lists everything, in pages. Returns where to start watching.
async fn list(
    client: &Client,
    spec: &WatchSpec,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<Position, Fault> {
    // Told before the request: the caller relies on the list being no older than this.
    sink(Event::ListStarted);
    let accept = if spec.metadata_only {
        LIST_METADATA
    } else {
        JSON
    };
    let mut token = String::new();
    loop {
        // An empty token is as good as none.
        let page = format!("limit={}&continue={}", spec.page_size, wire::escape(&token));
        // No resourceVersion: the list is as new as the request, not as old as some cache.
        let request = wire::get(&spec.url(&page), accept).map_err(|error| Fault::broken(&error))?;
        let reply = wire::call(client, request)
            .await
            .map_err(|error| Fault::broken(&error))?;
        if !reply.status.is_success() {
            return Err(Fault::refused(reply.status, &reply.body, reply.retry_after));
        }
        let page: Page<'_> =
            serde_json::from_slice(&reply.body).map_err(|error| Fault::garbled("list", &error))?;
        for object in page.items.unwrap_or_default() {
            sink(Event::Listed(object));
        }
        let ListMeta {
            resource_version,
            next,
        } = page.metadata;
        match next {
            // All pages are of the same state; the server answers 410 when it cannot keep that up.
            Some(next) if !next.is_empty() => token = next.into_owned(),
            _ => {
                sink(Event::ListDone {
                    resource_version: number(&resource_version),
                });
                return Ok(Position::at(resource_version.into_owned()));
            }
        }
    }
}

/// Watches once. `Ok` when the server ended the watch as agreed, or because it shuts down.
async fn watch(
    client: &Client,
    spec: &WatchSpec,
    position: &mut Position,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<(), Fault> {
    let seconds = WATCH_SECONDS - 20 + u64::from(permille()) / 25;
    let url = spec.url(&format!(
        "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
        wire::escape(position.version()?)
    ));
    let request = Request::get(&url)
        .header(
            header::ACCEPT,
            if spec.metadata_only {
                WATCH_METADATA
            } else {
                JSON
            },
        )
        // From 1.37 on servers compress watches, one gzip member per event.
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Body::empty())
        .map_err(|source| Fault::broken(&WireError::Build { path: url, source }))?;

    let deadline = Instant::now() + Duration::from_secs(seconds) + WATCH_GRACE;
    let response = timeout(wire::REQUEST_TIMEOUT, client.send(request))
        .await
        .map_err(|_| {
            Fault::broken(&WireError::Timeout {
                limit: wire::REQUEST_TIMEOUT,
            })
        })?
        .map_err(|source| {
            Fault::broken(&WireError::Send {
                source: Box::new(source),
            })
        })?;
    let status = response.status();
    let retry_after = wire::retry_after(response.headers());
    let mut body = response.into_body();
    if !status.is_success() {
        let text = timeout_at(deadline, body.collect()).await;
        let bytes = text
            .ok()
            .and_then(Result::ok)
            .map(Collected::to_bytes)
            .unwrap_or_default();
        return Err(Fault::refused(status, &bytes, retry_after));
    }

    let mut lines = Lines::default();
    loop {
        let patience = deadline.min(Instant::now() + WATCH_SILENCE);
        let frame = match timeout_at(patience, body.frame()).await {
            Err(_) if Instant::now() < deadline => return Err(Fault::silent(WATCH_SILENCE)),
            Err(_) | Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(source))) => {
                return Err(Fault::broken(&WireError::Read {
                    source: Box::new(source),
                }));
            }
        };
        if let Some(data) = frame.data_ref() {
            lines.feed(data, |line| event(line, position, sink))?;
        }
    }
}

/// Tells one line of a watch.
fn event(
    line: &[u8],
    position: &mut Position,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<(), Fault> {
    let Line { kind, object } =
        serde_json::from_slice(line).map_err(|error| Fault::garbled("watch event", &error))?;
    match kind {
        "ADDED" | "MODIFIED" => sink(Event::Upsert(object)),
        "DELETED" => sink(Event::Deleted(object)),
        "BOOKMARK" => {
            let version = version_of(object.get())?;
            sink(Event::Bookmark(number(&version)));
        }
        "ERROR" => {
            let status: Status = serde_json::from_str(object.get())
                .map_err(|error| Fault::garbled("watch error", &error))?;
            return Err(Fault::told(&status));
        }
        other => {
            tracing::debug!(kind = other, "watch event of an unknown kind");
            return Ok(());
        }
    }
    position.note(object.get());
    Ok(())
}

impl WatchSpec {
    /// The path with the selectors and more parameters.
    fn url(&self, parameters: &str) -> String {
        let parameter = |name: &str, selector: &Option<String>| {
            selector
                .as_ref()
                .map(|text| format!("{name}={}&", wire::escape(text)))
        };
        format!(
            "{}?{}{}{parameters}",
            self.path,
            parameter("labelSelector", &self.label_selector).unwrap_or_default(),
            parameter("fieldSelector", &self.field_selector).unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_event_never_resumes_from_the_same_version() {
        let table = [
            (
                r#"{"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#,
                Next::RelistNow,
            ),
            (
                r#"{"status":"Failure","message":"etcd event received with PrevKv=nil","code":500}"#,
                Next::Relist,
            ),
        ];
        for (status, next) in table {
            let line = format!(r#"{{"type":"ERROR","object":{status}}}"#);
            let fault = event(line.as_bytes(), &mut Position::default(), &mut |_| {}).unwrap_err();
            assert_eq!(fault.next, next, "{status}");
        }
    }

    #[test]
    fn tells_events_and_remembers_the_last_version() {
        let mut position = Position::at("7".to_owned());
        assert_eq!(position.version().unwrap(), "7");
        assert!(!position.moved());
        let mut told = Vec::new();
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#,
            r#"{"object":{"metadata":{"resourceVersion":"9","name":"a"},"data":{"x":"\u00e4"}},"type":"MODIFIED"}"#,
            r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"10"}}}"#,
            r#"{"type":"FUTURE","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"12"}}}"#,
        ] {
            let mut sink = |event: Event<'_>| told.push(format!("{event:?}"));
            event(line.as_bytes(), &mut position, &mut sink).unwrap();
        }
        let kinds: Vec<&str> = told
            .iter()
            .map(|event| event.split(['(', ' ']).next().unwrap())
            .collect();
        assert_eq!(kinds, ["Upsert", "Upsert", "Deleted", "Bookmark"]);
        assert!(position.moved());
        assert_eq!(position.version().unwrap(), "12");
    }

    #[test]
    fn unreadable_lines_lead_to_a_new_list() {
        for line in [
            "{",
            "null",
            r#"{"type":"BOOKMARK","object":{}}"#,
            "\u{fffd}",
        ] {
            let fault = event(line.as_bytes(), &mut Position::default(), &mut |_| {}).unwrap_err();
            assert_eq!(fault.next, Next::Relist, "{line}");
        }
    }

    #[test]
    fn queries_escape_their_selectors() {
        let spec = WatchSpec {
            path: "/api/v1/configmaps".to_owned(),
            label_selector: Some("a/b=c".to_owned()),
            field_selector: Some("metadata.name=d&e".to_owned()),
            metadata_only: false,
            page_size: 10,
            resumes: true,
        };
        assert_eq!(
            spec.url("limit=1"),
            "/api/v1/configmaps?labelSelector=a%2Fb%3Dc&fieldSelector=metadata.name%3Dd%26e&limit=1"
        );
    }
}
