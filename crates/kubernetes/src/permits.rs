//! Bounds of concurrent work, such as requests or renderings of charts, and the order of those that
//! wait.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::turns::Turns;

/// Permits for which lanes, mostly namespaces, take turns: a lane with a thousand waiting requests
/// delays the next request of another lane by no more than one.
#[derive(Debug)]
pub struct Permits {
    /// Number of permits, of which some may be in use.
    all: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Turns<Box<str>, Waiting>,
}

/// A request that waits for so many permits.
#[derive(Debug)]
struct Waiting {
    number: usize,
    sender: oneshot::Sender<Permit>,
}

/// Permits, returned when dropped.
#[derive(Debug)]
pub struct Permit {
    of: Option<Arc<Permits>>,
    number: usize,
}

impl Permits {
    /// Creates this number of permits.
    pub fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            all: permits,
            state: Mutex::new(State {
                free: permits,
                waiting: Turns::default(),
            }),
        })
    }

    /// Waits for a permit, in a lane.
    pub async fn acquire(self: &Arc<Self>, lane: &str) -> Permit {
        self.acquire_many(lane, 1).await
    }

    /// Waits for a number of permits, in a lane. A number that is larger than that of all permits
    /// counts as all permits. Later requests wait for this one, so that it is not passed over for
    /// ever by smaller ones.
    pub async fn acquire_many(self: &Arc<Self>, lane: &str, number: usize) -> Permit {
        let number = number.min(self.all);
        let turn = {
            let mut state = self.state.lock();
            if state.free >= number && state.waiting.is_empty() {
                state.free -= number;
                return Permit::new(self, number);
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push(lane.into(), Waiting { number, sender });
            turn
        };
        // The sender is stored in `self`, which outlives this future.
        turn.await.unwrap_or(Permit {
            of: None,
            number: 0,
        })
    }

    /// Returns permits, and gives them to those that wait.
    fn give_back(self: &Arc<Self>, mut number: usize) {
        while number > 0 {
            let granted = self.state.lock().grant(number);
            number = 0;
            for Waiting {
                number: wanted,
                sender,
            } in granted
            {
                if let Err(mut refused) = sender.send(Permit::new(self, wanted)) {
                    // The receiver no longer waits.
                    refused.of = None;
                    number += wanted;
                }
            }
        }
    }
}

impl State {
    /// Adds free permits, and takes those of the next requests, as far as they suffice.
    fn grant(&mut self, number: usize) -> Vec<Waiting> {
        self.free += number;
        let mut granted = Vec::new();
        while let Some(next) = self.waiting.next() {
            let is_waiting = !next.sender.is_closed();
            if is_waiting && next.number > self.free {
                break;
            }
            let next = self.waiting.pop(|_| true);
            if let Some((_, next)) = next.filter(|_| is_waiting) {
                self.free -= next.number;
                granted.push(next);
            }
        }
        granted
    }
}

impl Permit {
    fn new(permits: &Arc<Permits>, number: usize) -> Self {
        Self {
            of: Some(Arc::clone(permits)),
            number,
        }
    }

    /// Returns all permits but this number.
    pub fn shrink(&mut self, number: usize) {
        let returned = self.number.saturating_sub(number);
        self.number -= returned;
        if let Some(permits) = &self.of {
            permits.give_back(returned);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permits) = self.of.take() {
            permits.give_back(self.number);
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
        assert_eq!(permits.state.lock().free, 1);
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
        assert_eq!(permits.state.lock().free, 1);
        drop(last);
        assert_eq!(permits.state.lock().free, 2);
    }

    #[tokio::test]
    async fn a_large_request_is_not_passed_over() {
        let permits = Permits::new(4);
        let mut held = permits.acquire_many("a", 3).await;
        // More than there are counts as all.
        let mut large = Box::pin(permits.acquire_many("b", 9));
        assert!((&mut large).now_or_never().is_none());
        let mut small = Box::pin(permits.acquire("c"));
        assert!((&mut small).now_or_never().is_none());
        held.shrink(1);
        assert_eq!(permits.state.lock().free, 3);
        assert!((&mut large).now_or_never().is_none());
        drop(held);
        let large = large.now_or_never().unwrap();
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        drop(small.now_or_never().unwrap());
        assert_eq!(permits.state.lock().free, 4);
    }

    #[tokio::test]
    async fn a_cancelled_large_request_stops_nobody() {
        let permits = Permits::new(2);
        let held = permits.acquire("a").await;
        let kept = permits.acquire("a").await;
        assert!(permits.acquire_many("b", 2).now_or_never().is_none());
        let mut small = Box::pin(permits.acquire("c"));
        assert!((&mut small).now_or_never().is_none());
        drop(held);
        drop(small.now_or_never().unwrap());
        drop(kept);
        assert_eq!(permits.state.lock().free, 2);
    }
}
