//! Debounces statuses that the next pass is likely to make outdated.
//!
//! A new revision reports for the first time a moment after its creation, and a revision of
//! delegated phases progresses with each report of a phase object. A status write for each of these
//! steps costs the API server more than the creation of the object, and no user can act on it. So a
//! status is written only after it has not changed for a moment. An object that is stuck is
//! reported that way. No decision depends on a debounced status, and after a restart the same status
//! is computed again.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_engine::conditions::Requeue;
use parking_lot::Mutex;

/// The longest debounce of a status while no phase is worked on.
const IDLE: Duration = Duration::from_secs(1);

/// The longest debounce under load: the phase whose report is missing may itself wait in the queue.
const LOADED: Duration = Duration::from_secs(10);

/// The longest debounce of a status of a revision or a deployment.
pub fn at_most(is_loaded: bool) -> Duration {
    if is_loaded { LOADED } else { IDLE }
}

/// The debounced statuses, by object.
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
    /// The time for which the status of the object with this UID may still be debounced, of `most`
    /// in all; `None` if it is to be written now.
    ///
    /// The time counts from the first debounced status since one was written, so that a steady
    /// stream of statuses is reported as well. `content_hash` is the hash of the contents in the
    /// status.
    pub fn remaining(
        &self,
        key: &K,
        uid: &Arc<str>,
        content_hash: Option<&String>,
        most: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let left = self.rest(key, uid, content_hash, most, now)?;
        let waited = most.saturating_sub(left);
        // Bounded, so that the end of a load is observed before the time has doubled.
        Some(left.min(waited.max(IDLE)))
    }

    /// As [`Self::remaining`], for a delay that does not depend on the load: all that is left of it.
    pub fn rest(
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
        let current = entries.entry(key.clone()).or_insert_with(|| entry.clone());
        if current.uid != *uid {
            *current = entry;
        }
        let waited = now - current.since;
        let left = most.checked_sub(waited)?;
        (!left.is_zero()).then_some(left)
    }

    /// The hash of the contents in a debounced status, if there is one. It is as valid as one in a
    /// written status, so that a change of the contents meanwhile is detected.
    pub fn content_hash(&self, key: &K, uid: &str) -> Option<String> {
        let entries = self.0.lock();
        let entry = entries.get(key).filter(|entry| *entry.uid == *uid)?;
        entry.content_hash.clone()
    }

    /// Notes that no status of an object is debounced.
    pub fn forget(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

/// The requeue with which a status that may be debounced for `left` is written in time.
pub fn at_the_latest(requeue: Requeue, left: Duration) -> Requeue {
    match requeue {
        // A refused pass is requeued after minutes, a debounced status after seconds.
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
        // (milliseconds since the first status, under load?, milliseconds left)
        for (after, is_loaded, expected) in [
            (0, false, Some(1000)),
            (400, false, Some(600)),
            (1000, false, None),
            // This stays until the status is written.
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
        // A new object of the same name has another UID, and its time starts again.
        assert_eq!(left(&"b".into(), false, 11_000), Some(1000));
        debounced.forget(&key());
        assert_eq!(left(&uid, false, 11_500), Some(1000));
    }

    #[test]
    fn a_status_is_debounced_no_longer_than_its_delay() {
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
        let now = start + Duration::from_millis(100);
        let long = Duration::from_secs(10);
        let rest = debounced.rest(&"a".to_owned(), &uid, None, long, now);
        assert_eq!(millis(rest), Some(9900));
        assert_eq!(left("b", 200), Some(250));
        assert_eq!(left("a", 250), None);
        assert_eq!(left("a", 300), None, "until it is written");
        debounced.forget(&"a".to_owned());
        assert_eq!(left("a", 300), Some(250));
    }

    #[test]
    fn content_hashes_are_available_while_a_status_is_debounced() {
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
    fn an_earlier_requeue_is_kept() {
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
