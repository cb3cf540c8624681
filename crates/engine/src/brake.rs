//! Slows down the repeated creation of the same object.
//!
//! An object that is not found in the requested state is created once more. This may
//! repeat without end: a webhook changes what is stored, a definition lacks a field, or a program
//! changes or deletes each new object. The first few attempts follow each other at once, as they
//! should when somebody deletes an object by hand. Each later attempt waits twice as long as the
//! one before.
//!
//! Where the objects that exist show the creations, the delay is derived from them, so that a restart does
//! not reset it. Each process also counts its own creations.

use jiff::{SignedDuration, Timestamp};

use crate::stored_time::{end_of, not_in_future};

/// Number of equal objects that are created without a delay.
const WITHOUT_DELAY: usize = 5;

/// Delay of the first attempt after the free ones.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);

/// Longest delay. The end of the cause is noticed within this time.
const MAX_DELAY: SignedDuration = SignedDuration::from_hours(1);

/// Time when the next equal object may be created; `None` if now. `made` is the number created in a
/// row, and `last` the time of the last creation.
///
/// # Caveats
/// A time in the future is not the time of the last creation: the clock of this process is behind. It
/// cannot be corrected, because the server stores it, so only the creations of this process count then.
pub fn until(made: usize, last: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let (delay, last) = (delay(made)?, last?);
    if not_in_future(last, now) != last {
        return None;
    }
    let until = end_of(last, delay);
    (until > now).then_some(until)
}

/// The delay of the next creation after a number of equal ones in a row; `None` if there is none.
#[must_use]
pub fn delay(made: usize) -> Option<SignedDuration> {
    let attempts = made.checked_sub(WITHOUT_DELAY)?;
    Some(growing(attempts, MAX_DELAY))
}

/// The delay after a number of delayed attempts: ten seconds for none, then twice as long each
/// time, up to `longest`.
pub(crate) fn growing(attempts: usize, longest: SignedDuration) -> SignedDuration {
    let doublings = u32::try_from(attempts).unwrap_or(u32::MAX);
    let factor = 2_i32.saturating_pow(doublings);
    SHORTEST.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn repetitions_are_delayed_exponentially_after_the_first_few() {
        for (made, delay) in [
            (0, 0),
            (4, 0),
            (5, 10),
            (6, 20),
            (10, 320),
            (13, 2560),
            (14, 3600),
            (usize::MAX, 3600),
        ] {
            let until = |now| until(made, Some(at(1000)), at(now));
            assert_eq!(until(1001 + delay), None, "{made}");
            if delay > 0 {
                assert_eq!(until(1000), Some(at(1001 + delay)), "{made}");
                assert_eq!(until(1000 + delay), Some(at(1001 + delay)), "{made}");
            }
        }
        assert_eq!(until(9, None, at(0)), None, "the time is unknown");
    }

    /// The server has set the time of the creation, and the clock of this process went back by an hour.
    #[test]
    fn a_creation_in_the_future_delays_nothing() {
        assert_eq!(until(9, Some(at(5000)), at(1400)), None);
        assert_eq!(until(9, Some(Timestamp::MAX), at(0)), None);
        let slightly = until(5, Some(at(1003)), at(1000));
        assert_eq!(slightly, Some(at(1014)), "the clocks differ a little");
    }

    #[test]
    fn repetitions_per_day_are_bounded() {
        let (mut made, mut last) = (0, None);
        for now in (0..86_400).map(at) {
            if until(made, last, now).is_none() {
                (made, last) = (made + 1, Some(now));
            }
        }
        assert!(made < 40, "{made}");
    }
}
