//! The controllers: one file or folder for each.
//!
//! Each has a file that reads as a table of contents: its sources (`watches`), and the steps of a pass (`reconcile`).

pub(crate) mod debounce;
pub(crate) mod extent;
pub(crate) mod heartbeat;
pub(crate) mod object_deployment;
pub(crate) mod object_set;
pub(crate) mod object_set_phase;
pub(crate) mod releases;
pub(crate) mod requests;
pub(crate) mod sites;
pub(crate) mod store;
