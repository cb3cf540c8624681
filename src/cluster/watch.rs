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
//!   A watch that ends is resumed from the last version seen. When the server no longer knows that
//!   version (410), everything is listed again.
//! - [`Event::Unserved`] says that the collection is gone. The loop goes on asking, and lists again
//!   when it is back.
//! - [`run`] never ends and never panics on what a server sends. Dropping its future ends it and
//!   closes its connection.
//!
//! # Caveats
//!
//! The sink is called on the task of the loop and must not block.

use std::{
    borrow::Cow,
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Collected};
use kube::{Client, client::Body, core::Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::wire;

/// How long the server is asked to keep a watch open, before jitter.
const WATCH_SECONDS: u64 = 290;
/// A watch that the server should have ended by now is a dead connection.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// A silent watch is given up earlier. The API server sends a bookmark every minute, so silence
/// means a half-open connection; where a server sends none, the price is one request.
const WATCH_SILENCE: Duration = Duration::from_secs(150);
/// A watch that lived as long as this was a success, even if it told nothing.
const HEALTHY_WATCH: Duration = Duration::from_secs(2);

const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

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
    /// Listing or watching failed, for this reason. It is tried again.
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
                    if fault.next != Next::Resume {
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
    let accept = if spec.metadata_only { LIST_METADATA } else { JSON };
    let mut token = String::new();
    loop {
        // An empty token is as good as none.
        let page = format!("limit={}&continue={}", spec.page_size, wire::escape(&token));
        // No resourceVersion: the list is as new as the request, not as old as some cache.
        let request = wire::get(&spec.url(&page), accept).map_err(|error| Fault::broken(&error))?;
        let reply = wire::call(client, request).await.map_err(|error| Fault::broken(&error))?;
        if !reply.status.is_success() {
            return Err(Fault::refused(reply.status, &reply.body, reply.retry_after));
        }
        let page: Page<'_> = serde_json::from_slice(&reply.body)
            .map_err(|error| Fault::garbled("list", &error))?;
        for object in page.items.unwrap_or_default() {
            sink(Event::Listed(object));
        }
        let ListMeta { resource_version, next } = page.metadata;
        match next {
            // All pages are of the same state; the server answers 410 when it cannot keep that up.
            Some(next) if !next.is_empty() => token = next.into_owned(),
            _ => {
                sink(Event::ListDone { resource_version: number(&resource_version) });
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
        .header(header::ACCEPT, if spec.metadata_only { WATCH_METADATA } else { JSON })
        // From 1.37 on servers compress watches, one gzip member per event.
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Body::empty())
        .map_err(|source| Fault::broken(&wire::WireError::Build { path: url, source }))?;

    let deadline = Instant::now() + Duration::from_secs(seconds) + WATCH_GRACE;
    let response = timeout(wire::REQUEST_TIMEOUT, client.send(request))
        .await
        .map_err(|_| Fault::silent(wire::REQUEST_TIMEOUT))?
        .map_err(|source| Fault::broken(&wire::WireError::Send { source: Box::new(source) }))?;
    let status = response.status();
    let retry_after = wire::retry_after(response.headers());
    let mut body = response.into_body();
    if !status.is_success() {
        let text = timeout_at(deadline, body.collect()).await;
        let bytes = text.ok().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
        return Err(Fault::refused(status, &bytes, retry_after));
    }

    let mut lines = Lines::default();
    loop {
        let patience = deadline.min(Instant::now() + WATCH_SILENCE);
        let frame = match timeout_at(patience, body.frame()).await {
            Err(_) => return Err(Fault::silent(WATCH_SILENCE)),
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(source))) => {
                return Err(Fault::broken(&wire::WireError::Read { source: Box::new(source) }));
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
            selector.as_ref().map(|text| format!("{name}={}&", wire::escape(text)))
        };
        format!(
            "{}?{}{}{parameters}",
            self.path,
            parameter("labelSelector", &self.label_selector).unwrap_or_default(),
            parameter("fieldSelector", &self.field_selector).unwrap_or_default(),
        )
    }
}

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Watch again from the last version.
    Resume,
    /// The history is gone: list again, the first time without a pause.
    RelistNow,
    /// Watching from the last version does not work: list again after a pause.
    Relist,
    /// The collection is gone: ask again after a pause.
    Unserved,
}

#[derive(Debug)]
struct Fault {
    next: Next,
    text: String,
    retry_after: Option<Duration>,
}

impl Fault {
    fn new(next: Next, text: String) -> Self {
        Self { next, text, retry_after: None }
    }

    fn broken(error: &wire::WireError) -> Self {
        Self::new(Next::Resume, error.to_string())
    }

    fn silent(limit: Duration) -> Self {
        Self::new(Next::Resume, format!("the watch was silent for {} s", limit.as_secs()))
    }

    fn garbled(what: &str, error: &serde_json::Error) -> Self {
        Self::new(Next::Relist, format!("the server sent an unreadable {what}: {error}"))
    }

    /// A request that was answered with a failure.
    fn refused(code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status = wire::failure(code, body);
        Self { retry_after, ..Self::new(judge(code.as_u16(), &status), status.message) }
    }

    /// An `ERROR` event: the version cannot be watched from, whatever the reason.
    fn told(status: &Status) -> Self {
        let next = match judge(status.code, status) {
            Next::Resume => Next::Relist,
            next => next,
        };
        Self::new(next, status.message.clone())
    }
}

fn judge(code: u16, status: &Status) -> Next {
    // A server whose history was rewound (a restored backup) waits for our version in vain.
    let ahead = status.details.as_ref().is_some_and(|details| {
        details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
    });
    match code {
        _ if ahead => Next::Relist,
        410 => Next::RelistNow,
        404 => Next::Unserved,
        400 | 422 => Next::Relist,
        _ => Next::Resume,
    }
}

/// Pauses between attempts, doubling, with jitter so that the watches of one manager do not come
/// back in step after the API server restarts.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn delay(&mut self, asked: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        backoff_delay(self.failures, asked, permille())
    }
}

/// The pause after a number of failures in a row: between half and all of a doubling limit, and
/// not less than what the server asked for (within the same bound).
fn backoff_delay(failures: u32, asked: Option<Duration>, permille: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let limit = (FIRST_DELAY * 2_u32.pow(doublings)).min(LONGEST_DELAY);
    let delay = (limit / 2 + limit / 2 * permille / 1000).max(FIRST_DELAY);
    delay.max(asked.unwrap_or_default().min(LONGEST_DELAY))
}

/// A number up to 1000, good enough to spread requests.
fn permille() -> u32 {
    let bits = std::hash::RandomState::new().build_hasher().finish();
    u32::try_from(bits % 1001).unwrap_or_default()
}

/// The version to resume from.
///
/// Versions are wanted when a watch ends, objects arrive all the time: the last one is copied as it
/// is (into the same buffer) and parsed at the end, so that no object is scanned just for this.
#[derive(Debug, Default)]
struct Position {
    version: String,
    last: Vec<u8>,
    moved: bool,
}

impl Position {
    fn at(version: String) -> Self {
        Self { version, ..Self::default() }
    }

    fn note(&mut self, object: &str) {
        self.last.clear();
        self.last.extend_from_slice(object.as_bytes());
        self.moved = true;
    }

    /// Whether anything was noted since the last call.
    fn moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn version(&mut self) -> Result<&str, Fault> {
        if !self.last.is_empty() {
            let last = std::mem::take(&mut self.last);
            let text = String::from_utf8_lossy(&last);
            self.version = version_of(&text)?.into_owned();
        }
        Ok(&self.version)
    }
}

fn version_of(object: &str) -> Result<Cow<'_, str>, Fault> {
    let object: Versioned<'_> =
        serde_json::from_str(object).map_err(|error| Fault::garbled("object", &error))?;
    Ok(object.metadata.resource_version)
}

/// Versions of one resource are integers that compare; since 1.35 that is part of the API.
pub(crate) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    metadata: ListMeta<'a>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct ListMeta<'a> {
    #[serde(borrow, default, rename = "resourceVersion")]
    resource_version: Cow<'a, str>,
    #[serde(borrow, rename = "continue")]
    next: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned<'a> {
    #[serde(borrow)]
    metadata: Version<'a>,
}

#[derive(Deserialize)]
struct Version<'a> {
    #[serde(borrow, rename = "resourceVersion")]
    resource_version: Cow<'a, str>,
}

/// Cuts a stream into lines of any length. A line that arrives in one piece is not copied, and no
/// byte is searched twice.
#[derive(Debug, Default)]
struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// What a buffer may keep after a long line.
    const KEEP: usize = 64 * 1024;

    fn feed<E>(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() {
                if !line.is_empty() {
                    each(line)?;
                }
            } else {
                self.partial.extend_from_slice(line);
                let result = each(&self.partial);
                self.partial.clear();
                self.partial.shrink_to(Self::KEEP);
                result?;
            }
        }
        self.partial.extend_from_slice(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines
                .feed(chunk.as_bytes(), |line| {
                    seen.push(String::from_utf8_lossy(line).into_owned());
                    Ok::<_, ()>(())
                })
                .unwrap();
        }
        seen
    }

    #[test]
    fn cuts_lines_wherever_the_chunks_end() {
        assert_eq!(cut(&["a\nb\n"]), ["a", "b"]);
        assert_eq!(cut(&["a", "b\n", "c"]), ["ab"]);
        assert_eq!(cut(&["a\n\n", "\nb", "", "c\nd", "\n"]), ["a", "bc", "d"]);
        let long = "x".repeat(3_000_000);
        assert_eq!(cut(&[&long, &long, "\ny\n"]), [format!("{long}{long}"), "y".to_owned()]);
    }

    #[test]
    fn a_long_line_does_not_keep_its_memory() {
        let mut lines = Lines::default();
        let long = vec![b'x'; 3_000_000];
        lines.feed(&long, |_| Ok::<_, ()>(())).unwrap();
        lines.feed(b"\n", |_| Ok::<_, ()>(())).unwrap();
        assert!(lines.partial.capacity() <= Lines::KEEP);
    }

    #[test]
    fn decides_how_to_go_on() {
        let too_large = r#"{"status":"Failure","message":"Too large resource version: 9, current: 5","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;
        let table = [
            (410, "", Next::RelistNow),
            (404, "404 page not found", Next::Unserved),
            (400, "", Next::Relist),
            (401, "", Next::Resume),
            (403, "", Next::Resume),
            (429, "", Next::Resume),
            (500, "", Next::Resume),
            (503, "", Next::Resume),
            (504, "", Next::Resume),
            (504, too_large, Next::Relist),
        ];
        for (code, body, next) in table {
            let code = StatusCode::from_u16(code).unwrap();
            assert_eq!(Fault::refused(code, body.as_bytes(), None).next, next, "{code} {body}");
        }
    }

    #[test]
    fn an_error_event_never_resumes_from_the_same_version() {
        let table = [
            (r#"{"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#, Next::RelistNow),
            (r#"{"status":"Failure","message":"etcd event received with PrevKv=nil","code":500}"#, Next::Relist),
        ];
        for (status, next) in table {
            let line = format!(r#"{{"type":"ERROR","object":{status}}}"#);
            let fault = event(line.as_bytes(), &mut Position::default(), &mut |_| {}).unwrap_err();
            assert_eq!(fault.next, next, "{status}");
        }
    }

    #[test]
    fn pauses_double_within_bounds() {
        let table = [
            (1, None, 0, 200),
            (1, None, 1000, 200),
            (2, None, 0, 200),
            (2, None, 1000, 400),
            (5, None, 1000, 3_200),
            (5, None, 0, 1_600),
            (60, None, 1000, 30_000),
            (60, None, 0, 15_000),
            (1, Some(3), 1000, 3_000),
            (9, Some(3), 1000, 30_000),
            (1, Some(3_600), 1000, 30_000),
        ];
        for (failures, asked, permille, millis) in table {
            let delay = backoff_delay(failures, asked.map(Duration::from_secs), permille);
            assert_eq!(delay, Duration::from_millis(millis), "{failures} {asked:?} {permille}");
        }
        let drawn: Vec<u32> = (0..20).map(|_| permille()).collect();
        assert!(drawn.iter().all(|one| *one <= 1000));
        assert!(drawn.iter().any(|one| one != &drawn[0]), "{drawn:?}");
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
        let kinds: Vec<&str> =
            told.iter().map(|event| event.split(['(', ' ']).next().unwrap()).collect();
        assert_eq!(kinds, ["Upsert", "Upsert", "Deleted", "Bookmark"]);
        assert!(position.moved());
        assert_eq!(position.version().unwrap(), "12");
    }

    #[test]
    fn unreadable_lines_lead_to_a_new_list() {
        for line in ["{", "null", r#"{"type":"BOOKMARK","object":{}}"#, "\u{fffd}"] {
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
        };
        assert_eq!(
            spec.url("limit=1"),
            "/api/v1/configmaps?labelSelector=a%2Fb%3Dc&fieldSelector=metadata.name%3Dd%26e&limit=1"
        );
    }
}
