//! The controllers: one file or folder for each.
//!
//! Each has a file that reads as a table of contents: its sources (`watches`), and the steps of a pass (`reconcile`).

pub(crate) mod heartbeat;
pub(crate) mod object_deployment;
pub(crate) mod object_set;
pub(crate) mod object_set_phase;
pub(crate) mod object_slice;
pub(crate) mod releases;
pub(crate) mod sites;

use std::{sync::Arc, time::Duration};

use baton_engine::conditions::Requeue;
use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::requests::Requests;

use crate::delivery::{observed::Observed, shared::Shared};

/// The outcome of a pass while some kinds are not listed yet. Nothing is decided then: an object
/// that is missing in the store may exist.
const INCOMPLETE: Reconciled = (
    ReconcileOutcome::Waiting,
    Requeue::After(Duration::from_secs(1)),
);

/// The state that the controllers of typed objects share, with the field names that other operators
/// use.
#[derive(Clone)]
pub(crate) struct Context<S> {
    /// Events, the clock, and requests about revisions and slices.
    pub shared: Shared,
    /// Stores of the controllers' own kinds.
    pub stores: Arc<S>,
    /// Requests about the objects of these kinds.
    pub requests: Requests,
    /// Revisions and slices.
    pub observed: Arc<Observed>,
    /// Connections to the clusters.
    pub inventory: Inventory,
    /// Decides which namespaces may deliver into which clusters.
    pub assignments: Assignments,
}
