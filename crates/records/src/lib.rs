//! Objects of our own kinds as raw records: stores with indexes, and requests.

pub mod api;
pub mod belongs_to_revision;
pub mod creations;
pub mod deployment;
pub mod key;
mod orphaned;
pub mod phase;
mod phase_api;
pub mod record;
pub mod reflector;
pub mod revision;
mod revision_api;
pub mod siblings;
pub mod slice;
pub mod store;
