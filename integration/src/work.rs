//! The limit of tests that work at the same time.
//!
//! There are more test threads than the processors can serve, because many tests wait: for a
//! control plane of their own, or for a site without other users. Tests that wait in this way do
//! not count.

use std::{cell::RefCell, future::Future};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Number of tests at work. With more tests on two processors, waits exceed their time limits.
const AT_WORK: usize = 6;

static LEFT: Semaphore = Semaphore::const_new(AT_WORK);

thread_local! {
    /// The permit of the test that runs on this thread.
    static PERMIT: RefCell<Option<SemaphorePermit<'static>>> = const { RefCell::new(None) };
}

/// Waits until the test may work. The permit lasts until [`end`], or until the test's thread ends.
pub(crate) async fn begin() {
    if PERMIT.with_borrow(Option::is_none) {
        let permit = LEFT.acquire().await.unwrap();
        PERMIT.set(Some(permit));
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
