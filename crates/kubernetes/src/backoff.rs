//! Pauses between attempts, with jitter: attempts that failed together are not repeated together.

use std::{ops::Range, time::Duration};

use tower::util::rng::{HasherRng, Rng as _};

/// Pauses that double with each failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure, and the shortest of all.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// Pauses from one second to `longest`.
    #[must_use]
    pub const fn up_to(longest: Duration) -> Self {
        Self {
            first: Duration::from_secs(1),
            longest,
        }
    }

    /// The pause after a number of failures in a row: between half and all of a limit that doubles.
    pub fn delay(self, failures: u32) -> Duration {
        self.within_limit(failures, HasherRng::new().next_f64())
    }

    /// The pause for a given share, from 0 to 1, of the range that jitter covers.
    fn within_limit(self, failures: u32, share: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let limit = (self.first * 2_u32.pow(doublings)).min(self.longest);
        limit.mul_f64(0.5 + share / 2.0).max(self.first)
    }
}

/// A period times a random factor.
pub fn jittered(period: Duration, factor: Range<f64>) -> Duration {
    let share = HasherRng::new().next_f64();
    period.mul_f64(factor.start + (factor.end - factor.start) * share)
}

/// A random duration from 90% to 110% of a period.
pub fn spread(period: Duration) -> Duration {
    jittered(period, 0.9..1.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_bounds() {
        let slow = Backoff::up_to(Duration::from_mins(1));
        let fast = Backoff {
            first: Duration::from_millis(200),
            longest: Duration::from_secs(30),
        };
        for (backoff, failures, share, millis) in [
            (slow, 0, 0.0, 1_000),
            (slow, 1, 0.0, 1_000),
            (slow, 1, 1.0, 1_000),
            (slow, 2, 0.0, 1_000),
            (slow, 2, 1.0, 2_000),
            (slow, 5, 0.5, 12_000),
            (slow, 7, 1.0, 60_000),
            (slow, 1_000, 0.0, 30_000),
            (slow, u32::MAX, 1.0, 60_000),
            (fast, 1, 0.0, 200),
            (fast, 1, 1.0, 200),
            (fast, 2, 0.0, 200),
            (fast, 2, 1.0, 400),
            (fast, 5, 1.0, 3_200),
            (fast, 5, 0.0, 1_600),
            (fast, 60, 1.0, 30_000),
            (fast, 60, 0.0, 15_000),
        ] {
            let expected = Duration::from_millis(millis);
            let delay = backoff.within_limit(failures, share);
            assert_eq!(delay, expected, "{backoff:?} {failures} {share}");
        }
    }

    #[test]
    fn periods_are_spread_randomly_within_a_tenth() {
        let period = Duration::from_secs(30);
        let drawn: Vec<Duration> = (0..20).map(|_| spread(period)).collect();
        let within = Duration::from_secs(27)..=Duration::from_secs(33);
        assert!(drawn.iter().all(|one| within.contains(one)), "{drawn:?}");
        assert!(drawn.iter().any(|one| one != &drawn[0]), "{drawn:?}");
    }
}
