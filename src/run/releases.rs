//! Starts the controllers of releases, and the source of their charts.

use std::sync::Arc;

use baton_apis::SiteDeployment;
use baton_charts::{Charts, Settings, SetupError};
use baton_runtime::{controller::Controllers, metrics::Metrics};
use baton_typed::store::Store;
use kube::Client;
use tokio::task::JoinSet;

use super::{
    release_metrics::{self, Calls, Queues},
    wiring::Wiring,
};
use crate::{
    cli::ManagerArgs,
    controllers::releases::{
        Stores, app_clusters::AppClusters, application::Applications, blocks::Blocks,
        capacity::CapacityTargets, charts::ChartSource, credentials::RepositorySecrets,
        installation::Installations, release::Releases, traffic::TrafficTargets,
    },
};

/// The source of charts. Starts to follow the credentials of repositories.
///
/// # Errors
/// When charts cannot be downloaded.
pub(crate) fn charts(
    args: &ManagerArgs,
    client: &Client,
    tasks: &mut JoinSet<()>,
) -> Result<Charts, SetupError> {
    let secrets = RepositorySecrets::default();
    let namespace = args.clusters_namespace().as_str().to_owned();
    tasks.spawn(secrets.clone().follow(client.clone(), namespace));
    Charts::new(Settings::new(args.chart_cache()), secrets)
}

/// Adds the controllers and the metric families of releases, and then starts to follow the objects,
/// in this order.
pub(crate) fn start(
    wiring: &Wiring<Stores>,
    site_deployments: &Arc<Store<SiteDeployment>>,
    (charts, calls): (&Charts, &Calls),
    (controllers, workers): (Controllers, usize),
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
) -> Controllers {
    let source = ChartSource::new(charts.clone());
    let (context, source) = (|| wiring.context.clone(), || source.clone());
    let applications = Applications {
        context: context(),
        charts: source(),
    };
    let releases = Releases {
        context: context(),
        charts: source(),
    };
    let installations = Installations::new(context(), source());
    let clusters = Arc::new(AppClusters::new(
        wiring.context.inventory.clone(),
        wiring.context.assignments.clone(),
    ));
    let capacities = CapacityTargets::new(context(), Arc::clone(&clusters));
    let traffic = TrafficTargets::new(context(), clusters);
    let mut queues = Queues::new(metrics);
    let controllers = controllers
        .with(
            capacities,
            queues.named::<CapacityTargets>("capacity_controller_capacitytargets"),
            workers,
        )
        .with(
            traffic,
            queues.named::<TrafficTargets>("traffic_controller_traffictargets"),
            workers,
        )
        .with(
            applications,
            queues.named::<Applications>("application_controller_applications"),
            workers,
        )
        .with(
            releases,
            queues.named::<Releases>("release_controller_releases"),
            workers,
        )
        .with(
            installations,
            queues.named::<Installations>("installation_controller_installationtargets"),
            workers,
        )
        .with(
            Blocks::new(context(), Arc::clone(site_deployments)),
            queues.named::<Blocks>("rolloutblock_controller_rolloutblocks"),
            workers,
        );
    release_metrics::register(metrics, &wiring.context, (calls, charts), queues);
    wiring.follow(&wiring.context.stores.all, tasks);
    controllers
}
