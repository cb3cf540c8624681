//! The objects of an owner: how a revision or a phase brings them into a cluster, and takes them away.
//!
//! The controllers stand above it, in the manager (`src/controllers`) and in the agent (`src/agent`).

pub(crate) mod containers;
pub(crate) mod delegated_phases;
pub(crate) mod ended_phases;
pub(crate) mod executor;
mod failing;
pub(crate) mod gate;
pub(crate) mod heirs;
mod objects;
pub(crate) mod observed;
pub(crate) mod owners;
pub(crate) mod phase_content;
pub(crate) mod phase_owners;
pub(crate) mod phase_pass;
mod pods;
pub(crate) mod ran;
pub(crate) mod repairs;
pub(crate) mod shared;
pub(crate) mod site_chain;
pub(crate) mod slices;
mod stopping;
mod storage_classes;
pub(crate) mod strays;
pub(crate) mod terms;
