//! The work queue: each key at most once in it, never worked on twice at the same time, bounded
//! memory of failures for the backoff.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// First delay after a failed pass.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// Longest delay between failed passes.
const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// A queue of keys to be worked on.
///
/// # Guarantees
/// - A key added while it is worked on is handed out once more afterwards.
/// - A key that waits for a time is handed out earlier when it is added in between; the
///   earliest of several times counts.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<(K, Instant)>,
    queued: HashSet<K>,
    running: HashSet<K>,
    /// Added while running.
    again: HashSet<K>,
    due: HashMap<K, Instant>,
    timers: BTreeSet<(Instant, K)>,
    failures: HashMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            due: HashMap::new(),
            timers: BTreeSet::new(),
            failures: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Ord + Hash> Queue<K> {
    /// Adds a key to be worked on as soon as possible.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Adds a key to be worked on after a delay. Changes that come in bursts, say the children
    /// of one phase, are worked on together that way.
    pub fn add_after(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        {
            let mut state = self.state.lock();
            if state.queued.contains(&key) {
                return;
            }
            match state.due.get(&key).copied() {
                Some(due) if due <= at => return,
                Some(due) => {
                    state.timers.remove(&(due, key.clone()));
                }
                None => {}
            }
            state.due.insert(key.clone(), at);
            state.timers.insert((at, key));
        }
        self.changed.notify_one();
    }

    /// Waits for the next key; also how long it was ready. Give it back with [`Queue::done`].
    pub async fn next(&self) -> (K, Duration) {
        loop {
            let changed = self.changed.notified();
            let timer = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.expire(now);
                if let Some((key, since)) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    if !state.ready.is_empty() {
                        // One notification may stand for several keys: pass it on.
                        self.changed.notify_one();
                    }
                    return (key, now - since);
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match timer {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Gives a key back after work.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.running.remove(key);
        if state.again.remove(key) {
            state.add(key.clone());
            self.changed.notify_one();
        }
    }

    /// Counts a failed pass and adds the key again after a delay that doubles with each.
    pub fn retry(&self, key: K) {
        let failures = {
            let mut state = self.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.add_after(key, backoff(failures));
    }

    /// Forgets the failures of a key: its pass went well, or it is gone.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// Failed passes in a row.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Keys that are ready and not yet worked on.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// Whether nothing is ready or worked on. Keys that wait for a time do not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.ready.is_empty() && state.running.is_empty()
    }
}

impl<K: Clone + Eq + Ord + Hash> State<K> {
    fn add(&mut self, key: K) {
        if let Some(due) = self.due.remove(&key) {
            self.timers.remove(&(due, key.clone()));
        }
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back((key, Instant::now()));
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.add(key);
        }
    }
}

/// The delay after so many failures in a row, at least one.
fn backoff(failures: u32) -> Duration {
    BACKOFF_FIRST
        .saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)))
        .min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_handed_out_once_and_again_if_added_meanwhile() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.depth(), 2);
        assert_eq!(queue.next().await.0, "a");
        queue.add("a");
        assert_eq!(queue.next().await.0, "b");
        assert_eq!(
            queue.depth(),
            0,
            "a is worked on and must not be handed out twice"
        );
        queue.done(&"a");
        assert_eq!(queue.next().await.0, "a");
        queue.done(&"a");
        queue.done(&"b");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(30));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_mins(1));
        assert_eq!(queue.next().await.0, "a");
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&"a");
        queue.add_after("a", Duration::from_secs(30));
        queue.add("a");
        assert_eq!(queue.next().await.0, "a");
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_a_running_key_is_kept() {
        let queue = Queue::default();
        queue.add("a");
        queue.next().await;
        queue.add_after("a", Duration::from_secs(3));
        queue.done(&"a");
        assert_eq!(queue.next().await.0, "a");
    }

    #[test]
    fn backoff_doubles_up_to_a_cap() {
        let delays: Vec<_> = [1, 2, 3, 40].map(|n| backoff(n).as_millis()).into();
        assert_eq!(delays, [50, 100, 200, 300_000]);
    }
}
