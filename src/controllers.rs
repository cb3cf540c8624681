//! The controllers: what they share, and how events become work.

pub mod agent;
pub mod delegate;
pub mod deliver;
pub mod drive;
pub mod hold;
pub mod intake;
pub mod object_deployment;
pub mod object_set;
pub mod object_set_phase;
pub mod observe;
pub mod owner;
pub mod queue;
pub mod report;
pub mod workers;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use baton_apis::{ObjectSetProbe, conditions::CONNECTED, constants::API_VERSION};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::info;

pub use self::workers::{Fault, Reconciled};
use self::{agent::Mirrors, owner::Owner, queue::Queue};
use crate::{
    cluster::{
        deployment::{DeploymentKey, Deployments},
        events::{EventKind, EventPublisher},
        inventory::Inventory,
        key::{Key, Resource},
        mirror::{self, Origin},
        phase::{PhaseKey, PhaseRecord, Phases},
        record::{Record, RevisionKey},
        revision_api::RevisionApi,
        revisions::{Change, Revisions},
        store,
        target::{Target, TargetEvent},
    },
    engine::{
        conditions::FAILURES_BEFORE_REPORT,
        probes::{CompileError, Probes},
    },
    telemetry::metrics::Metrics,
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
    /// All delegated phases.
    pub phases: Phases,
    /// Requests about revisions, deployments and delegated phases.
    pub api: RevisionApi,
    /// The cluster that revisions and the objects of most of them live in.
    pub target: Target,
    /// What the process is there for.
    pub role: Role,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// The revisions to be worked on.
    pub queue: Queue<RevisionKey>,
    /// The deployments to be worked on.
    pub deployment_queue: Queue<DeploymentKey>,
    /// The delegated phases to be worked on.
    pub phase_queue: Queue<PhaseKey>,
    /// Collision protection is off.
    pub force_adoption: bool,
    /// Compiled CEL probes by owner and its uid. They never change, and compiling a rule takes
    /// as long as a whole pass.
    pub compiled: Mutex<HashMap<Owner, (Arc<str>, Probes)>>,
    /// Statuses of revisions that are not written yet.
    pub held: hold::Held,
    /// Owners that name a kind that is not served.
    pub unserved: Mutex<BTreeSet<Owner>>,
}

/// What a process is there for.
pub enum Role {
    /// All that there is in the cluster of the revisions.
    Manager {
        /// Other clusters.
        inventory: Inventory,
        /// Kubernetes Events.
        events: EventPublisher,
    },
    /// The phases of one other cluster, as they are told there. It may write nothing but their status,
    /// so it has no events; what they would say is logged.
    Agent(Arc<Mirrors>),
}

impl Context {
    /// The other clusters; none for an agent.
    #[must_use]
    pub fn inventory(&self) -> Option<&Inventory> {
        match &self.role {
            Role::Manager { inventory, .. } => Some(inventory),
            Role::Agent(_) => None,
        }
    }

    /// The probes of an owner of objects, compiled.
    ///
    /// # Errors
    /// When a probe is faulty; it is compiled anew each time.
    pub fn probes(
        &self,
        owner: &Owner,
        uid: &Arc<str>,
        specs: &[ObjectSetProbe],
    ) -> Result<Probes, CompileError> {
        if !specs
            .iter()
            .flat_map(|entry| &entry.probes)
            .any(|probe| probe.cel.is_some())
        {
            return Probes::compile(specs);
        }
        if let Some((known, probes)) = self.compiled.lock().get(owner)
            && known == uid
        {
            return Ok(probes.clone());
        }
        let probes = Probes::compile(specs)?;
        let entry = (uid.clone(), probes.clone());
        self.compiled.lock().insert(owner.clone(), entry);
        Ok(probes)
    }

    /// Publishes an event about an object of ours.
    pub fn event<R: Resource>(
        &self,
        key: &Key<R>,
        uid: &str,
        kind: EventKind,
        reason: &'static str,
        note: String,
    ) {
        let Role::Manager { events, .. } = &self.role else {
            info!(object = %key, reason, note);
            return;
        };
        let subject = ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(key.kind.kind().to_owned()),
            name: Some(key.name.to_string()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        events.publish(subject, kind, reason, note);
    }

    /// Adds an owner of objects to its queue.
    pub fn enqueue(&self, owner: Owner, delay: Duration) {
        match owner {
            Owner::Set(key) => self.queue.add_after(key, delay),
            Owner::Phase(key) => self.phase_queue.add_after(key, delay),
        }
    }

    /// How many passes over an owner of objects have failed in a row.
    #[must_use]
    pub fn failures(&self, owner: &Owner) -> u32 {
        match owner {
            Owner::Set(key) => self.queue.failures(key),
            Owner::Phase(key) => self.phase_queue.failures(key),
        }
    }

    /// Whether passes over an owner keep failing, so that its status has to say so.
    #[must_use]
    pub fn is_stuck(&self, owner: &Owner) -> bool {
        self.failures(owner) >= FAILURES_BEFORE_REPORT
    }

    /// Notes whether an owner waits for kinds to be served.
    pub fn note_unserved(&self, owner: &Owner, unserved: bool) {
        let mut set = self.unserved.lock();
        if unserved {
            set.insert(owner.clone());
        } else {
            set.remove(owner);
        }
    }

    /// Forgets an owner that is gone.
    pub fn forget(&self, owner: &Owner) {
        let user = owner.to_string();
        self.target.release(&user);
        if matches!(owner, Owner::Phase(_)) {
            // Which one it was is not known any more.
            for target in self.inventory().into_iter().flat_map(Inventory::targets) {
                target.release(&user);
            }
        }
        self.note_unserved(owner, false);
        self.compiled.lock().remove(owner);
        match owner {
            Owner::Set(key) => {
                self.metrics.forget_object_set(&key.namespace, &key.name);
                self.held.forget(key);
                self.queue.forget(key);
            }
            Owner::Phase(key) => self.phase_queue.forget(key),
        }
    }

    /// The owner of objects with a uid.
    fn owner_of_uid(&self, uid: &str) -> Option<Owner> {
        match self.phases.by_uid(uid) {
            Some(phase) => Some(Owner::Phase(phase.key.clone())),
            None => self
                .revisions
                .by_uid(uid)
                .map(|record| Owner::Set(record.key.clone())),
        }
    }

    /// The phase that a mirror stands for, if it exists.
    #[must_use]
    pub fn origin(&self, mirror: &PhaseRecord) -> Option<Arc<PhaseRecord>> {
        let origin = Origin::read(mirror).ok()?;
        let phase = self.phases.get(&origin.key())?;
        (*phase.uid == *origin.uid()).then_some(phase)
    }

    /// Adds a delegated phase that has changed, what stands for it in the namespace of an agent, and the
    /// revisions it belongs to, to their queues.
    pub fn phase_changed(&self, old: Option<&PhaseRecord>, new: Option<&PhaseRecord>) {
        let Some(phase) = new.or(old) else {
            return;
        };
        if let Some(cluster) = phase.agent() {
            self.mirror_changed(cluster, old, new);
            return;
        }
        self.phase_queue.add(phase.key.clone());
        if let (None, Some(cluster)) = (new, phase.cluster()) {
            let mirror = mirror::key(cluster, phase);
            if self.phases.get(&mirror).is_some() {
                self.phase_queue.add(mirror);
            }
        }
        let owners: BTreeSet<_> = old
            .into_iter()
            .chain(new)
            .filter_map(|phase| phase.controller.as_ref())
            .collect();
        for uid in owners {
            if let Some(record) = self.revisions.by_uid(uid) {
                self.queue.add(record.key.clone());
            }
        }
    }

    /// Takes in that an agent has reported, or that what stands for a phase has changed.
    fn mirror_changed(&self, cluster: &str, old: Option<&PhaseRecord>, new: Option<&PhaseRecord>) {
        let Some(mirror) = new.or(old) else {
            return;
        };
        let status = |mirror: &PhaseRecord| mirror.status().unwrap_or_default();
        // Nobody else writes it. What is there at the beginning may be old.
        if let (Some(old), Some(new), Some(inventory)) = (old, new, self.inventory())
            && status(old) != status(new)
        {
            let conditions = status(new).conditions;
            let word = conditions.into_iter().find(|c| c.type_ == CONNECTED);
            let word = word.map(|word| match &*word.status {
                "True" => Ok(word.message),
                _ => Err(word.message),
            });
            inventory.heard(cluster, word);
        }
        let key = match self.origin(mirror) {
            Some(phase) => phase.key.clone(),
            None => mirror.key.clone(),
        };
        self.phase_queue.add(key);
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
        // What a new revision takes over, and when, its own pass tells. One that goes leaves to those
        // before it what they had left to it.
        if let Some(old) = &old
            && new.as_ref().is_none_or(|new| new.is_closed())
        {
            let previous = old.previous.iter().map(ToString::to_string);
            self.look_again(&key, &previous.collect::<Vec<_>>());
        }
    }

    /// Adds the existing revisions that a pass over another one of their kind concerns to the queue.
    pub fn look_again(&self, by: &RevisionKey, names: &[String]) {
        for key in names.iter().map(|name| by.sibling(name)) {
            if let Some(record) = self.revisions.get(&key)
                && !record.is_closed()
            {
                self.queue.add_after(key, BURST);
                for phase in self.phases.controlled_by(&record.uid) {
                    self.phase_queue.add_after(phase.key.clone(), BURST);
                }
            }
        }
    }

    /// Adds the deployment that a revision belongs to, or may come to belong to, to the queue.
    fn deployment_of(&self, record: &Record) {
        let deployment = match (&record.controller, &record.deployment) {
            (Some(uid), _) => self.deployments.by_uid(uid).map(|item| item.key.clone()),
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
                    if let Some(owner) = self.owner_of_uid(&owner.uid) {
                        self.enqueue(owner, if written { CO_OWNED } else { BURST });
                    }
                }
            }
            TargetEvent::Blocker { user } => {
                let sets = self.revisions.keys().into_iter().map(Owner::Set);
                let phases = self.phases.keys().into_iter().map(Owner::Phase);
                if let Some(owner) = sets.chain(phases).find(|owner| owner.to_string() == user) {
                    self.enqueue(owner, Duration::ZERO);
                }
            }
            TargetEvent::KindsChanged { .. } => {
                for owner in self.unserved.lock().iter() {
                    self.enqueue(owner.clone(), BURST);
                }
            }
        }
    }
}

/// Turns changes in the clusters, and names of clusters whose link has changed, into work until the
/// channels close.
pub async fn dispatch(
    context: Arc<Context>,
    mut events: mpsc::UnboundedReceiver<TargetEvent>,
    mut links: mpsc::UnboundedReceiver<String>,
) {
    loop {
        tokio::select! {
            Some(event) = events.recv() => context.target_changed(event),
            Some(cluster) = links.recv() => {
                let phases = context
                    .phases
                    .keys_where(|phase| phase.cluster() == Some(cluster.as_str()));
                let heartbeat = mirror::heartbeat(&cluster);
                for key in phases.into_iter().chain([heartbeat]) {
                    context.phase_queue.add_after(key, BURST);
                }
            }
            else => return,
        }
    }
}
