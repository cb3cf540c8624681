//! Keeps a process that has lost its lease from writing, which a lease alone cannot do.
//!
//! A process can be stopped between a decision and its write for long enough that another process
//! is elected: by a signal, a frozen container, a suspended machine. When the process continues,
//! its timers have not fired yet, and requests are ready to be sent, some of them in the buffers of
//! a connection already. So every write is checked against the clock at the last moment before it
//! is sent, and a connection does nothing more once the lease has run out.
//!
//! # Guarantees
//! - A write is sent only within [`Term::renew_by`] of the last renewal. The check is repeated at
//!   each step until the write is sent: while it waits for a connection, for instance, or in the
//!   buffers of one.
//! - The `timeout` in the query of a write makes the API server give the write up before the lease
//!   may be taken over, also when this process does not run at that time; the process itself waits
//!   no longer either.
//! - Time during which the machine was suspended counts.
//!
//! # Caveats
//! - Reads, dry runs, leases and events pass, but not through connections that were made with a
//!   fence ([`Executor`]) whose lease has run out. Requests for the lease need a connection without
//!   a fence.
//! - A write that the kernel or the network delays may reach the server late, and the time limit of
//!   the server starts only then. The same holds for the requests of one poll of a
//!   connection, if the process is stopped between the check and the system call. So children carry
//!   preconditions, and objects that an ended revision nevertheless controls are taken away when they are
//!   observed.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, Uri, uri::PathAndQuery};
use hyper::rt::Executor;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Sleep, sleep};
use tower::{BoxError, Layer, Service};

use crate::request_metrics::Verb;

/// A moment on a clock that continues while the machine is suspended. The clock starts at an
/// arbitrary time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The present moment. The clocks of `tokio` and the standard library stand still in a
    /// suspended machine.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        const CLOCK: ClockId = ClockId::Boottime;
        // On other systems the monotonic clock continues during a suspension.
        #[cfg(not(target_os = "linux"))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let time = clock_gettime(CLOCK);
        // Never negative: the clock counts from the start of the machine.
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// The period in which a lease is certainly valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Time at which the last renewal was sent.
    pub since: Moment,
    /// Period after `since` in which a write may be sent.
    pub renew_by: Duration,
    /// Period after `since` in which no other process takes the lease.
    pub duration: Duration,
}

/// The right of this process to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteAccess {
    /// This process may not write yet, or has given up its lease.
    Closed,
    /// This process may not write any more: it has lost the lease.
    Lost,
    /// This process may write within the term of its lease.
    Held(Term),
    /// This process may write: it needs no lease.
    Open,
}

impl WriteAccess {
    /// Time limit of a write that is sent now; `None` if there is none. An error if no write may be
    /// sent.
    fn allows(self, now: Moment) -> Result<Option<Duration>, NotLeading> {
        match self {
            Self::Open => Ok(None),
            Self::Held(term) if now < term.since.after(term.renew_by) => {
                let end = term.since.after(term.duration);
                Ok(Some(end.0.saturating_sub(now.0)))
            }
            Self::Held(_) | Self::Closed | Self::Lost => Err(NotLeading),
        }
    }

    /// True if there may be writes under way that must not be sent any more.
    fn has_ended(self, now: Moment) -> bool {
        match self {
            Self::Open | Self::Closed => false,
            Self::Lost => true,
            Self::Held(_) => self.allows(now).is_err(),
        }
    }
}

/// The write was not sent, because this process may not write.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this process may no longer hold the lease")]
pub struct NotLeading;

/// A write was sent, but not answered within the lease.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server before the lease could expire")]
pub struct TermEnded;

/// Decides if this process may write. Clones share their state.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<WriteAccess>>);

impl Fence {
    /// Creates a fence that refuses writes until the lease is held.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(Mutex::new(WriteAccess::Closed)))
    }

    /// Allows all writes: for processes without a lease.
    pub fn open(&self) {
        *self.0.lock() = WriteAccess::Open;
    }

    /// Refuses all writes. To be called when none is under way: connections stay open, unless the
    /// lease has run out before.
    pub fn close(&self) {
        let mut standing = self.0.lock();
        if !standing.has_ended(Moment::now()) {
            *standing = WriteAccess::Closed;
        }
    }

    /// Refuses all writes, and ends the connections, whose buffers may contain some.
    pub fn lose(&self) {
        *self.0.lock() = WriteAccess::Lost;
    }

    /// Allows writes within this term of a lease that was taken or renewed.
    pub fn allow_during(&self, term: Term) {
        *self.0.lock() = WriteAccess::Held(term);
    }

    /// Time limit of a write that is sent now; `None` if there is none.
    ///
    /// # Errors
    /// If no write may be sent.
    pub fn check(&self) -> Result<Option<Duration>, NotLeading> {
        self.0.lock().allows(Moment::now())
    }
}

/// Runs the connections of a client until the lease ends. Then their buffers may contain writes
/// that must not be sent any more.
impl<F> Executor<F> for Fence
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, connection: F) {
        tokio::spawn(Connection {
            connection: Box::pin(connection),
            fence: self.clone(),
        });
    }
}

struct Connection<F> {
    connection: Pin<Box<F>>,
    fence: Fence,
}

impl<F: Future<Output = ()>> Future for Connection<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let standing = *self.fence.0.lock();
        if standing.has_ended(Moment::now()) {
            return Poll::Ready(());
        }
        self.connection.as_mut().poll(context)
    }
}

/// True if a request persists a change that only a leader may make.
fn is_fenced(verb: Verb) -> bool {
    match verb {
        Verb::Create | Verb::Apply | Verb::Patch | Verb::Update | Verb::Status | Verb::Delete => {
            true
        }
        // Writes of leases are bound to the version that was decided upon, and events only report.
        // Children of these kinds are written by other verbs.
        Verb::Lease
        | Verb::Event
        | Verb::Get
        | Verb::List
        | Verb::Watch
        | Verb::DryRun
        | Verb::Discovery => false,
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            fence: self.clone(),
        }
    }
}

/// A service whose writes must pass a [`Fence`].
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

type Answer<R> = Result<Response<R>, BoxError>;

impl<S, B, R> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer<R>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !is_fenced(Verb::of(&request)) {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        let left = match self.fence.check() {
            Ok(Some(left)) => left,
            Ok(None) => {
                let answer = self.inner.call(request);
                return Box::pin(async move { answer.await.map_err(Into::into) });
            }
            Err(refusal) => return Box::pin(async move { Err(refusal.into()) }),
        };
        if let Some(uri) = bounded(request.uri(), left) {
            *request.uri_mut() = uri;
        }
        Box::pin(Guarded {
            answer: Box::pin(self.inner.call(request)),
            end: Box::pin(sleep(left)),
            fence: self.fence.clone(),
        })
    }
}

/// The same address with a time limit for the server.
fn bounded(uri: &Uri, limit: Duration) -> Option<Uri> {
    let path = uri.path();
    let query = uri
        .query()
        .map_or_else(String::new, |query| format!("{query}&"));
    let bounded = format!("{path}?{query}timeout={}ms", limit.as_millis().max(1));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(bounded.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// A write under way. Each step towards its answer, such as that from a new connection to the
/// request on it, is taken only while the lease holds. A request dropped before it was sent is
/// never sent.
struct Guarded<F> {
    answer: Pin<Box<F>>,
    end: Pin<Box<Sleep>>,
    fence: Fence,
}

impl<F, R, E> Future for Guarded<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Answer<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer<R>> {
        if self.fence.check().is_err() {
            // The request may have been sent and even answered: the next leader observes the
            // written object.
            return Poll::Ready(Err(TermEnded.into()));
        }
        if let Poll::Ready(answer) = self.answer.as_mut().poll(context) {
            return Poll::Ready(answer.map_err(Into::into));
        }
        self.end
            .as_mut()
            .poll(context)
            .map(|()| Err(TermEnded.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn term(since: Moment) -> Term {
        Term {
            since,
            renew_by: Duration::from_secs(10),
            duration: Duration::from_secs(15),
        }
    }

    #[test]
    fn a_write_is_sent_and_limited_within_the_term_of_the_lease() {
        let held = WriteAccess::Held(term(at(100)));
        for (standing, now, expected) in [
            (WriteAccess::Closed, 0, None),
            (WriteAccess::Open, 0, Some(None)),
            (held, 100, Some(Some(15))),
            (held, 109, Some(Some(6))),
            (held, 110, None),
            (held, 115, None),
            (held, 1_000_000, None),
        ] {
            let allowed = standing.allows(at(now)).ok();
            let expected = expected.map(|left| left.map(Duration::from_secs));
            assert_eq!(allowed, expected, "{standing:?} at {now}");
        }
    }

    #[test]
    fn only_writes_are_fenced() {
        let fenced: Vec<&str> = Verb::ALL
            .into_iter()
            .filter(|verb| is_fenced(*verb))
            .map(Verb::as_str)
            .collect();
        let expected = ["create", "apply", "patch", "update", "status", "delete"];
        assert_eq!(fenced, expected);
    }

    /// Requests in the buffers of a connection would be sent after the process was stopped, before
    /// any other check.
    #[tokio::test]
    async fn a_connection_does_nothing_more_when_the_lease_has_ended() {
        type End = fn(&Fence);
        let ends: [(End, usize); 5] = [
            (|fence| fence.allow_during(term(at(0))), 1),
            (Fence::lose, 1),
            (
                |fence| {
                    fence.lose();
                    fence.close();
                },
                1,
            ),
            (Fence::close, 2),
            (|fence| fence.allow_during(term(Moment::now())), 2),
        ];
        for (end, expected) in ends {
            let fence = Fence::closed();
            fence.allow_during(term(Moment::now()));
            let (go_on, sent) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
            let (woken, writes) = (Arc::clone(&go_on), Arc::clone(&sent));
            fence.execute(async move {
                *writes.lock() += 1;
                woken.notified().await;
                *writes.lock() += 1;
            });
            tokio::task::yield_now().await;
            end(&fence);
            go_on.notify_one();
            // The connection is dropped when no other reference is left.
            while Arc::strong_count(&go_on) > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(*sent.lock(), expected);
        }
    }

    #[tokio::test]
    async fn applies_and_deletions_of_leases_and_events_are_fenced() {
        const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
        const EVENT: &str = "/api/v1/namespaces/a/events/b";
        let sent = tower::service_fn(async |_: Request<()>| Ok::<_, BoxError>(Response::new(())));
        let mut service = Fence::closed().layer(sent);
        for (method, path, content_type, passes) in [
            ("PUT", LEASE, "application/json", true),
            ("GET", LEASE, "", true),
            ("PATCH", LEASE, "application/apply-patch+yaml", false),
            ("PATCH", LEASE, "application/json-patch+json", false),
            ("DELETE", LEASE, "", false),
            ("PATCH", EVENT, "application/merge-patch+json", true),
            ("PATCH", EVENT, "application/apply-patch+yaml", false),
            ("DELETE", EVENT, "", false),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header(http::header::CONTENT_TYPE, content_type);
            let answer = service.call(request.body(()).unwrap()).await;
            assert_eq!(answer.is_ok(), passes, "{method} {path} {content_type}");
        }
    }

    #[test]
    fn a_write_has_a_timeout_parameter() {
        for (uri, expected) in [
            ("/api/v1/pods/a", "/api/v1/pods/a?timeout=1500ms"),
            (
                "https://h:1/api/v1/pods/a?force=true",
                "https://h:1/api/v1/pods/a?force=true&timeout=1500ms",
            ),
        ] {
            let bounded = bounded(&uri.parse().unwrap(), Duration::from_millis(1500));
            assert_eq!(bounded.unwrap().to_string(), expected);
        }
    }

    /// Sends a write through a fence to a server whose connection takes a while; `meanwhile` runs
    /// in between. Returns the number of writes that arrived, the query, and true if the answer was
    /// a success.
    async fn write(fence: &Fence, method: &str, meanwhile: impl FnOnce()) -> (usize, String, bool) {
        let connected = Arc::new(Notify::new());
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let (connection, arrivals) = (Arc::clone(&connected), Arc::clone(&arrived));
        let mut service = fence.layer(tower::service_fn(move |request: Request<()>| {
            let (connection, arrivals) = (Arc::clone(&connection), Arc::clone(&arrivals));
            async move {
                connection.notified().await;
                arrivals.lock().push(request.uri().to_string());
                Ok::<_, BoxError>(Response::new(()))
            }
        }));
        let path = "/api/v1/namespaces/a/configmaps/b";
        let request = Request::builder().method(method).uri(path);
        let mut answer = service.call(request.body(()).unwrap());
        let first = futures::poll!(&mut answer);
        meanwhile();
        connected.notify_one();
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        };
        let arrived = arrived.lock();
        let query = arrived.first().map(|uri| uri.replace(path, ""));
        (arrived.len(), query.unwrap_or_default(), answer.is_ok())
    }

    #[tokio::test]
    async fn a_write_that_waits_for_its_connection_when_the_lease_ends_is_not_sent() {
        let fence = Fence::closed();
        assert_eq!(
            write(&fence, "PATCH", || ()).await,
            (0, String::new(), false)
        );
        assert_eq!(write(&fence, "GET", || ()).await, (1, String::new(), true));
        fence.allow_during(term(Moment::now()));
        let (arrived, query, is_ok) = write(&fence, "PATCH", || ()).await;
        assert_eq!((arrived, is_ok), (1, true));
        assert!(query.starts_with("?timeout=1"), "{query}");
        let lost = || fence.allow_during(term(at(0)));
        assert_eq!(
            write(&fence, "PATCH", lost).await,
            (0, String::new(), false)
        );
        assert_eq!(write(&fence, "GET", || ()).await, (1, String::new(), true));
        fence.open();
        assert_eq!(
            write(&fence, "PATCH", || ()).await,
            (1, String::new(), true)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_not_answered_ends_with_the_lease() {
        let fence = Fence::closed();
        fence.allow_during(term(Moment::now()));
        let mut service = fence.layer(tower::service_fn(|_: Request<()>| {
            std::future::pending::<Answer<()>>()
        }));
        let request = Request::delete("/api/v1/namespaces/a/configmaps/b").body(());
        let started = tokio::time::Instant::now();
        let error = service.call(request.unwrap()).await.unwrap_err();
        assert!(error.is::<TermEnded>(), "{error}");
        let took = started.elapsed().as_secs();
        assert!((14..=15).contains(&took), "{took} s");
    }

    #[test]
    fn the_clock_of_the_fence_advances() {
        let before = Moment::now();
        assert!(before > at(0));
        while Moment::now() == before {
            std::thread::yield_now();
        }
        assert!(Moment::now() > before);
    }
}
