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
use baton_records::creations::Creation;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::requests::{Namespaced, Requests};
use serde_json::json;

use crate::delivery::{
    observed::Observed,
    shared::{AtStep as _, Error, Shared},
};

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

impl<S> Context<S> {
    /// Creates an object, unless it was created again and again.
    async fn create<K: Namespaced>(&self, object: &K, step: &'static str) -> Result<K, Error> {
        let creations = self.shared.api.creations();
        let creation = Creation::of(
            &K::url_path(&(), object.meta().namespace.as_deref()),
            &json!(object),
        );
        let kind = || K::kind(&()).into_owned();
        let checked = creations.check(creation);
        checked.map_err(|source| Error::Repeated {
            kind: kind(),
            source,
        })?;
        let made = self.requests.create(object).await.at_step(step)?;
        creations.made(creation);
        Ok(made)
    }
}
