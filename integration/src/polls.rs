//! The pauses of a test that waits for a change by looking at it again and again.

use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The pause after the first polls.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST: Duration = Duration::from_millis(500);

/// A wait. Its polls are requests to an API server that all tests share, so the pauses grow to a fifth of
/// the time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polls {
    start: Instant,
}

impl Polls {
    /// Starts a wait.
    pub(crate) fn start() -> Self {
        let start = Instant::now();
        Self { start }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until the time of the next poll.
    pub(crate) async fn pause(&self) {
        sleep((self.elapsed() / 5).clamp(SHORTEST, LONGEST)).await;
    }
}
