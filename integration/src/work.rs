//! How many tests work at the same time.
//!
//! There are more threads of tests than processors can serve, as many tests wait: for a control plane of their own, or
//! for a site that nobody else uses. Those do not count.

use std::{cell::RefCell, future::Future};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Tests at work. With more of them on two processors, tests run out of patience.
const AT_WORK: usize = 6;

static LEFT: Semaphore = Semaphore::const_new(AT_WORK);

thread_local! {
    /// That of the test that has this thread.
    static PERMIT: RefCell<Option<SemaphorePermit<'static>>> = const { RefCell::new(None) };
}

/// Waits until the test may work, which it then does until its thread ends.
pub(crate) async fn begin() {
    if PERMIT.with_borrow(Option::is_none) {
        let permit = LEFT.acquire().await.unwrap();
        PERMIT.set(Some(permit));
    }
}

/// Waits for something that other tests have. Meanwhile another test may work.
pub(crate) async fn aside<T>(wait: impl Future<Output = T>) -> T {
    let was_at_work = PERMIT.take().is_some();
    let awaited = wait.await;
    if was_at_work {
        begin().await;
    }
    awaited
}
