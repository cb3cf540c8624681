//! Shipper's Applications and Releases.
//!
//! - [`target`]: names as they can be typed
//! - [`history`]: the differences of environments, and the Release of the present template
//! - [`observed`]: an Application with its Releases and their targets
//! - [`question`]: which lists an Application is made of
//! - [`state`]: the progress of a rollout, and what it waits for
//! - [`clusters`]: what each cluster has of a Release
//! - [`picture`]: an Application with its Releases, clusters and revisions
//! - [`compare`]: the differences of two Releases; [`forecast`]: the effect of another spec
//! - [`steer`]: what is written to go on with a rollout, or back
//!
//! The order of Releases, who replaces whom, hashes and states of a step are decided by `baton_releases`.

pub mod clusters;
pub mod compare;
pub mod forecast;
pub mod history;
pub mod observed;
pub mod picture;
pub mod question;
pub mod state;
pub mod steer;
pub mod target;
