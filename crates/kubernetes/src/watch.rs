//! List and watch one collection, over raw JSON.
//!
//! `kube::runtime::watcher` (kube-runtime 5) is not used: it hides the list's `resourceVersion` and
//! the versions of bookmarks, by which [`crate::store`] decides if the answer to a write is newer
//! than the observed state; it resumes from the same version after any `ERROR` event but a 410 and
//! whenever a watch falls silent (for 295 s), where a restored cluster needs a new list; and it
//! drops `Retry-After` and parses each object in full, where here an object stays text.
//!
//! # Guarantees
//!
//! - A list is one consistent state: [`Event::ListStarted`], one [`Event::Listed`] per object,
//!   [`Event::ListDone`]. A list that fails half-way starts again with `ListStarted`.
//! - After `ListDone` follow the changes since that state, in the order of their `resourceVersion`.
//!   A watch that ends is resumed from the last observed version (but see [`WatchSpec::resumes`]).
//!   If the server no longer has that version (410), or does not have it yet, as after a backup was
//!   restored, everything is listed again.
//! - [`Event::Unserved`] reports that the server does not serve the collection. The loop keeps
//!   trying, and lists again when the collection is served. With [`WatchSpec::definition`] it is
//!   certain that the definition does not exist, so there are no objects. A collection that is
//!   defined but not served is [`Event::Failed`].
//! - After a refused watch (403) the next request is a list. So a list that fails is between
//!   [`Event::ListStarted`] and [`Event::Failed`]: the set of objects is unknown until the next
//!   [`Event::ListDone`]. A failure outside of a list is only an interruption: the reported state
//!   is outdated for a moment.
//! - [`run`] never ends, and never panics on the responses of a server. Dropping its future ends it
//!   and closes its connection.
//!
//! # Caveats
//!
//! The sink is called on the task of the loop and must not block.

mod error;
mod event;
mod failing;
mod stream;

use std::{ops::Range, time::Duration};

use baton_apis::url;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http_body_util::BodyExt as _;
use kube::{Client, core::Status};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use self::{
    error::{Recovery, WatchError},
    stream::{Lines, ListMeta, Page, Position, WatchLine, version_of},
};
pub use self::{event::Event, failing::Failing};
pub use crate::metadata::number;
use crate::{
    backoff::{Backoff, jittered},
    definition,
    wire::{self, WireError},
};

/// Range of the requested duration of a watch, in seconds.
const WATCH_SECONDS: Range<f64> = 270.0..311.0;
/// Pauses between attempts.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(30),
};
/// Time after which a watch that the server should have ended is ended by the client.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// Time without an event after which the version of the server is requested. After the same time again the
/// watch is resumed.
///
/// Silence is normal for a kind that does not change. The API server sends a bookmark every minute,
/// but only if its version is newer than the one that the watch began with; and it notices versions
/// of other kinds when this kind is listed, or else from etcd, by default every ten minutes. So the
/// question is a small list: its response gives the server a new version for its next bookmark.
/// Silence after that means a half-open connection, or a server that does not work this way. A
/// cluster that was restored from a backup responds with a version older than ours; its watch would
/// send nothing until it reaches our version.
const WATCH_SILENCE: Duration = Duration::from_secs(70);
/// Limit of the bytes of a page of more than one object. Most objects have 1 to 5 kB, so that whole
/// pages of 500 fit; a few times as much memory is in use while a page is read.
const PAGE_BYTES: usize = 4 << 20;
/// Duration after which a watch counts as a success, even without an event.
const HEALTHY_WATCH: Duration = Duration::from_secs(2);

/// Usual limit of the objects of a list. Servers store a few gigabytes for all kinds.
pub const MAX_OBJECTS: usize = 1_000_000;
/// Limit of the pages without objects of a list.
const MAX_EMPTY_PAGES: u32 = 100;

const JSON: &str = "application/json";
const LIST_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const WATCH_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The collection to watch, and the options of the watch.
#[derive(Clone, Debug)]
pub struct WatchSpec {
    /// Path of the collection, such as `/apis/apps/v1/deployments`.
    pub path: String,
    /// Selects by labels, in the syntax of the API.
    pub label_selector: Option<String>,
    /// Selects by fields, in the syntax of the API.
    pub field_selector: Option<String>,
    /// True to fetch `PartialObjectMetadata` only.
    pub metadata_only: bool,
    /// Limit of the objects of a list. A longer one is a failure.
    pub max_objects: usize,
    /// Limit of the objects per page of a list. Pages of long objects have fewer.
    pub page_size: u32,
    /// True if a broken watch continues where it was. Otherwise everything is listed again, and the
    /// changes in between are no events.
    pub resumes: bool,
    /// Name of the custom resource definition of the kind. If set, the collection counts as
    /// unserved only if the definition does not exist.
    pub definition: Option<String>,
}

impl WatchSpec {
    /// Watches the whole objects of a collection, in pages of 500.
    #[must_use]
    pub fn new(path: String) -> Self {
        Self {
            path,
            label_selector: None,
            field_selector: None,
            metadata_only: false,
            max_objects: MAX_OBJECTS,
            page_size: 500,
            resumes: true,
            definition: None,
        }
    }

    /// The `Accept` header of a list or a watch.
    fn accept(&self, partial: &'static str) -> &'static str {
        if self.metadata_only { partial } else { JSON }
    }

    /// The path with the selectors and more parameters.
    fn url(&self, parameters: &str) -> String {
        let selector = |name: &str, selector: &Option<String>| {
            let selector = selector.as_deref().map(url::escape);
            selector.map_or_else(String::new, |text| format!("{name}={text}&"))
        };
        format!(
            "{}?{}{}{parameters}",
            self.path,
            selector("labelSelector", &self.label_selector),
            selector("fieldSelector", &self.field_selector),
        )
    }
}

/// Lists and watches forever; see the guarantees of the module.
pub async fn run(client: Client, spec: WatchSpec, mut sink: impl FnMut(Event<'_>) + Send) {
    let mut failures = 0;
    let mut limit = spec.page_size;
    loop {
        let mut position = match list(&client, &spec, &mut limit, &mut sink).await {
            Ok(position) => position,
            Err(error) => {
                pause(&client, &mut failures, &error, &spec, &mut sink).await;
                continue;
            }
        };
        // True if the server may be another one, or restored from a backup, since its last
        // response.
        let mut is_in_doubt = false;
        loop {
            let started = Instant::now();
            let end = if is_in_doubt {
                resume(&client, &spec, &mut position, &mut sink).await
            } else {
                watch(&client, &spec, &mut position, &mut sink).await
            };
            // A silent server was asked already.
            let was_silent = matches!(&end, Err(error) if error.next == Recovery::Reconnect);
            let is_early = started.elapsed().as_secs_f64() < WATCH_SECONDS.start;
            is_in_doubt = is_early && !was_silent;
            let lasted = started.elapsed() >= HEALTHY_WATCH;
            if position.moved() || (lasted && is_regular(&end)) {
                failures = 0;
            }
            match end {
                Ok(()) if lasted => {}
                // Some proxies close a stream at once; without a pause the loop would be busy.
                Ok(()) => {
                    failures += 1;
                    sleep(BACKOFF.delay(failures)).await;
                }
                Err(error) => {
                    pause(&client, &mut failures, &error, &spec, &mut sink).await;
                    let resumes = matches!(error.next, Recovery::Resume | Recovery::Reconnect);
                    if !resumes || !spec.resumes {
                        break;
                    }
                }
            }
        }
    }
}

/// Watches once, after a watch that ended too early. If the server was restored meanwhile, a watch
/// would send nothing before the server reaches our version, and would never report differences
/// below it.
async fn resume(
    client: &Client,
    spec: &WatchSpec,
    position: &mut Position,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<(), WatchError> {
    ask(client, spec, position).await?;
    watch(client, spec, position, sink).await
}

/// True if a watch ended without a problem.
fn is_regular(end: &Result<(), WatchError>) -> bool {
    matches!(
        end,
        Ok(())
            | Err(WatchError {
                next: Recovery::Reconnect,
                ..
            })
    )
}

/// Reports a failure and waits, at least as long as the server requests.
async fn pause(
    client: &Client,
    failures: &mut u32,
    error: &WatchError,
    spec: &WatchSpec,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) {
    tracing::debug!(path = spec.path, next = ?error.next, cause = error.text, "watch interrupted");
    match error.next {
        // Expected after a long silence, and whenever the server has compacted its history.
        Recovery::RelistNow | Recovery::Reconnect => {}
        Recovery::Unserved => match defined(client, spec).await {
            Some(cause) => sink(Event::Failed(&cause)),
            None => sink(Event::Unserved),
        },
        // A server that sends `Retry-After` is not failing: it starts, or limits its load. The
        // first list of a new custom resource gets that response for a second.
        Recovery::Relist | Recovery::Resume if error.retry_after.is_some() => {}
        _ if error.is_forbidden => sink(Event::Forbidden(&error.text)),
        _ if error.is_answer => sink(Event::Refused(&error.text)),
        Recovery::Relist | Recovery::Resume => sink(Event::Failed(&error.text)),
    }
    *failures = failures.saturating_add(1);
    if *failures > 1 || !matches!(error.next, Recovery::RelistNow | Recovery::Reconnect) {
        let after = error.retry_after.unwrap_or_default();
        sleep(BACKOFF.delay(*failures).max(after.min(BACKOFF.longest))).await;
    }
}

/// The reason that a collection that is not served may still have objects; `None` if its definition
/// does not exist.
async fn defined(client: &Client, spec: &WatchSpec) -> Option<String> {
    let name = spec.definition.as_deref()?;
    match definition::exists(client, name).await {
        Ok(false) => None,
        Ok(true) => Some(format!(
            "the API server does not serve the kind, though there is a CustomResourceDefinition {name}"
        )),
        Err(cause) => Some(format!("the API server does not serve the kind; {cause}")),
    }
}

/// Lists all objects, in pages of up to `limit` objects, which is adapted. Returns the position to
/// watch from.
async fn list(
    client: &Client,
    spec: &WatchSpec,
    limit: &mut u32,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<Position, WatchError> {
    // Sent before the request: the caller relies on a list that is no older than this event.
    sink(Event::ListStarted);
    let mut token = String::new();
    let (mut objects, mut empty_pages) = (0, 0);
    loop {
        // An empty token has the same meaning as none.
        let page = format!("limit={limit}&continue={}", url::escape(&token));
        // No resourceVersion: the list is as new as the request, not as old as some cache.
        let request = wire::get(&spec.url(&page), spec.accept(LIST_METADATA))?;
        let most = if *limit > 1 {
            PAGE_BYTES
        } else {
            wire::LONGEST_ANSWER
        };
        let reply = match wire::call_within(client, request, most).await {
            Err(WireError::TooLong { .. }) if *limit > 1 => {
                *limit = (*limit / 4).max(1);
                tracing::debug!(
                    path = spec.path,
                    limit,
                    "a page of the list is too long, requesting smaller pages"
                );
                continue;
            }
            reply => reply?,
        };
        if !reply.status.is_success() {
            return Err(WatchError::refused(
                reply.status,
                &reply.body,
                reply.retry_after,
            ));
        }
        let page: Page<'_> = serde_json::from_slice(&reply.body)
            .map_err(|error| WatchError::unreadable("list", &error))?;
        let items = page.items.unwrap_or_default();
        objects += items.len();
        empty_pages += u32::from(items.is_empty());
        if objects > spec.max_objects || empty_pages > MAX_EMPTY_PAGES {
            return Err(WatchError::endless(spec.max_objects));
        }
        *limit = next_limit(items.len(), reply.body.len(), spec.page_size);
        for object in items {
            sink(Event::Listed(object));
        }
        let ListMeta {
            resource_version,
            next,
        } = page.metadata;
        match next {
            // All pages are of the same state; the server responds with 410 if it no longer has
            // that state.
            Some(next) if next == token && !next.is_empty() => {
                return Err(WatchError::endless(spec.max_objects));
            }
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

/// Number of objects to request, after a page of `objects` had `bytes`: half a page at that size.
fn next_limit(objects: usize, bytes: usize, most: u32) -> u32 {
    let fitting = (PAGE_BYTES / 2).saturating_mul(objects.max(1)) / bytes.max(1);
    u32::try_from(fitting).unwrap_or(most).clamp(1, most.max(1))
}

/// Watches once. `Ok` if the server ended the watch as agreed, or because it shuts down.
async fn watch(
    client: &Client,
    spec: &WatchSpec,
    position: &mut Position,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<(), WatchError> {
    let lifetime = Duration::from_secs(jittered(Duration::from_secs(1), WATCH_SECONDS).as_secs());
    let url = spec.url(&format!(
        "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
        lifetime.as_secs(),
        url::escape(position.version()?)
    ));
    let mut request = wire::get(&url, spec.accept(WATCH_METADATA))?;
    // From 1.37 on servers compress watches, one gzip member per event.
    let headers = request.headers_mut();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));

    let deadline = Instant::now() + lifetime + WATCH_GRACE;
    let response = timeout(wire::REQUEST_TIMEOUT, client.send(request)).await;
    let response = response
        .map_err(|_elapsed| WireError::Timeout {
            limit: wire::REQUEST_TIMEOUT,
        })?
        .map_err(WireError::send)?;
    let status = response.status();
    let retry_after = wire::retry_after(response.headers());
    let mut body = response.into_body();
    if !status.is_success() {
        let text = timeout_at(deadline, wire::collect(body, wire::LONGEST_ANSWER)).await;
        let text = text.ok().and_then(Result::ok).unwrap_or_default();
        return Err(WatchError::refused(status, &text, retry_after));
    }

    let mut lines = Lines::default();
    let mut has_asked = false;
    loop {
        let patience = deadline.min(Instant::now() + WATCH_SILENCE);
        let frame = match timeout_at(patience, body.frame()).await {
            Err(_) if Instant::now() < deadline => {
                if has_asked {
                    return Err(WatchError::silent(2 * WATCH_SILENCE));
                }
                ask(client, spec, position).await?;
                has_asked = true;
                continue;
            }
            Err(_) | Ok(None) => return Ok(()),
            Ok(Some(frame)) => frame.map_err(WireError::read)?,
        };
        has_asked = false;
        if let Some(data) = frame.data_ref() {
            lines.feed(data, |line| event(line, position, sink))?;
            if lines.begun() > wire::LONGEST_ANSWER {
                let most = wire::LONGEST_ANSWER;
                return Err(WireError::TooLong { most }.into());
            }
        }
    }
}

/// Asks a silent server for its version: an error if it does not respond, or its version is older
/// than ours.
async fn ask(client: &Client, spec: &WatchSpec, position: &mut Position) -> Result<(), WatchError> {
    // At most one object, without the label selector: to find an object by its labels a server may
    // have to read all.
    let any = WatchSpec {
        label_selector: None,
        ..spec.clone()
    };
    let reply = wire::call(client, wire::get(&any.url("limit=1"), LIST_METADATA)?).await?;
    if !reply.status.is_success() {
        return Err(WatchError::refused(
            reply.status,
            &reply.body,
            reply.retry_after,
        ));
    }
    let page: Page<'_> = serde_json::from_slice(&reply.body)
        .map_err(|error| WatchError::unreadable("list", &error))?;
    let (now, ours) = (page.metadata.resource_version, position.version()?);
    if number(&now) < number(ours) {
        return Err(WatchError::rewound(&now, ours));
    }
    Ok(())
}

/// Reports one line of a watch.
fn event(
    line: &[u8],
    position: &mut Position,
    sink: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<(), WatchError> {
    let unreadable = |error| WatchError::unreadable("watch event", &error);
    let WatchLine { kind, object } = serde_json::from_slice(line).map_err(unreadable)?;
    match kind {
        "ADDED" | "MODIFIED" => sink(Event::Upsert(object)),
        "DELETED" => sink(Event::Deleted(object)),
        "BOOKMARK" => {
            let version = version_of(object.get())?;
            sink(Event::Bookmark(number(&version)));
        }
        "ERROR" => {
            let status: Status = serde_json::from_str(object.get())
                .map_err(|error| WatchError::unreadable("watch error", &error))?;
            return Err(WatchError::error_event(&status));
        }
        other => {
            tracing::debug!(kind = other, "watch event of an unknown kind");
            return Ok(());
        }
    }
    position.note(object.get());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{future::ready, sync::Arc};

    use bytes::Bytes;
    use futures::stream::unfold;
    use http::{Request, Response};
    use http_body_util::{Full, StreamBody, combinators::UnsyncBoxBody};
    use hyper::body::Frame;
    use kube::client::Body;
    use parking_lot::Mutex;
    use tower::BoxError;

    use super::*;

    /// A server whose watches send nothing by default. It records its requests.
    #[derive(Clone, Default)]
    struct Quiet {
        /// The versions of its lists; the last one stays.
        versions: Arc<Mutex<Vec<u64>>>,
        /// True if its watches send a bookmark every two minutes, because the first minute has
        /// nothing new.
        sends_bookmarks: bool,
        /// True if its watches end at once, as those of a stopped server.
        is_stopped: bool,
        requests: Arc<Mutex<Vec<String>>>,
    }

    impl Quiet {
        fn answer(self, query: &str) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
            let is_watch = query.contains("watch=true");
            let version = {
                let mut versions = self.versions.lock();
                if is_watch || versions.len() == 1 {
                    versions[0]
                } else {
                    versions.remove(0)
                }
            };
            let line = if is_watch {
                let (_, from) = query.rsplit_once('=').unwrap_or_default();
                format!("watch {from}")
            } else if query.ends_with("limit=1") {
                "ask".to_owned()
            } else {
                "list".to_owned()
            };
            self.requests.lock().push(line);
            if !is_watch {
                let list =
                    format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#);
                return Response::new(Full::from(list).map_err(Into::into).boxed_unsync());
            }
            let bookmarks = unfold(self, async |server| {
                if server.is_stopped {
                    return None;
                }
                if !server.sends_bookmarks {
                    std::future::pending::<()>().await;
                }
                sleep(2 * MINUTE).await;
                let version = server.versions.lock()[0];
                let line = format!(
                    "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n"
                );
                Some((Ok(Frame::data(line.into())), server))
            });
            Response::new(StreamBody::new(bookmarks).boxed_unsync())
        }

        /// The requests and failures within that time.
        async fn watched(self, resumes: bool, time: Duration) -> (Vec<String>, Vec<String>) {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let query = request.uri().query().unwrap_or_default();
                ready(Ok::<_, BoxError>(server.clone().answer(query)))
            });
            let spec = WatchSpec {
                resumes,
                ..WatchSpec::new("/api/v1/configmaps".to_owned())
            };
            let failures = Arc::new(Mutex::new(Vec::new()));
            let sink = Arc::clone(&failures);
            let run = run(Client::new(service, "default"), spec, move |event| {
                if let Event::Failed(cause) = event {
                    sink.lock().push(cause.to_owned());
                }
            });
            let _ = timeout(time, run).await;
            let failures = failures.lock().clone();
            let requests = self.requests.lock().clone();
            (requests, failures)
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);

    /// The failures of a list whose page `number` has `items` objects, and a next page of that token.
    async fn endless(items: usize, token: fn(usize) -> String) -> (usize, String) {
        let pages = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&pages);
        let service = tower::service_fn(move |_: Request<Body>| {
            let number = {
                let mut pages = counted.lock();
                *pages += 1;
                *pages
            };
            let object = r#"{"metadata":{"name":"a"}}"#;
            let objects = vec![object; items].join(",");
            let token = token(number);
            let list = format!(
                r#"{{"metadata":{{"resourceVersion":"7","continue":"{token}"}},"items":[{objects}]}}"#
            );
            ready(Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(list))))
        });
        let spec = WatchSpec {
            max_objects: 1_000,
            ..WatchSpec::new("/api/v1/configmaps".to_owned())
        };
        let mut limit = spec.page_size;
        let client = Client::new(service, "default");
        let error = list(&client, &spec, &mut limit, &mut |_: Event<'_>| {}).await;
        let pages = *pages.lock();
        (pages, error.unwrap_err().text)
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_a_failure() {
        let text = "the server sends a list without an end, or of more than 1000 objects";
        let next = |number: usize| format!("p{number}");
        let (pages, error) = endless(10, next).await;
        assert_eq!((pages, &*error), (101, text), "endless objects");
        let (pages, error) = endless(0, next).await;
        assert_eq!((pages, &*error), (101, text), "endless pages");
        let (pages, error) = endless(1, |_| "same".to_owned()).await;
        assert_eq!((pages, &*error), (2, text), "the same page again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_resumes_after_a_check_of_the_server() {
        let server = Quiet {
            versions: Arc::new(Mutex::new(vec![7, 7, 9])),
            ..Quiet::default()
        };
        let (requests, failures) = server.watched(true, 5 * MINUTE).await;
        let expected = ["list", "watch 7", "ask", "watch 7", "ask", "watch 7"];
        assert_eq!(requests, expected);
        assert_eq!(failures, [""; 0], "silence is no failure");
    }

    #[tokio::test(start_paused = true)]
    async fn a_strict_watch_lists_again_after_a_silence() {
        let server = Quiet {
            versions: Arc::new(Mutex::new(vec![7])),
            ..Quiet::default()
        };
        let (requests, failures) = server.watched(false, 3 * MINUTE).await;
        assert_eq!(requests, ["list", "watch 7", "ask", "list", "watch 7"]);
        assert_eq!(failures, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_with_bookmarks_continues() {
        let server = Quiet {
            versions: Arc::new(Mutex::new(vec![7, 8, 9, 10])),
            sends_bookmarks: true,
            ..Quiet::default()
        };
        let (requests, failures) = server.watched(true, 4 * MINUTE).await;
        assert_eq!(requests, ["list", "watch 7", "ask", "ask"]);
        assert_eq!(failures, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_an_older_version_is_listed_again() {
        let server = Quiet {
            versions: Arc::new(Mutex::new(vec![7, 3])),
            ..Quiet::default()
        };
        let (requests, failures) = server.watched(true, 2 * MINUTE).await;
        assert_eq!(requests, ["list", "watch 7", "ask", "list", "watch 3"]);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].contains("version 3"), "{failures:?}");
    }

    /// Otherwise its watches would not report what it has lost, and send nothing until it reaches
    /// the old version.
    #[tokio::test(start_paused = true)]
    async fn the_version_of_a_server_is_checked_after_a_watch_ends_early() {
        for (versions, expected) in [
            (vec![7, 3], ["list", "watch 7", "ask", "list", "watch 3"]),
            (vec![7, 9], ["list", "watch 7", "ask", "watch 7", "ask"]),
        ] {
            let server = Quiet {
                versions: Arc::new(Mutex::new(versions)),
                is_stopped: true,
                ..Quiet::default()
            };
            let (requests, _) = server.watched(true, MINUTE).await;
            assert_eq!(requests[..5], expected);
        }
    }

    /// The first report of a watch of a kind that is not served, for a response to the list of its
    /// definition.
    async fn unserved(code: u16, body: &'static str) -> String {
        let service = tower::service_fn(move |request: Request<Body>| {
            let asks = "/customresourcedefinitions?limit=1&fieldSelector=metadata.name%3Dshops.x.y";
            let (code, body) = if request.uri().to_string().ends_with(asks) {
                (code, body)
            } else {
                (404, "404 page not found")
            };
            let answer = Response::builder().status(code).body(Full::from(body));
            ready(answer.map_err(BoxError::from))
        });
        let spec = WatchSpec {
            definition: Some("shops.x.y".to_owned()),
            ..WatchSpec::new("/apis/x.y/v1/shops".to_owned())
        };
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let watch = run(Client::new(service, "default"), spec, move |event| {
            let text = match event {
                Event::ListStarted => return,
                Event::Failed(cause) => cause.to_owned(),
                event => format!("{event:?}"),
            };
            let _ = sender.send(text);
        });
        tokio::select! {
            () = watch => String::new(),
            event = events.recv() => event.unwrap_or_default(),
        }
    }

    /// A kind that is defined has objects, even if they cannot be listed at the moment.
    #[tokio::test(start_paused = true)]
    async fn a_kind_is_unserved_only_without_its_definition() {
        let forbidden = r#"{"kind":"Status","message":"no right","reason":"Forbidden","code":403}"#;
        for (code, body, expected) in [
            (200, r#"{"items":null}"#, "Unserved"),
            (
                200,
                r#"{"items":[{}]}"#,
                "the API server does not serve the kind, though there is a CustomResourceDefinition shops.x.y",
            ),
            (
                403,
                forbidden,
                "the API server does not serve the kind; listing CustomResourceDefinition shops.x.y: no right",
            ),
            // Definitions are not served either.
            (
                404,
                "404 page not found",
                "the API server does not serve the kind; listing CustomResourceDefinition shops.x.y: \
                 404 page not found",
            ),
        ] {
            assert_eq!(unserved(code, body).await, expected, "{code} {body}");
        }
    }

    /// A page of a list of `objects` objects of `length` bytes each.
    fn page(objects: usize, length: usize, limit: usize, from: usize) -> String {
        let end = objects.min(from + limit);
        let next = if end < objects {
            end.to_string()
        } else {
            String::new()
        };
        let data = "x".repeat(length);
        let items: Vec<_> = (from..end)
            .map(|at| format!(r#"{{"n":{at},"x":"{data}"}}"#))
            .collect();
        let items = items.join(",");
        format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":[{items}]}}"#)
    }

    /// Lists `objects` objects of `length` bytes each. Returns the limits of the requests, and the
    /// numbers of the objects.
    async fn listed(objects: usize, length: usize) -> (Vec<usize>, Vec<usize>) {
        let limits = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&limits);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let (limit, from) = query.split_once('&').unwrap();
            let number = |text: &str| text.split_once('=').unwrap().1.parse().unwrap_or(0);
            recorded.lock().push(number(limit));
            let page = page(objects, length, number(limit), number(from));
            ready(Ok::<_, BoxError>(Response::new(Full::from(page))))
        });
        let spec = WatchSpec::new("/api/v1/configmaps".to_owned());
        let (mut limit, mut found) = (spec.page_size, Vec::new());
        let mut sink = |event: Event<'_>| {
            if let Event::Listed(object) = event {
                let (number, _) = object.get()[5..].split_once(',').unwrap();
                found.push(number.parse().unwrap());
            }
        };
        let client = Client::new(service, "default");
        list(&client, &spec, &mut limit, &mut sink).await.unwrap();
        let limits = limits.lock().clone();
        (limits, found)
    }

    #[tokio::test]
    async fn pages_adapt_to_the_size_of_objects_and_miss_none() {
        for (objects, length, expected) in [
            (1_200, 3_000, &[500, 500, 500][..]),
            (8, 900_000, &[500, 125, 31, 7, 1, 2, 2, 2, 2]),
            (3, 12_000_000, &[500, 125, 31, 7, 1, 1, 1]),
        ] {
            let (limits, found) = listed(objects, length).await;
            assert_eq!(limits, expected, "{objects} of {length}");
            assert_eq!(found, (0..objects).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_event_never_resumes_from_the_same_version() {
        let table = [
            (
                r#"{"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#,
                Recovery::RelistNow,
            ),
            (
                r#"{"status":"Failure","message":"etcd event received with PrevKv=nil","code":500}"#,
                Recovery::Relist,
            ),
        ];
        for (status, next) in table {
            let line = format!(r#"{{"type":"ERROR","object":{status}}}"#);
            let error = event(line.as_bytes(), &mut Position::default(), &mut |_| {}).unwrap_err();
            assert_eq!(error.next, next, "{status}");
        }
    }

    #[test]
    fn events_are_reported_and_the_last_version_is_kept() {
        let mut position = Position::at("7".to_owned());
        assert_eq!(position.version().unwrap(), "7");
        assert!(!position.moved());
        let mut reported = Vec::new();
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#,
            r#"{"object":{"metadata":{"resourceVersion":"9","name":"a"},"data":{"x":"\u00e4"}},"type":"MODIFIED"}"#,
            r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"10"}}}"#,
            r#"{"type":"FUTURE","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"12"}}}"#,
        ] {
            let mut sink = |event: Event<'_>| reported.push(format!("{event:?}"));
            event(line.as_bytes(), &mut position, &mut sink).unwrap();
        }
        let kinds: Vec<&str> = reported
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
            let error = event(line.as_bytes(), &mut Position::default(), &mut |_| {}).unwrap_err();
            assert_eq!(error.next, Recovery::Relist, "{line}");
        }
    }

    #[test]
    fn selectors_are_escaped_in_the_query() {
        let spec = WatchSpec {
            label_selector: Some("a/b=c".to_owned()),
            field_selector: Some("metadata.name=d&e".to_owned()),
            ..WatchSpec::new("/api/v1/configmaps".to_owned())
        };
        assert_eq!(
            spec.url("limit=1"),
            "/api/v1/configmaps?labelSelector=a%2Fb%3Dc&fieldSelector=metadata.name%3Dd%26e&limit=1"
        );
    }
}
