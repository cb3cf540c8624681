//! The state that a controller stores about owners of children between passes, and the triggers of
//! these owners.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use baton_apis::ObjectSetProbe;
use baton_engine::{ObjectKey, disputes::Disputes, ended::Ended};
use baton_fleet::inventory::Inventory;
use baton_kubernetes::{
    store::{ObjectChange, Source},
    target::{Target, TargetEvent},
    user::User,
};
use baton_probes::{CompileError, Probes};
use baton_records::{
    key::Key,
    record::{Record, RecordKind},
    revision::RevisionKey,
};
use baton_runtime::source::Wake;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    failing::Failing,
    shared::{BURST, CO_OWNED},
};

/// The clusters in which owners of a kind use watches.
#[derive(Clone)]
pub(crate) struct Targets {
    /// The cluster of the controller.
    pub home: Target,
    /// The other clusters; `None` for owners that have objects only in the controller's cluster.
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

/// The owners of a kind, with their stored state.
pub(crate) struct Owners<K: RecordKind> {
    /// The clusters in which owners use watches.
    pub targets: Targets,
    states: Mutex<HashMap<Key<K>, OwnerState>>,
}

/// Objects of an owner that older revisions have run with the same content.
#[derive(Clone, Default)]
pub(crate) struct RanBefore {
    /// The Jobs with which an older revision has succeeded.
    pub jobs: BTreeSet<ObjectKey>,
    /// The objects that have ended.
    pub ended: Ended,
    /// Objects of older revisions that may still end.
    pub may_end: Vec<(RevisionKey, ObjectKey)>,
}

struct OwnerState {
    uid: Arc<str>,
    /// Compiled probes, if one is in CEL. They never change, and compiling a rule takes as long as
    /// a whole pass.
    probes: Option<Probes>,
    /// The objects that older revisions have run. The contents of older revisions are immutable,
    /// and none is added, so only objects that may still end can change.
    ran_before: Option<RanBefore>,
    /// The failing objects whose cause no watch reports.
    failing: Option<Failing>,
    /// The objects that were repaired of late.
    disputes: Disputes,
    /// True if a manifest names a kind that is not served, or an object was refused, since the
    /// definition of its kind may change.
    waits_for_kinds: bool,
}

impl OwnerState {
    fn new(uid: &Arc<str>) -> Self {
        Self {
            uid: uid.clone(),
            probes: None,
            ran_before: None,
            failing: None,
            disputes: Disputes::default(),
            waits_for_kinds: false,
        }
    }
}

impl<K: RecordKind> Owners<K> {
    pub(crate) fn new(targets: Targets) -> Self {
        Self {
            targets,
            states: Mutex::default(),
        }
    }

    /// An owner as a user of watches. Watches of an owner with the same name and another uid are
    /// released.
    pub(crate) fn user(&self, owner: &Record<K>) -> User {
        let (key, uid) = (&owner.key, &owner.uid);
        let mut memories = self.states.lock();
        let memory = memories
            .entry(key.clone())
            .or_insert_with(|| OwnerState::new(uid));
        let before = std::mem::replace(&mut memory.uid, uid.clone());
        if before != *uid {
            *memory = OwnerState::new(uid);
            drop(memories);
            self.targets.release(&user(key, &before));
        }
        user(key, uid)
    }

    /// The compiled probes of an owner.
    ///
    /// # Errors
    /// If a probe is invalid. Invalid probes are compiled again in each call.
    pub(crate) fn probes(
        &self,
        owner: &Record<K>,
        specs: &[ObjectSetProbe],
    ) -> Result<Probes, CompileError> {
        let mut probes = specs.iter().flat_map(|entry| &entry.probes);
        if !probes.any(|probe| probe.cel.is_some()) {
            return Probes::compile(specs);
        }
        if let Some(cached) = self.read(owner, |memory| memory.probes.clone()) {
            return Ok(cached);
        }
        let probes = Probes::compile(specs)?;
        self.update(owner, |memory| memory.probes = Some(probes.clone()));
        Ok(probes)
    }

    /// The objects of an owner that older revisions have run, if they were stored.
    pub(crate) fn ran(&self, owner: &Record<K>) -> Option<RanBefore> {
        self.read(owner, |memory| memory.ran_before.clone())
    }

    /// Stores the objects of an owner that older revisions have run.
    pub(crate) fn note_ran(&self, owner: &Record<K>, ran: RanBefore) {
        self.update(owner, |memory| memory.ran_before = Some(ran));
    }

    /// The failing objects of an owner whose cause no watch reports.
    pub(crate) fn failing(&self, owner: &Record<K>) -> Option<Failing> {
        self.read(owner, |memory| memory.failing.clone())
    }

    /// Stores the failing objects of an owner.
    pub(crate) fn note_failing(&self, owner: &Record<K>, failing: Option<Failing>) {
        self.update(owner, |memory| memory.failing = failing);
    }

    /// The objects of an owner that must not be repaired yet.
    pub(crate) fn disputed(&self, owner: &Record<K>, now: Timestamp) -> BTreeSet<ObjectKey> {
        self.read(owner, |memory| Some(memory.disputes.held(now)))
            .unwrap_or_default()
    }

    /// Changes the disputes of an owner.
    pub(crate) fn with_disputes<T>(
        &self,
        owner: &Record<K>,
        change: impl FnOnce(&mut Disputes) -> T,
    ) -> Option<T> {
        let mut result = None;
        self.update(owner, |memory| result = Some(change(&mut memory.disputes)));
        result
    }

    /// Records if an owner waits for kinds to be served.
    pub(crate) fn note_waiting(&self, owner: &Record<K>, waits_for_kinds: bool) {
        self.update(owner, |memory| memory.waits_for_kinds = waits_for_kinds);
    }

    /// Drops the state of an owner that was deleted or has no objects, and releases its watches.
    pub(crate) fn forget(&self, key: &Key<K>) {
        let memory = self.states.lock().remove(key);
        if let Some(memory) = memory {
            self.targets.release(&user(key, &memory.uid));
        }
    }

    /// Reads the state of an owner. State of another owner with the same name is ignored.
    fn read<T>(&self, owner: &Record<K>, read: impl FnOnce(&OwnerState) -> Option<T>) -> Option<T> {
        let memories = self.states.lock();
        let memory = memories.get(&owner.key);
        read(memory.filter(|memory| memory.uid == owner.uid)?)
    }

    /// Changes the state of an owner, unless the state belongs to another owner with the same name.
    fn update(&self, owner: &Record<K>, change: impl FnOnce(&mut OwnerState)) {
        let mut memories = self.states.lock();
        let memory = memories
            .entry(owner.key.clone())
            .or_insert_with(|| OwnerState::new(&owner.uid));
        if memory.uid == owner.uid {
            change(memory);
        }
    }

    /// Trigger: wakes the owners that a change in a cluster affects; `find` maps a uid to the
    /// owner.
    pub(crate) fn on_child(
        &self,
        event: &TargetEvent,
        find: impl Fn(&str) -> Option<Key<K>>,
    ) -> Vec<Wake<Key<K>>> {
        match event {
            TargetEvent::Changed(ObjectChange { owners, source, .. }) => {
                let is_written = *source == Source::Write;
                // The controller of the object made the write itself.
                let concerned = owners
                    .iter()
                    .filter(|owner| !(is_written && owner.controller));
                let delay = if is_written { CO_OWNED } else { BURST };
                let keys = concerned.filter_map(|owner| find(&owner.uid));
                keys.map(|key| Wake::after(delay, key)).collect()
            }
            TargetEvent::Listed { .. } => Vec::new(),
            TargetEvent::Blocker { user } => find(&user.uid).into_iter().map(Wake::now).collect(),
            TargetEvent::Availability { users, .. } => {
                let keys = users.iter().filter_map(|user| find(&user.uid));
                keys.map(|key| Wake::after(BURST, key)).collect()
            }
            TargetEvent::KindsChanged { .. } => {
                let memories = self.states.lock();
                let waiting = memories.iter().filter(|(_, memory)| memory.waits_for_kinds);
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
