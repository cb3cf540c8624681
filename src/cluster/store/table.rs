//! The states of the children of one kind, and the rules by which they replace each other.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{ObjectChange, Source, Store};
use crate::{
    cluster::object::{Names, Owner, Parts, Stored},
    engine::ObjectKey,
};

/// Everything behind the lock of a [`Store`].
#[derive(Default)]
pub(super) struct Table {
    /// Namespace, then name.
    objects: HashMap<Box<str>, HashMap<Box<str>, Slot>>,
    /// How far the watch has told.
    version: u64,
    /// Written states by version: the watch drops them as it passes.
    unconfirmed: BTreeSet<(u64, Box<str>, Box<str>)>,
    /// UIDs of objects that were deleted here, and the number of the list during or after which.
    deleted: HashMap<Box<str>, u64>,
    /// Number of the list that is running, or was the last.
    list: u64,
    /// Whether a list was ever complete; until then what is listed is no news.
    listed: bool,
    names: Names,
    /// Objects that writes are under way to; a handful at most.
    flights: Vec<InFlight>,
}

struct InFlight {
    namespace: Box<str>,
    name: Box<str>,
    writes: usize,
    /// What the watch told meanwhile: the owners to report it to.
    told: Option<Vec<Owner>>,
}

/// How much is kept beside the objects.
#[cfg(test)]
pub(super) struct Kept {
    pub(super) written: usize,
    pub(super) unconfirmed: usize,
    pub(super) deleted: usize,
    pub(super) flights: usize,
}

/// What became of a write.
pub(super) enum Landing<'a> {
    Written(&'a Parts<'a>),
    Gone(&'a str),
    Unknown,
}

/// Has at least one state.
#[derive(Debug, Default)]
struct Slot {
    told: Option<Arc<Stored>>,
    written: Option<Arc<Stored>>,
    /// The last list that contained the object, or that ran when it was told.
    list: u64,
}

impl Slot {
    fn shows_written(&self) -> bool {
        self.written.as_ref().is_some_and(|written| {
            self.told
                .as_ref()
                .is_none_or(|told| told.resource_version < written.resource_version)
        })
    }

    fn seen(&self) -> Option<&Arc<Stored>> {
        if self.shows_written() {
            self.written.as_ref()
        } else {
            self.told.as_ref()
        }
    }

    fn seen_mut(&mut self) -> Option<&mut Arc<Stored>> {
        if self.shows_written() {
            self.written.as_mut()
        } else {
            self.told.as_mut()
        }
    }
}

impl Table {
    /// The object as it is seen.
    pub(super) fn seen(&self, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.objects.get(namespace)?.get(name)?.seen()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.values().map(HashMap::len).sum()
    }

    /// For tests: how much is kept beside the objects.
    #[cfg(test)]
    pub(super) fn kept(&self) -> Kept {
        let slots = self.objects.values().flat_map(HashMap::values);
        Kept {
            written: slots.filter(|slot| slot.written.is_some()).count(),
            unconfirmed: self.unconfirmed.len(),
            deleted: self.deleted.len(),
            flights: self.flights.len(),
        }
    }

    pub(super) fn set_settled(&mut self, namespace: &str, name: &str, settled: (u64, u64)) {
        let names = self.objects.get_mut(namespace);
        if let Some(seen) = names.and_then(|names| names.get_mut(name)?.seen_mut()) {
            Arc::make_mut(seen).settled = Some(settled);
        }
    }

    pub(super) fn report_first_list(&mut self) {
        self.listed = true;
    }

    pub(super) fn list_started(&mut self) {
        self.list += 1;
    }

    pub(super) fn listed(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
        self.told(parts, changes);
        if !self.listed {
            changes.found.clear();
        }
    }

    pub(super) fn upsert(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
        self.told(parts, changes);
        self.pass(parts.resource_version, changes);
    }

    pub(super) fn deleted(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
        self.deleted.remove(parts.uid.as_ref());
        self.edit(&parts.namespace, &parts.name, changes, |slot| {
            slot.told = None;
        });
        self.pass(parts.resource_version, changes);
    }

    fn told(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
        if self.deleted.contains_key(parts.uid.as_ref()) {
            return;
        }
        let list = self.list;
        let Self { objects, names, .. } = self;
        let slot = slot(objects, &parts.namespace, &parts.name);
        let before = slot.seen().cloned();
        slot.list = list;
        let version = parts.resource_version;
        let same = |state: &Option<Arc<Stored>>| {
            let same = |state: &&Arc<Stored>| {
                version != 0 && state.resource_version == version && *state.uid == *parts.uid
            };
            state.as_ref().filter(same).cloned()
        };
        // The echo of a write, or an object that is listed again: nothing new to unpack.
        slot.told = same(&slot.told)
            .or_else(|| same(&slot.written))
            .or_else(|| {
                let store = changes.store;
                Some(Arc::new(parts.pack(&store.gvk, names)))
            });
        self.compare(&parts.namespace, &parts.name, before.as_ref(), changes);
    }

    pub(super) fn written(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
        let version = parts.resource_version;
        if version <= self.version || self.deleted.contains_key(parts.uid.as_ref()) {
            return;
        }
        let (namespace, name) = (parts.namespace.as_ref(), parts.name.as_ref());
        if !parts.labelled() {
            self.edit(namespace, name, changes, |slot| {
                let older = |state: &mut Arc<Stored>| state.resource_version < version;
                slot.told.take_if(older);
                slot.written.take_if(older);
            });
            return;
        }
        let Self { objects, names, .. } = self;
        let slot = slot(objects, namespace, name);
        let before = slot.seen().cloned();
        if before
            .as_ref()
            .is_none_or(|seen| seen.resource_version < version)
        {
            let store = changes.store;
            let state = parts.pack(&store.gvk, names);
            if let Some(old) = slot.written.replace(Arc::new(state)) {
                let old = (old.resource_version, namespace.into(), name.into());
                self.unconfirmed.remove(&old);
            }
            self.unconfirmed
                .insert((version, namespace.into(), name.into()));
        }
        self.compare(namespace, name, before.as_ref(), changes);
    }

    pub(super) fn deletion_answered(
        &mut self,
        namespace: &str,
        name: &str,
        uid: &str,
        changes: &mut Changes<'_>,
    ) {
        let mut known = false;
        self.edit(namespace, name, changes, |slot| {
            for state in [&mut slot.told, &mut slot.written] {
                known |= state.take_if(|state| state.uid.as_ref() == uid).is_some();
            }
        });
        if known {
            // Of an object that was never seen here no deletion may be told: nothing to remember.
            self.deleted.insert(uid.into(), self.list);
        }
    }

    pub(super) fn take_off(&mut self, namespace: &str, name: &str) {
        if let Some(flight) = self.flight(namespace, name) {
            flight.writes += 1;
        } else {
            let (namespace, name) = (namespace.into(), name.into());
            self.flights.push(InFlight {
                namespace,
                name,
                writes: 1,
                told: None,
            });
        }
    }

    pub(super) fn land(
        &mut self,
        namespace: &str,
        name: &str,
        landing: &Landing<'_>,
        changes: &mut Changes<'_>,
    ) {
        let result = match landing {
            Landing::Written(parts) => {
                self.written(parts, changes);
                // Without the label the watch tells a written object's departure.
                Some(parts.labelled().then_some(parts.resource_version))
            }
            Landing::Gone(uid) => {
                self.deletion_answered(namespace, name, uid, changes);
                Some(None)
            }
            Landing::Unknown => None,
        };
        let seen = self.seen(namespace, name);
        let ours = result == Some(seen.map(|seen| seen.resource_version));
        let Some(flight) = self.flight(namespace, name) else {
            return;
        };
        flight.writes -= 1;
        let last = flight.writes == 0;
        if ours || last {
            // Whatever was told is this write's echo, or nobody is left whose echo it could be.
            let source = if ours { Source::Write } else { Source::Watch };
            if let Some(owners) = flight.told.take() {
                changes.add(namespace, name, owners, source);
            }
        }
        if last {
            self.flights.retain(|flight| flight.writes > 0);
        }
    }

    fn flight(&mut self, namespace: &str, name: &str) -> Option<&mut InFlight> {
        let this =
            |flight: &&mut InFlight| *flight.namespace == *namespace && *flight.name == *name;
        self.flights.iter_mut().find(this)
    }

    pub(super) fn list_done(&mut self, version: u64, changes: &mut Changes<'_>) {
        // Versions only go back when the cluster was restored: then no answer counts any more.
        let rewound = version < self.version;
        let list = self.list;
        let gone: Vec<(Box<str>, Box<str>)> = self
            .objects
            .iter()
            .flat_map(|(namespace, names)| names.iter().map(move |entry| (namespace, entry)))
            .filter(|(_, (_, slot))| slot.list != list && slot.told.is_some())
            .map(|(namespace, (name, _))| (namespace.clone(), name.clone()))
            .collect();
        for (namespace, name) in gone {
            self.edit(&namespace, &name, changes, |slot| slot.told = None);
        }
        self.version = version;
        self.pass(if rewound { u64::MAX } else { version }, changes);
        self.version = version;
        self.listed = true;
        // A list that began after a deletion does not contain the object, and neither will the
        // watch from there on.
        self.deleted.retain(|_, during| *during >= list);
    }

    /// The watch has told everything up to this version.
    pub(super) fn pass(&mut self, version: u64, changes: &mut Changes<'_>) {
        self.version = self.version.max(version);
        while self
            .unconfirmed
            .first()
            .is_some_and(|(first, ..)| *first <= version)
        {
            let Some((passed, namespace, name)) = self.unconfirmed.pop_first() else {
                break;
            };
            self.edit(&namespace, &name, changes, |slot| {
                slot.written
                    .take_if(|written| written.resource_version == passed);
            });
        }
    }

    pub(super) fn clear(&mut self, changes: &mut Changes<'_>) {
        for (namespace, names) in std::mem::take(&mut self.objects) {
            for (name, slot) in names {
                changes.add(&namespace, &name, owners(slot.seen(), None), Source::Watch);
            }
        }
        self.version = 0;
        self.unconfirmed.clear();
        self.deleted.clear();
    }

    /// Changes a slot, if there is one.
    fn edit(
        &mut self,
        namespace: &str,
        name: &str,
        changes: &mut Changes<'_>,
        edit: impl FnOnce(&mut Slot),
    ) {
        let names = self.objects.get_mut(namespace);
        if let Some(slot) = names.and_then(|names| names.get_mut(name)) {
            let before = slot.seen().cloned();
            edit(slot);
            self.compare(namespace, name, before.as_ref(), changes);
        }
    }

    /// After a slot was touched: drops it if nothing is left, keeps what was settled, and notes the
    /// change if another state is seen now.
    fn compare(
        &mut self,
        namespace: &str,
        name: &str,
        before: Option<&Arc<Stored>>,
        changes: &mut Changes<'_>,
    ) {
        let Some(names) = self.objects.get_mut(namespace) else {
            return;
        };
        let owners = if let Some(after) = names.get_mut(name).and_then(Slot::seen_mut) {
            if let Some(before) = before.filter(|before| before.uid == after.uid) {
                if after.settled.is_none() && before.settled.is_some() {
                    Arc::make_mut(after).settled = before.settled;
                }
                if after.resource_version != 0 && after.resource_version == before.resource_version
                {
                    return;
                }
            }
            owners(before, Some(after))
        } else {
            names.remove(name);
            if names.is_empty() {
                self.objects.remove(namespace);
            }
            if before.is_none() {
                return;
            }
            owners(before, None)
        };
        match (changes.source, self.flight(namespace, name)) {
            (Source::Watch, Some(flight)) => merge(flight.told.get_or_insert_default(), owners),
            (source, _) => changes.add(namespace, name, owners, source),
        }
    }
}

/// The owners of after, then those of before only: these do not control any more, unless the
/// object is gone.
pub(super) fn owners(before: Option<&Arc<Stored>>, after: Option<&Arc<Stored>>) -> Vec<Owner> {
    let mut owners = after.map(|after| after.owners.to_vec()).unwrap_or_default();
    let former = before
        .map(|before| before.owners.to_vec())
        .unwrap_or_default();
    merge(
        &mut owners,
        former
            .into_iter()
            .map(|owner| Owner {
                controller: owner.controller && after.is_none(),
                ..owner
            })
            .collect(),
    );
    owners
}

/// Adds owners that are not there yet.
fn merge(owners: &mut Vec<Owner>, more: Vec<Owner>) {
    for owner in more {
        if !owners.iter().any(|known| known.uid == owner.uid) {
            owners.push(owner);
        }
    }
}

fn slot<'a>(
    objects: &'a mut HashMap<Box<str>, HashMap<Box<str>, Slot>>,
    namespace: &str,
    name: &str,
) -> &'a mut Slot {
    // Not the entry API: it would copy both names each time, and most objects are known.
    if !objects.contains_key(namespace) {
        objects.insert(namespace.into(), HashMap::new());
    }
    let names = objects.get_mut(namespace).expect("inserted above");
    if !names.contains_key(name) {
        names.insert(name.into(), Slot::default());
    }
    names.get_mut(name).expect("inserted above")
}

/// Collects changes under the lock, to be reported without it.
pub(super) struct Changes<'a> {
    store: &'a Store,
    source: Source,
    found: Vec<ObjectChange>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(store: &'a Store, source: Source) -> Self {
        Self {
            store,
            source,
            found: Vec::new(),
        }
    }

    fn add(&mut self, namespace: &str, name: &str, owners: Vec<Owner>, source: Source) {
        let known = self.found.iter_mut().find(|change| {
            // Only one write is ever reported together with what was told meanwhile.
            self.source == Source::Write
                && *change.key.namespace == *namespace
                && *change.key.name == *name
        });
        if let Some(known) = known {
            merge(&mut known.owners, owners);
            known.source = source;
            return;
        }
        self.found.push(ObjectChange {
            gvk: Arc::clone(&self.store.gvk),
            key: ObjectKey {
                group: self.store.gvk.group.clone(),
                kind: self.store.gvk.kind.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            owners,
            source,
        });
    }

    pub(super) fn report(self) {
        for change in self.found {
            (self.store.report)(change);
        }
    }
}
