//! The agent of one cluster: delivers the phases that the hub assigns to the cluster, also
//! while the hub is unreachable.
//!
//! - [`mirrors`]: the agent's view of the hub; [`follow`] updates it from the hub, [`state`] stores
//!   it on disk.
//! - [`controller`]: reconciles the phases as the manager would.
//! - [`reporter`] and [`heartbeat`] write statuses to the hub.
//! - [`run`] wires the process together.

mod controller;
mod follow;
mod heartbeat;
mod mirrors;
mod reporter;
mod rollout;
pub(crate) mod run;
pub(crate) mod state;
