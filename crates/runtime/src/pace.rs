//! The pace of changes that other processes cause. A process that causes them in a loop takes no
//! more time than the pace allows.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Changes that pass without delay after a time without changes. Honest processes report a few
/// steps in a row.
const BURST: u32 = 10;
/// Time between two changes in the long run.
const PERIOD: Duration = Duration::from_secs(1);
/// The period in which keys without recent changes are removed.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// The pace of changes, for each key.
///
/// # Guarantees
/// In any time `t`, the delays end at most `t / 1 s + 11` times for a key, as long as changes that
/// arrive during a delay are handled together at its end.
#[derive(Debug)]
pub struct Pace<K>(Mutex<State<K>>);

#[derive(Debug)]
struct State<K> {
    keys: HashMap<K, Changes>,
    /// Time of the last removal of keys.
    swept: Option<Instant>,
}

/// The changes of a key.
#[derive(Clone, Copy, Debug)]
struct Changes {
    /// The time at which a whole burst is possible again.
    rested: Instant,
    /// The end of the last delay.
    due: Instant,
}

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self(Mutex::new(State {
            keys: HashMap::new(),
            swept: None,
        }))
    }
}

impl<K: Eq + Hash> Pace<K> {
    /// The time after which a change of `key` at the time `now` is to be handled; zero for at once.
    pub fn delay(&self, key: K, now: Instant) -> Duration {
        let State { keys, swept } = &mut *self.0.lock();
        if swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_EVERY) {
            keys.retain(|_, changes| changes.rested > now);
            *swept = Some(now);
        }
        let unused = Changes {
            rested: now,
            due: now,
        };
        let changes = keys.entry(key).or_insert(unused);
        if changes.due > now {
            return changes.due - now;
        }
        changes.rested = changes.rested.max(now) + PERIOD;
        let delay = (changes.rested - now).saturating_sub(PERIOD * BURST);
        changes.due = now + delay;
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of changes that are handled at once, and at the end of a delay, of changes in
    /// each millisecond.
    fn handled(pace: &Pace<&str>, start: Instant, millis: u64) -> (u32, u32) {
        let (mut at_once, mut due) = (0, Vec::new());
        for milli in 0..millis {
            let now = start + Duration::from_millis(milli);
            match pace.delay("a", now) {
                Duration::ZERO => at_once += 1,
                delay => due.push(now + delay),
            }
        }
        due.dedup();
        (at_once, u32::try_from(due.len()).unwrap())
    }

    #[test]
    fn a_flood_of_changes_is_handled_once_per_second() {
        let (pace, start) = (Pace::default(), Instant::now());
        let (at_once, delayed) = handled(&pace, start, 60_000);
        assert!((10..=11).contains(&at_once), "{at_once}");
        assert!((59..=60).contains(&delayed), "{delayed}");
        assert_eq!(pace.delay("b", start), Duration::ZERO, "another key");
        // After a rest the next burst passes.
        let rested = start + Duration::from_secs(90);
        assert!(handled(&pace, rested, 100).0 >= 10);
    }

    #[test]
    fn a_change_per_second_is_not_delayed_and_keys_at_rest_are_removed() {
        let (pace, start) = (Pace::default(), Instant::now());
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            assert_eq!(pace.delay(second % 2, now), Duration::ZERO);
        }
        pace.delay(7, start + Duration::from_secs(400));
        assert_eq!(pace.0.lock().keys.len(), 1);
    }
}
