//! The decisions about rollouts over sites.
//!
//! The crate does no I/O, reads no clock and does not await: the present time is an argument. The
//! controllers observe, call these functions, and write. The behaviour that clients can observe is
//! in `docs/guides/sites.md`.
//!
//! - [`chain`]: the revisions of a deployment in a site, their names and states
//! - [`duration`]: durations in the form of the schemas
//! - [`gate`]: when a phase of a site may begin, and which workloads stop for it
//! - [`overlap`]: sites that two deployments want
//! - [`placement`]: expressions that select sites by their labels
//! - [`rollout`]: the sites that get a version next, the end of a rollout, and its status
//! - [`snapshot`]: the versions of an application that are kept
//! - [`terms`]: the terms of owners and providers for upgrades
//! - [`uptime`]: the times in which a site can be reached, and the deadlines of its revisions
//! - [`version`]: versions that may be skipped in a queue
//! - [`window`]: times at which upgrades may begin

pub mod chain;
pub mod duration;
pub mod gate;
pub mod overlap;
pub mod placement;
pub mod rollout;
pub mod snapshot;
pub mod terms;
mod text;
pub mod uptime;
pub mod version;
pub mod window;
