//! Pauses between attempts.

use std::time::Duration;

use crate::cluster::watch::permille;

const FIRST: Duration = Duration::from_secs(1);

/// The pause after a number of failures in a row: doubling from one second to `longest`, with
/// jitter, so that clusters that were lost together are not asked again together.
pub(crate) fn retry_delay(failures: u32, longest: Duration) -> Duration {
    delay(failures, longest, permille())
}

/// Nine to eleven tenths of a period.
pub(crate) fn spread(period: Duration) -> Duration {
    period * 9 / 10 + period / 5 * permille() / 1000
}

fn delay(failures: u32, longest: Duration, permille: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let limit = (FIRST * 2_u32.pow(doublings)).min(longest);
    (limit / 2 + limit / 2 * permille / 1000).max(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_within_bounds() {
        let longest = Duration::from_mins(1);
        for (failures, permille, millis) in [
            (0, 0, 1_000),
            (1, 0, 1_000),
            (1, 1000, 1_000),
            (2, 0, 1_000),
            (2, 1000, 2_000),
            (5, 500, 12_000),
            (7, 1000, 60_000),
            (1_000, 0, 30_000),
            (u32::MAX, 1000, 60_000),
        ] {
            let expected = Duration::from_millis(millis);
            assert_eq!(delay(failures, longest, permille), expected, "{failures}");
        }
    }

    #[test]
    fn periods_are_spread() {
        let period = Duration::from_secs(30);
        let drawn: Vec<Duration> = (0..20).map(|_| spread(period)).collect();
        let within = Duration::from_secs(27)..=Duration::from_secs(33);
        assert!(drawn.iter().all(|one| within.contains(one)), "{drawn:?}");
        assert!(drawn.iter().any(|one| one != &drawn[0]), "{drawn:?}");
    }
}
