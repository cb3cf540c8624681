//! Shipper's Applications and Releases, seen from a terminal.
//!
//! - [`target`] is what a user names, [`read`] the objects behind the name, [`follow`] the same by watches.
//! - [`state`] says how far a rollout is and what it waits for, [`clusters`] what each cluster has of a Release.
//! - [`picture`] and [`render`] draw an Application with its Releases, clusters and revisions; [`bars`] a wait.
//! - [`history`] is the table of Releases; [`compare`] what two of them have differently; [`forecast`] what a file
//!   would make of an Application.
//! - [`steer`] decides what to write: the next step, an abort, a rollback.
//!
//! The order of Releases, who replaces whom, hashes and states of a step are decided by `baton_releases`.

pub(crate) mod bars;
pub(crate) mod clusters;
pub(crate) mod compare;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod follow;
pub(crate) mod forecast;
pub(crate) mod history;
pub(crate) mod picture;
pub(crate) mod read;
pub(crate) mod render;
pub(crate) mod state;
pub(crate) mod steer;
pub(crate) mod target;
