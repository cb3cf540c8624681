//! Bounds of concurrent work, such as requests or renderings of charts, and the order of those that
//! wait.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::turns::Turns;

/// Permits for which lanes, mostly namespaces, take turns: a lane with a thousand waiting requests
/// delays the next request of another lane by no more than one.
#[derive(Debug)]
pub struct Permits(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Turns<Box<str>, oneshot::Sender<Permit>>,
}

/// A permit, returned when dropped.
#[derive(Debug)]
pub struct Permit(Option<Arc<Permits>>);

impl Permits {
    /// Creates this number of permits.
    pub fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            free: permits,
            waiting: Turns::default(),
        })))
    }

    /// Waits for a permit, in a lane.
    pub async fn acquire(self: &Arc<Self>, lane: &str) -> Permit {
        let turn = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Permit(Some(Arc::clone(self)));
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push(lane.into(), sender);
            turn
        };
        // The sender is stored in `self`, which outlives this future.
        turn.await.unwrap_or(Permit(None))
    }

    fn give_back(self: Arc<Self>) {
        let mut permit = Permit(Some(self.clone()));
        loop {
            let next = {
                let mut state = self.0.lock();
                let next = state.waiting.pop(|_| true);
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some((_, waiting)) = next else {
                permit.0 = None;
                return;
            };
            match waiting.send(permit) {
                Ok(()) => return,
                // The receiver no longer waits.
                Err(refused) => permit = refused,
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permits) = self.0.take() {
            permits.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};

    use super::*;

    #[tokio::test]
    async fn namespaces_take_turns() {
        let permits = Permits::new(1);
        let first = permits.acquire("a").await;
        let waiting = FuturesUnordered::new();
        for (namespace, number) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)] {
            let permits = Arc::clone(&permits);
            let mut turn = Box::pin(async move {
                let permit = permits.acquire(namespace).await;
                drop(permit);
                format!("{namespace}{number}")
            });
            assert!((&mut turn).now_or_never().is_none());
            waiting.push(turn);
        }
        drop(first);
        let order: Vec<String> = waiting.collect().await;
        assert_eq!(order, ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(permits.0.lock().free, 1);
    }

    #[tokio::test]
    async fn no_permit_is_lost_by_a_cancelled_wait() {
        let permits = Permits::new(2);
        let held = [permits.acquire("a").await, permits.acquire("a").await];
        for namespace in ["a", "b", "c"] {
            let permits = Arc::clone(&permits);
            // The future is dropped while it waits.
            assert!(permits.acquire(namespace).now_or_never().is_none());
        }
        let mut last = Box::pin(permits.acquire("d"));
        assert!((&mut last).now_or_never().is_none());
        drop(held);
        let last = last.now_or_never().unwrap();
        assert_eq!(permits.0.lock().free, 1);
        drop(last);
        assert_eq!(permits.0.lock().free, 2);
    }
}
