//! The wiring of the controllers of sites.

use std::sync::Arc;

use baton_apis::constants::BATON_GROUP;
use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_kubernetes::{fence::Fence, target::TargetEvent};
use baton_runtime::{controller::Controllers, metrics::Metrics};
use kube::Client;
use tokio::{sync::Notify, task::JoinSet};

use super::site_metrics;
use crate::{
    controllers::{
        requests::Requests,
        sites::{Base, Stores, application::SiteApplications, deployment::SiteDeployments, terms},
    },
    delivery::{observed::Observed, shared::Shared},
};

/// The controllers of sites, before they run.
pub(crate) struct Wiring {
    base: Base,
    /// Tells that definitions of the group came or went.
    defined: Arc<Notify>,
}

impl Wiring {
    /// Prepares to follow the kinds.
    pub(crate) fn new(
        client: &Client,
        shared: &Shared,
        observed: &Arc<Observed>,
        (inventory, assignments): (&Inventory, &Assignments),
    ) -> Self {
        let defined = Arc::new(Notify::new());
        let notified = Arc::clone(&defined);
        observed.children.subscribe(move |event| {
            if let TargetEvent::KindsChanged { group } = event
                && *group == *BATON_GROUP
            {
                notified.notify_waiters();
            }
        });
        let stores = Arc::new(Stores::default());
        terms::tell(&stores, observed);
        Self {
            base: Base {
                shared: shared.clone(),
                stores,
                requests: Requests {
                    client: client.clone(),
                },
                observed: Arc::clone(observed),
                inventory: inventory.clone(),
                assignments: assignments.clone(),
                mended: Arc::default(),
            },
            defined,
        }
    }

    /// Resolves when all objects are known, or cannot be.
    pub(crate) async fn listed(&self) {
        self.base.stores.listed().await;
    }

    /// Adds the controllers, and what is told of deployments to the metrics, and only then starts to follow the
    /// objects: what is listed before anybody asks for changes is never reconciled.
    pub(crate) fn start(
        &self,
        controllers: Controllers,
        workers: usize,
        (metrics, fence): (&Metrics, &Fence),
        tasks: &mut JoinSet<()>,
    ) -> Controllers {
        let applications = SiteApplications {
            base: self.base.clone(),
        };
        let deployments = SiteDeployments::new(self.base.clone());
        let controllers = controllers
            .with(applications, Arc::default(), workers)
            .with(deployments, Arc::default(), workers);
        let Base {
            stores, requests, ..
        } = &self.base;
        site_metrics::register(metrics, stores, fence);
        stores.follow(&requests.client, &self.defined, tasks);
        controllers
    }
}
