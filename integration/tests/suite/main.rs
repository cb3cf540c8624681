//! The manager against a real API server: one module per subject, tests named after the behaviour they hold.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests state what they expect, as tests do"
)]

mod admission;
mod adoption;
mod adoption_tools;
mod agent;
mod agent_credentials;
mod agent_faults;
mod agent_offline;
mod agent_places;
mod agent_requests;
mod agent_restarts;
mod agent_state;
mod archival;
mod assignments;
mod bad_input;
mod bounded_cost;
mod chaos;
mod cluster_commands;
mod cluster_commands_pull;
mod cluster_commands_rights;
mod clusters;
mod containers;
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
mod deployments_slices;
mod deployments_status;
mod deployments_takeover;
mod ended_phases;
mod fairness;
mod handover;
mod harness;
mod kinds;
mod lifecycle;
mod memory;
mod metrics;
mod phase_changes;
mod phases;
mod plugin_applications;
mod plugin_pack;
mod plugin_read;
mod plugin_write;
mod push;
mod push_faults;
mod reach;
mod recreation;
mod refusal;
mod release_kinds;
mod release_targets;
mod releases;
mod releases_faults;

mod repair;
mod requests;
mod restart;
mod rights;
mod rollout;
mod schema_limits;
mod secrecy;
mod sites_harness;
mod stale_leader;
mod status;
mod takeover;
mod teardown_chaos;
mod teardown_kinds;
mod teardown_names;
mod teardown_orphans;
mod tenants;
