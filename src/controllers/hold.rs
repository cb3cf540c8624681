//! Holding back statuses that the next pass is likely to make outdated.
//!
//! A revision of delegated phases goes on with each report of a phase object. Writing down that one has
//! not reported yet, or has handed over its part, costs the API server more than making the object, and
//! nobody can act on it. So such a status waits until it has stood for a moment; what is stuck is told
//! then. Nothing depends on it: after a restart the same is found out anew.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_apis::ObjectSetStatus;
use parking_lot::Mutex;

use super::Context;
use crate::{
    cluster::record::{Record, RevisionKey},
    engine::conditions::Again,
};

/// How long a status is held back at most while no phase is worked on.
const IDLE: Duration = Duration::from_secs(1);

/// How long at most under load: the phase whose report it waits for may wait in the queue itself.
const LOADED: Duration = Duration::from_secs(10);

/// The statuses that are held back, by revision.
#[derive(Debug, Default)]
pub struct Held(Mutex<HashMap<RevisionKey, Entry>>);

#[derive(Clone, Debug)]
struct Entry {
    uid: Arc<str>,
    since: Instant,
    content_hash: Option<String>,
}

impl Held {
    /// How long the status of the revision with this uid may still be held back from `now` on, before it
    /// is looked at again; `None` when it is to be written. It counts from the first status that was held
    /// back since one was written, so that a steady stream of them is told as well.
    ///
    /// `content_hash` is what that status says of the contents.
    pub fn left(
        &self,
        key: &RevisionKey,
        uid: &Arc<str>,
        content_hash: Option<&String>,
        is_loaded: bool,
        now: Instant,
    ) -> Option<Duration> {
        let mut held = self.0.lock();
        let entry = Entry {
            uid: uid.clone(),
            since: now,
            content_hash: content_hash.cloned(),
        };
        let known = held.entry(key.clone()).or_insert_with(|| entry.clone());
        if known.uid != *uid {
            *known = entry;
        }
        let most = if is_loaded { LOADED } else { IDLE };
        let waited = now - known.since;
        let left = most.checked_sub(waited)?;
        // A load that ends is noticed before the time has doubled.
        (!left.is_zero()).then(|| left.min(waited.max(IDLE)))
    }

    /// The hash of the contents that a status held back speaks of. It counts like one that is written:
    /// contents must not change unnoticed meanwhile.
    pub fn content_hash(&self, key: &RevisionKey, uid: &str) -> Option<String> {
        let held = self.0.lock();
        let entry = held.get(key).filter(|entry| *entry.uid == *uid)?;
        entry.content_hash.clone()
    }

    /// Notes that nothing of a revision is held back any more.
    pub fn forget(&self, key: &RevisionKey) {
        self.0.lock().remove(key);
    }
}

impl Context {
    /// How long a status of a revision may still be held back before it is looked at again; `None` when
    /// it is to be written.
    pub fn hold(
        &self,
        record: &Record,
        status: &ObjectSetStatus,
        now: Instant,
    ) -> Option<Duration> {
        let is_loaded = !self.phase_queue.is_idle();
        let content_hash = status.content_hash.as_ref();
        self.held
            .left(&record.key, &record.uid, content_hash, is_loaded, now)
    }
}

/// When to look again so that a status that may be held back for `left` is written in time.
#[must_use]
pub fn at_the_latest(again: Again, left: Duration) -> Again {
    match again {
        Again::OnEvent => Again::After(left),
        Again::After(delay) => Again::After(delay.min(left)),
        Again::Backoff => Again::Backoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::record::RevisionKind;

    fn key() -> RevisionKey {
        RevisionKey {
            kind: RevisionKind::ObjectSet,
            namespace: "shop".into(),
            name: "web-v1".into(),
        }
    }

    fn millis(left: Option<Duration>) -> Option<u128> {
        left.map(|left| left.as_millis())
    }

    #[test]
    fn a_status_is_held_back_for_a_moment_and_longer_under_load() {
        let held = Held::default();
        let start = Instant::now();
        let uid: Arc<str> = "a".into();
        let left = |uid: &Arc<str>, is_loaded, after| {
            let now = start + Duration::from_millis(after);
            millis(held.left(&key(), uid, None, is_loaded, now))
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
        // Another one of that name is another matter.
        assert_eq!(left(&"b".into(), false, 11_000), Some(1000));
        held.forget(&key());
        assert_eq!(left(&uid, false, 11_500), Some(1000));
    }

    #[test]
    fn contents_are_known_while_their_status_is_held_back() {
        let held = Held::default();
        let uid: Arc<str> = "a".into();
        let hash = "1234".to_owned();
        assert_eq!(held.content_hash(&key(), "a"), None);
        held.left(&key(), &uid, Some(&hash), false, Instant::now());
        assert_eq!(held.content_hash(&key(), "a"), Some(hash));
        assert_eq!(held.content_hash(&key(), "b"), None);
        held.forget(&key());
        assert_eq!(held.content_hash(&key(), "a"), None);
    }

    #[test]
    fn what_is_due_earlier_stays_so() {
        let second = Duration::from_secs(1);
        for (again, expected) in [
            (Again::OnEvent, Again::After(second)),
            (Again::After(second * 30), Again::After(second)),
            (Again::After(second / 2), Again::After(second / 2)),
            (Again::Backoff, Again::Backoff),
        ] {
            assert_eq!(at_the_latest(again, second), expected);
        }
    }
}
