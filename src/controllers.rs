//! The controllers: one file or folder for each.
//!
//! Each has a file that reads as a table of contents: its sources (`watches`), and the steps of a pass (`reconcile`).

pub(crate) mod heartbeat;
pub(crate) mod object_deployment;
pub(crate) mod object_set;
pub(crate) mod object_set_phase;
pub(crate) mod releases;
pub(crate) mod sites;

use std::{sync::Arc, time::Duration};

use baton_engine::conditions::Requeue;
use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::requests::Requests;

use crate::delivery::{observed::Observed, shared::Shared};

/// The end of a pass while not all kinds are listed. Nothing is decided: what is missing may exist.
const INCOMPLETE: Reconciled = (
    ReconcileOutcome::Waiting,
    Requeue::After(Duration::from_secs(1)),
);

/// Everything that the controllers of typed objects share, by the name that it has in other operators.
#[derive(Clone)]
pub(crate) struct Context<S> {
    /// Events, the clock, and requests about revisions and slices.
    pub shared: Shared,
    /// The objects of their kinds.
    pub stores: Arc<S>,
    /// Requests about them.
    pub requests: Requests,
    /// Revisions and slices.
    pub observed: Arc<Observed>,
    /// The way to each cluster.
    pub inventory: Inventory,
    /// Who may use them.
    pub assignments: Assignments,
}
