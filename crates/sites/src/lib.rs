//! The decisions about rollouts over sites.
//!
//! Nothing in here does I/O, reads a clock or awaits: the present time is an argument. The controllers observe, ask and
//! write. What clients can observe: `docs/sites.md`.
//!
//! - [`duration`]: durations as the schemas write them
//! - [`placement`]: expressions that choose sites by their labels
//! - [`rollout`]: which sites get a version next, what ends a rollout, and what is reported of it
//! - [`version`]: which versions may be left out of a queue
//! - [`window`]: when upgrades may begin

pub mod duration;
pub mod placement;
pub mod rollout;
mod text;
pub mod version;
pub mod window;
