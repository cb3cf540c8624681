//! The composition root of an agent.

use std::{sync::Arc, time::Duration};

use http::Uri;
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use super::{Error, Stop, Working, cache_figures, lead, lease_params};
use crate::{
    agent::{
        heartbeat, intake, reporter,
        state::{StateFile, keep, save},
    },
    cli::{AgentArgs, kubeconfig::load_client_config},
    cluster::{
        deployment::Deployments, inventory::delay::retry_delay, mirror, phase::Phases,
        revision_api::RevisionApi, revisions::Revisions, target::Target,
    },
    controllers::{self, Context, Role, agent::Mirrors, hold::Held, queue::Queue},
    telemetry::{
        client::{ServerError, check_server, instrumented_client},
        metrics::Metrics,
        server::{Readiness, serve},
    },
};

/// The longest pause between two looks at an API server that does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long the hub may take to say how it stands before the agent goes on with what it said last.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the agent of a cluster until it is told to stop.
///
/// # Errors
/// Each with one line that says what is wrong and what to do. That the hub is away is none.
pub async fn run(args: AgentArgs) -> Result<(), Error> {
    let mut terminate = Stop::new()?;
    let metrics = Metrics::new();
    let readiness = Readiness::waiting_for("the API server");
    let site_config = load_client_config(&args.connection).await?;
    let hub_config = load_client_config(&args.hub()).await.map_err(Error::Hub)?;
    let (site_url, hub_url) = (
        site_config.cluster_url.clone(),
        hub_config.cluster_url.clone(),
    );
    let site = instrumented_client(site_config, &metrics).map_err(Error::Client)?;
    let hub = instrumented_client(hub_config, &metrics).map_err(Error::Client)?;
    let cluster = args.cluster.as_str();
    let file = StateFile::new(&args.state_dir, cluster)?;
    let _servers = serve(
        &args.process.metrics_addr,
        &args.process.health_addr,
        metrics.clone(),
        readiness.clone(),
    )
    .await?;
    let version = tokio::select! {
        version = answer(&site, &site_url) => version?,
        () = terminate.received() => return Ok(()),
    };
    info!(
        version = env!("CARGO_PKG_VERSION"), cluster, server = %site_url, server_version = version, hub = %hub_url,
        "starting"
    );

    let (sender, changes) = mpsc::unbounded_channel();
    let mut params = lease_params(&args.process);
    // A manager may be at work in the same cluster, and agents of other hubs.
    params.name = format!("baton-agent-{cluster}");
    let mirrors = Arc::new(Mirrors::new(cluster));
    let api = RevisionApi::new(hub.clone());
    let context = Arc::new(Context {
        role: Role::Agent(mirrors.clone()),
        revisions: Revisions::default(),
        deployments: Deployments::default(),
        phases: Phases::default(),
        api: api.clone(),
        target: Target::new(site.clone(), sender),
        metrics,
        queue: Queue::default(),
        deployment_queue: Queue::default(),
        phase_queue: Queue::default(),
        force_adoption: false,
        compiled: Mutex::default(),
        unserved: Mutex::default(),
        held: Held::default(),
        client: site.clone(),
    });
    readiness.set_waiting_for("the hub");
    let mut tasks = JoinSet::new();
    let listed = Arc::new(Notify::new());
    let heard = listed.clone();
    tasks.spawn(intake::follow(
        hub,
        mirror::namespace(cluster),
        context.clone(),
        mirrors.clone(),
        move || heard.notify_one(),
    ));
    tokio::select! {
        () = acquaint(&context, &mirrors, &file, &listed) => {}
        () = terminate.received() => return Ok(()),
    }
    readiness.set_ready();
    let (_, no_links) = mpsc::unbounded_channel();
    tasks.spawn(controllers::dispatch(context.clone(), changes, no_links));
    tasks.spawn(cache_figures(context.clone()));
    tasks.spawn(keep(mirrors.clone(), file.clone()));
    // Of several agents only the one that works speaks for the cluster.
    let speak = async {
        tokio::join!(
            reporter::run(api.clone(), context.clone(), mirrors.clone()),
            heartbeat::run(api, site.clone(), mirrors.clone()),
        );
    };
    let work = Working {
        context: context.clone(),
        workers: 1,
        beside: Box::pin(speak),
    };
    let end = lead(&args.process, params, site.clone(), work, &mut terminate).await;
    if let Err(error) = save(&file, &mirrors).await {
        warn!(%error, "the state could not be written");
    }
    end
}

/// Waits for the API server of the cluster, which may start together with the agent; its version.
async fn answer(site: &Client, url: &Uri) -> Result<String, ServerError> {
    let mut failures = 0;
    loop {
        match check_server(site, url).await {
            Err(error @ (ServerError::Unreachable { .. } | ServerError::Other { .. })) => {
                failures += 1;
                warn!(%error, "trying again");
                sleep(retry_delay(failures, LONGEST_PAUSE)).await;
            }
            answer => return answer,
        }
    }
}

/// Waits for what the hub has to say; for as long as it takes when nothing is known from before.
async fn acquaint(context: &Context, mirrors: &Mirrors, file: &StateFile, listed: &Notify) {
    let state = match file.load() {
        Ok(state) => state,
        Err(error) => {
            error!(%error, "going on without it; the hub has to be there");
            None
        }
    };
    let Some(state) = state else {
        listed.notified().await;
        return;
    };
    if timeout(PATIENCE, listed.notified()).await.is_err() {
        let phases = state.len();
        warn!(
            phases,
            "the hub is not there; going on with what it said last"
        );
        mirrors.recall(context, state);
    }
}
