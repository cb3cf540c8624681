//! The work queue. A key is in the queue at most once, and never in two passes at the same time.
//! Lanes share the workers fairly, and the memory of failures for the backoff is bounded.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fmt,
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, OnceLock},
    time::Duration,
};

use baton_kubernetes::{backoff::Backoff, turns::Turns};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tracing::warn;

use crate::clock::{Clock, JumpDetector};

/// The requeue policy: delays after failed passes.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(50),
    longest: Duration::from_mins(5),
};

/// The delays after passes that were refused for the same reason as the pass before. The first one
/// equals the delay after a first refusal, whose report causes a pass that is refused as well.
const REFUSED: Backoff = Backoff {
    first: Duration::from_secs(30),
    longest: Duration::from_mins(10),
};

/// Duration after which a pass counts as slow. Such a pass waits for another process, so it no
/// longer occupies a worker.
const SLOW: Duration = Duration::from_millis(250);
/// The longest time between two looks at the time of day. Keys wait by the monotonic
/// time, which does not follow jumps of the time of day, and stops while the machine is suspended.
const LOOK: Duration = Duration::from_secs(30);
/// Limit of the passes per worker, slow ones included.
const MOST_SLOW: usize = 32;

/// The longest lane that is first in, first out.
const SHORT: usize = 32;

/// The namespace and cluster of a key. Lanes take turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The namespace for which the work is done; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The cluster in which the work is done, if it is another one.
    pub cluster: Option<Arc<str>>,
}

/// A cluster or namespace that can slow down all its passes: a cluster by its connection, a
/// namespace, for instance, by its webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Bottleneck {
    Cluster(Arc<str>),
    Namespace(Arc<str>),
}

impl Lane {
    fn bottleneck(&self) -> Bottleneck {
        match &self.cluster {
            Some(cluster) => Bottleneck::Cluster(cluster.clone()),
            None => Bottleneck::Namespace(self.namespace.clone()),
        }
    }
}

/// A queue of keys to be worked on.
///
/// # Guarantees
/// - Lanes take turns: for any number of ready keys in a lane, a key of another lane waits for no
///   more than one key of each.
/// - In a lane with many ready keys, as after a restart, about every second key that is returned is the
///   newest one, so new work does not wait for the backlog. A key that is added again and again can take
///   half of the turns of such a lane. The others are drawn at random: a process that crashes again and
///   again works on other keys each time.
/// - A slow pass delays only passes of its own cluster or namespace: it no longer occupies a worker,
///   and no cluster or namespace has more passes in progress than there are workers.
/// - A key that is added while its pass runs is returned once more after that pass.
/// - A key that waits for a time is returned earlier if it is added in the meantime. If it is added
///   with several times, the earliest one counts.
/// - If the time of day jumps, all keys that wait for a time are returned within 30 s, since the time
///   that they wait for may have come, or may be another one. Delays after failures end as well.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    shares: OnceLock<Shares<K>>,
    clock: Clock,
}

/// The present and past work of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Keys that are ready and not yet worked on.
    pub depth: usize,
    /// Number of times that keys were queued.
    pub adds: usize,
    /// Number of times that keys were queued again because their pass had failed.
    pub retries: usize,
    /// Sum of the durations of the passes under way.
    pub unfinished: Duration,
    /// Duration of the longest pass under way.
    pub longest: Duration,
}

/// The number of workers, and the lanes that share them.
struct Shares<K> {
    workers: usize,
    lane: Box<dyn Fn(&K) -> Lane + Send + Sync>,
    when_back: Box<dyn Fn() -> Vec<K> + Send + Sync>,
}

impl<K> fmt::Debug for Shares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = self.workers;
        f.debug_struct("Shares")
            .field("workers", &workers)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State<K> {
    ready: Turns<Lane, (K, Instant)>,
    draws: Draws,
    queued: HashSet<K>,
    /// The cluster or namespace of each running key, and the time at which its pass began.
    running: HashMap<K, (Bottleneck, Instant)>,
    /// Number of running keys in each cluster or namespace.
    busy: HashMap<Bottleneck, usize>,
    /// Keys that were added while they were running.
    again: HashSet<K>,
    due: HashMap<K, Instant>,
    timers: BTreeSet<(Instant, K)>,
    jumps: JumpDetector,
    failures: HashMap<K, u32>,
    refusals: HashMap<K, Refusals>,
    adds: usize,
    retries: usize,
}

/// Passes of one key in a row that were refused for the same reason.
#[derive(Debug)]
struct Refusals {
    count: u32,
    /// Time at which the key is due again.
    due: Instant,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: Turns::default(),
            draws: Draws::default(),
            queued: HashSet::new(),
            running: HashMap::new(),
            busy: HashMap::new(),
            again: HashSet::new(),
            due: HashMap::new(),
            timers: BTreeSet::new(),
            jumps: JumpDetector::default(),
            failures: HashMap::new(),
            refusals: HashMap::new(),
            adds: 0,
            retries: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            shares: OnceLock::new(),
            clock: Clock::default(),
        }
    }
}

impl<K: Clone + Eq + Ord + Hash> Queue<K> {
    /// Sets the number of passes that may be at work at the same time, and the lane of each key.
    ///
    /// Without this call all keys are in one lane without bounds. Must be called once.
    ///
    /// `when_back` returns the keys that are added when the time of day went back. Both functions are
    /// called without any lock of the queue.
    pub fn share(
        &self,
        workers: usize,
        lane: impl Fn(&K) -> Lane + Send + Sync + 'static,
        when_back: impl Fn() -> Vec<K> + Send + Sync + 'static,
    ) {
        let set = self.shares.set(Shares {
            workers,
            lane: Box::new(lane),
            when_back: Box::new(when_back),
        });
        debug_assert!(set.is_ok(), "shared once");
    }

    /// Adds the keys that a jump of the time of day concerns.
    fn look_at_clock(&self) {
        let jump = self.state.lock().jumps.jump(&self.clock);
        let Some(jump) = jump else { return };
        warn!(seconds = jump.as_secs(), "the time of day has jumped");
        let mut keys: Vec<_> = {
            let mut state = self.state.lock();
            state.due.clear();
            let timers = std::mem::take(&mut state.timers);
            // A pass under way may have read the wrong time, and is about to ask for a delay.
            let running = state.running.keys().cloned();
            let waiting = timers.into_iter().map(|(_, key)| key);
            waiting.chain(running).collect()
        };
        if jump.is_negative()
            && let Some(shares) = self.shares.get()
        {
            keys.extend((shares.when_back)());
        }
        for key in keys {
            self.add(key);
        }
    }

    fn lane(&self, key: &K) -> Lane {
        let shares = self.shares.get();
        shares.map_or_else(Lane::default, |shares| (shares.lane)(key))
    }

    fn workers(&self) -> usize {
        self.shares
            .get()
            .map_or(usize::MAX, |shares| shares.workers)
    }

    /// Adds a key to be worked on as soon as possible.
    pub fn add(&self, key: K) {
        let lane = self.lane(&key);
        self.state.lock().add(key, lane);
        self.changed.notify_one();
    }

    /// Adds a key to be worked on after a delay, so that a burst of changes, such as those of the
    /// children of a phase, causes one pass.
    pub fn add_after(&self, key: K, delay: Duration) {
        // A delay that was derived from a wrong time of day ends at the next jump.
        self.look_at_clock();
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

    /// Waits for the next key that may be worked on. Returns also the time that the key was ready.
    /// Give the key back with [`Queue::done`]. For one caller at a time.
    pub async fn next(&self) -> (K, Duration) {
        loop {
            let changed = self.changed.notified();
            self.look_at_clock();
            let timer = {
                let now = Instant::now();
                for key in self.expired(now) {
                    self.add(key);
                }
                let mut state = self.state.lock();
                match state.take(self.workers(), now) {
                    Ok((key, since)) => return (key, now - since),
                    Err(slow) => {
                        let timer = state.timers.first().map(|(at, _)| *at);
                        let timers = timer.into_iter().chain(slow);
                        timers.fold(now + LOOK, Instant::min)
                    }
                }
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Removes the keys whose time has passed.
    fn expired(&self, now: Instant) -> Vec<K> {
        let mut state = self.state.lock();
        let mut expired = Vec::new();
        while let Some((at, _)) = state.timers.first()
            && *at <= now
            && let Some((_, key)) = state.timers.pop_first()
        {
            state.due.remove(&key);
            expired.push(key);
        }
        expired
    }

    /// Gives a key back after its pass.
    pub fn done(&self, key: &K) {
        let lane = self.lane(key);
        {
            let mut state = self.state.lock();
            state.end(key);
            if state.again.remove(key) {
                state.add(key.clone(), lane);
            }
        }
        // Another pass may begin now.
        self.changed.notify_one();
    }

    /// Counts a failed pass, and adds the key again after a delay that doubles with each failure.
    pub fn retry(&self, key: K) {
        let failures = {
            let mut state = self.state.lock();
            state.retries += 1;
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.add_after(key, BACKOFF.delay(failures));
    }

    /// Adds the key of a pass that was refused for the same reason as the pass before.
    ///
    /// The delay doubles each time it has passed. A refused pass in between, caused by an event,
    /// does not change the time at which the key is due.
    pub fn refused(&self, key: K) {
        let now = Instant::now();
        let due = {
            let mut state = self.state.lock();
            state.failures.remove(&key);
            let refusals = state.refusals.entry(key.clone());
            let refusals = refusals.or_insert(Refusals { count: 0, due: now });
            if refusals.due <= now {
                refusals.count = refusals.count.saturating_add(1);
                refusals.due = now + REFUSED.delay(refusals.count);
            }
            refusals.due
        };
        self.add_after(key, due - now);
    }

    /// Drops the failures and refusals of a key whose pass succeeded, or whose object is gone.
    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        state.refusals.remove(key);
    }

    /// Number of failed passes of a key in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Number of keys that are ready and not yet worked on.
    pub fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// The present and past work.
    pub fn work(&self) -> Work {
        let (state, now) = (self.state.lock(), Instant::now());
        let under_way = state.running.values().map(|(_, since)| now - *since);
        Work {
            depth: state.ready.len(),
            adds: state.adds,
            retries: state.retries,
            unfinished: under_way.clone().sum(),
            longest: under_way.max().unwrap_or_default(),
        }
    }

    /// True if no pass occupies a worker, and no ready key may begin. This does not include slow
    /// passes, keys that wait for a time, and keys whose cluster or namespace has too many passes.
    pub fn is_idle(&self) -> bool {
        let (state, now) = (self.state.lock(), Instant::now());
        let room = |lane: &Lane| has_room(&state.busy, lane, self.workers());
        state.at_work(now).next().is_none() && !state.ready.any(room)
    }
}

impl<K: Clone + Eq + Ord + Hash> State<K> {
    fn add(&mut self, key: K, lane: Lane) {
        if let Some(due) = self.due.remove(&key) {
            self.timers.remove(&(due, key.clone()));
        }
        if self.running.contains_key(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.adds += 1;
            self.ready.push(lane, (key, Instant::now()));
        }
    }

    /// The times at which the passes that occupy a worker become slow.
    fn at_work(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let slow = self.running.values().map(|(_, since)| *since + SLOW);
        slow.filter(move |slow| *slow > now)
    }

    /// Removes the next key whose pass may begin, and returns it with the time since which it was
    /// ready. If all workers are occupied, returns the time at which the next pass becomes slow.
    fn take(&mut self, workers: usize, now: Instant) -> Result<(K, Instant), Option<Instant>> {
        if self.at_work(now).count() >= workers {
            return Err(self.at_work(now).min());
        }
        if self.running.len() >= workers.saturating_mul(MOST_SLOW) {
            return Err(None);
        }
        let room = |lane: &Lane| has_room(&self.busy, lane, workers);
        let draw = self.draws.next();
        let pick = |waiting: &mut VecDeque<_>| pick(waiting, draw);
        let (lane, (key, since)) = self.ready.pop_by(room, pick).ok_or(None)?;
        let bottleneck = lane.bottleneck();
        self.queued.remove(&key);
        *self.busy.entry(bottleneck.clone()).or_default() += 1;
        self.running.insert(key.clone(), (bottleneck, now));
        Ok((key, since))
    }

    fn end(&mut self, key: &K) {
        let Some((bottleneck, _)) = self.running.remove(key) else {
            return;
        };
        if let Some(busy) = self.busy.get_mut(&bottleneck) {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(&bottleneck);
            }
        }
    }
}

/// Random numbers, other ones in each process.
#[derive(Debug, Default)]
struct Draws {
    source: RandomState,
    count: u64,
}

impl Draws {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.source.hash_one(self.count)
    }
}

/// Removes the next item of a lane, by a random number.
fn pick<T>(waiting: &mut VecDeque<T>, draw: u64) -> Option<T> {
    if waiting.len() <= SHORT {
        waiting.pop_front()
    } else if draw.is_multiple_of(2) {
        waiting.pop_back()
    } else {
        // The remainder is less than the length, so it is a `usize`.
        let at = usize::try_from((draw >> 1) % waiting.len() as u64).unwrap_or_default();
        waiting.swap_remove_front(at)
    }
}

/// True if another pass may begin in the cluster or namespace of a lane.
fn has_room(busy: &HashMap<Bottleneck, usize>, lane: &Lane, workers: usize) -> bool {
    busy.get(&lane.bottleneck())
        .is_none_or(|busy| *busy < workers)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use jiff::Timestamp;
    use tokio::time::timeout;

    use super::*;

    /// A queue whose keys start with the namespace, and end with `@` and the cluster.
    fn shared(workers: usize) -> Queue<&'static str> {
        let queue = Queue::default();
        queue.share(
            workers,
            |key: &&str| Lane {
                namespace: key[..1].into(),
                cluster: key.split_once('@').map(|(_, cluster)| cluster.into()),
            },
            || vec!["z"],
        );
        queue
    }

    fn add(queue: &Queue<&'static str>, keys: &'static str) {
        for key in keys.split(' ') {
            queue.add(key);
        }
    }

    fn done(queue: &Queue<&'static str>, keys: &'static str) {
        for key in keys.split(' ') {
            queue.done(&key);
        }
    }

    /// The keys that are handed out at once.
    fn handed_out(queue: &Queue<&'static str>) -> String {
        let mut out = Vec::new();
        while let Some((key, _)) = queue.next().now_or_never() {
            out.push(key);
        }
        out.join(" ")
    }

    /// The time of day is an hour back for some seconds, and a key gets a delay meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_jump_of_the_time_of_day_ends_all_delays() {
        let (start, back) = (std::time::Instant::now(), Arc::new(Mutex::new(0)));
        let read = Arc::clone(&back);
        let mut queue = Queue {
            clock: Clock::new(move || {
                (
                    Timestamp::from_second(10_000 - *read.lock()).unwrap(),
                    start,
                )
            }),
            ..Queue::default()
        };
        queue.shares = shared(2).shares;
        queue.add_after("a", Duration::from_secs(5000));
        let wait = Duration::from_secs(61);
        assert!(timeout(wait, queue.next()).await.is_err());
        *back.lock() = 3600;
        // The keys for a time that went back are added as well.
        queue.add_after("b", Duration::from_secs(3605));
        assert_eq!(handed_out(&queue), "a z");
        done(&queue, "a z");
        *back.lock() = 0;
        let (key, _) = timeout(LOOK, queue.next()).await.unwrap();
        assert_eq!(key, "b");
        // Its pass has read the wrong time, which is right again before the pass asks for a delay.
        *back.lock() = 3600;
        queue.look_at_clock();
        *back.lock() = 0;
        queue.look_at_clock();
        queue.add_after(key, Duration::from_secs(3605));
        queue.done(&key);
        assert_eq!(handed_out(&queue), "z b");
        done(&queue, "z b");
        assert!(timeout(wait, queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_reports_its_work() {
        let queue = shared(2);
        add(&queue, "a1 a2 a2 b1");
        assert_eq!(handed_out(&queue), "a1 b1");
        tokio::time::advance(Duration::from_millis(50)).await;
        queue.retry("c1");
        done(&queue, "b1");
        let half = Duration::from_millis(50);
        let expected = Work {
            depth: 1,
            adds: 3,
            retries: 1,
            unfinished: half,
            longest: half,
        };
        assert_eq!(queue.work(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_and_clusters_take_turns() {
        let queue = shared(2);
        add(&queue, "a1 a2 a3 a4@x a5@x b1 c1 b2");
        assert_eq!(handed_out(&queue), "a1 a4@x");
        done(&queue, "a1 a4@x");
        assert_eq!(handed_out(&queue), "b1 c1");
        done(&queue, "b1 c1");
        assert_eq!(handed_out(&queue), "a2 a5@x");
        done(&queue, "a2 a5@x");
        assert_eq!(handed_out(&queue), "b2 a3");
    }

    /// With any number of ready keys in one namespace, the first key of another one is among the
    /// next two, one for each.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_a_thousand_keys_delays_another_one_by_one() {
        let queue = Queue::default();
        queue.share(
            1,
            |key: &(&str, u32)| Lane {
                namespace: key.0.into(),
                cluster: None,
            },
            Vec::new,
        );
        for number in 0..1000 {
            queue.add(("many", number));
        }
        for number in 0..100 {
            let (first, _) = queue.next().await;
            queue.add(("one", number));
            queue.done(&first);
            let (second, _) = queue.next().await;
            queue.done(&second);
            let (third, _) = queue.next().await;
            queue.done(&third);
            assert!([second.0, third.0].contains(&"one"), "{second:?} {third:?}");
        }
    }

    /// The next keys of a queue with one worker.
    async fn next_keys(queue: &Queue<usize>, count: usize) -> Vec<usize> {
        let mut keys = Vec::new();
        for _ in 0..count {
            let (key, _) = queue.next().await;
            queue.done(&key);
            keys.push(key);
        }
        keys
    }

    fn backlog() -> Queue<usize> {
        let queue = Queue::default();
        for key in 0..5000 {
            queue.add(key);
        }
        queue
    }

    #[tokio::test(start_paused = true)]
    async fn new_work_does_not_wait_for_a_backlog() {
        let queue = backlog();
        next_keys(&queue, 100).await;
        for new in 5000..5010 {
            queue.add(new);
        }
        // Each of them is missed with a probability of less than 2^-80.
        let keys = next_keys(&queue, 200).await;
        assert!((5000..5010).all(|new| keys.contains(&new)), "{keys:?}");
        // The newest is not all that is worked on.
        assert!(
            keys.iter().filter(|key| **key < 4000).count() > 20,
            "{keys:?}"
        );
        let rest: HashSet<_> = next_keys(&queue, 5010 - 300).await.into_iter().collect();
        assert_eq!(rest.len(), 5010 - 300, "each key once");
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_start_begins_with_other_keys() {
        let mut seen = HashSet::new();
        for _ in 0..100 {
            seen.extend(next_keys(&backlog(), 200).await);
        }
        // A process that begins at an end or two sees 200 keys, and this one about 4,300.
        assert!(seen.len() > 4000, "{}", seen.len());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_passes_delay_only_their_own_namespace_and_cluster() {
        let queue = shared(2);
        add(&queue, "a1@x a2@x b1@x a3@y a4 b2");
        // Two passes are at work, and stand still.
        assert_eq!(handed_out(&queue), "a1@x b1@x");
        tokio::time::advance(SLOW).await;
        assert_eq!(handed_out(&queue), "a3@y a4");
        let start = Instant::now();
        assert_eq!(queue.next().await.0, "b2");
        assert_eq!(start.elapsed(), SLOW, "a waiter has nothing to wait for");
        tokio::time::advance(SLOW * 100).await;
        assert_eq!(handed_out(&queue), "", "two passes are slow there already");
        assert!(queue.is_idle(), "no other waits");
        queue.done(&"b1@x");
        assert!(!queue.is_idle());
        assert_eq!(handed_out(&queue), "a2@x");
        done(&queue, "a1@x a2@x a3@y a4 b2");
        assert!(queue.is_idle());
        assert!(queue.state.lock().busy.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_slow_passes_is_bounded() {
        let queue = Queue::default();
        queue.share(
            1,
            |key: &usize| Lane {
                namespace: key.to_string().into(),
                cluster: None,
            },
            Vec::new,
        );
        for key in 0..1000 {
            queue.add(key);
        }
        let mut passes = 0;
        while queue.next().now_or_never().is_some() {
            passes += 1;
            tokio::time::advance(SLOW).await;
        }
        assert_eq!(passes, MOST_SLOW);
    }

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
    async fn a_key_is_due_at_the_earliest_of_its_times() {
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

    #[tokio::test(start_paused = true)]
    async fn repeated_refusals_wait_longer_until_something_changes() {
        let queue = Queue::default();
        let mut delays = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            queue.refused("a");
            assert_eq!(queue.failures(&"a"), 0, "no request has failed");
            queue.next().await;
            queue.done(&"a");
            delays.push(start.elapsed().as_secs());
        }
        // Jitter shortens a delay by up to a half.
        let expected = [30..=30, 30..=60, 60..=120, 120..=240, 240..=480, 300..=600];
        for (delay, expected) in delays.iter().zip(expected) {
            assert!(expected.contains(delay), "{delays:?}");
        }
        assert!(delays[6..].iter().all(|delay| (300..=600).contains(delay)));

        let start = Instant::now();
        queue.refused("a");
        queue.add("a");
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 0, "an event does not wait");
        queue.done(&"a");
        queue.forget(&"a");
        queue.refused("a");
        queue.next().await;
        assert_eq!(
            start.elapsed().as_secs(),
            30,
            "another refusal starts again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_neither_hasten_nor_delay_the_pass_after_a_refusal() {
        let queue = Queue::default();
        let start = Instant::now();
        for _ in 0..5 {
            queue.refused("a");
            tokio::time::advance(Duration::from_secs(5)).await;
            queue.add("a");
            queue.next().await;
            queue.done(&"a");
        }
        queue.refused("a");
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 30);
    }
}
