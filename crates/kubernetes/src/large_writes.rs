//! Large writes wait for each other, so that they leave the API server time for all other requests.
//!
//! A write of a megabyte takes the API server up to a second of a processor. A few of them at the same
//! time delay the small writes of all namespaces by seconds.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use http::Request;
use hyper::body::Body as _;
use kube::client::Body;
use tokio::time::timeout;
use tower::{Layer, Service, ServiceExt as _};

use crate::permits::Permits;

/// Bytes of a body from which on a write is large.
const LARGE: u64 = 256 << 10;

/// Number of concurrent large writes to a cluster. Namespaces take turns.
const CONCURRENT: usize = 1;

/// Time after which the next write no longer waits: an admission webhook of one kind may be slow.
const TURN: Duration = Duration::from_secs(5);

/// Lets a large write wait until the one before it is answered.
#[derive(Clone, Debug)]
pub(crate) struct LargeWrites(Arc<Permits>);

impl LargeWrites {
    pub(crate) fn new() -> Self {
        Self(Permits::new(CONCURRENT))
    }
}

impl<S> Layer<S> for LargeWrites {
    type Service = WithTurns<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithTurns {
            inner,
            turns: self.clone(),
        }
    }
}

/// The service below [`LargeWrites`].
#[derive(Clone, Debug)]
pub(crate) struct WithTurns<S> {
    inner: S,
    turns: LargeWrites,
}

impl<S> Service<Request<Body>> for WithTurns<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.body().size_hint().lower() < LARGE {
            return Either::Left(self.inner.call(request));
        }
        // A request that waits does not keep the place of another one in the service below.
        let (mut inner, permits) = (self.inner.clone(), Arc::clone(&self.turns.0));
        let answered = async move {
            let turn = permits.acquire(namespace(request.uri().path())).await;
            let mut answered = pin!(inner.ready().await?.call(request));
            if let Ok(answer) = timeout(TURN, &mut answered).await {
                return answer;
            }
            drop(turn);
            answered.await
        };
        Either::Right(answered.boxed())
    }
}

/// The namespace in the path of a request; empty for objects without one.
fn namespace(path: &str) -> &str {
    let mut segments = path.split('/').skip_while(|it| *it != "namespaces");
    segments.nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::{join_all, pending};
    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};
    use tower::service_fn;

    use super::*;

    #[test]
    fn the_namespace_is_in_the_path() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/configmaps/namespaces", "a"),
            ("/apis/g/v1/namespaces/a/objectsets", "a"),
            ("/apis/g/v1/clusterobjectsets/a", ""),
            ("/api/v1/namespaces", ""),
        ] {
            assert_eq!(namespace(path), expected, "{path}");
        }
    }

    /// The server takes a second for each request. Large ones are sent one after the other and by
    /// turns; a small one is sent at once.
    #[tokio::test(start_paused = true)]
    async fn large_writes_are_sent_one_after_the_other_and_small_ones_at_once() {
        let received = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&received);
        let server = service_fn(move |request: Request<Body>| {
            let mut path = request.uri().path().rsplit('/');
            let name = path.next().unwrap().to_owned();
            record.lock().push(name);
            sleep(Duration::from_secs(1)).map(Ok::<_, Infallible>)
        });
        let service = LargeWrites::new().layer(server);
        let large = usize::try_from(LARGE).unwrap();
        let sent = [
            ("a", "1", large),
            ("a", "2", large),
            ("a", "3", large),
            ("b", "4", large),
            ("a", "small", large - 1),
        ];
        let sent = sent.map(|(namespace, name, size)| {
            let request = Request::put(format!("/api/v1/namespaces/{namespace}/secrets/{name}"));
            let request = request.body(Body::from(vec![b'x'; size])).unwrap();
            service.clone().oneshot(request)
        });
        let start = Instant::now();
        join_all(sent).await;
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        assert_eq!(*received.lock(), ["1", "small", "2", "4", "3"]);
    }

    /// Neither a caller that no longer waits nor a write without an answer keeps its turn.
    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_keeps_no_turn() {
        let server = service_fn(|_: Request<Body>| pending::<Result<(), Infallible>>());
        let turns = LargeWrites::new();
        let service = turns.layer(server);
        let send = || {
            let body = Body::from(vec![b'x'; usize::try_from(LARGE).unwrap()]);
            service.clone().oneshot(Request::new(body))
        };
        for _ in 0..2 {
            let answered = timeout(Duration::from_secs(1), send()).await;
            assert!(answered.is_err());
        }
        let start = Instant::now();
        // The write asks first: in a random order, the turn below is sometimes free.
        tokio::select! {
            biased;
            _ = send() => panic!("an answer"),
            _ = turns.0.acquire("") => {}
        }
        assert_eq!(start.elapsed(), TURN);
    }
}
