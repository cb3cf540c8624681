//! The parts that the manager and the agent share: signals, the lease, and the endpoints.

use baton_apis::{ManagerNote, constants::ANNOTATION_MANAGER};
use baton_charts::Settings;
use baton_kubernetes::{
    client::instrumented_client,
    fence::Fence,
    lease::{self, LeaseParams},
};
use baton_runtime::{
    metrics::Metrics,
    server::{Readiness, Servers, serve},
};
use kube::{Client, Config};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::lease_thread::LeaseThread;
use crate::{
    cli::{ManagerArgs, ProcessArgs, values::Identity},
    error::Error,
};

/// Receives SIGTERM and SIGINT.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, std::io::Error> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        warn!("received a signal to stop; finishing the work in progress");
    }
}

/// The parameters of a process's lease.
pub(crate) fn lease_params(args: &ProcessArgs) -> LeaseParams {
    let identity = args.identity.as_ref().map(Identity::as_str);
    LeaseParams::new(args.namespace.as_str(), identity)
}

/// The parameters of the manager's lease. Its note is for `kubectl baton version` and `doctor`.
pub(crate) fn manager_lease_params(args: &ManagerArgs) -> LeaseParams {
    let mut params = lease_params(&args.process);
    let note = ManagerNote {
        holder: params.identity.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clusters_namespace: Some(args.clusters_namespace().as_str().to_owned()),
        helm_missing: Settings::new(args.chart_cache()).helm_missing(),
    };
    if let Ok(note) = serde_json::to_string(&note) {
        let key = ANNOTATION_MANAGER.to_owned();
        params.annotations.insert(key, note);
    }
    params
}

/// Starts the thread of the lease, and builds a client for the lease on it.
pub(crate) async fn start_lease_thread(
    config: Config,
    metrics: &Metrics,
) -> Result<(LeaseThread, Client), Error> {
    let lease_thread = LeaseThread::start().map_err(Error::Thread)?;
    let requests = metrics.requests().clone();
    // The fence of this client is always open, as requests for the lease cannot depend on the
    // lease.
    let fence = Fence::closed();
    fence.open();
    let client = lease_thread.run(async move { instrumented_client(config, &requests, &fence) });
    let client = client.await.map_err(Error::Client)?;
    Ok((lease_thread, client))
}

/// Starts the endpoints of a process.
pub(crate) async fn start_endpoints(
    lease_thread: &LeaseThread,
    args: &ProcessArgs,
    metrics: &Metrics,
    readiness: &Readiness,
) -> Result<Servers, Error> {
    let (metrics_addr, health_addr) = (args.metrics_addr, args.health_addr);
    let (metrics, readiness) = (metrics.clone(), readiness.clone());
    let servers = lease_thread
        .run(async move { serve(&metrics_addr, &health_addr, metrics, readiness).await });
    Ok(servers.await?)
}

/// Waits for the lease, runs `work` until a signal stops it, and releases the lease.
///
/// `work` gets the signal and ends after it. `fence` permits writes while the lease is held;
/// without leader election, from the start.
pub(crate) async fn lead(
    args: &ProcessArgs,
    params: LeaseParams,
    (lease_thread, lease_client, fence): (&LeaseThread, Client, &Fence),
    metrics: &Metrics,
    stop: &mut Stop,
    work: impl AsyncFnOnce(&mut Stop),
) -> Result<(), Error> {
    if !args.leader_elect {
        fence.open();
        work(stop).await;
        info!("stopped");
        return Ok(());
    }
    let leadership = tokio::select! {
        leadership = lease_thread.run(lease::acquire(lease_client, params, fence.clone())) => leadership?,
        () = stop.received() => return Ok(()),
    };
    metrics.set_leader(true);
    let lost = tokio::select! {
        // Dropping the workers cancels their requests: nothing is written after the loss.
        lost = leadership.lost() => Some(lost),
        () = work(stop) => None,
    };
    metrics.set_leader(false);
    if let Some(lost) = lost {
        return Err(Error::Lost(lost));
    }
    leadership.release().await;
    info!("stopped; the lease is released");
    Ok(())
}
