//! The pace at which the watches of a cluster are read. A cluster that sends events as fast as it can
//! takes no processor time from others.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

/// Bytes of events per second that are read in the long run.
const RATE: u32 = 4 << 20;
/// Bytes that are read at once after a time with fewer events, such as a rollout of all revisions.
const BURST: u32 = 64 << 20;

/// The pace of all watches of a cluster.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes that may be read now; negative while the reader has to wait.
    left: f64,
    at: Instant,
}

impl Pace {
    /// The pace before the first read.
    pub fn new(now: Instant) -> Self {
        Self {
            left: BURST.into(),
            at: now,
        }
    }

    /// Notes that bytes were read. Returns the time to wait before the next read.
    fn read(&mut self, bytes: usize, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.left = (self.left + passed * f64::from(RATE)).min(BURST.into()) - f64::from(bytes);
        Duration::from_secs_f64((-self.left).max(0.0) / f64::from(RATE))
    }
}

/// The body of a watch that is read at the pace of its cluster.
pub(super) struct Paced {
    body: UnsyncBoxBody<Bytes, BoxError>,
    pace: Arc<Mutex<Pace>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    /// Must be called within a tokio runtime.
    pub fn new(body: UnsyncBoxBody<Bytes, BoxError>, pace: Arc<Mutex<Pace>>) -> Self {
        Self {
            body,
            pace,
            pause: None,
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let wait = self.pace.lock().read(data.len(), Instant::now());
            self.pause = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    fn endless(piece: usize) -> UnsyncBoxBody<Bytes, BoxError> {
        let piece = Bytes::from(vec![b'x'; piece]);
        let frames = stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(piece.clone())));
        StreamBody::new(frames).map_err(Into::into).boxed_unsync()
    }

    /// Two watches share the pace of their cluster.
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_events_is_read_at_a_limited_pace() {
        let start = Instant::now();
        let pace = Arc::new(Mutex::new(Pace::new(start)));
        let mut watches = [1 << 20, 1 << 10].map(|piece| Paced::new(endless(piece), pace.clone()));
        let mut bytes = 0_u64;
        while start.elapsed() < Duration::from_mins(1) {
            for watch in &mut watches {
                let frame = watch.frame().await.unwrap().unwrap();
                bytes += frame.into_data().unwrap().len() as u64;
            }
        }
        let most = u64::from(BURST) + 62 * u64::from(RATE);
        assert!(bytes < most && bytes > most / 2, "{bytes}");
    }

    #[test]
    fn a_quiet_cluster_is_not_slowed() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for second in 0..1_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(pace.read(RATE as usize, now), Duration::ZERO);
        }
    }
}
