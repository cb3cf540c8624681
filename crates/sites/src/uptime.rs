//! The times in which a site can be reached, and the deadlines of its revisions.

use baton_engine::stored_time::end_of;
use jiff::{SignedDuration, Timestamp};

/// Limits of the time that a process has to observe a site before deadlines of the site end.
const OBSERVATION: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_mins(1));

/// The times since which a site can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uptime {
    /// Time since which the site has been online without interruption, as far as observed, also by
    /// processes before this one. If this time is too late, revisions get more time; if it is too
    /// early, they may fail because of an interruption.
    pub online_since: Option<Timestamp>,
    /// Time since which this process is in touch with the site. Reports of the site may be older.
    pub in_touch_since: Option<Timestamp>,
}

impl Uptime {
    /// The times for a process that knows nothing about the time before it was in touch.
    #[must_use]
    pub fn since(start: Timestamp) -> Self {
        Self {
            online_since: Some(start),
            in_touch_since: Some(start),
        }
    }

    /// The times without those after `now`. The clock was set back after such a time, so it shows
    /// nothing.
    #[must_use]
    pub fn until(self, now: Timestamp) -> Self {
        Self {
            online_since: self.online_since.filter(|since| *since <= now),
            in_touch_since: self.in_touch_since.filter(|since| *since <= now),
        }
    }

    /// The times for a revision that an earlier process has reported as late. That process has
    /// observed the site, so this one needs no time for it.
    #[must_use]
    pub fn observed_before(self) -> Self {
        Self {
            in_touch_since: None,
            ..self
        }
    }

    /// The time at which the deadline of a revision ends, given the stored time of its beginning.
    ///
    /// An outage of the site does not count: the deadline starts again when the site is back. A
    /// restart of the observing process counts, but the process has a tenth of the deadline to
    /// observe the site.
    #[must_use]
    pub fn end_of(self, began: Timestamp, deadline: SignedDuration) -> Timestamp {
        let counts = self.online_since.map_or(began, |online| online.max(began));
        let (least, most) = OBSERVATION;
        let observation = (deadline / 10).clamp(least, most).min(deadline);
        let observed = self.in_touch_since.map(|since| end_of(since, observation));
        observed
            .unwrap_or(Timestamp::MIN)
            .max(end_of(counts, deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_after_now_do_not_count() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let uptime = Uptime::since(at(10));
        assert_eq!(uptime.until(at(10)), uptime);
        assert_eq!(uptime.until(at(9)), Uptime::default());
    }

    #[test]
    fn a_deadline_counts_from_the_stored_beginning_and_again_after_an_outage() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (deadline, began) = (SignedDuration::from_mins(10), at(1_000));
        for (online, in_touch, expected) in [
            (None, None, 1_601),
            (Some(10), Some(10), 1_601),
            // The site was offline.
            (Some(1_200), Some(1_200), 1_801),
            // The manager was restarted, in time and late.
            (Some(10), Some(1_200), 1_601),
            (Some(10), Some(1_590), 1_651),
            (Some(10), Some(5_000), 5_061),
        ] {
            let uptime = Uptime {
                online_since: online.map(at),
                in_touch_since: in_touch.map(at),
            };
            assert_eq!(
                uptime.end_of(began, deadline),
                at(expected),
                "{online:?} {in_touch:?}"
            );
        }
        let short = SignedDuration::from_secs(5);
        assert_eq!(Uptime::since(at(1_003)).end_of(began, short), at(1_009));
    }
}
