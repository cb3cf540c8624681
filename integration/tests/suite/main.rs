//! The manager against a real API server.
//!
//! One module per behaviour. Cases of the contract carry their numbers there (`a1_`, `b1_`), and
//! what is done better than upstream the number in that list (`improvement_01_`).

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests state what they expect, as tests do"
)]

mod admission;
mod adoption;
mod agent;
mod agent_credentials;
mod agent_faults;
mod agent_offline;
mod agent_requests;
mod agent_restarts;
mod agent_state;
mod archival;
mod bad_input;
mod chaos;
mod cluster_commands;
mod cluster_commands_pull;
mod clusters;
mod crash;
mod deletion;
mod deployments;
mod deployments_chaos;
mod deployments_history;
mod deployments_ownership;
mod deployments_pictures;
mod deployments_requests;
mod deployments_rights;
mod deployments_rules;
mod deployments_status;
mod deployments_takeover;
mod handover;
mod harness;
mod kinds;
mod lifecycle;
mod metrics;
mod phases;
mod plugin_pack;
mod plugin_read;
mod plugin_write;
mod push;
mod push_faults;
mod refusal;
mod repair;
mod requests;
mod restart;
mod rights;
mod rollout;
mod sites_harness;
mod status;
mod takeover;
