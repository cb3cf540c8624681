//! Turns on the threads of the executor.
//!
//! A pass occupies a thread from one `await` to the next. A tenant with large objects may have many
//! passes that compute for a long time, and there are only two threads. So the passes of such a
//! tenant take turns with each other, on one thread, and the other thread is left for everyone else.

use std::{
    collections::HashMap,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use baton_kubernetes::permits::{Permit, Permits};
use futures::{
    FutureExt as _,
    future::{BoxFuture, poll_fn},
};
use parking_lot::Mutex;

/// Time without an `await` after which a namespace counts as busy.
const LONG: Duration = Duration::from_millis(10);

/// Time for which a namespace counts as busy.
const BUSY: Duration = Duration::from_secs(2);

/// Number of namespaces up to which those that are no longer busy stay in memory.
const MANY: usize = 64;

/// The namespaces with long computations. Clones share the state.
///
/// # Guarantees
/// The passes of busy namespaces run on one thread at a time, in turns. Other passes never wait
/// here.
#[derive(Clone, Debug)]
pub(crate) struct ExecutorTurns {
    /// The end of the time for which each namespace is busy.
    busy: Arc<Mutex<HashMap<Arc<str>, Instant>>>,
    turn: Arc<Permits>,
}

impl Default for ExecutorTurns {
    fn default() -> Self {
        Self {
            busy: Arc::default(),
            turn: Permits::new(1),
        }
    }
}

impl ExecutorTurns {
    /// Runs a pass for a namespace to its end.
    pub(crate) async fn run<T>(&self, namespace: &Arc<str>, pass: impl Future<Output = T>) -> T {
        let mut pass = pin!(pass);
        let mut waiting = None;
        poll_fn(|context| self.poll(namespace, pass.as_mut(), &mut waiting, context)).await
    }

    fn poll<T>(
        &self,
        namespace: &Arc<str>,
        pass: Pin<&mut impl Future<Output = T>>,
        waiting: &mut Option<BoxFuture<'static, Permit>>,
        context: &mut Context<'_>,
    ) -> Poll<T> {
        let turn = if waiting.is_some() || self.is_busy(namespace) {
            let turn = waiting.get_or_insert_with(|| {
                let (turn, namespace) = (Arc::clone(&self.turn), Arc::clone(namespace));
                async move { turn.acquire(&namespace).await }.boxed()
            });
            let Poll::Ready(turn) = turn.poll_unpin(context) else {
                return Poll::Pending;
            };
            *waiting = None;
            Some(turn)
        } else {
            None
        };
        let started = Instant::now();
        let polled = pass.poll(context);
        drop(turn);
        let ended = Instant::now();
        if ended - started >= LONG {
            self.set_busy(namespace, ended);
        }
        polled
    }

    fn is_busy(&self, namespace: &Arc<str>) -> bool {
        let busy = self.busy.lock();
        let until = busy.get(namespace);
        until.is_some_and(|until| Instant::now() < *until)
    }

    fn set_busy(&self, namespace: &Arc<str>, now: Instant) {
        let mut busy = self.busy.lock();
        if busy.len() >= MANY {
            busy.retain(|_, until| now < *until);
        }
        busy.insert(Arc::clone(namespace), now + BUSY);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread::sleep,
    };

    use futures::future::join_all;
    use tokio::{spawn, task::yield_now};

    use super::*;

    /// Number of passes that compute at the same time, and the largest number so far.
    #[derive(Default)]
    struct Computing {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Computing {
        /// Occupies a thread several times.
        async fn compute(&self) {
            for _ in 0..5 {
                let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                sleep(LONG);
                self.now.fetch_sub(1, Ordering::SeqCst);
                yield_now().await;
            }
        }
    }

    /// On two threads, the passes of two busy namespaces would leave none for another.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn busy_namespaces_leave_a_thread_for_others() {
        let turns = ExecutorTurns::default();
        let computing = Arc::new(Computing::default());
        for namespace in ["a", "b"] {
            turns.set_busy(&namespace.into(), Instant::now());
        }
        let passes = (0..6).map(|at| {
            let (turns, computing) = (turns.clone(), Arc::clone(&computing));
            let namespace: Arc<str> = if at % 2 == 0 { "a" } else { "b" }.into();
            spawn(async move { turns.run(&namespace, computing.compute()).await })
        });
        let passes: Vec<_> = passes.collect();
        let other: Arc<str> = "c".into();
        turns.run(&other, yield_now()).await;
        assert!(passes.iter().any(|pass| !pass.is_finished()));
        for ended in join_all(passes).await {
            ended.unwrap();
        }
        assert_eq!(computing.most.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_namespace_is_busy_for_a_while_after_a_long_computation() {
        let turns = ExecutorTurns::default();
        let namespace: Arc<str> = "a".into();
        turns.run(&namespace, async { sleep(LONG) }).await;
        assert!(turns.is_busy(&namespace));
        assert!(!turns.is_busy(&"b".into()));
        let long_ago = Instant::now().checked_sub(2 * BUSY).unwrap();
        for at in 0..2 * MANY {
            turns.set_busy(&at.to_string().into(), long_ago);
        }
        turns.set_busy(&namespace, Instant::now());
        assert_eq!(turns.busy.lock().len(), 1);
    }

    #[tokio::test]
    async fn a_pass_that_is_dropped_while_it_waits_stops_nobody() {
        let turns = ExecutorTurns::default();
        let namespace: Arc<str> = "a".into();
        turns.set_busy(&namespace, Instant::now());
        let held = turns.turn.acquire("b").await;
        let mut waits = Box::pin(turns.run(&namespace, yield_now()));
        assert!((&mut waits).now_or_never().is_none());
        drop(waits);
        drop(held);
        turns.run(&namespace, yield_now()).await;
    }
}
