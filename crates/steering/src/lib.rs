//! Changes of rollouts in the name of a person, and the effects that they would have.
//!
//! - [`pausing`] pauses and resumes deployments and revisions; [`rollback`] brings an earlier content
//!   back; [`abandoning`] leaves objects behind that cannot be deleted.
//! - [`releases`] steers Applications and their Releases, [`sites`] deployments to sites.
//! - [`diff`] finds the effects of a new revision by dry runs, and compares revisions with each other
//!   and with the cluster.
//!
//! The plugin and the dashboard share all of this. The decisions are those of `baton_view`.
//!
//! # Guarantees
//! - A change that depends on the state of its object is refused if the object has changed since the
//!   decision about it. Pauses, resumptions and new selections of sites do not depend on it.
//! - Dry runs store nothing.

pub mod abandoning;
pub mod diff;
mod error;
pub mod pausing;
pub mod releases;
pub mod rollback;
pub mod sites;
pub mod version;

pub use error::Error;

/// The text that kubectl appends to a line about a dry run.
#[must_use]
pub fn note(dry_run: bool) -> &'static str {
    if dry_run { " (server dry run)" } else { "" }
}
