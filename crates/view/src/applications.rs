//! Shipper's Applications and Releases.
//!
//! - [`target`]: references as users type them
//! - [`history`]: the differences of environments, and the Release of the present template
//! - [`observed`]: an Application with its Releases and their targets
//! - [`question`]: the lists that an Application is read from
//! - [`state`]: the progress of a rollout, and the reason that it waits
//! - [`clusters`]: the state of a Release in each cluster
//! - [`picture`]: an Application with its Releases, clusters and revisions
//! - [`compare`]: the differences of two Releases; [`forecast`]: the effect of another spec
//! - [`steer`]: patches that promote a rollout or take it back
//! - [`scheduled`]: all Releases by their clusters
//!
//! `baton_releases` decides on the order of Releases, the successor of a Release, hashes and states
//! of a step.

pub mod clusters;
pub mod compare;
pub mod forecast;
pub mod history;
pub mod observed;
pub mod picture;
pub mod question;
pub mod scheduled;
pub mod state;
pub mod steer;
pub mod target;
