//! The limit of tests that work at the same time.
//!
//! There are more test threads than the processors can serve, because many tests wait: for a
//! control plane of their own, or for a site without other users. Tests that wait in this way do
//! not count. Tests at work wait as well, for a token to expire for example. So further ones may
//! work while the processors are idle.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Number of tests that may be at work on busy processors.
const FEW: usize = 4;

/// Number of tests that may be at work.
const MANY: usize = 16;

/// The time in which at most one test more than [`FEW`] begins: its load has to show.
const PERIOD: Duration = Duration::from_secs(1);

/// The share of the processor time that has to be idle for one test more.
const IDLE: f64 = 0.2;

static AT_WORK: Mutex<AtWork> = Mutex::new(AtWork {
    tests: 0,
    last: None,
});

/// The tests at work.
struct AtWork {
    tests: usize,
    /// The last look at the processors.
    last: Option<Look>,
}

/// The time of the processors since the start of the machine.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    all: u64,
    idle: u64,
}

/// The right of a test to work.
struct Permit;

thread_local! {
    /// The permit of the test that runs on this thread.
    static PERMIT: RefCell<Option<Permit>> = const { RefCell::new(None) };
}

impl Permit {
    fn take() -> Option<Self> {
        let mut at_work = AT_WORK.lock().unwrap();
        let may = at_work.tests < FEW || at_work.tests < MANY && at_work.are_processors_idle();
        at_work.tests += usize::from(may);
        drop(at_work);
        may.then(|| Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        AT_WORK.lock().unwrap().tests -= 1;
    }
}

impl AtWork {
    /// True if the processors were idle since the last look, at most once per [`PERIOD`].
    fn are_processors_idle(&mut self) -> bool {
        if self.last.is_some_and(|last| last.at.elapsed() < PERIOD) {
            return false;
        }
        let now = Look::now();
        let last = std::mem::replace(&mut self.last, now);
        let since = now.zip(last).map(|(now, last)| now.since(last));
        since.is_some_and(|idle| idle > IDLE)
    }
}

impl Look {
    /// `None` if the system does not report the time.
    fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let times = stat.lines().next()?.split_whitespace().skip(1);
        let times: Vec<u64> = times.map_while(|time| time.parse().ok()).collect();
        Some(Self {
            at: Instant::now(),
            all: times.iter().sum(),
            idle: *times.get(3)?,
        })
    }

    /// The idle share of the time since then.
    fn since(self, earlier: Self) -> f64 {
        let part = |now: u64, then: u64| {
            let ticks = u32::try_from(now.saturating_sub(then)).unwrap_or(u32::MAX);
            f64::from(ticks)
        };
        part(self.idle, earlier.idle) / part(self.all, earlier.all).max(1.0)
    }
}

/// Waits until the test may work. The permit lasts until [`end`], or until the test's thread ends.
pub(crate) async fn begin() {
    if PERMIT.with_borrow(Option::is_some) {
        return;
    }
    loop {
        if let Some(permit) = Permit::take() {
            PERMIT.set(Some(permit));
            return;
        }
        sleep(PERIOD / 10).await;
    }
}

/// Lets another test work, while this one only cleans up.
pub(crate) fn end() {
    PERMIT.take();
}

/// Waits for a resource that other tests use. Another test may work meanwhile.
pub(crate) async fn aside<T>(wait: impl Future<Output = T>) -> T {
    let was_at_work = PERMIT.take().is_some();
    let awaited = wait.await;
    if was_at_work {
        begin().await;
    }
    awaited
}
