//! Starts the controllers of sites.

use std::sync::Arc;

use baton_kubernetes::fence::Fence;
use baton_runtime::{controller::Controllers, metrics::Metrics};
use tokio::task::JoinSet;

use super::{site_metrics, wiring::Wiring};
use crate::{
    controllers::sites::{
        Stores, application::SiteApplications, deployment::SiteDeployments, terms,
    },
    delivery::rollout_blocks::RolloutBlocks,
};

/// Adds the controllers and the metric family of sites, and then starts to follow the objects, in
/// this order.
pub(crate) fn start(
    wiring: &Wiring<Stores>,
    blocks: &RolloutBlocks,
    (controllers, workers): (Controllers, usize),
    (metrics, fence): (&Metrics, &Fence),
    tasks: &mut JoinSet<()>,
) -> Controllers {
    let context = &wiring.context;
    terms::publish(&context.stores, &context.observed);
    let applications = SiteApplications::new(context.clone());
    let deployments = SiteDeployments::new(context.clone(), blocks.clone());
    let controllers = controllers
        .with(applications, Arc::default(), workers)
        .with(deployments, Arc::default(), workers);
    site_metrics::register(metrics, &context.stores, fence);
    wiring.follow(&context.stores.all, tasks);
    context.stores.follow_records(&wiring.client, tasks);
    controllers
}
