//! The composition root of the manager: its parts, their triggers, and the orderly shutdown.

pub(crate) mod cache_metrics;
pub(crate) mod lease_thread;
pub(crate) mod process;
mod release_metrics;
mod releases;
mod site_metrics;
mod sites;
mod state_metrics;
mod wiring;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use baton_apis::constants::{BATON_GROUP, shipper};
use baton_fleet::{
    assignments::Assignments,
    inventory::{ClusterSecrets, Inventory, Settings},
};
use baton_kubernetes::{
    client::{ServerError, check_server, instrumented_client},
    error::request_failure,
    events::EventPublisher,
    fence::Fence,
    target::{Target, Watcher},
};
use baton_records::{
    api::{Api, ApiError},
    deployment::DeploymentKind,
    key::OwnKind as _,
    phase::PhaseKind,
    reflector,
    revision::RevisionKind,
    slice::{SliceKind, SliceRecord},
};
use baton_runtime::{
    clock::Clock,
    controller::Controllers,
    metrics::Metrics,
    server::{Readiness, https::HttpsError},
};
use baton_terminal::kubeconfig::load_client_config;
use baton_typed::stores::Stores;
use http::Uri;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, api::ListParams};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tracing::{info, warn};

use self::{
    process::{Stop, lead, manager_lease_params, start_endpoints, start_lease_thread},
    release_metrics::Calls,
    wiring::Wiring,
};
use crate::{
    cli::ManagerArgs,
    controllers::{
        heartbeat::Heartbeats, object_deployment::ObjectDeployments, object_set::ObjectSets,
        object_set_phase::ObjectSetPhases, object_slice::ObjectSlices,
        releases::Stores as AppStores, sites::Stores as SiteStores,
    },
    delivery::{
        observed::{Observed, dispatch},
        repairs::Repairs,
        rollout_blocks::RolloutBlocks,
        shared::{Events, Shared},
    },
    error::Error,
    webhook::{self, Webhook},
};

/// Runs the manager until a signal stops it.
///
/// # Errors
/// Each error is one line that says what is wrong and what to do. After [`Error::Lost`] no write is
/// in flight any more.
pub(crate) async fn manager(args: ManagerArgs) -> Result<(), Error> {
    let mut stop = Stop::new()?;
    let metrics = Metrics::new();
    let readiness = Readiness::waiting_for("the API server");
    let config = load_client_config(&args.connection).await?;
    let url = config.cluster_url.clone();
    let fence = Fence::closed();
    let (lease_thread, lease_client) = start_lease_thread(config.clone(), &metrics).await?;
    let client = instrumented_client(config, metrics.requests(), &fence).map_err(Error::Client)?;
    let _servers = start_endpoints(&lease_thread, &args.process, &metrics, &readiness).await?;
    let version = check_server(&client, &url).await?;
    info!(version = env!("CARGO_PKG_VERSION"), server = %url, server_version = version, "starting");
    let api = Api::new(client.clone());
    check_crds(&api).await?;

    let params = manager_lease_params(&args);
    let observed = Arc::new(Observed::default());
    if let Some(hub) = hub_uid(&client, &url).await? {
        let _ = observed.hub.set(hub);
    }
    let (events, child_events) = mpsc::unbounded_channel();
    let children = observed.watcher(events);
    let clock = Clock::default();
    let (inventory, links) = start_inventory(
        &args,
        &client,
        (&metrics, &fence),
        clock.clone(),
        children.clone(),
    );
    inventory.set_hub(observed.hub());
    state_metrics::register(&metrics, &observed, &inventory, &fence);
    let target = Target::new(client.clone(), children);
    let events = EventPublisher::new(client.clone(), &params.identity, metrics.events());
    let shared = Shared {
        api,
        events: Events::Publish(events.clone()),
        clock,
        repairs: Repairs::register(&metrics),
        default_account: args
            .default_service_account
            .as_ref()
            .map(|name| name.as_str().into()),
    };
    let is_required = args.require_site_assignments;
    let assignments = start_assignments(&client, is_required, &observed);
    let sites = (&inventory, &assignments);
    let mut tasks = JoinSet::new();
    let (own, workers) = ((&shared, &observed), args.workers.get());
    let charts = releases::charts(&args, &client, &mut tasks)?;
    let calls = Calls::to(url.host().unwrap_or_default());
    let counted = calls.count(client.clone());
    let apps = Wiring::<AppStores>::new(shipper::GROUP, (&client, counted), own, sites);
    let rollouts = Wiring::<SiteStores>::new(BATON_GROUP, (&client, client.clone()), own, sites);
    let blocks = &apps.context.stores.blocks;
    let delivery = (&target, sites, blocks);
    let controllers = record_controllers(&args, &metrics, &shared, &observed, delivery);
    let site_deployments = &rollouts.context.stores.deployments;
    let charts = (&charts, &calls);
    let controllers = (controllers, workers);
    let controllers = releases::start(
        &apps,
        site_deployments,
        charts,
        controllers,
        &metrics,
        &mut tasks,
    );
    let controllers = (controllers, workers);
    let controllers = sites::start(
        &rollouts,
        blocks,
        controllers,
        (&metrics, &fence),
        &mut tasks,
    );

    let _webhook = start_webhook(&args, (&client, &fence), &shared, blocks).await?;
    let stores = [&apps.context.stores.all, &rollouts.context.stores.all];
    readiness.set_waiting_for("the list of revisions");
    tokio::select! {
        () = list_all(&client, &observed, stores, sites, &mut tasks) => {}
        () = stop.received() => return Ok(()),
    }
    readiness.set_ready();
    tasks.spawn(dispatch(observed, child_events, links));
    cache_metrics::register(&metrics, target);
    let end = lead(
        &args.process,
        params,
        (&lease_thread, lease_client, &fence),
        &metrics,
        &mut stop,
        async |stop| {
            inventory.start_reporting();
            controllers.run(stop.received()).await;
        },
    )
    .await;
    events.shutdown().await;
    end
}

/// UID of this cluster, by which the owners of objects in other clusters name their hub: that of the
/// namespace `kube-system`. `None` without the right to read it.
async fn hub_uid(client: &Client, url: &Uri) -> Result<Option<String>, Error> {
    let namespaces = kube::Api::<Namespace>::all(client.clone());
    // A start sends lists and watches only, so that each read of a single object shows in metrics.
    let system = ListParams::default().fields("metadata.name=kube-system");
    match namespaces.list_metadata(&system).await {
        Ok(namespaces) => {
            let mut uids = namespaces
                .items
                .into_iter()
                .filter_map(|it| it.metadata.uid);
            Ok(uids.next())
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let error = &status.message;
            warn!(%error, "the UID of this cluster is not known; owners in other clusters do not name it");
            Ok(None)
        }
        Err(error) => Err(Error::Server(ServerError::Other {
            url: url.clone(),
            cause: request_failure(&error),
        })),
    }
}

/// Starts the admission webhook; `None` if it is turned off.
async fn start_webhook(
    args: &ManagerArgs,
    own: (&Client, &Fence),
    shared: &Shared,
    blocks: &RolloutBlocks,
) -> Result<Option<Webhook>, HttpsError> {
    let namespace = args.process.namespace.as_str();
    let (blocks, clock) = (blocks.clone(), shared.clock.clone());
    webhook::start(&args.webhook_addr, namespace, blocks, own, clock).await
}

/// Starts to connect to the clusters. The receiver gets the names of clusters whose link has changed.
fn start_inventory(
    args: &ManagerArgs,
    client: &Client,
    (metrics, fence): (&Metrics, &Fence),
    clock: Clock,
    children: Watcher,
) -> (Inventory, mpsc::UnboundedReceiver<String>) {
    let (linked, links) = mpsc::unbounded_channel();
    let inventory = Inventory::start(
        client.clone(),
        Settings {
            secrets: ClusterSecrets {
                namespace: args.clusters_namespace().as_str(),
                is_strict: args.require_site_assignments,
            },
            requires_unique: args.require_unique_clusters,
            heartbeat: Duration::from_secs(args.agent_heartbeat),
        },
        (metrics.requests(), fence),
        clock,
        children,
        // The receiver is dropped when the manager shuts down.
        move |cluster| {
            let _ = linked.send(cluster.to_owned());
        },
    );
    (inventory, links)
}

/// Starts to watch assignments, whose changes wake controllers.
fn start_assignments(client: &Client, is_required: bool, observed: &Arc<Observed>) -> Assignments {
    let woken = Arc::downgrade(observed);
    Assignments::start(client.clone(), is_required, move |change| {
        if let Some(observed) = woken.upgrade() {
            observed.assignments.emit(&change);
        }
    })
}

/// The controllers of kinds that are stored as records.
fn record_controllers(
    args: &ManagerArgs,
    metrics: &Metrics,
    shared: &Shared,
    observed: &Arc<Observed>,
    (target, (inventory, assignments), blocks): (
        &Target,
        (&Inventory, &Assignments),
        &RolloutBlocks,
    ),
) -> Controllers {
    let workers = args.workers.get();
    let (shared, observed) = (|| shared.clone(), || observed.clone());
    let phase_queue = Arc::default();
    let sets = ObjectSets::new(
        shared(),
        observed(),
        target.clone(),
        Arc::clone(&phase_queue),
        metrics,
        args.force_adoption,
    );
    let phases = ObjectSetPhases::new(
        shared(),
        observed(),
        target.clone(),
        inventory.clone(),
        assignments.clone(),
        args.force_adoption,
    );
    let deployments = ObjectDeployments::new(shared(), observed(), blocks.clone());
    let slices = ObjectSlices {
        shared: shared(),
        observed: observed(),
    };
    let heartbeats = Heartbeats {
        shared: shared(),
        observed: observed(),
        inventory: inventory.clone(),
    };
    Controllers::new(metrics)
        .with(sets, Arc::default(), workers)
        .with(deployments, Arc::default(), workers)
        .with(phases, phase_queue, workers)
        .with(slices, Arc::default(), workers)
        .with(heartbeats, Arc::default(), workers)
}

/// Requests each resource once, so that a missing CRD or right is reported before a controller
/// runs.
async fn check_crds(api: &Api) -> Result<(), Error> {
    for kind in RevisionKind::ALL {
        for kind in [
            kind.names(),
            SliceKind(kind).names(),
            DeploymentKind(kind).names(),
            PhaseKind(kind).names(),
        ] {
            let resource = kind.definition();
            match api.probe(kind).await {
                Ok(()) => {}
                Err(ApiError::Refused { code: 404, .. }) => {
                    return Err(Error::MissingCrd { resource });
                }
                Err(source) => return Err(Error::Access { resource, source }),
            }
        }
    }
    Ok(())
}

/// Resolves when everything that decisions depend on is listed.
async fn list_all(
    client: &Client,
    observed: &Arc<Observed>,
    stores: [&Stores; 2],
    (inventory, assignments): (&Inventory, &Assignments),
    tasks: &mut JoinSet<()>,
) {
    fill(client, observed, tasks).await;
    fill_slices(client, observed, tasks).await;
    let [releases, sites] = stores.map(Stores::listed);
    tokio::join!(inventory.listed(), assignments.listed(), releases, sites);
}

/// Starts the reflectors of revisions, deployments and delegated phases; resolves when all are
/// listed.
fn fill(
    client: &Client,
    observed: &Arc<Observed>,
    tasks: &mut JoinSet<()>,
) -> impl Future<Output = ()> + use<> {
    let lists = Lists::default();
    for kind in RevisionKind::ALL {
        let (on, hub, done) = (observed.clone(), client.clone(), lists.one_more());
        tasks.spawn(async move { reflector::run(hub, kind, &on.revisions, done).await });
        let (on, hub, done) = (observed.clone(), client.clone(), lists.one_more());
        let deployments = DeploymentKind(kind);
        tasks.spawn(async move { reflector::run(hub, deployments, &on.deployments, done).await });
        let (on, hub, done) = (observed.clone(), client.clone(), lists.one_more());
        let phases = PhaseKind(kind);
        tasks.spawn(async move { reflector::run(hub, phases, &on.phases, done).await });
    }
    lists.complete()
}

/// Starts the reflectors of slices; resolves when all are listed. The revisions have to be listed
/// before, as only the content of slices in use is stored.
fn fill_slices(
    client: &Client,
    observed: &Arc<Observed>,
    tasks: &mut JoinSet<()>,
) -> impl Future<Output = ()> + use<> {
    let lists = Lists::default();
    for kind in RevisionKind::ALL {
        let (on, hub, done) = (observed.clone(), client.clone(), lists.one_more());
        tasks.spawn(async move {
            let is_wanted = |slice: &SliceRecord| !on.revisions.users_of(&slice.key).is_empty();
            reflector::run_keeping(hub, SliceKind(kind), &on.slices, is_wanted, done).await;
        });
    }
    lists.complete()
}

/// Counts the first lists that are not complete yet.
struct Lists {
    /// Number of missing lists, and one more until all reflectors have started.
    left: Arc<AtomicUsize>,
    done: Arc<Notify>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(1)),
            done: Arc::default(),
        }
    }
}

impl Lists {
    /// Adds a list. The result is to be called after each list of this reflector.
    fn one_more(&self) -> impl FnMut() + Send + use<> {
        self.left.fetch_add(1, Ordering::AcqRel);
        let (left, done) = (self.left.clone(), self.done.clone());
        let mut first = true;
        move || {
            if std::mem::take(&mut first) && left.fetch_sub(1, Ordering::AcqRel) == 1 {
                done.notify_one();
            }
        }
    }

    /// Resolves when all lists are complete.
    fn complete(self) -> impl Future<Output = ()> + use<> {
        let is_done = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        async move {
            if !is_done {
                self.done.notified().await;
            }
        }
    }
}
