//! Reads deployments to sites and their applications from a server.

pub(crate) mod compare;
#[cfg(test)]
#[path = "../../crates/view/src/sites/fixtures.rs"]
pub(crate) mod fixtures;
pub(crate) mod forecast;
pub(crate) mod read;

// The fixtures use these modules.
#[cfg(test)]
use baton_view::sites::{cluster, observed, revision};
