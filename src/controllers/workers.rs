//! The workers: which passes there are, and what follows from what they came to.

use std::{sync::Arc, time::Instant};

use tokio::{sync::watch, task::JoinSet};
use tracing::{Instrument as _, debug, info_span, warn};

use super::{Context, Role, agent, object_deployment, object_set, object_set_phase, queue::Queue};
use crate::{
    cluster::{
        deployment::{DeploymentKey, DeploymentKind},
        key::{Key, Resource},
        phase::{PhaseKey, PhaseKind},
        record::{RevisionKey, RevisionKind},
    },
    engine::conditions::Again,
    telemetry::{metrics::ControllerMetrics, outcomes::ReconcileOutcome},
};

/// What a pass came to, for the queue and the metrics.
pub type Reconciled = (ReconcileOutcome, Again);

/// Why a pass ended early.
pub trait Fault: std::error::Error {
    /// Whether something has changed under the pass: no fault, the next pass sees it.
    fn is_change(&self) -> bool;
}

/// A pass over one kind of objects, in both scopes.
trait Controller: Send + Sync + 'static {
    /// The kind of the objects.
    type Kind: Resource;
    /// Why a pass ended early.
    type Error: Fault;

    /// The kind in lower case, for metrics.
    const NAME: &'static str;

    /// What is to be worked on.
    fn queue(context: &Context) -> &Queue<Key<Self::Kind>>;

    /// One pass.
    fn reconcile(
        context: &Context,
        key: &Key<Self::Kind>,
    ) -> impl Future<Output = Result<Reconciled, Self::Error>> + Send;
}

struct ObjectSets;

impl Controller for ObjectSets {
    type Kind = RevisionKind;
    type Error = object_set::Error;

    const NAME: &'static str = "objectset";

    fn queue(context: &Context) -> &Queue<RevisionKey> {
        &context.queue
    }

    async fn reconcile(context: &Context, key: &RevisionKey) -> Result<Reconciled, Self::Error> {
        object_set::reconcile(context, key).await
    }
}

struct ObjectDeployments;

impl Controller for ObjectDeployments {
    type Kind = DeploymentKind;
    type Error = object_deployment::Error;

    const NAME: &'static str = "objectdeployment";

    fn queue(context: &Context) -> &Queue<DeploymentKey> {
        &context.deployment_queue
    }

    async fn reconcile(context: &Context, key: &DeploymentKey) -> Result<Reconciled, Self::Error> {
        object_deployment::reconcile(context, key).await
    }
}

struct ObjectSetPhases;

impl Controller for ObjectSetPhases {
    type Kind = PhaseKind;
    type Error = object_set_phase::Error;

    const NAME: &'static str = "objectsetphase";

    fn queue(context: &Context) -> &Queue<PhaseKey> {
        &context.phase_queue
    }

    async fn reconcile(context: &Context, key: &PhaseKey) -> Result<Reconciled, Self::Error> {
        match &context.role {
            Role::Manager { inventory, .. } => {
                object_set_phase::reconcile(context, inventory, key).await
            }
            Role::Agent(mirrors) => Ok(agent::reconcile(context, mirrors, key).await?),
        }
    }
}

/// Runs the workers of all controllers until `stop` resolves; passes under way are finished first. An
/// agent has one worker, so that of phases that came together the newest is there first.
pub async fn run(context: Arc<Context>, workers: usize, stop: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    let (closing, _) = watch::channel(false);
    let workers = match &context.role {
        Role::Manager { .. } => workers,
        Role::Agent(_) => {
            tasks.spawn(worker::<ObjectSetPhases>(
                context.clone(),
                closing.subscribe(),
            ));
            0
        }
    };
    for _ in 0..workers {
        tasks.spawn(worker::<ObjectSets>(context.clone(), closing.subscribe()));
        tasks.spawn(worker::<ObjectDeployments>(
            context.clone(),
            closing.subscribe(),
        ));
        tasks.spawn(worker::<ObjectSetPhases>(
            context.clone(),
            closing.subscribe(),
        ));
    }
    stop.await;
    closing.send_replace(true);
    while tasks.join_next().await.is_some() {}
}

async fn worker<C: Controller>(context: Arc<Context>, mut closed: watch::Receiver<bool>) {
    let metrics = context.metrics.controller(C::NAME);
    let queue = C::queue(&context);
    loop {
        tokio::select! {
            biased;
            _ = closed.changed() => return,
            (key, waited) = queue.next() => {
                metrics.waited(waited);
                work::<C>(&context, &metrics, &key).await;
                queue.done(&key);
            }
        }
    }
}

/// One pass, its log, its metrics, and when to come back.
async fn work<C: Controller>(context: &Context, metrics: &ControllerMetrics, key: &Key<C::Kind>) {
    let started = Instant::now();
    let span = info_span!(
        "reconcile",
        kind = key.kind.kind(),
        namespace = &*key.namespace,
        name = &*key.name
    );
    let result = C::reconcile(context, key).instrument(span.clone()).await;
    let _entered = span.enter();
    let (outcome, again) = match result {
        Ok((outcome, again)) => (outcome, again),
        Err(error) if error.is_change() => {
            debug!(%error, "the object has changed, looking again");
            (ReconcileOutcome::Conflict, Again::Backoff)
        }
        Err(error) => {
            warn!(%error, "pass failed, trying again");
            (ReconcileOutcome::Failed, Again::Backoff)
        }
    };
    let queue = C::queue(context);
    metrics.reconciled(outcome, started.elapsed());
    metrics.set_queue_depth(queue.depth());
    debug!(outcome = outcome.as_str(), ?again, elapsed = ?started.elapsed(), "pass done");
    match again {
        Again::OnEvent => queue.forget(key),
        Again::After(delay) => {
            queue.forget(key);
            queue.add_after(key.clone(), delay);
        }
        Again::Backoff => queue.retry(key.clone()),
    }
}
