//! The composition root: client, watches, lease, workers, servers, and their orderly end.

pub mod agent;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kube::Client;
use parking_lot::Mutex;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, mpsc},
    task::JoinSet,
    time::sleep,
};
use tracing::{info, warn};

use crate::{
    agent::state::StateError,
    cli::{
        ManagerArgs, ProcessArgs,
        kubeconfig::{ConfigError, load_client_config},
        values::Identity,
    },
    cluster::{
        deployment::{DeploymentKind, Deployments},
        events::EventPublisher,
        inventory::Inventory,
        key::Resource as _,
        lease::{self, AcquireError, LeaseParams, Lost},
        phase::{PhaseKind, Phases},
        record::RevisionKind,
        revision_api::{ApiError, RevisionApi},
        revisions::Revisions,
        target::Target,
    },
    controllers::{self, Context, Role, hold::Held, intake, queue::Queue},
    telemetry::{
        client::{ServerError, check_server, instrumented_client},
        metrics::Metrics,
        server::{BindError, Readiness, serve},
    },
};

/// How often the number of cached objects is put into the metrics.
const CACHE_FIGURES: Duration = Duration::from_secs(5);

/// Why the manager could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable kubeconfig.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No usable kubeconfig for the hub of an agent.
    #[error("hub: {}", .0.with_flags("hub-"))]
    Hub(#[source] ConfigError),
    /// The client could not be built.
    #[error("cannot set up the client for the API server: {0}")]
    Client(#[source] kube::Error),
    /// The API server cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A CRD is missing.
    #[error(
        "the API server does not serve {resource}; install the CRDs first: kubectl apply --server-side -f config/crds"
    )]
    MissingCrd {
        /// Plural name and group.
        resource: String,
    },
    /// Revisions cannot be read.
    #[error(
        "cannot read {resource}: {source}; the manager's service account needs the rights in config/rbac"
    )]
    Access {
        /// Plural name and group.
        resource: String,
        /// What the server says.
        source: ApiError,
    },
    /// An address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The lease cannot be had.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost; going on would mean two managers at work.
    #[error("stopping at once: {0}")]
    Lost(Lost),
    /// The state of an agent has no place.
    #[error("{0}; --state-dir names a directory that the agent can write to")]
    State(#[from] StateError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signal(#[from] std::io::Error),
}

/// Runs the manager until it is told to stop.
///
/// # Errors
/// Each with one line that says what is wrong and what to do. After [`Error::Lost`] no write is
/// under way any more.
pub async fn manager(args: ManagerArgs) -> Result<(), Error> {
    let mut terminate = Stop::new()?;
    let metrics = Metrics::new();
    let readiness = Readiness::waiting_for("the API server");
    let config = load_client_config(&args.connection).await?;
    let url = config.cluster_url.clone();
    let client = instrumented_client(config, &metrics).map_err(Error::Client)?;
    let _servers = serve(
        &args.process.metrics_addr,
        &args.process.health_addr,
        metrics.clone(),
        readiness.clone(),
    )
    .await?;
    let version = check_server(&client, &url).await?;
    info!(version = env!("CARGO_PKG_VERSION"), server = %url, server_version = version, "starting");
    let api = RevisionApi::new(client.clone());
    check_crds(&api).await?;

    let (sender, changes) = mpsc::unbounded_channel();
    let params = lease_params(&args.process);
    let instance = params.identity.clone();
    let (linked, links) = mpsc::unbounded_channel();
    let inventory = Inventory::start(
        client.clone(),
        args.clusters_namespace().as_str(),
        &metrics,
        Duration::from_secs(args.agent_heartbeat),
        sender.clone(),
        // The receiver is gone when the manager shuts down.
        move |cluster| {
            let _ = linked.send(cluster.to_owned());
        },
    );
    let inventory_listed = inventory.clone();
    let context = Arc::new(Context {
        role: Role::Manager {
            inventory,
            events: EventPublisher::new(client.clone(), &instance, &metrics),
        },
        revisions: Revisions::default(),
        deployments: Deployments::default(),
        phases: Phases::default(),
        api,
        target: Target::new(client.clone(), sender),
        metrics,
        queue: Queue::default(),
        deployment_queue: Queue::default(),
        phase_queue: Queue::default(),
        force_adoption: args.force_adoption,
        compiled: Mutex::default(),
        held: Held::default(),
        unserved: Mutex::default(),
        client: client.clone(),
    });
    readiness.set_waiting_for("the list of revisions");
    let mut tasks = JoinSet::new();
    let filled = fill(&context, &mut tasks);
    tokio::select! {
        () = filled => {}
        () = terminate.received() => return Ok(()),
    }
    tokio::select! {
        () = inventory_listed.listed() => {}
        () = terminate.received() => return Ok(()),
    }
    readiness.set_ready();
    tasks.spawn(controllers::dispatch(context.clone(), changes, links));
    tasks.spawn(cache_figures(context.clone()));
    let work = Working {
        context: context.clone(),
        workers: args.workers.get(),
        beside: pending(),
    };
    let end = lead(&args.process, params, client, work, &mut terminate).await;
    if let Role::Manager { events, .. } = &context.role {
        events.shutdown().await;
    }
    end
}

/// The lease of a process.
fn lease_params(args: &ProcessArgs) -> LeaseParams {
    let identity = args.identity.as_ref().map(Identity::as_str);
    LeaseParams::new(args.namespace.as_str(), identity)
}

/// What is done by the one that leads.
struct Working<F> {
    context: Arc<Context>,
    workers: usize,
    /// Goes on while the workers work.
    beside: F,
}

impl<F: Future<Output = ()>> Working<F> {
    async fn until(self, stop: impl Future<Output = ()>) {
        if let Some(inventory) = self.context.inventory() {
            inventory.start_reporting();
        }
        tokio::select! {
            () = controllers::workers::run(self.context.clone(), self.workers, stop) => {}
            () = self.beside => {}
        }
    }
}

/// Waits for the lease, works, and gives the lease back.
async fn lead(
    args: &ProcessArgs,
    params: LeaseParams,
    client: Client,
    work: Working<impl Future<Output = ()>>,
    terminate: &mut Stop,
) -> Result<(), Error> {
    if !args.leader_elect {
        work.until(terminate.received()).await;
        info!("stopped");
        return Ok(());
    }
    let leadership = tokio::select! {
        leadership = lease::acquire(client, params) => leadership?,
        () = terminate.received() => return Ok(()),
    };
    let metrics = work.context.metrics.clone();
    metrics.set_leader(true);
    let lost = tokio::select! {
        // Dropping the workers cuts their requests off: nothing is written after the loss.
        lost = leadership.lost() => Some(lost),
        () = work.until(terminate.received()) => None,
    };
    metrics.set_leader(false);
    if let Some(lost) = lost {
        return Err(Error::Lost(lost));
    }
    leadership.release().await;
    info!("stopped; the lease is free");
    Ok(())
}

/// Asks for each resource once, so that a missing CRD or right is told before anything runs.
async fn check_crds(api: &RevisionApi) -> Result<(), Error> {
    for kind in RevisionKind::ALL {
        for plural in [
            kind.plural(),
            kind.slice_plural(),
            DeploymentKind(kind).plural(),
            PhaseKind(kind).plural(),
        ] {
            let resource = format!("{plural}.{}", baton_apis::constants::GROUP);
            match api.probe(plural).await {
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

/// Starts the watches on revisions, deployments, delegated phases and slices; resolves when all but the
/// slices are known.
fn fill(context: &Arc<Context>, tasks: &mut JoinSet<()>) -> impl Future<Output = ()> + use<> {
    let left = Arc::new(AtomicUsize::new(3 * RevisionKind::ALL.len()));
    let filled = Arc::new(Notify::new());
    let listed = || {
        let (left, filled) = (left.clone(), filled.clone());
        let mut first = true;
        move || {
            if std::mem::take(&mut first) && left.fetch_sub(1, Ordering::AcqRel) == 1 {
                filled.notify_one();
            }
        }
    };
    for kind in RevisionKind::ALL {
        tasks.spawn(intake::run(context.clone(), kind, listed()));
        tasks.spawn(intake::run(context.clone(), DeploymentKind(kind), listed()));
        tasks.spawn(intake::run(context.clone(), PhaseKind(kind), listed()));
        tasks.spawn(intake::slices(context.clone(), kind));
    }
    async move { filled.notified().await }
}

/// Keeps the gauges of the caches up to date (contract section 7).
async fn cache_figures(context: Arc<Context>) {
    let mut known: Vec<String> = Vec::new();
    loop {
        let stats = context.target.stats();
        context.metrics.set_cache_informers(stats.len());
        for gvk in std::mem::take(&mut known) {
            if !stats.iter().any(|(other, _)| other.to_string() == gvk) {
                context.metrics.forget_cache_objects(&gvk);
            }
        }
        for (gvk, count) in &stats {
            context.metrics.set_cache_objects(&gvk.to_string(), *count);
            known.push(gvk.to_string());
        }
        sleep(CACHE_FIGURES).await;
    }
}

/// SIGTERM and SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> Result<Self, std::io::Error> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        warn!("told to stop; finishing what is under way");
    }
}
