//! Charts from a real repository to the objects that the real helm renders.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests panic with the expected state, as tests do"
)]

mod disk;
mod fetching;
mod fixtures;
mod rendering;
mod resolving;
