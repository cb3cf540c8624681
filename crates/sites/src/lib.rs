//! The decisions about rollouts over sites.
//!
//! Nothing in here does I/O, reads a clock or awaits: the present time is an argument. The controllers observe, ask and
//! write. What clients can observe: `docs/guides/sites.md`.
//!
//! - [`chain`]: the revisions of a deployment in a site, their names and states
//! - [`duration`]: durations as the schemas write them
//! - [`gate`]: when a phase of a site may begin, and what stops for it
//! - [`overlap`]: sites that two deployments want
//! - [`placement`]: expressions that choose sites by their labels
//! - [`rollout`]: which sites get a version next, what ends a rollout, and what is reported of it
//! - [`snapshot`]: the versions of an application that are kept
//! - [`terms`]: what owners and providers ask of upgrades
//! - [`version`]: which versions may be left out of a queue
//! - [`window`]: when upgrades may begin

pub mod chain;
pub mod duration;
pub mod gate;
pub mod overlap;
pub mod placement;
pub mod rollout;
pub mod snapshot;
pub mod terms;
mod text;
pub mod version;
pub mod window;
