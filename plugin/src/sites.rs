//! Deployments to sites and their applications, seen from a terminal.
//!
//! - [`target`] is what a user names; [`read`] the objects behind the name, at a fixed number of lists however many
//!   sites there are; [`follow`] the same by watches.
//! - [`revision`] is what counts of a revision of a site, [`cluster`] of a site itself.
//! - [`state`] says how a site is, [`fleet`] puts sites into waves, [`verdict`] says how far the rollout is.
//! - [`render`] draws a fleet, [`bars`] a wait for it, [`history`] what was rolled out, [`inventory`] the sites.
//! - [`overview`] is an application with its deployments and versions.
//! - [`record`] is a kept version with its content, [`forecast`] what a file would make of an application.
//! - [`steer`] decides what to write.

pub(crate) mod bars;
pub(crate) mod cluster;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod fleet;
pub(crate) mod follow;
pub(crate) mod forecast;
pub(crate) mod history;
pub(crate) mod inventory;
pub(crate) mod overview;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod render;
pub(crate) mod revision;
pub(crate) mod state;
pub(crate) mod steer;
pub(crate) mod target;
pub(crate) mod verdict;
