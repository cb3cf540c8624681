//! The objects of an owner: a revision or a phase rolls them out into a cluster, and tears them
//! down.
//!
//! The controllers in the manager (`src/controllers`) and in the agent (`src/agent`) use this
//! module.

pub(crate) mod containers;
pub(crate) mod delegated_phases;
pub(crate) mod ended_phases;
pub(crate) mod executor;
mod failing;
pub(crate) mod gate;
pub(crate) mod heirs;
pub(crate) mod lost_hubs;
mod objects;
pub(crate) mod observed;
pub(crate) mod owners;
pub(crate) mod phase_content;
pub(crate) mod phase_owners;
pub(crate) mod phase_pass;
mod pods;
pub(crate) mod ran;
pub(crate) mod repairs;
pub(crate) mod rollout_blocks;
pub(crate) mod shared;
pub(crate) mod site_chain;
pub(crate) mod slices;
mod stopping;
mod storage_classes;
pub(crate) mod strays;
pub(crate) mod terms;
