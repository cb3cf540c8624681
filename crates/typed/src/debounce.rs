//! Debouncing statuses that the next pass is likely to make outdated.
//!
//! A deployment has nothing to tell of a new revision that has not reported yet, which it does in a moment. And a
//! revision of delegated phases goes on with each report of a phase object. Writing down that one has not reported
//! yet, or has handed over its part, costs the API server more than creating the object, and nobody can act on it. So
//! such a status waits until it has stood for a moment; what is stuck is reported then. Nothing depends on it: after a
//! restart the same is found out anew.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_engine::conditions::Requeue;
use parking_lot::Mutex;

/// How long a status is debounced at most while no phase is worked on.
const IDLE: Duration = Duration::from_secs(1);

/// How long at most under load: the phase whose report it waits for may wait in the queue itself.
const LOADED: Duration = Duration::from_secs(10);

/// How long a status of a revision or a deployment is debounced at most.
pub fn at_most(is_loaded: bool) -> Duration {
    if is_loaded { LOADED } else { IDLE }
}

/// The statuses that are debounced, by object.
#[derive(Debug)]
pub struct Debounced<K>(Mutex<HashMap<K, Entry>>);

impl<K> Default for Debounced<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Clone, Debug)]
struct Entry {
    uid: Arc<str>,
    since: Instant,
    content_hash: Option<String>,
}

impl<K: Clone + Eq + Hash> Debounced<K> {
    /// How long the status of the object with this uid may still be debounced from `now` on, of `most` in all; `None`
    /// when it is to be written. It counts from the first status that was debounced since one was written, so that a
    /// steady stream of them is reported as well.
    ///
    /// `content_hash` is what that status says of the contents.
    pub fn remaining(
        &self,
        key: &K,
        uid: &Arc<str>,
        content_hash: Option<&String>,
        most: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let mut entries = self.0.lock();
        let entry = Entry {
            uid: uid.clone(),
            since: now,
            content_hash: content_hash.cloned(),
        };
        let known = entries.entry(key.clone()).or_insert_with(|| entry.clone());
        if known.uid != *uid {
            *known = entry;
        }
        let waited = now - known.since;
        let left = most.checked_sub(waited)?;
        // A load that ends is noticed before the time has doubled.
        (!left.is_zero()).then(|| left.min(waited.max(IDLE)))
    }

    /// The hash of the contents in a debounced status. It counts like one that is written: contents must not change
    /// unnoticed meanwhile.
    pub fn content_hash(&self, key: &K, uid: &str) -> Option<String> {
        let entries = self.0.lock();
        let entry = entries.get(key).filter(|entry| *entry.uid == *uid)?;
        entry.content_hash.clone()
    }

    /// Notes that no status of an object is debounced any more.
    pub fn forget(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

/// When to requeue so that a status that may be debounced for `left` is written in time.
pub fn at_the_latest(requeue: Requeue, left: Duration) -> Requeue {
    match requeue {
        // What was refused waits for minutes, and a status for seconds.
        Requeue::OnEvent | Requeue::Refused => Requeue::After(left),
        Requeue::After(delay) => Requeue::After(delay.min(left)),
        Requeue::Backoff => Requeue::Backoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> &'static str {
        "web-v1"
    }

    fn millis(left: Option<Duration>) -> Option<u128> {
        left.map(|left| left.as_millis())
    }

    #[test]
    fn a_status_is_debounced_for_a_moment_and_longer_under_load() {
        let debounced = Debounced::default();
        let start = Instant::now();
        let uid: Arc<str> = "a".into();
        let left = |uid: &Arc<str>, is_loaded, after| {
            let now = start + Duration::from_millis(after);
            millis(debounced.remaining(&key(), uid, None, at_most(is_loaded), now))
        };
        // (milliseconds since the first one, under load?, milliseconds left)
        for (after, is_loaded, expected) in [
            (0, false, Some(1000)),
            (400, false, Some(600)),
            (1000, false, None),
            // Until it is written, whatever else comes.
            (1200, false, None),
            (1200, true, Some(1200)),
            (3000, true, Some(3000)),
            (9700, true, Some(300)),
            (10_000, true, None),
        ] {
            assert_eq!(
                left(&uid, is_loaded, after),
                expected,
                "{after} {is_loaded}"
            );
        }
        // A new object of the same name has a uid of its own, and starts afresh.
        assert_eq!(left(&"b".into(), false, 11_000), Some(1000));
        debounced.forget(&key());
        assert_eq!(left(&uid, false, 11_500), Some(1000));
    }

    #[test]
    fn a_status_is_put_off_for_a_moment_and_no_longer() {
        let debounced = Debounced::default();
        let start = Instant::now();
        let moment = Duration::from_millis(250);
        let uid = Arc::default();
        let left = |key: &str, after| {
            let now = start + Duration::from_millis(after);
            millis(debounced.remaining(&key.to_owned(), &uid, None, moment, now))
        };
        assert_eq!(left("a", 0), Some(250));
        assert_eq!(left("a", 100), Some(150));
        assert_eq!(left("b", 200), Some(250));
        assert_eq!(left("a", 250), None);
        assert_eq!(left("a", 300), None, "until it is written");
        debounced.forget(&"a".to_owned());
        assert_eq!(left("a", 300), Some(250));
    }

    #[test]
    fn contents_are_known_while_their_status_is_debounced() {
        let debounced = Debounced::default();
        let uid: Arc<str> = "a".into();
        let hash = "1234".to_owned();
        assert_eq!(debounced.content_hash(&key(), "a"), None);
        debounced.remaining(&key(), &uid, Some(&hash), IDLE, Instant::now());
        assert_eq!(debounced.content_hash(&key(), "a"), Some(hash));
        assert_eq!(debounced.content_hash(&key(), "b"), None);
        debounced.forget(&key());
        assert_eq!(debounced.content_hash(&key(), "a"), None);
    }

    #[test]
    fn what_is_due_earlier_stays_so() {
        let second = Duration::from_secs(1);
        for (requeue, expected) in [
            (Requeue::OnEvent, Requeue::After(second)),
            (Requeue::Refused, Requeue::After(second)),
            (Requeue::After(second * 30), Requeue::After(second)),
            (Requeue::After(second / 2), Requeue::After(second / 2)),
            (Requeue::Backoff, Requeue::Backoff),
        ] {
            assert_eq!(at_the_latest(requeue, second), expected);
        }
    }
}
