//! What an agent knows of the hub: the mirrors in its namespace there, and which statuses the hub has yet to get.
//!
//! ```text
//! hub: mirrors ──watch──► Mirrors ──► Observed::phases ──► passes ──► the cluster
//!         ▲                 │ ▲                              │
//!         └────reporter─────┘ └────── status ◄───────────────┘
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use baton_apis::{
    ObjectSetPhaseStatus,
    constants::{CLASS_AGENT, HEARTBEAT},
};
use baton_fleet::mirror::{self, Origin};
use baton_records::{
    phase::{PhaseKey, PhaseRecord, Phases},
    record::ReadError,
};
use baton_runtime::source::Source;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{error, warn};

use super::state::Saved;
use crate::controllers::{observed::Observed, site_gate};

/// The name under which an agent's writes to its own stores go.
const WRITER: &str = "agent";

/// What has changed in the namespace of an agent.
pub(crate) enum Change {
    /// These are all objects that there are, at a version of the hub's state.
    All(Vec<PhaseRecord>, u64),
    There(PhaseRecord),
    Gone(PhaseKey),
}

/// A phase to be reconciled, and the number of its revision: the newest comes first.
type Wake = (Reverse<i64>, PhaseKey);

pub(crate) struct Mirrors {
    /// The cluster that the agent serves.
    cluster: String,
    /// As the hub has them, or had them when it was there last.
    items: Phases,
    observed: Arc<Observed>,
    /// Phases to be reconciled.
    wakes: Source<PhaseKey>,
    /// Whether the hub has sent a whole list.
    is_listed: Mutex<bool>,
    /// Phases whose status the hub may not have as it is.
    pending: Mutex<BTreeSet<PhaseKey>>,
    /// Notified when something becomes pending.
    became_pending: Notify,
    /// Counts changes of what is to outlive the process.
    changes: watch::Sender<u64>,
    /// The object whose status shows that the agent is there, once it was observed.
    heartbeat: watch::Sender<Option<Arc<PhaseRecord>>>,
    /// Whether the hub answers, as far as the watch shows.
    is_connected: watch::Sender<bool>,
}

impl Mirrors {
    /// Knows nothing of the hub yet.
    pub(crate) fn new(cluster: &str, observed: Arc<Observed>) -> Self {
        Self {
            cluster: cluster.to_owned(),
            items: Phases::default(),
            observed,
            wakes: Source::default(),
            is_listed: Mutex::new(false),
            pending: Mutex::default(),
            became_pending: Notify::new(),
            changes: watch::Sender::new(0),
            heartbeat: watch::Sender::new(None),
            is_connected: watch::Sender::new(false),
        }
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The mirrors, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<PhaseRecord>> {
        self.items.all()
    }

    /// All mirrors as they are to be remembered.
    pub(crate) fn saved(&self) -> Vec<Saved> {
        let mirrors = self.all().into_iter();
        mirrors
            .map(|mirror| {
                let noted = self.noted(&mirror);
                Saved { mirror, noted }
            })
            .collect()
    }

    /// The status of a phase that the hub does not have yet, by its mirror.
    fn noted(&self, mirror: &PhaseRecord) -> Option<ObjectSetPhaseStatus> {
        let origin = Origin::read(mirror).ok()?;
        let phase = self.observed.phases.get(&origin.key())?;
        let status = phase
            .status()
            .ok()
            .filter(|_| *phase.uid == *origin.uid())?;
        (mirror.status().ok().as_ref() != Some(&status)).then_some(status)
    }

    /// Counts changes of [`Mirrors::saved`].
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The phases to be reconciled because of what the hub has.
    pub(crate) fn wakes(&self) -> &Source<PhaseKey> {
        &self.wakes
    }

    /// The object whose status shows that the agent is there.
    pub(crate) fn heartbeat(&self) -> watch::Receiver<Option<Arc<PhaseRecord>>> {
        self.heartbeat.subscribe()
    }

    /// Whether the hub has nothing for the heartbeat: the namespace of the agent is on its way out, and its mirrors are
    /// deleted with it. That is no order to take objects away.
    pub(crate) fn is_closing(&self) -> bool {
        *self.is_listed.lock() && self.heartbeat.borrow().is_none()
    }

    /// Whether the hub answers.
    pub(crate) fn is_connected(&self) -> watch::Receiver<bool> {
        self.is_connected.subscribe()
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        self.is_connected.send_if_modified(|known| {
            let is_new = *known != connected;
            *known = connected;
            is_new
        });
    }

    /// Resolves when something has become pending since the last call.
    pub(crate) async fn became_pending(&self) {
        self.became_pending.notified().await;
    }

    /// The phases whose status the hub may not have.
    pub(crate) fn pending(&self) -> Vec<PhaseKey> {
        self.pending.lock().iter().cloned().collect()
    }

    fn add_pending(&self, key: PhaseKey) {
        self.pending.lock().insert(key);
        self.became_pending.notify_one();
    }

    /// What has to be written so that the hub has the status of a phase; `None` when it has.
    pub(crate) fn unreported(
        &self,
        key: &PhaseKey,
    ) -> Option<(Arc<PhaseRecord>, ObjectSetPhaseStatus)> {
        // Whatever comes in from now on is pending again.
        self.pending.lock().remove(key);
        let phase = self.observed.phases.get(key)?;
        let mirror = self.items.get(&mirror::key(&self.cluster, &phase))?;
        let status = phase.status().ok()?;
        (mirror.status().ok().as_ref() != Some(&status)).then_some((mirror, status))
    }

    /// The status of a phase could not be reported.
    pub(crate) fn still_pending(&self, key: PhaseKey) {
        self.pending.lock().insert(key);
    }

    /// The hub has taken a status.
    pub(crate) fn reported(&self, mirror: PhaseRecord) {
        if *mirror.key.name == *HEARTBEAT {
            let mirror = Arc::new(mirror);
            self.heartbeat.send_if_modified(|known| {
                let is_newer = known.as_ref().is_some_and(|known| {
                    known.uid == mirror.uid && known.resource_version < mirror.resource_version
                });
                if is_newer {
                    *known = Some(mirror);
                }
                // Whoever waits for changes waits for those of the hub.
                false
            });
            return;
        }
        self.items.updated(mirror, WRITER);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Takes in what has changed in the agent's namespace, and wakes the phases: the newest first, so that what they
    /// replace is not written any more.
    pub(crate) fn take(&self, changes: impl IntoIterator<Item = Change>) {
        let was_closing = self.is_closing();
        let mut wakes = self.absorb(changes);
        wakes.extend(self.mates());
        if was_closing && !self.is_closing() {
            wakes.extend(self.deleted());
        }
        self.wake(wakes);
    }

    /// The phases of sites that may wait for what has changed: few, and each looks at all others of its chain anyway.
    fn mates(&self) -> Vec<Wake> {
        let waiting = |phase: &PhaseRecord| {
            site_gate::is_of_site(phase) && site_gate::state(phase).begun.since().is_none()
        };
        let phases = self.observed.phases.filter(waiting).into_iter();
        phases
            .map(|phase| (Reverse(phase.revision_number()), phase.key.clone()))
            .collect()
    }

    fn wake(&self, wakes: BTreeSet<Wake>) {
        for (_, key) in wakes {
            self.wakes.emit(&key);
        }
    }

    /// Takes in changes; what they wake.
    fn absorb(&self, changes: impl IntoIterator<Item = Change>) -> BTreeSet<Wake> {
        let mut wakes = BTreeSet::new();
        for change in changes {
            match change {
                Change::All(objects, version) => {
                    // With the heartbeat: nobody is to look in between.
                    let mut is_listed = self.is_listed.lock();
                    self.replace(objects, version, &mut wakes);
                    *is_listed = true;
                }
                Change::There(object) => wakes.extend(self.found(object)),
                Change::Gone(key) => {
                    wakes.extend(self.lost(&key));
                    self.prune();
                }
            }
        }
        wakes
    }

    /// The phases whose mirrors are being deleted.
    fn deleted(&self) -> Vec<Wake> {
        let deleted = self.items.filter(|mirror| mirror.deleting).into_iter();
        deleted
            .filter_map(|mirror| {
                let origin = Origin::read(&mirror).ok()?;
                Some((Reverse(mirror.revision_number()), origin.key()))
            })
            .collect()
    }

    /// Takes in what the hub had before the process was started, unless it has sent a list since, and what it had yet
    /// to
    /// be told.
    pub(crate) fn recall(&self, saved: Vec<Saved>) {
        let is_listed = self.is_listed.lock();
        if !*is_listed {
            let objects = saved.iter().map(|saved| PhaseRecord::clone(&saved.mirror));
            let wakes = self.absorb(objects.map(Change::There).collect::<Vec<_>>());
            self.wake(wakes);
        }
        for Saved { mirror, noted } in saved {
            if let Some(noted) = noted {
                self.recall_noted(&mirror, &noted);
            }
        }
    }

    /// Takes in a status that was noted, unless the hub has taken another one since.
    fn recall_noted(&self, saved: &PhaseRecord, noted: &ObjectSetPhaseStatus) {
        let known = self.items.get(&saved.key);
        let known = known.filter(|known| known.uid == saved.uid && !known.status_differs(saved));
        let origin = known.and_then(|known| Origin::read(&known).ok());
        let phase = origin.and_then(|origin| self.observed.phases.get(&origin.key()));
        let Some(phase) = phase else { return };
        match self.note(&phase, noted) {
            Ok(_) => self.wakes.emit(&phase.key),
            Err(error) => error!(object = %phase.key, %error, "what was noted of it is lost"),
        }
    }

    /// Takes in one object. One that cannot be read stops nobody else.
    fn found(&self, object: PhaseRecord) -> Option<Wake> {
        let key = object.key.clone();
        self.take_one(object).unwrap_or_else(|error| {
            error!(object = %key, %error, "it is left alone");
            None
        })
    }

    fn take_one(&self, object: PhaseRecord) -> Result<Option<Wake>, ReadError> {
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
        let (number, key) = (object.revision_number(), phase.key.clone());
        let before = self.items.get(&object.key);
        let matters = before.is_none_or(|before| before.differs(&object));
        if !self.items.observe(object) {
            return Ok(None);
        }
        self.changed();
        for revision in revisions {
            self.observed.revisions.observe(revision);
        }
        let phases = &self.observed.phases;
        if let Some(known) = phases.get(&key)
            && known.uid == phase.uid
        {
            // The hub may not know it yet.
            phase.set_status_of(&known);
        }
        phases.observe(phase);
        self.add_pending(key.clone());
        Ok(matters.then_some((Reverse(number), key)))
    }

    /// Forgets a mirror that is gone, and the phase that it stands for; its objects stay as they are.
    fn lost(&self, key: &PhaseKey) -> Option<Wake> {
        if *key.name == *HEARTBEAT {
            self.heartbeat.send_replace(None);
        }
        let mirror = self.items.remove(key)?;
        self.changed();
        let origin = Origin::read(&mirror).ok()?;
        let phase = origin.key();
        let known = self.observed.phases.get(&phase)?;
        if *known.uid != *origin.uid() {
            return None;
        }
        self.observed.phases.remove(&phase);
        Some((Reverse(mirror.revision_number()), phase))
    }

    /// Forgets revisions that no mirror mentions any more.
    fn prune(&self) {
        let mirrors = self.all();
        let origins: Vec<_> = mirrors
            .iter()
            .filter_map(|mirror| Origin::read(mirror).ok())
            .collect();
        let mentioned: HashSet<&str> = origins.iter().flat_map(Origin::revision_uids).collect();
        let revisions = &self.observed.revisions;
        for record in revisions.all() {
            if !mentioned.contains(&*record.uid) {
                revisions.remove(&record.key);
            }
        }
    }

    /// Takes in all objects that there are, at a version of the hub's state.
    fn replace(&self, objects: Vec<PhaseRecord>, version: u64, wakes: &mut BTreeSet<Wake>) {
        let known = self.all();
        let has_gone_back = known.iter().any(|mirror| mirror.resource_version > version);
        if has_gone_back {
            warn!("the hub has gone back in time, as after a backup was restored; following it");
        }
        let listed: HashSet<PhaseKey> = objects.iter().map(|object| object.key.clone()).collect();
        let heartbeat = mirror::heartbeat(&self.cluster);
        if !listed.contains(&heartbeat) {
            self.lost(&heartbeat);
        }
        for mirror in known {
            if has_gone_back || !listed.contains(&mirror.key) {
                wakes.extend(self.lost(&mirror.key));
            }
        }
        self.prune();
        for object in objects {
            wakes.extend(self.found(object));
        }
    }

    /// Notes the status that a phase is to have; whether it is another one than before.
    ///
    /// # Errors
    /// When the present one cannot be read.
    pub(crate) fn note(
        &self,
        phase: &PhaseRecord,
        status: &ObjectSetPhaseStatus,
    ) -> Result<bool, ReadError> {
        if phase.status()? == *status {
            return Ok(false);
        }
        let phases = &self.observed.phases;
        let noted = phases.note_status(&phase.key, &phase.uid, status);
        if noted.map_err(ReadError::of(phase.key.kind, "status"))? {
            self.add_pending(phase.key.clone());
            self.changed();
        }
        Ok(true)
    }
}
