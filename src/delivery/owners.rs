//! The objects that own children, as a controller remembers them between passes, and what wakes them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use baton_apis::ObjectSetProbe;
use baton_engine::ObjectKey;
use baton_fleet::inventory::Inventory;
use baton_kubernetes::{
    store::{ObjectChange, Source},
    target::{Target, TargetEvent},
    user::User,
};
use baton_probes::{CompileError, Probes};
use baton_records::{key::Key, record::RecordKind};
use baton_runtime::source::Wake;
use parking_lot::Mutex;

use super::{pods::Failing, shared::BURST};

/// Objects that a revision only co-owns are written to by their new controller, several in a pass. A revision that
/// objects were taken from is woken at the end of that pass; this is for the others, such as one that probes what a
/// newer one repaired.
pub(crate) const CO_OWNED: Duration = Duration::from_secs(2);

/// The clusters in which owners of a kind use watches.
#[derive(Clone)]
pub(crate) struct Targets {
    /// The cluster of the controller.
    pub home: Target,
    /// The other clusters, for those whose objects may be there.
    pub inventory: Option<Inventory>,
}

impl Targets {
    /// All clusters that objects may be in.
    pub(crate) fn all(&self) -> Vec<Target> {
        let others = self.inventory.iter().flat_map(Inventory::targets);
        others.chain([self.home.clone()]).collect()
    }

    fn release(&self, user: &User) {
        for target in self.all() {
            target.release(user);
        }
    }
}

/// What is remembered of the owners of a kind.
pub(crate) struct Owners<K: RecordKind>(Mutex<HashMap<Key<K>, Memory>>);

struct Memory {
    uid: Arc<str>,
    /// Compiled CEL probes. They never change, and compiling a rule takes as long as a whole pass.
    probes: Option<Probes>,
    /// What older revisions have run. It does not change: their contents do not, and this one has come after them.
    ran: Option<BTreeSet<ObjectKey>>,
    /// What it waits for and no watch tells of.
    failing: Option<Failing>,
    /// Whether it names a kind that is not served, or an object was refused: its kind may be another one tomorrow.
    waits_for_kinds: bool,
}

impl Memory {
    fn new(uid: &Arc<str>) -> Self {
        Self {
            uid: uid.clone(),
            probes: None,
            ran: None,
            failing: None,
            waits_for_kinds: false,
        }
    }
}

impl<K: RecordKind> Default for Owners<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: RecordKind> Owners<K> {
    /// An owner as a user of watches. What it used under another uid is released in `targets`.
    pub(crate) fn user(&self, key: &Key<K>, uid: &Arc<str>, targets: &Targets) -> User {
        let mut owners = self.0.lock();
        let memory = owners
            .entry(key.clone())
            .or_insert_with(|| Memory::new(uid));
        let before = std::mem::replace(&mut memory.uid, uid.clone());
        if before != *uid {
            *memory = Memory::new(uid);
            drop(owners);
            targets.release(&user(key, &before));
        }
        user(key, uid)
    }

    /// The probes of an owner, compiled.
    ///
    /// # Errors
    /// When a probe is faulty; it is compiled anew each time.
    pub(crate) fn probes(
        &self,
        key: &Key<K>,
        uid: &Arc<str>,
        specs: &[ObjectSetProbe],
    ) -> Result<Probes, CompileError> {
        let mut probes = specs.iter().flat_map(|entry| &entry.probes);
        if !probes.any(|probe| probe.cel.is_some()) {
            return Probes::compile(specs);
        }
        let known = self.0.lock().get(key).and_then(|memory| {
            let probes = memory.probes.clone();
            probes.filter(|_| memory.uid == *uid)
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let probes = Probes::compile(specs)?;
        self.with(key, uid, |memory| memory.probes = Some(probes.clone()));
        Ok(probes)
    }

    /// The Jobs of an owner that older revisions have run, if that is known already.
    pub(crate) fn ran(&self, key: &Key<K>, uid: &Arc<str>) -> Option<BTreeSet<ObjectKey>> {
        let owners = self.0.lock();
        let memory = owners.get(key).filter(|memory| memory.uid == *uid)?;
        memory.ran.clone()
    }

    /// Notes which Jobs of an owner older revisions have run.
    pub(crate) fn note_ran(&self, key: &Key<K>, uid: &Arc<str>, ran: BTreeSet<ObjectKey>) {
        self.with(key, uid, |memory| memory.ran = Some(ran));
    }

    /// What an owner waits for and no watch tells of.
    pub(crate) fn failing(&self, key: &Key<K>, uid: &Arc<str>) -> Option<Failing> {
        let owners = self.0.lock();
        let memory = owners.get(key).filter(|memory| memory.uid == *uid)?;
        memory.failing.clone()
    }

    /// Notes what that is now.
    pub(crate) fn note_failing(&self, key: &Key<K>, uid: &Arc<str>, failing: Option<Failing>) {
        self.with(key, uid, |memory| memory.failing = failing);
    }

    /// Notes whether an owner waits for kinds to be served.
    pub(crate) fn note_waiting(&self, key: &Key<K>, uid: &Arc<str>, waits_for_kinds: bool) {
        self.with(key, uid, |memory| memory.waits_for_kinds = waits_for_kinds);
    }

    /// Forgets an owner that is gone, or has no objects any more, and releases its watches in `targets`.
    pub(crate) fn forget(&self, key: &Key<K>, targets: &Targets) {
        let memory = self.0.lock().remove(key);
        if let Some(memory) = memory {
            targets.release(&user(key, &memory.uid));
        }
    }

    /// Changes what is remembered of an owner, unless another one of its name is.
    fn with(&self, key: &Key<K>, uid: &Arc<str>, change: impl FnOnce(&mut Memory)) {
        let mut owners = self.0.lock();
        let memory = owners
            .entry(key.clone())
            .or_insert_with(|| Memory::new(uid));
        if memory.uid == *uid {
            change(memory);
        }
    }

    /// Trigger: what a change in a cluster wakes; `find` leads from a uid to the owner.
    pub(crate) fn on_child(
        &self,
        event: &TargetEvent,
        find: impl Fn(&str) -> Option<Key<K>>,
    ) -> Vec<Wake<Key<K>>> {
        match event {
            TargetEvent::Changed(ObjectChange { owners, source, .. }) => {
                let is_written = *source == Source::Write;
                // The one that writes is the one that controls, and knows already.
                let concerned = owners
                    .iter()
                    .filter(|owner| !(is_written && owner.controller));
                let delay = if is_written { CO_OWNED } else { BURST };
                let keys = concerned.filter_map(|owner| find(&owner.uid));
                keys.map(|key| Wake::after(delay, key)).collect()
            }
            TargetEvent::Listed { .. } => Vec::new(),
            TargetEvent::Blocker { user } => find(&user.uid).into_iter().map(Wake::now).collect(),
            TargetEvent::KindsChanged { .. } => {
                let owners = self.0.lock();
                let waiting = owners.iter().filter(|(_, memory)| memory.waits_for_kinds);
                waiting
                    .map(|(key, _)| Wake::after(BURST, key.clone()))
                    .collect()
            }
        }
    }
}

/// An owner as a user of watches.
pub(crate) fn user<K: RecordKind>(key: &Key<K>, uid: &Arc<str>) -> User {
    User {
        kind: key.kind.kind(),
        uid: uid.clone(),
    }
}
