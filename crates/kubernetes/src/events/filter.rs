//! Decides which events are worth a request. No client and no clock.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::EventKind;

/// Time after a write during which the same event is only counted.
const WINDOW: Duration = Duration::from_mins(5);
/// Time for which an event is remembered after its last occurrence. API servers delete events an
/// hour after the last write.
const MEMORY: Duration = Duration::from_hours(1);
/// Number of remembered events; beyond that, those with the oldest last occurrence are dropped.
const MAX_EVENTS: usize = 4096;
/// Number of events of an object that may be written in a burst: enough for a revision of a few
/// dozen objects in a handover.
const BURST: u32 = 25;
/// Time after which an object may cause one more write.
const REFILL: Duration = Duration::from_mins(1);

/// The decision about an event: to write it or not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Write the event under this number, with its number of occurrences, 1 if it is new.
    Write { serial: u64, count: i32 },
    /// The event was written a short time ago, and is only counted.
    Duplicate,
    /// The object has caused too many events.
    Spam,
}

/// The facts about an event that was written.
#[derive(Debug)]
struct WrittenEvent {
    serial: u64,
    written: Instant,
    last_observed: Instant,
    count: i32,
}

/// The writes that an object may still cause.
#[derive(Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    fn refill(&mut self, now: Instant) {
        let mut missing = BURST.saturating_sub(self.left);
        while missing > 0 && now.duration_since(self.since) >= REFILL {
            self.since += REFILL;
            self.left += 1;
            missing -= 1;
        }
        if missing == 0 {
            self.since = now;
        }
    }
}

/// Remembered events and allowances. Keys are hashes, so that no notes are stored.
#[derive(Debug, Default)]
pub(super) struct Filter {
    hasher: RandomState,
    events: HashMap<u64, WrittenEvent>,
    allowances: HashMap<u64, Allowance>,
    cleaned: Option<Instant>,
    serials: u64,
}

impl Filter {
    /// Decides about an event that occurs at `now`, and remembers the decision.
    pub(super) fn decide(
        &mut self,
        regarding: &ObjectReference,
        kind: EventKind,
        reason: &str,
        note: &str,
        now: Instant,
    ) -> Admission {
        self.clean(now);
        let object = self.object_key(regarding);
        let event = self.hasher.hash_one((object, kind, reason, note));
        if let Some(earlier) = self.events.get_mut(&event) {
            earlier.last_observed = now;
            earlier.count = earlier.count.saturating_add(1);
            if now.duration_since(earlier.written) < WINDOW {
                return Admission::Duplicate;
            }
        }
        if !self.allow(object, now) {
            return Admission::Spam;
        }
        if let Some(earlier) = self.events.get_mut(&event) {
            earlier.written = now;
            let WrittenEvent { serial, count, .. } = *earlier;
            return Admission::Write { serial, count };
        }
        self.make_room();
        let serial = self.serials;
        self.serials += 1;
        self.events.insert(
            event,
            WrittenEvent {
                serial,
                written: now,
                last_observed: now,
                count: 1,
            },
        );
        Admission::Write { serial, count: 1 }
    }

    fn object_key(&self, object: &ObjectReference) -> u64 {
        match object.uid.as_deref() {
            Some(uid) if !uid.is_empty() => self.hasher.hash_one(uid),
            _ => self
                .hasher
                .hash_one((&object.kind, &object.namespace, &object.name)),
        }
    }

    fn allow(&mut self, object: u64, now: Instant) -> bool {
        let (left, since) = (BURST, now);
        let allowance = self.allowances.entry(object);
        let allowance = allowance.or_insert(Allowance { left, since });
        allowance.refill(now);
        let is_allowed = allowance.left > 0;
        allowance.left -= u32::from(is_allowed);
        is_allowed
    }

    /// Drops a quarter of the remembered events if there is no room left: those with the oldest
    /// last occurrence. A dropped event that occurs again is written as a new one.
    fn make_room(&mut self) {
        if self.events.len() < MAX_EVENTS {
            return;
        }
        let seen = self
            .events
            .values()
            .map(|entry| (entry.last_observed, entry.serial));
        let mut serials: Vec<_> = seen.collect();
        let (_, last, _) = serials.select_nth_unstable(MAX_EVENTS / 4);
        let last = *last;
        self.events
            .retain(|_, entry| (entry.last_observed, entry.serial) > last);
    }

    /// Drops events and allowances that no longer influence a decision; at most once per `REFILL`.
    fn clean(&mut self, now: Instant) {
        let cleaned = *self.cleaned.get_or_insert(now);
        if now.duration_since(cleaned) < REFILL {
            return;
        }
        self.cleaned = Some(now);
        self.events
            .retain(|_, entry| now.duration_since(entry.last_observed) < MEMORY);
        self.allowances.retain(|_, allowance| {
            allowance.refill(now);
            allowance.left < BURST
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str) -> ObjectReference {
        ObjectReference {
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    /// Offers an event about the object `uid` at a second after `start`, and abbreviates the
    /// decision.
    fn offer(filter: &mut Filter, start: Instant, second: u64, uid: &str, note: &str) -> String {
        let now = start + Duration::from_secs(second);
        match filter.decide(&object(uid), EventKind::Normal, "Handover", note, now) {
            Admission::Write { serial, count: 1 } => format!("first {serial}"),
            Admission::Write { serial, count } => format!("again {serial} x{count}"),
            Admission::Duplicate => "duplicate".to_owned(),
            Admission::Spam => "spam".to_owned(),
        }
    }

    #[test]
    fn the_same_event_is_written_once_per_window_and_counted() {
        let start = Instant::now();
        let mut filter = Filter::default();
        for (second, uid, note, expected) in [
            (0, "a", "x", "first 0"),
            (1, "a", "x", "duplicate"),
            (1, "a", "y", "first 1"),
            (1, "b", "x", "first 2"),
            (299, "a", "x", "duplicate"),
            (300, "a", "x", "again 0 x4"),
            (301, "a", "x", "duplicate"),
            (599, "a", "x", "duplicate"),
            (601, "a", "x", "again 0 x7"),
            // After an hour without an occurrence the event is dropped here and by the API server.
            (601 + 3600, "a", "x", "first 3"),
        ] {
            assert_eq!(
                offer(&mut filter, start, second, uid, note),
                expected,
                "{note} of {uid} at {second} s"
            );
        }
    }

    #[test]
    fn events_differ_by_kind_and_reason() {
        let now = Instant::now();
        let mut filter = Filter::default();
        for (kind, reason) in [
            (EventKind::Normal, "Handover"),
            (EventKind::Warning, "Handover"),
            (EventKind::Normal, "Archived"),
        ] {
            let verdict = filter.decide(&object("a"), kind, reason, "x", now);
            assert!(
                matches!(verdict, Admission::Write { count: 1, .. }),
                "{kind:?} {reason}: {verdict:?}"
            );
        }
    }

    #[test]
    fn objects_without_a_uid_are_distinguished_by_name() {
        let now = Instant::now();
        let mut filter = Filter::default();
        for name in ["a", "b"] {
            let reference = ObjectReference {
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            };
            let verdict = filter.decide(&reference, EventKind::Normal, "Handover", "x", now);
            assert!(
                matches!(verdict, Admission::Write { count: 1, .. }),
                "{name}: {verdict:?}"
            );
        }
    }

    #[test]
    fn an_object_has_a_burst_and_earns_more_slowly() {
        let start = Instant::now();
        let mut filter = Filter::default();
        let mut spam = |second: u64, uid: &str, notes: std::ops::Range<u32>| {
            notes
                .filter(|note| offer(&mut filter, start, second, uid, &note.to_string()) == "spam")
                .count()
        };
        assert_eq!(spam(0, "a", 0..30), 5);
        assert_eq!(spam(0, "b", 0..25), 0);
        assert_eq!(spam(59, "a", 30..31), 1);
        assert_eq!(spam(60, "a", 31..33), 1);
        assert_eq!(spam(240, "a", 33..37), 1);
        // The burst is the limit, after any time without events.
        assert_eq!(spam(240 + 100 * 60, "a", 37..67), 5);
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut filter = Filter::default();
        for index in 0..=MAX_EVENTS {
            let verdict = offer(&mut filter, start, 0, &index.to_string(), "x");
            assert_eq!(
                verdict,
                format!("first {index}"),
                "new ones are always written"
            );
            assert!(filter.events.len() <= MAX_EVENTS);
        }
        // The latest events are remembered; the first are not.
        let latest = MAX_EVENTS.to_string();
        assert_eq!(offer(&mut filter, start, 1, &latest, "x"), "duplicate");
        let again = format!("first {}", MAX_EVENTS + 1);
        assert_eq!(offer(&mut filter, start, 1, "0", "x"), again);
        let later = format!("first {}", MAX_EVENTS + 2);
        assert_eq!(offer(&mut filter, start, 3601, "other", "x"), later);
        assert_eq!((filter.events.len(), filter.allowances.len()), (1, 1));
    }
}
