//! Random tests that can be repeated.

/// The environment variable with the first seed, to repeat a run that failed.
pub const SEED: &str = "BATON_TEST_SEED";

/// The first seed of this run: that of the environment, or 1.
#[must_use]
pub fn first_seed() -> u64 {
    let seed = std::env::var(SEED).ok();
    seed.and_then(|seed| seed.parse().ok()).unwrap_or(1)
}
