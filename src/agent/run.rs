//! The composition root of an agent.

use std::{sync::Arc, time::Duration};

use baton_fleet::mirror;
use baton_kubernetes::{
    backoff::Backoff,
    client::{ServerError, check_server, instrumented_client},
    error::request_failure,
    fence::Fence,
    target::{Target, TargetEvent},
};
use baton_records::api::Api as RecordApi;
use baton_runtime::{clock::Clock, controller::Controllers, metrics::Metrics, server::Readiness};
use baton_terminal::kubeconfig::load_client_config;
use baton_typed::debounce::Debounced;
use http::Uri;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use super::{
    controller::AgentPhases,
    follow, heartbeat,
    mirrors::Mirrors,
    reporter,
    rollout::AgentRollouts,
    state::{StateFile, save, write_on_change},
};
use crate::{
    cli::AgentArgs,
    delivery::{
        observed::{Observed, dispatch},
        owners::Targets,
        phase_owners::PhaseOwners,
        repairs::Repairs,
        shared::{Events, Shared},
    },
    error::Error,
    run::{
        cache_metrics,
        process::{Stop, lead, lease_params, start_endpoints, start_lease_thread},
    },
};

/// The longest pause between two requests to an API server that does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The namespace whose UID identifies a cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The time that the hub may take to list its objects before the agent continues with the stored
/// ones.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the agent of a cluster until a signal stops it.
///
/// # Errors
/// Each error is one line that says what is wrong and what to do. An unreachable hub is no error.
pub(crate) async fn run(args: AgentArgs) -> Result<(), Error> {
    let mut stop = Stop::new()?;
    let metrics = Metrics::new();
    let readiness = Readiness::waiting_for("the API server");
    let site_config = load_client_config(&args.connection).await?;
    let hub_config = load_client_config(&args.hub()).await.map_err(Error::Hub)?;
    let (site_url, hub_url) = (
        site_config.cluster_url.clone(),
        hub_config.cluster_url.clone(),
    );
    let fence = Fence::closed();
    let (lease_thread, lease_client) = start_lease_thread(site_config.clone(), &metrics).await?;
    let client =
        |config| instrumented_client(config, metrics.requests(), &fence).map_err(Error::Client);
    let (site, hub) = (client(site_config)?, client(hub_config)?);
    let cluster = args.cluster.as_str();
    let file = StateFile::new(&args.state_dir, cluster);
    let _servers = start_endpoints(&lease_thread, &args.process, &metrics, &readiness).await?;
    let version = tokio::select! {
        version = answer(&site, &site_url) => version?,
        () = stop.received() => return Ok(()),
    };
    info!(
        version = env!("CARGO_PKG_VERSION"), cluster, server = %site_url, server_version = version, hub = %hub_url,
        "starting"
    );

    let mut params = lease_params(&args.process);
    // A manager may run in the same cluster, and agents of other hubs.
    params.name = format!("baton-agent-{cluster}");
    let identity = tokio::select! {
        identity = identity(&site, &params.namespace) => identity,
        () = stop.received() => return Ok(()),
    };
    let agent = Agent::new((cluster, &identity), (&site, &hub), &file, &metrics);
    readiness.set_waiting_for("the hub");
    let mut tasks = JoinSet::new();
    let listed = Arc::new(Notify::new());
    let first_list = listed.clone();
    tasks.spawn(follow::follow(
        hub,
        mirror::namespace(cluster),
        agent.mirrors.clone(),
        move || first_list.notify_one(),
    ));
    tokio::select! {
        () = wait_for_first_list(&agent.mirrors, &file, &listed) => {}
        () = stop.received() => return Ok(()),
    }
    readiness.set_ready();
    let Agent {
        shared,
        observed,
        mirrors,
        target,
        controllers,
        child_events,
    } = agent;
    let (_, no_links) = mpsc::unbounded_channel();
    tasks.spawn(dispatch(observed, child_events, no_links));
    cache_metrics::register(&metrics, target);
    tasks.spawn(write_on_change(mirrors.clone(), file.clone()));
    let end = lead(
        &args.process,
        params,
        (&lease_thread, lease_client, &fence),
        &metrics,
        &mut stop,
        async |stop| {
            tokio::select! {
                () = controllers.run(stop.received()) => {}
                () = Box::pin(report_to_hub(shared, site, (mirrors.clone(), file.clone()))) => {}
            }
        },
    )
    .await;
    if let Err(error) = save(&file, &mirrors).await {
        warn!(%error, "the state could not be written");
    }
    end
}

/// The parts of an agent, assembled but not started.
struct Agent {
    shared: Shared,
    observed: Arc<Observed>,
    mirrors: Arc<Mirrors>,
    /// The cluster that the agent serves.
    target: Target,
    controllers: Controllers,
    child_events: mpsc::UnboundedReceiver<TargetEvent>,
}

impl Agent {
    fn new(
        (cluster, identity): (&str, &str),
        (site, hub): (&Client, &Client),
        file: &StateFile,
        metrics: &Metrics,
    ) -> Self {
        let observed = Arc::new(Observed::default());
        let (events, child_events) = mpsc::unbounded_channel();
        let target = Target::new(site.clone(), observed.watcher(events));
        let mirrors = Arc::new(Mirrors::new(cluster, identity, observed.clone()));
        let shared = Shared {
            api: RecordApi::new(hub.clone()),
            events: Events::Log,
            clock: Clock::default(),
            repairs: Repairs::register(metrics),
            // The mirror of each phase names its account.
            default_account: None,
        };
        let phases = AgentPhases {
            shared: shared.clone(),
            observed: observed.clone(),
            mirrors: mirrors.clone(),
            file: file.clone(),
            unsaved: Mutex::default(),
            since: shared.clock.now(),
            phases: PhaseOwners::new(Targets {
                home: target.clone(),
                inventory: None,
            }),
        };
        let rollouts = AgentRollouts {
            mirrors: mirrors.clone(),
            observed: observed.clone(),
            file: file.clone(),
            clock: shared.clock.clone(),
            target: target.clone(),
            changes: Arc::default(),
            cluster: Mutex::default(),
            debounced: Debounced::default(),
            unsaved: Mutex::default(),
        };
        let controllers = Controllers::new(metrics)
            .with(phases, Arc::default(), 1)
            .with(rollouts, Arc::default(), 1);
        Self {
            shared,
            observed,
            mirrors,
            target,
            controllers,
            child_events,
        }
    }
}

/// Reports to the hub. Of several agents of a cluster only the one with the lease reports.
async fn report_to_hub(shared: Shared, site: Client, (mirrors, file): (Arc<Mirrors>, StateFile)) {
    let Shared { api, clock, .. } = shared;
    tokio::join!(
        reporter::run(api.clone(), mirrors.clone()),
        heartbeat::run(api, site, (mirrors, file), clock),
    );
}

/// The identity of the agent: the UID of its cluster, and its namespace, of which each agent of a
/// cluster needs its own. So it stays when the agent moves within the cluster. Empty if the agent may
/// not read it.
async fn identity(site: &Client, namespace: &str) -> String {
    let namespaces: Api<Namespace> = Api::all(site.clone());
    let mut failures = 0;
    loop {
        match namespaces.get_metadata(SYSTEM_NAMESPACE).await {
            Ok(system) => {
                let uid = system.metadata.uid.unwrap_or_default();
                return format!("{uid}/{namespace}");
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                warn!(
                    cause = status.message,
                    "the cluster cannot be identified, so that a second agent with its name is not refused; run \
                     `baton cluster join` again to get the right"
                );
                return String::new();
            }
            Err(error) => {
                failures += 1;
                let cause = request_failure(&error);
                warn!(cause, "the cluster cannot be identified, trying again");
                sleep(Backoff::up_to(LONGEST_PAUSE).delay(failures)).await;
            }
        }
    }
}

/// Waits for the API server of the cluster, which may start together with the agent. Returns its
/// version.
async fn answer(site: &Client, url: &Uri) -> Result<String, ServerError> {
    let mut failures = 0;
    loop {
        match check_server(site, url).await {
            Err(error @ (ServerError::Unreachable { .. } | ServerError::Other { .. })) => {
                failures += 1;
                warn!(%error, "the API server cannot be used, trying again");
                sleep(Backoff::up_to(LONGEST_PAUSE).delay(failures)).await;
            }
            answer => return answer,
        }
    }
}

/// Waits for the first list of the hub: without limit if no state is stored, otherwise for
/// [`TIMEOUT`]. Then restores the stored state.
async fn wait_for_first_list(mirrors: &Mirrors, file: &StateFile, listed: &Notify) {
    let state = match file.load() {
        Ok(state) => state,
        Err(error) => {
            error!(%error, "the stored state cannot be read; waiting for the hub");
            None
        }
    };
    let Some(state) = state else {
        listed.notified().await;
        return;
    };
    if timeout(TIMEOUT, listed.notified()).await.is_err() {
        let phases = state.len();
        warn!(
            phases,
            "the hub is unreachable; continuing with the stored state"
        );
    }
    mirrors.restore(state);
}
