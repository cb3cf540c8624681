//! The state that the controllers of one API group share, and the watches of their objects.

use std::sync::Arc;

use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_kubernetes::target::TargetEvent;
use baton_typed::{requests::Requests, stores::Stores};
use kube::Client;
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    controllers::Context,
    delivery::{observed::Observed, shared::Shared},
};

/// The state that the controllers of an API group share, with the parts that their watches need.
pub(crate) struct Wiring<S> {
    pub context: Context<S>,
    /// The client of the watches.
    pub client: Client,
    /// Notified when definitions of the group appear or are deleted.
    defined: Arc<Notify>,
}

impl<S: Default> Wiring<S> {
    /// Prepares the watches of a group's kinds through the first client. The second client is for
    /// the requests of the controllers.
    pub(crate) fn new(
        group: &'static str,
        (client, counted): (&Client, Client),
        (shared, observed): (&Shared, &Arc<Observed>),
        (inventory, assignments): (&Inventory, &Assignments),
    ) -> Self {
        let defined = Arc::new(Notify::new());
        let notified = Arc::clone(&defined);
        observed.children.subscribe(move |event| {
            if let TargetEvent::KindsChanged { group: changed } = event
                && **changed == *group
            {
                notified.notify_waiters();
            }
        });
        Self {
            context: Context {
                shared: shared.clone(),
                stores: Arc::default(),
                requests: Requests { client: counted },
                observed: Arc::clone(observed),
                inventory: inventory.clone(),
                assignments: assignments.clone(),
            },
            client: client.clone(),
            defined,
        }
    }

    /// Starts to follow the objects. The controllers have to be added before: an object that is
    /// listed before a controller subscribes to changes is never reconciled.
    pub(crate) fn follow(&self, stores: &Stores, tasks: &mut JoinSet<()>) {
        stores.follow(&self.client, &self.defined, tasks);
    }
}
