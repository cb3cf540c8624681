//! Texts for people about the values of [`baton_view`]: sentences, columns, and the meaning of colours.
//!
//! - [`output`] has texts with meanings, and the form of tables on a terminal; [`printable`] makes
//!   control characters visible; [`time`] has ages.
//! - [`tree`] and [`status`] are about chains, [`application`] about Applications and Releases,
//!   [`fleet`] about sites, [`diff`] about differences.
//! - [`overview`] has a line for everything that rolls out.
//! - [`rollout`] has the sentences about the progress of a chain.

pub mod application;
pub mod diff;
pub mod fleet;
pub mod output;
pub mod overview;
pub mod printable;
pub mod revision;
pub mod rollout;
pub mod status;
pub mod time;
pub mod tree;

/// Assembles chains from objects as lists return them.
#[cfg(test)]
fn from_objects(
    deployments: Vec<serde_json::Value>,
    revisions: Vec<serde_json::Value>,
) -> Vec<baton_view::chain::Chain> {
    baton_view::chain::from_objects(deployments, revisions).0
}
