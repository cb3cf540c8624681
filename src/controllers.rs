//! The controllers: what they share, the workers that drive them, and how events become work.

pub mod intake;
pub mod object_deployment;
pub mod object_set;
pub mod observe;
pub mod queue;
pub mod report;

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Display,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_apis::{ObjectSetProbe, constants::API_VERSION};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{Instrument as _, debug, info_span, warn};

use self::queue::Queue;
use crate::{
    cluster::{
        deployment::{DeploymentKey, Deployments},
        events::{EventKind, EventPublisher},
        record::{Record, RevisionKey},
        revision_api::RevisionApi,
        revisions::{Change, Revisions},
        store,
        target::{Target, TargetEvent},
    },
    engine::{
        conditions::{Again, FAILURES_BEFORE_REPORT},
        probes::{CompileError, Probes},
        revision::{Desired, Kinds},
        slot::{Live, Settled},
    },
    telemetry::{
        metrics::{ControllerMetrics, Metrics},
        outcomes::ReconcileOutcome,
    },
};

/// Changes of children come in bursts, say all objects of a phase: they are worked on together.
const BURST: Duration = Duration::from_millis(20);

/// Objects that a revision only co-owns are written to by their new controller, several in a pass.
/// A revision that objects were taken from is told at the end of that pass; this is for the others,
/// such as one that probes what a newer one repaired.
const CO_OWNED: Duration = Duration::from_secs(2);

/// What the passes of all revisions share.
pub struct Context {
    /// The connection to the API server.
    pub client: kube::Client,
    /// All revisions.
    pub revisions: Revisions,
    /// All deployments.
    pub deployments: Deployments,
    /// Requests about revisions and deployments.
    pub api: RevisionApi,
    /// The cluster that the objects live in.
    pub target: Target,
    /// Kubernetes Events.
    pub events: EventPublisher,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// The revisions to be worked on.
    pub queue: Queue<RevisionKey>,
    /// The deployments to be worked on.
    pub deployment_queue: Queue<DeploymentKey>,
    /// Collision protection is off.
    pub force_adoption: bool,
    /// Compiled CEL probes by revision and its uid. They never change, and compiling a rule takes
    /// as long as a whole pass.
    pub compiled: Mutex<HashMap<RevisionKey, (Arc<str>, Probes)>>,
    /// Revisions that name a kind that is not served.
    pub unserved: Mutex<BTreeSet<RevisionKey>>,
}

impl Context {
    /// What the watches know of a wanted object. A kind that is not watched, because it is not
    /// served, has none.
    #[must_use]
    pub fn cached(&self, kinds: &Kinds, desired: &Desired) -> (Live, Option<Settled>) {
        if !kinds.contains_key(&desired.gvk) {
            return (Live::Uncached, None);
        }
        let stored = self
            .target
            .get(&desired.gvk, &desired.key.namespace, &desired.key.name);
        match stored {
            None => (Live::Uncached, None),
            Some(stored) => match stored.parse() {
                Ok(live) => (Live::Present(live), stored.settled),
                Err(_) => (Live::Unread, None),
            },
        }
    }

    /// The probes of a revision, compiled.
    ///
    /// # Errors
    /// When a probe is faulty; it is compiled anew each time.
    pub fn probes(
        &self,
        record: &Record,
        specs: &[ObjectSetProbe],
    ) -> Result<Probes, CompileError> {
        if !specs
            .iter()
            .flat_map(|entry| &entry.probes)
            .any(|probe| probe.cel.is_some())
        {
            return Probes::compile(specs);
        }
        if let Some((uid, probes)) = self.compiled.lock().get(&record.key)
            && *uid == record.uid
        {
            return Ok(probes.clone());
        }
        let probes = Probes::compile(specs)?;
        let entry = (record.uid.clone(), probes.clone());
        self.compiled.lock().insert(record.key.clone(), entry);
        Ok(probes)
    }

    /// Publishes an event about a revision.
    pub fn event(
        &self,
        key: &RevisionKey,
        uid: &str,
        kind: EventKind,
        reason: &'static str,
        note: String,
    ) {
        let subject = reference(key.kind.kind(), &key.namespace, &key.name, uid);
        self.events.publish(subject, kind, reason, note);
    }

    /// Whether passes over a revision keep failing, so that its status has to say so.
    #[must_use]
    pub fn is_stuck(&self, key: &RevisionKey) -> bool {
        self.queue.failures(key) >= FAILURES_BEFORE_REPORT
    }

    /// Notes whether a revision waits for kinds to be served.
    pub fn note_unserved(&self, key: &RevisionKey, unserved: bool) {
        let mut set = self.unserved.lock();
        if unserved {
            set.insert(key.clone());
        } else {
            set.remove(key);
        }
    }

    /// Forgets a revision that is gone.
    pub fn forget(&self, key: &RevisionKey) {
        self.target.release(&key.to_string());
        self.metrics.forget_object_set(&key.namespace, &key.name);
        self.note_unserved(key, false);
        self.compiled.lock().remove(key);
        self.queue.forget(key);
    }

    /// Adds what a change of a revision concerns to the queue: the revision itself unless it is
    /// the one that is at work, those that wait for its number, and those that it stood in for.
    pub fn revisions_changed(&self, change: Option<Change>, writer: Option<&RevisionKey>) {
        let Some(Change { old, new }) = change else {
            return;
        };
        let Some(key) = new
            .as_ref()
            .or(old.as_ref())
            .map(|record| record.key.clone())
        else {
            return;
        };
        for record in old.iter().chain(&new) {
            self.deployment_of(record);
        }
        let concerns_itself = match (&old, &new) {
            (Some(old), Some(new)) => {
                old.generation != new.generation
                    || old.deleting != new.deleting
                    || old.uid != new.uid
                    || old.finalizers != new.finalizers
                    || old.package != new.package
                    || old.instance != new.instance
            }
            _ => true,
        };
        if concerns_itself && writer != Some(&key) {
            self.queue.add(key.clone());
        }
        let number = |record: &Option<Arc<_>>| {
            record
                .as_ref()
                .map(|r: &Arc<Record>| (r.number, r.is_closed()))
        };
        if number(&old) == number(&new) {
            return;
        }
        for successor in self.revisions.successors(&key) {
            self.queue.add_after(successor, BURST);
        }
        for previous in new
            .as_ref()
            .or(old.as_ref())
            .iter()
            .flat_map(|record| &record.previous)
        {
            self.queue.add_after(key.sibling(&previous.name), BURST);
        }
    }

    /// Adds the existing revisions that a pass over another one of their kind concerns to the queue.
    pub fn look_again(&self, by: &RevisionKey, names: &[String]) {
        for key in names.iter().map(|name| by.sibling(name)) {
            if self.revisions.get(&key).is_some_and(|it| !it.is_closed()) {
                self.queue.add_after(key, BURST);
            }
        }
    }

    /// Adds the deployment that a revision belongs to, or may come to belong to, to the queue.
    fn deployment_of(&self, record: &Record) {
        let deployment = match (&record.controller, &record.deployment) {
            (Some(uid), _) => self.deployments.by_uid(uid),
            (None, Some(name)) => Some(DeploymentKey::of(&record.key, name)),
            (None, None) => None,
        };
        if let Some(deployment) = deployment {
            self.deployment_queue.add_after(deployment, BURST);
        }
    }

    /// Adds the revisions that a change in the cluster concerns to the queue.
    fn target_changed(&self, event: TargetEvent) {
        match event {
            TargetEvent::Changed(change) => {
                let written = change.source == store::Source::Write;
                for owner in &change.owners {
                    // The one that writes is the one that controls, and knows already.
                    if written && owner.controller {
                        continue;
                    }
                    if let Some(record) = self.revisions.by_uid(&owner.uid) {
                        let delay = if written { CO_OWNED } else { BURST };
                        self.queue.add_after(record.key.clone(), delay);
                    }
                }
            }
            TargetEvent::Blocker { user } => {
                if let Some(key) = self
                    .revisions
                    .keys()
                    .into_iter()
                    .find(|k| k.to_string() == user)
                {
                    self.queue.add(key);
                }
            }
            TargetEvent::KindsChanged { .. } => {
                for key in self.unserved.lock().iter() {
                    self.queue.add_after(key.clone(), BURST);
                }
            }
        }
    }
}

/// Turns changes in the cluster into work until the channel closes.
pub async fn dispatch(context: Arc<Context>, mut events: mpsc::UnboundedReceiver<TargetEvent>) {
    while let Some(event) = events.recv().await {
        context.target_changed(event);
    }
}

/// How an object of ours is named in Kubernetes Events.
fn reference(kind: &str, namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// What a pass came to, for the queue and the metrics.
pub type Reconciled = (ReconcileOutcome, Again);

/// A pass over one kind of objects, in both scopes.
trait Controller: Send + Sync + 'static {
    /// Identity of such an object.
    type Key: Clone + Eq + Ord + Hash + Display + Send + Sync;
    /// Why a pass ended early.
    type Error: std::error::Error;

    /// The kind in lower case, for metrics.
    const NAME: &'static str;

    /// What is to be worked on.
    fn queue(context: &Context) -> &Queue<Self::Key>;

    /// One pass.
    fn reconcile(
        context: &Context,
        key: &Self::Key,
    ) -> impl Future<Output = Result<Reconciled, Self::Error>> + Send;

    /// Whether a pass ended early only because something has changed under it.
    fn is_change(error: &Self::Error) -> bool;
}

struct ObjectSets;

impl Controller for ObjectSets {
    type Key = RevisionKey;
    type Error = object_set::Error;

    const NAME: &'static str = "objectset";

    fn queue(context: &Context) -> &Queue<RevisionKey> {
        &context.queue
    }

    async fn reconcile(context: &Context, key: &RevisionKey) -> Result<Reconciled, Self::Error> {
        object_set::reconcile(context, key).await
    }

    fn is_change(error: &Self::Error) -> bool {
        error.is_change()
    }
}

struct ObjectDeployments;

impl Controller for ObjectDeployments {
    type Key = DeploymentKey;
    type Error = object_deployment::Error;

    const NAME: &'static str = "objectdeployment";

    fn queue(context: &Context) -> &Queue<DeploymentKey> {
        &context.deployment_queue
    }

    async fn reconcile(context: &Context, key: &DeploymentKey) -> Result<Reconciled, Self::Error> {
        object_deployment::reconcile(context, key).await
    }

    fn is_change(error: &Self::Error) -> bool {
        error.is_change()
    }
}

/// Runs the workers of all controllers until `stop` resolves; passes under way are finished first.
pub async fn run(context: Arc<Context>, workers: usize, stop: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    let (closing, _) = watch::channel(false);
    for _ in 0..workers {
        tasks.spawn(worker::<ObjectSets>(context.clone(), closing.subscribe()));
        tasks.spawn(worker::<ObjectDeployments>(
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
async fn work<C: Controller>(context: &Context, metrics: &ControllerMetrics, key: &C::Key) {
    let started = Instant::now();
    let span = info_span!("reconcile", object = %key);
    let result = C::reconcile(context, key).instrument(span.clone()).await;
    let _entered = span.enter();
    let (outcome, again) = match result {
        Ok((outcome, again)) => (outcome, again),
        Err(error) if C::is_change(&error) => {
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
