//! The wiring of the controllers of releases.

use std::sync::Arc;

use baton_apis::constants::shipper;
use baton_charts::{Charts, Settings, SetupError};
use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_kubernetes::target::TargetEvent;
use baton_runtime::{controller::Controllers, metrics::Metrics};
use kube::Client;
use tokio::{sync::Notify, task::JoinSet};

use super::release_metrics::{self, Calls, Queues};
use crate::{
    cli::ManagerArgs,
    controllers::{
        releases::{
            Base, Stores, app_clusters::AppClusters, application::Applications,
            capacity::CapacityTargets, charts::ChartSource, credentials::RepositorySecrets,
            installation::Installations, release::Releases, traffic::TrafficTargets,
        },
        requests::Requests,
    },
    delivery::{observed::Observed, shared::Shared},
};

/// The controllers of releases, before they run.
pub(crate) struct Wiring {
    base: Base,
    /// The client that objects are followed by.
    client: Client,
    /// Counts the requests of the controllers.
    calls: Calls,
    assignments: Assignments,
    charts: Charts,
    /// Tells that definitions of Shipper's group came or went.
    defined: Arc<Notify>,
}

impl Wiring {
    /// Prepares to follow Shipper's kinds.
    ///
    /// # Errors
    /// When charts cannot be fetched from anywhere.
    pub(crate) fn new(
        args: &ManagerArgs,
        (client, host): (&Client, &str),
        shared: &Shared,
        observed: &Arc<Observed>,
        (inventory, assignments): (&Inventory, &Assignments),
        tasks: &mut JoinSet<()>,
    ) -> Result<Self, SetupError> {
        let secrets = RepositorySecrets::default();
        let namespace = args.clusters_namespace().as_str().to_owned();
        tasks.spawn(secrets.clone().follow(client.clone(), namespace));
        let charts = Charts::new(Settings::new(args.chart_cache()), secrets)?;
        let stores = Arc::new(Stores::default());
        let defined = Arc::new(Notify::new());
        let notified = Arc::clone(&defined);
        observed.children.subscribe(move |event| {
            if let TargetEvent::KindsChanged { group } = event
                && *group == *shipper::GROUP
            {
                notified.notify_waiters();
            }
        });
        let calls = Calls::to(host);
        Ok(Self {
            base: Base {
                shared: shared.clone(),
                stores,
                requests: Requests {
                    client: calls.count(client.clone()),
                },
                observed: Arc::clone(observed),
                inventory: inventory.clone(),
            },
            client: client.clone(),
            calls,
            assignments: assignments.clone(),
            charts,
            defined,
        })
    }

    /// Resolves when all objects are known, or cannot be.
    pub(crate) async fn listed(&self) {
        self.base.stores.listed().await;
    }

    /// Adds the controllers, and the families of releases to the metrics, and only then starts to follow the objects:
    /// what is listed before anybody asks for changes is never reconciled.
    pub(crate) fn start(
        &self,
        controllers: Controllers,
        workers: usize,
        metrics: &Metrics,
        tasks: &mut JoinSet<()>,
    ) -> Controllers {
        let charts = ChartSource::new(self.charts.clone());
        let (base, charts) = (|| self.base.clone(), || charts.clone());
        let applications = Applications {
            base: base(),
            charts: charts(),
        };
        let releases = Releases {
            base: base(),
            charts: charts(),
        };
        let installations = Installations::new(base(), charts());
        let clusters = Arc::new(AppClusters::new(
            self.base.inventory.clone(),
            self.assignments.clone(),
        ));
        let capacities = CapacityTargets::new(base(), Arc::clone(&clusters));
        let traffic = TrafficTargets::new(base(), clusters);
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
            );
        release_metrics::register(metrics, &self.base, (&self.calls, &self.charts), queues);
        self.base.stores.follow(&self.client, &self.defined, tasks);
        controllers
    }
}
