//! Times that are stored in objects.
//!
//! The API stores whole seconds, so an event may have been up to one second later than its stored
//! time. A span of time that is measured from it must not be shorter than requested.

use jiff::{SignedDuration, Timestamp};

/// The end of a span of time that begins at a stored time. A span of zero has no end to wait for:
/// it ends when it begins.
pub fn end_of(stored: Timestamp, span: SignedDuration) -> Timestamp {
    let is_cut = stored.subsec_nanosecond() == 0 && span.is_positive();
    let rest = SignedDuration::from_secs(i64::from(is_cut));
    stored
        .checked_add(span.saturating_add(rest))
        .unwrap_or(Timestamp::MAX)
}

/// The difference between the clocks of two processes at which times are not corrected.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// A stored time, or `now` if the stored one is in the future: the clock went back, and what has begun
/// at that time would otherwise last longer by the difference.
///
/// The result has to be stored. A span of time that is measured from `now` in each pass has no end.
pub fn not_in_future(stored: Timestamp, now: Timestamp) -> Timestamp {
    if stored.duration_since(now) > TOLERANCE {
        now
    } else {
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_future_is_now() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (stored, expected) in [(90, 90), (100, 100), (105, 105), (106, 100), (3700, 100)] {
            assert_eq!(not_in_future(at(stored), at(100)), at(expected), "{stored}");
        }
    }

    #[test]
    fn a_span_is_never_shorter_than_requested() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        for (event, span) in [(10_000, 2), (10_001, 2), (10_999, 2), (10_500, 1)] {
            let stored = at(event / 1000 * 1000);
            let span = SignedDuration::from_secs(span);
            let end = end_of(stored, span);
            assert!(end >= at(event) + span, "{event}: {end}");
            assert!(end <= at(event) + span + SignedDuration::from_secs(1));
        }
        // A time that was not stored yet is exact.
        let span = SignedDuration::from_secs(2);
        assert_eq!(end_of(at(10_500), span), at(12_500));
        assert_eq!(end_of(at(10_000), SignedDuration::ZERO), at(10_000));
        assert_eq!(end_of(at(0), SignedDuration::MAX), Timestamp::MAX);
    }
}
