//! Random tests that can be repeated.

use std::ops::Range;

/// The environment variable with the first seed, to repeat a run that failed.
pub const SEED: &str = "BATON_TEST_SEED";

/// The environment variable with a factor for the number of rounds of random tests, for a long run.
pub const ROUNDS: &str = "BATON_TEST_ROUNDS";

/// The seeds of this run, one for each round of a random test: as many as given, times the factor of the
/// environment.
#[must_use]
pub fn seeds(rounds: u64) -> Range<u64> {
    let factor = std::env::var(ROUNDS).ok();
    let factor = factor.and_then(|factor| factor.parse().ok());
    let first = first_seed();
    first..first + rounds * factor.unwrap_or(1)
}

/// The first seed of this run: that of the environment, or 1.
#[must_use]
pub fn first_seed() -> u64 {
    let seed = std::env::var(SEED).ok();
    seed.and_then(|seed| seed.parse().ok()).unwrap_or(1)
}
