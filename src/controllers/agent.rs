//! The phases of one cluster, as its agent knows them from their mirrors on the hub, and the passes over
//! them.
//!
//! ```text
//! hub: mirrors ──watch──► Mirrors ──► Context::phases ──► passes ──► the cluster
//!         ▲                 │ ▲                              │
//!         └────reporter─────┘ └────── status ◄───────────────┘
//! ```
//!
//! The passes need nothing of the hub, and never wait for it: a status is noted here, and reported when
//! the hub is there.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{ARCHIVED, reasons},
    constants::{CLASS_AGENT, HEARTBEAT},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tracing::{error, warn};

use super::{
    Context, Reconciled,
    deliver::{Error, Report, Work},
    owner::Owner,
};
use crate::{
    cluster::{
        mirror::{self, Origin},
        phase::{PhaseKey, PhaseRecord, Phases},
        record::ReadError,
    },
    engine::{conditions::Again, revision::Delivery},
    telemetry::outcomes::ReconcileOutcome,
};

/// What has changed in the namespace of an agent.
pub enum Change {
    /// These are all objects that there are, at a version of the hub's state.
    All(Vec<PhaseRecord>, u64),
    /// An object appeared or changed.
    There(PhaseRecord),
    /// An object is gone.
    Gone(PhaseKey),
}

/// A phase to be looked at, and the number of its revision: the newest comes first.
type News = (Reverse<i64>, PhaseKey);

/// What an agent knows of the hub.
pub struct Mirrors {
    /// The cluster it serves.
    cluster: String,
    /// As the hub has them, or had them when it was there last.
    items: Phases,
    /// Whether the hub has told all that there is.
    is_told: Mutex<bool>,
    /// Phases whose status the hub may not have as it is.
    pending: Mutex<BTreeSet<PhaseKey>>,
    /// Told when there is something to be reported.
    news: Notify,
    /// Counts changes of what is to outlive the process.
    changes: watch::Sender<u64>,
    /// The object whose status shows that the agent is there, once it was seen.
    heartbeat: watch::Sender<Option<Arc<PhaseRecord>>>,
    /// Whether the hub answers, as far as the watch can tell.
    is_connected: watch::Sender<bool>,
}

impl Mirrors {
    /// Knows nothing of the hub yet.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            items: Phases::default(),
            is_told: Mutex::new(false),
            pending: Mutex::default(),
            news: Notify::new(),
            changes: watch::Sender::new(0),
            heartbeat: watch::Sender::new(None),
            is_connected: watch::Sender::new(false),
        }
    }

    /// The cluster that the agent serves.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The mirrors, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<PhaseRecord>> {
        let keys = self.items.keys();
        keys.iter().filter_map(|key| self.items.get(key)).collect()
    }

    /// Counts changes of [`Mirrors::all`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The object whose status shows that the agent is there.
    #[must_use]
    pub fn heartbeat(&self) -> watch::Receiver<Option<Arc<PhaseRecord>>> {
        self.heartbeat.subscribe()
    }

    /// Whether the hub answers.
    #[must_use]
    pub fn is_connected(&self) -> watch::Receiver<bool> {
        self.is_connected.subscribe()
    }

    /// The hub answers, or does not.
    pub fn set_connected(&self, connected: bool) {
        self.is_connected.send_if_modified(|known| {
            let is_new = *known != connected;
            *known = connected;
            is_new
        });
    }

    /// Resolves when something was added to what is to be reported since the last call.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// The phases whose status the hub may not have.
    #[must_use]
    pub fn pending(&self) -> Vec<PhaseKey> {
        self.pending.lock().iter().cloned().collect()
    }

    /// What has to be written so that the hub has the status of a phase; `None` when it has.
    pub fn unreported(
        &self,
        context: &Context,
        key: &PhaseKey,
    ) -> Option<(Arc<PhaseRecord>, ObjectSetPhaseStatus)> {
        // Whatever comes in from now on is noted again.
        self.pending.lock().remove(key);
        let phase = context.phases.get(key)?;
        let mirror = self.items.get(&mirror::key(&self.cluster, &phase))?;
        let status = phase.status().ok()?;
        (mirror.status().ok().as_ref() != Some(&status)).then_some((mirror, status))
    }

    /// The status of a phase could not be reported.
    pub fn still_pending(&self, key: PhaseKey) {
        self.pending.lock().insert(key);
    }

    /// The hub has taken a status.
    pub fn reported(&self, mirror: PhaseRecord) {
        if *mirror.key.name == *HEARTBEAT {
            let mirror = Arc::new(mirror);
            self.heartbeat.send_if_modified(|known| {
                let is_newer = known.as_ref().is_some_and(|known| {
                    known.uid == mirror.uid && known.resource_version < mirror.resource_version
                });
                if is_newer {
                    *known = Some(mirror);
                }
                // Who waits for changes waits for those of the hub.
                false
            });
            return;
        }
        self.items.update(mirror);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Takes in what has changed in the agent's namespace, and lets the phases be looked at: the newest
    /// first, so that what they replace is not written any more.
    pub fn take(&self, context: &Context, changes: impl IntoIterator<Item = Change>) {
        let mut news = BTreeSet::new();
        for change in changes {
            match change {
                Change::All(objects, version) => {
                    *self.is_told.lock() = true;
                    self.replace(context, objects, version, &mut news);
                }
                Change::There(object) => news.extend(self.found(context, object)),
                Change::Gone(key) => news.extend(self.lost(context, &key)),
            }
        }
        for (_, key) in news {
            context.phase_queue.add(key);
        }
    }

    /// Takes in what the hub said before the process was started, unless it has spoken again.
    pub fn recall(&self, context: &Context, objects: Vec<PhaseRecord>) {
        let is_told = self.is_told.lock();
        if !*is_told {
            let mut news = BTreeSet::new();
            for object in objects {
                news.extend(self.found(context, object));
            }
            for (_, key) in news {
                context.phase_queue.add(key);
            }
        }
    }

    /// Takes in one object. One that cannot be read stops nobody else.
    fn found(&self, context: &Context, object: PhaseRecord) -> Option<News> {
        let key = object.key.clone();
        self.take_one(context, object).unwrap_or_else(|error| {
            error!(object = %key, %error, "it is left alone");
            None
        })
    }

    fn take_one(&self, context: &Context, object: PhaseRecord) -> Result<Option<News>, ReadError> {
        if object.class() != CLASS_AGENT {
            return Ok(None);
        }
        if *object.key.name == *HEARTBEAT {
            let object = Arc::new(object);
            self.heartbeat.send_if_modified(|known| {
                let is_newer = known.as_ref().is_none_or(|known| {
                    known.uid != object.uid || known.resource_version < object.resource_version
                });
                if is_newer {
                    *known = Some(object);
                }
                is_newer
            });
            return Ok(None);
        }
        let origin = Origin::read(&object)?;
        let revisions = origin.revisions(object.resource_version)?;
        let mut phase = origin.phase(&object);
        let (number, key) = (number(&object), phase.key.clone());
        let Some((_, is_news)) = self.items.upsert(object) else {
            return Ok(None);
        };
        self.changed();
        for revision in revisions {
            context.revisions.upsert(revision);
        }
        if let Some(known) = context.phases.get(&key)
            && known.uid == phase.uid
        {
            // The hub may not know it yet.
            phase.set_status_of(&known);
        }
        context.phases.upsert(phase);
        self.pending.lock().insert(key.clone());
        self.news.notify_one();
        Ok(is_news.then_some((Reverse(number), key)))
    }

    /// Forgets a mirror that is gone, and the phase that it stands for; its objects stay as they are.
    fn lost(&self, context: &Context, key: &PhaseKey) -> Option<News> {
        if *key.name == *HEARTBEAT {
            self.heartbeat.send_replace(None);
        }
        let mirror = self.items.remove(key)?;
        self.changed();
        self.prune(context);
        let origin = Origin::read(&mirror).ok()?;
        let phase = origin.key();
        let known = context.phases.get(&phase)?;
        if *known.uid != *origin.uid() {
            return None;
        }
        context.phases.remove(&phase);
        Some((Reverse(number(&mirror)), phase))
    }

    /// Forgets revisions that no mirror tells of any more.
    fn prune(&self, context: &Context) {
        let mut told = HashSet::new();
        for mirror in self.all() {
            let origin = Origin::read(&mirror).ok();
            let revisions = origin.and_then(|origin| origin.revisions(0).ok());
            told.extend(revisions.into_iter().flatten().map(|record| record.uid));
        }
        for key in context.revisions.keys() {
            let record = context.revisions.get(&key);
            if record.is_some_and(|record| !told.contains(&record.uid)) {
                context.revisions.remove(&key);
            }
        }
    }

    /// Takes in all objects that there are, at a version of the hub's state.
    fn replace(
        &self,
        context: &Context,
        objects: Vec<PhaseRecord>,
        version: u64,
        news: &mut BTreeSet<News>,
    ) {
        let known = self.all();
        let has_gone_back = known.iter().any(|mirror| mirror.resource_version > version);
        if has_gone_back {
            warn!("the hub has gone back in time, as after a backup was restored; following it");
        }
        let listed: HashSet<PhaseKey> = objects.iter().map(|object| object.key.clone()).collect();
        for mirror in known {
            if has_gone_back || !listed.contains(&mirror.key) {
                news.extend(self.lost(context, &mirror.key));
            }
        }
        for object in objects {
            news.extend(self.found(context, object));
        }
    }

    /// Notes the status that a phase is to have; whether it is another one than before.
    fn note(
        &self,
        context: &Context,
        phase: &PhaseRecord,
        status: &ObjectSetPhaseStatus,
    ) -> Result<bool, ReadError> {
        if phase.status()? == *status {
            return Ok(false);
        }
        let noted = context.phases.note_status(&phase.key, &phase.uid, status);
        if noted.map_err(ReadError::of("status"))? {
            self.pending.lock().insert(phase.key.clone());
            self.news.notify_one();
        }
        Ok(true)
    }
}

fn number(mirror: &PhaseRecord) -> i64 {
    #[derive(Deserialize)]
    struct Spec {
        revision: i64,
    }
    serde_json::from_str(mirror.raw_spec()).map_or(0, |spec: Spec| spec.revision)
}

/// One pass over a phase.
///
/// # Errors
/// When it, or the kinds of its objects, could not be read. What goes wrong with its objects is told in
/// its status.
pub async fn reconcile(
    context: &Context,
    mirrors: &Mirrors,
    key: &PhaseKey,
) -> Result<Reconciled, Error> {
    let owner = Owner::Phase(key.clone());
    let Some(record) = context.phases.get(key) else {
        context.forget(&owner);
        return Ok((ReconcileOutcome::Gone, Again::OnEvent));
    };
    let old = record.status()?;
    let work = Work {
        context,
        owner,
        target: context.target.clone(),
        delivery: Delivery::Remote,
    };
    let Report {
        status,
        result: (outcome, again),
        concerned,
    } = if !record.deleting {
        work.roll_out(&record).await?
    } else if mirror::is_archived(&old) {
        return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
    } else if let Some(report) = work.tear_down(&record).await? {
        report
    } else {
        Report {
            status: archived(&record),
            result: (ReconcileOutcome::Changed, Again::OnEvent),
            concerned: Vec::new(),
        }
    };
    let is_news = mirrors.note(context, &record, &status)?;
    context.look_again(&key.revision(""), &concerned);
    match outcome {
        ReconcileOutcome::Unchanged if is_news => Ok((ReconcileOutcome::Changed, again)),
        outcome => Ok((outcome, again)),
    }
}

/// What tells the hub that the objects are gone.
fn archived(phase: &PhaseRecord) -> ObjectSetPhaseStatus {
    ObjectSetPhaseStatus {
        conditions: vec![Condition {
            type_: ARCHIVED.to_owned(),
            status: "True".to_owned(),
            reason: reasons::ARCHIVED.to_owned(),
            message: String::new(),
            observed_generation: Some(phase.generation),
            last_transition_time: Time(Timestamp::now()),
        }],
        controller_of: Vec::new(),
    }
}
