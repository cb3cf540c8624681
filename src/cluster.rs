//! Everything that talks to an API server.

pub(crate) mod answer;
pub mod apply;
pub mod blockers;
pub(crate) mod crds;
pub mod deployment;
pub mod deployment_api;
pub mod discovery;
pub mod events;
pub(crate) mod informers;
pub mod inventory;
pub mod item;
pub mod key;
pub mod lease;
pub mod mirror;
pub mod object;
pub mod phase;
pub mod phase_api;
pub mod record;
pub mod revision_api;
pub mod revisions;
pub mod store;
pub mod target;
pub mod watch;
pub mod wire;
