//! The agent of one cluster: delivers what the hub has for it, with or without the hub.
//!
//! - [`mirrors`]: what the agent knows of the hub; [`follow`] keeps it in step, [`state`] on disk.
//! - [`controller`]: the passes over the phases, as the manager would make them.
//! - [`reporter`] and [`heartbeat`] write statuses to the hub.
//! - [`run`] puts the process together.

mod controller;
mod follow;
mod heartbeat;
mod mirrors;
mod reporter;
pub(crate) mod run;
pub(crate) mod state;
