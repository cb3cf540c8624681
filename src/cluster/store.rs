//! The children of one kind, as last told by their watch or by the answer to a write of ours.
//!
//! # Freshness
//!
//! Versions of one resource are integers that compare, and a watch tells changes in their order.
//! So for each object there are at most two states, and one rule says which of them is seen:
//!
//! - **told**: what the list or watch said last. It is replaced by whatever they say next, even by
//!   a lower version: that happens when the cluster was restored from a backup.
//! - **written**: the answer to a write or to a live read, as long as the watch has not come as
//!   far as its version. When the watch has passed it, the watch has told that state or a later
//!   one, and the answer is dropped. An answer that arrives later than that is dropped at once.
//!
//! The newer of the two is seen. What follows from it:
//!
//! - After a write the object is seen as written without waiting for the watch; the echo of the
//!   write changes nothing and is not reported.
//! - A deleted object cannot come back: the watch that tells the deletion has passed every answer
//!   that is older, and an answer that is newer is a new object.
//! - A list removes what it does not contain, except answers newer than the list.
//!
//! # Reports
//!
//! Every change of what is seen is reported once, and says whether this process brought it about.
//! The watch is often faster than the answer to the write that it echoes: what it tells of an
//! object while a write to it is under way is seen at once, but reported only with the answer,
//! which decides whether it was the echo. Without that, a writer would be woken by its own writes.
//!
//! # What versions do not tell
//!
//! Two cases need more than versions. The answer to a deletion has none, so the UID of the deleted
//! object is remembered until the watch tells the deletion: what lags behind cannot revive it. And
//! an answer whose object lacks the label by which the watch selects would never be confirmed nor
//! removed by it: such an object is no child, and leaves the store.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::{
    object::{Names, ObjectError, Owner, Ownership, Parts, Stored},
    watch::Event,
};
use crate::engine::{Gvk, ObjectKey};

/// Who told about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The list, the watch or a read: somebody else's doing.
    Watch,
    /// A write of this process.
    Write,
}

/// An object is seen in another state than before, or no longer, or for the first time.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The kind and version it is watched in.
    pub gvk: Arc<Gvk>,
    /// The object.
    pub key: ObjectKey,
    /// Its owners after, then those that were owners before only. Who controls is as of after, or
    /// as of before when the object is gone.
    pub owners: Vec<Owner>,
    /// Who told.
    pub source: Source,
}

/// The children of one kind; see the module.
pub struct Store {
    gvk: Arc<Gvk>,
    ownership: Ownership,
    inner: Mutex<Inner>,
    report: Box<dyn Fn(ObjectChange) + Send + Sync>,
}

#[derive(Default)]
struct Inner {
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
    /// Whether a list was ever complete.
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

/// A write that is under way. Dropping it means that its result is unknown.
pub(crate) struct Flight {
    store: Arc<Store>,
    namespace: Box<str>,
    name: Box<str>,
    landed: bool,
}

/// What became of a write.
enum Landing<'a> {
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
            self.told.as_ref().is_none_or(|told| told.resource_version < written.resource_version)
        })
    }

    fn seen(&self) -> Option<&Arc<Stored>> {
        if self.shows_written() { self.written.as_ref() } else { self.told.as_ref() }
    }

    fn seen_mut(&mut self) -> Option<&mut Arc<Stored>> {
        if self.shows_written() { self.written.as_mut() } else { self.told.as_mut() }
    }
}

impl Store {
    /// An empty store, whose changes go to `report`.
    pub fn new(
        gvk: Arc<Gvk>,
        ownership: Ownership,
        report: impl Fn(ObjectChange) + Send + Sync + 'static,
    ) -> Self {
        Self { gvk, ownership, inner: Mutex::default(), report: Box::new(report) }
    }

    /// The object as it is seen.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let inner = self.inner.lock();
        inner.objects.get(namespace)?.get(name)?.seen().cloned()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().objects.values().map(HashMap::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers what the caller has settled about an object, until another one takes its place.
    pub fn set_settled(&self, namespace: &str, name: &str, settled: (u64, u64)) {
        let mut inner = self.inner.lock();
        let names = inner.objects.get_mut(namespace);
        if let Some(seen) = names.and_then(|names| names.get_mut(name)?.seen_mut()) {
            Arc::make_mut(seen).settled = Some(settled);
        }
    }

    /// Takes what the list or watch tells.
    pub fn on_event(&self, event: &Event<'_>) {
        let mut changes = Changes::new(self, Source::Watch);
        let mut inner = self.inner.lock();
        let result = match event {
            Event::ListStarted => {
                inner.list += 1;
                Ok(())
            }
            Event::Listed(object) => {
                let result = inner.told(object, &mut changes).map(|_| ());
                if !inner.listed {
                    // Whoever needs these objects waits for the whole list.
                    changes.found.clear();
                }
                result
            }
            Event::ListDone { resource_version } => {
                inner.list_done(*resource_version, &mut changes);
                Ok(())
            }
            Event::Upsert(object) => inner.told(object, &mut changes).map(|version| {
                inner.pass(version, &mut changes);
            }),
            Event::Deleted(object) => inner.deletion_told(object, &mut changes).map(|version| {
                inner.pass(version, &mut changes);
            }),
            Event::Bookmark(version) => {
                inner.pass(*version, &mut changes);
                Ok(())
            }
            Event::Unserved => {
                inner.clear(&mut changes);
                Ok(())
            }
            Event::Failed(_) => Ok(()),
        };
        drop(inner);
        if let Err(error) = result {
            tracing::warn!(%error, "object not cached");
        }
        changes.report();
    }

    /// Takes the object in the answer to a live read.
    ///
    /// # Errors
    /// When the text is no object.
    pub fn insert_read(&self, object: &str) -> Result<(), ObjectError> {
        let mut changes = Changes::new(self, Source::Watch);
        let parts = Parts::of(object, &self.gvk)?;
        self.inner.lock().written(&parts, &mut changes);
        changes.report();
        Ok(())
    }

    /// Removes an object after a read has shown that it does not exist any more.
    pub fn read_gone(&self, namespace: &str, name: &str, uid: &str) {
        let mut changes = Changes::new(self, Source::Watch);
        self.inner.lock().deletion_answered(namespace, name, uid, &mut changes);
        changes.report();
    }

    /// Says that a write to an object is about to be sent.
    pub(crate) fn begin_write(self: &Arc<Self>, namespace: &str, name: &str) -> Flight {
        self.inner.lock().take_off(namespace, name);
        Flight {
            store: Arc::clone(self),
            namespace: namespace.into(),
            name: name.into(),
            landed: false,
        }
    }

    fn end_write(&self, namespace: &str, name: &str, landing: &Landing<'_>) {
        let mut changes = Changes::new(self, Source::Write);
        self.inner.lock().land(namespace, name, landing, &mut changes);
        changes.report();
    }
}

impl Flight {
    /// The write was answered with this object.
    pub fn written(mut self, object: &str) -> Result<(), ObjectError> {
        let parts = Parts::of(object, &self.store.gvk)?;
        self.landed = true;
        self.store.end_write(&self.namespace, &self.name, &Landing::Written(&parts));
        Ok(())
    }

    /// The answer was that the object with this UID does not exist, or no longer.
    pub fn gone(mut self, uid: &str) {
        self.landed = true;
        self.store.end_write(&self.namespace, &self.name, &Landing::Gone(uid));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            self.store.end_write(&self.namespace, &self.name, &Landing::Unknown);
        }
    }
}

impl Inner {
    fn told(&mut self, raw: &RawValue, changes: &mut Changes<'_>) -> Result<u64, ObjectError> {
        let parts = Parts::of(raw.get(), &changes.store.gvk)?;
        let version = parts.resource_version;
        if self.deleted.contains_key(parts.uid.as_ref()) {
            return Ok(version);
        }
        let list = self.list;
        let Self { objects, names, .. } = self;
        let slot = slot(objects, &parts.namespace, &parts.name);
        let before = slot.seen().cloned();
        slot.list = list;
        let same = |state: &Option<Arc<Stored>>| {
            let same = |state: &&Arc<Stored>| {
                version != 0 && state.resource_version == version && *state.uid == *parts.uid
            };
            state.as_ref().filter(same).cloned()
        };
        // The echo of a write, or an object that is listed again: nothing new to unpack.
        slot.told = same(&slot.told).or_else(|| same(&slot.written)).or_else(|| {
            let store = changes.store;
            Some(Arc::new(parts.pack(&store.gvk, store.ownership, names)))
        });
        self.compare(&parts.namespace, &parts.name, before.as_ref(), changes);
        Ok(version)
    }

    fn deletion_told(
        &mut self,
        raw: &RawValue,
        changes: &mut Changes<'_>,
    ) -> Result<u64, ObjectError> {
        let parts = Parts::of(raw.get(), &changes.store.gvk)?;
        self.deleted.remove(parts.uid.as_ref());
        self.edit(&parts.namespace, &parts.name, changes, |slot| slot.told = None);
        Ok(parts.resource_version)
    }

    fn written(&mut self, parts: &Parts<'_>, changes: &mut Changes<'_>) {
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
        if before.as_ref().is_none_or(|seen| seen.resource_version < version) {
            let store = changes.store;
            let state = parts.pack(&store.gvk, store.ownership, names);
            if let Some(old) = slot.written.replace(Arc::new(state)) {
                let old = (old.resource_version, namespace.into(), name.into());
                self.unconfirmed.remove(&old);
            }
            self.unconfirmed.insert((version, namespace.into(), name.into()));
        }
        self.compare(namespace, name, before.as_ref(), changes);
    }

    fn deletion_answered(
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

    fn take_off(&mut self, namespace: &str, name: &str) {
        if let Some(flight) = self.flight(namespace, name) {
            flight.writes += 1;
        } else {
            let (namespace, name) = (namespace.into(), name.into());
            self.flights.push(InFlight { namespace, name, writes: 1, told: None });
        }
    }

    fn land(
        &mut self,
        namespace: &str,
        name: &str,
        landing: &Landing<'_>,
        changes: &mut Changes<'_>,
    ) {
        let result = match landing {
            Landing::Written(parts) => {
                self.written(parts, changes);
                Some(Some(parts.resource_version))
            }
            Landing::Gone(uid) => {
                self.deletion_answered(namespace, name, uid, changes);
                Some(None)
            }
            Landing::Unknown => None,
        };
        let seen = self.objects.get(namespace).and_then(|names| names.get(name)?.seen());
        let ours = result == Some(seen.map(|seen| seen.resource_version));
        let Some(flight) = self.flight(namespace, name) else { return };
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
        let this = |flight: &&mut InFlight| *flight.namespace == *namespace && *flight.name == *name;
        self.flights.iter_mut().find(this)
    }

    fn list_done(&mut self, version: u64, changes: &mut Changes<'_>) {
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
    fn pass(&mut self, version: u64, changes: &mut Changes<'_>) {
        self.version = self.version.max(version);
        while self.unconfirmed.first().is_some_and(|(first, ..)| *first <= version) {
            let Some((passed, namespace, name)) = self.unconfirmed.pop_first() else { break };
            self.edit(&namespace, &name, changes, |slot| {
                slot.written.take_if(|written| written.resource_version == passed);
            });
        }
    }

    fn clear(&mut self, changes: &mut Changes<'_>) {
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
        let Some(names) = self.objects.get_mut(namespace) else { return };
        let owners = if let Some(after) = names.get_mut(name).and_then(Slot::seen_mut) {
            if let Some(before) = before.filter(|before| before.uid == after.uid) {
                if after.settled.is_none() && before.settled.is_some() {
                    Arc::make_mut(after).settled = before.settled;
                }
                if after.resource_version != 0 && after.resource_version == before.resource_version {
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
fn owners(before: Option<&Arc<Stored>>, after: Option<&Arc<Stored>>) -> Vec<Owner> {
    let mut owners = after.map(|after| after.owners.to_vec()).unwrap_or_default();
    let former = before.map(|before| before.owners.to_vec()).unwrap_or_default();
    merge(
        &mut owners,
        former
            .into_iter()
            .map(|owner| Owner { controller: owner.controller && after.is_none(), ..owner })
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
struct Changes<'a> {
    store: &'a Store,
    source: Source,
    found: Vec<ObjectChange>,
}

impl<'a> Changes<'a> {
    fn new(store: &'a Store, source: Source) -> Self {
        Self { store, source, found: Vec::new() }
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

    fn report(self) {
        for change in self.found {
            (self.store.report)(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::LABEL_CACHE;
    use serde_json::json;

    use super::*;

    /// What happens to a store.
    enum Step<'a> {
        ListStarted,
        /// Name, UID, version.
        Listed(&'a str, &'a str, u64),
        ListDone(u64),
        Upsert(&'a str, &'a str, u64),
        Deleted(&'a str, &'a str, u64),
        Bookmark(u64),
        Unserved,
        /// The answer to a write.
        Written(&'a str, &'a str, u64),
        /// The answer to a write that left the object without the label.
        Unlabelled(&'a str, &'a str, u64),
        DeletedByUs(&'a str, &'a str),
        /// The answer to a read.
        Read(&'a str, &'a str, u64),
        ReadGone(&'a str, &'a str),
        /// A write is sent; the oldest one is answered by one of the next three.
        Begin(&'a str),
        EndWritten(&'a str, &'a str, u64),
        EndGone(&'a str),
        EndUnknown,
        Settled(&'a str),
        /// What is seen: `name@version` of each object, sorted; `!` marks a settled one.
        Sees(&'a str),
        /// What was reported since the last such step: `name` and `w`atch or `u`s, in order.
        Reports(&'a str),
    }
    use Step::*;

    fn object(name: &str, uid: &str, version: u64, labelled: bool) -> Box<RawValue> {
        let labels = if labelled { json!({LABEL_CACHE: "True"}) } else { json!({}) };
        let text = json!({"metadata": {
            "name": name, "namespace": "n", "uid": uid, "labels": labels,
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "g/v1", "kind": "K", "name": "o", "uid": format!("owner-{version}")}],
        }});
        RawValue::from_string(text.to_string()).unwrap()
    }

    fn store() -> (Arc<Store>, Arc<Mutex<Vec<ObjectChange>>>) {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reports);
        let gvk = Arc::new(Gvk::new("v1", "ConfigMap"));
        let store = Store::new(gvk, Ownership::Native, move |change| sink.lock().push(change));
        (Arc::new(store), reports)
    }

    fn check(title: &str, steps: &[Step<'_>]) {
        let (store, reports) = store();
        let mut flights = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let named = |name: &str, uid: &str, version| object(name, uid, version, true);
            match *step {
                ListStarted => store.on_event(&Event::ListStarted),
                Listed(name, uid, version) => {
                    store.on_event(&Event::Listed(&named(name, uid, version)));
                }
                ListDone(resource_version) => store.on_event(&Event::ListDone { resource_version }),
                Upsert(name, uid, version) => {
                    store.on_event(&Event::Upsert(&named(name, uid, version)));
                }
                Deleted(name, uid, version) => {
                    store.on_event(&Event::Deleted(&named(name, uid, version)));
                }
                Bookmark(version) => store.on_event(&Event::Bookmark(version)),
                Unserved => store.on_event(&Event::Unserved),
                Written(name, uid, version) => {
                    let flight = store.begin_write("n", name);
                    flight.written(named(name, uid, version).get()).unwrap();
                }
                Read(name, uid, version) => {
                    store.insert_read(named(name, uid, version).get()).unwrap();
                }
                Unlabelled(name, uid, version) => {
                    let flight = store.begin_write("n", name);
                    flight.written(object(name, uid, version, false).get()).unwrap();
                }
                DeletedByUs(name, uid) => store.begin_write("n", name).gone(uid),
                ReadGone(name, uid) => store.read_gone("n", name, uid),
                Begin(name) => flights.push(store.begin_write("n", name)),
                EndWritten(name, uid, version) => {
                    let flight = flights.remove(0);
                    flight.written(named(name, uid, version).get()).unwrap();
                }
                EndGone(uid) => flights.remove(0).gone(uid),
                EndUnknown => drop(flights.remove(0)),
                Settled(name) => store.set_settled("n", name, (1, 2)),
                Sees(expected) => {
                    let mut seen = Vec::new();
                    for name in ["a", "b", "c"] {
                        if let Some(state) = store.get("n", name) {
                            let mark = if state.settled.is_some() { "!" } else { "" };
                            seen.push(format!("{name}@{}{mark}", state.resource_version));
                        }
                    }
                    assert_eq!(seen.join(" "), expected, "{title}, step {at}");
                    assert_eq!(store.len(), seen.len(), "{title}, step {at}");
                    let inner = store.inner.lock();
                    let held = inner.objects.values().flat_map(HashMap::values);
                    let written = held.filter(|slot| slot.written.is_some()).count();
                    // One too many is dropped as the watch passes it, one too few would be a ghost.
                    assert!(inner.unconfirmed.len() >= written, "{title}, step {at}");
                }
                Reports(expected) => {
                    let reported: Vec<String> = std::mem::take(&mut *reports.lock())
                        .iter()
                        .map(|change| {
                            let by = if change.source == Source::Watch { "w" } else { "u" };
                            format!("{}:{by}", change.key.name)
                        })
                        .collect();
                    assert_eq!(reported.join(" "), expected, "{title}, step {at}");
                }
            }
        }
    }

    /// A store whose list at version 10 had `a` at version 5.
    const LISTED: [Step<'_>; 5] =
        [ListStarted, Listed("a", "1", 5), ListDone(10), Sees("a@5"), Reports("")];

    fn check_after_list(table: Vec<(&str, Vec<Step<'_>>)>) {
        for (title, steps) in table {
            check(title, &LISTED.into_iter().chain(steps).collect::<Vec<_>>());
        }
    }

    #[test]
    fn answers_and_events() {
        check_after_list(vec![
            ("changes are seen and reported", vec![
                Upsert("a", "1", 11), Upsert("b", "2", 12), Sees("a@11 b@12"), Reports("a:w b:w"),
                Deleted("a", "1", 13), Sees("b@12"), Reports("a:w"),
            ]),
            ("what is told again is not reported", vec![
                Upsert("a", "1", 11), Reports("a:w"), Upsert("a", "1", 11), Reports(""),
            ]),
            ("a write is seen at once and its echo is silent", vec![
                Written("a", "1", 12), Sees("a@12"), Reports("a:u"),
                Upsert("a", "1", 12), Sees("a@12"), Reports(""),
                Bookmark(20), Sees("a@12"), Reports(""),
            ]),
            ("an older event does not hide a write", vec![
                Written("a", "1", 12), Reports("a:u"), Upsert("a", "1", 11), Sees("a@12"), Reports(""),
                Upsert("a", "1", 12), Sees("a@12"), Reports(""),
            ]),
            ("a newer event replaces a write", vec![
                Written("a", "1", 12), Upsert("a", "1", 13), Sees("a@13"), Reports("a:u a:w"),
            ]),
            ("a late answer is dropped", vec![
                Upsert("a", "1", 13), Reports("a:w"), Written("a", "1", 12), Sees("a@13"), Reports(""),
            ]),
            ("a late answer does not revive a deleted object", vec![
                Upsert("a", "1", 12), Deleted("a", "1", 13), Sees(""), Reports("a:w a:w"),
                Written("a", "1", 12), Sees(""), Reports(""),
            ]),
            ("a late answer does not revive an object that a bookmark has passed", vec![
                Deleted("a", "1", 11), Bookmark(20), Written("b", "2", 15), Sees(""),
                Reports("a:w"),
            ]),
            ("an answer goes when the watch passes it without a word", vec![
                Written("b", "2", 12), Sees("a@5 b@12"), Bookmark(12), Sees("a@5"), Reports("b:u b:w"),
            ]),
            ("an answer goes when the watch passes it with another object's event", vec![
                Written("b", "2", 12), Upsert("a", "1", 13), Sees("a@13"), Reports("b:u a:w b:w"),
            ]),
            ("a deletion of an earlier life does not remove a new one", vec![
                Written("a", "9", 14), Reports("a:u"), Deleted("a", "1", 13), Sees("a@14"), Reports(""),
                Upsert("a", "9", 14), Sees("a@14"), Reports(""),
            ]),
            ("the newest of several writes is seen", vec![
                Written("a", "1", 14), Written("a", "1", 12), Sees("a@14"), Reports("a:u"),
                Written("a", "1", 15), Upsert("a", "1", 14), Sees("a@15"), Reports("a:u"),
                Upsert("a", "1", 15), Bookmark(30), Sees("a@15"), Reports(""),
            ]),
            ("what was deleted here stays away although the watch lags", vec![
                DeletedByUs("a", "1"), Sees(""), Reports("a:u"),
                Upsert("a", "1", 12), Sees(""), Written("a", "1", 12), Sees(""), Reports(""),
                Deleted("a", "1", 13), Sees(""), Reports(""),
                Upsert("a", "2", 14), Sees("a@14"), Reports("a:w"),
            ]),
            ("a deletion here does not touch a later life", vec![
                Upsert("a", "2", 14), DeletedByUs("a", "1"), Sees("a@14"), Reports("a:w"),
            ]),
            ("a written object that is deleted here stays away", vec![
                Written("b", "2", 12), DeletedByUs("b", "2"), Sees("a@5"),
                Upsert("b", "2", 12), Deleted("b", "2", 13), Sees("a@5"), Reports("b:u b:u"),
            ]),
        ]);
    }

    #[test]
    fn lists() {
        check_after_list(vec![
            ("a list removes what it does not contain", vec![
                Upsert("b", "2", 11), Reports("b:w"),
                ListStarted, Listed("b", "2", 11), ListDone(20), Sees("b@11"), Reports("a:w"),
            ]),
            ("a list keeps answers that are newer than it", vec![
                Written("b", "2", 21), Written("c", "3", 15), Reports("b:u c:u"),
                ListStarted, Listed("a", "1", 5), ListDone(20), Sees("a@5 b@21"), Reports("c:w"),
                Upsert("b", "2", 21), Sees("a@5 b@21"), Reports(""),
            ]),
            ("a list does not hide an answer that is newer than its object", vec![
                Written("a", "1", 21), Reports("a:u"),
                ListStarted, Listed("a", "1", 5), Sees("a@21"), ListDone(20), Sees("a@21"), Reports(""),
            ]),
            ("a list that starts again forgets its first half", vec![
                Upsert("b", "2", 11), Reports("b:w"),
                ListStarted, Listed("a", "1", 5), Listed("b", "2", 11),
                ListStarted, Listed("b", "2", 11), ListDone(20), Sees("b@11"), Reports("a:w"),
            ]),
            ("a list that began before a deletion here does not revive", vec![
                ListStarted, DeletedByUs("a", "1"), Listed("a", "1", 5), ListDone(10), Sees(""),
                Deleted("a", "1", 12), Sees(""), Reports("a:u"),
            ]),
            ("a restored cluster starts from its list", vec![
                Upsert("a", "1", 50), Written("b", "2", 60), Written("a", "1", 55), Reports("a:w b:u a:u"),
                ListStarted, Listed("a", "1", 7), ListDone(8), Sees("a@7"), Reports("a:w b:w"),
                Written("a", "1", 9), Sees("a@9"), Upsert("a", "1", 9), Sees("a@9"), Reports("a:u"),
            ]),
            ("a kind that goes takes its objects along", vec![
                Written("b", "2", 12), Reports("b:u"), Unserved, Sees(""),
            ]),
            ("a kind that comes back is reported", vec![
                Unserved, Reports("a:w"), ListStarted, Listed("a", "2", 30), ListDone(31), Sees("a@30"),
                Reports("a:w"),
            ]),
        ]);
    }

    #[test]
    fn what_the_watch_tells_while_a_write_is_under_way() {
        check_after_list(vec![
            ("an echo before the answer is our doing", vec![
                Begin("a"), Upsert("a", "1", 11), Sees("a@11"), Reports(""),
                EndWritten("a", "1", 11), Sees("a@11"), Reports("a:u"),
            ]),
            ("a change before the write is part of the answer", vec![
                Begin("a"), Upsert("a", "1", 11), EndWritten("a", "1", 12), Sees("a@12"), Reports("a:u"),
                Upsert("a", "1", 12), Reports(""),
            ]),
            ("a change after the write is not", vec![
                Begin("a"), Upsert("a", "1", 11), Upsert("a", "1", 12), Reports(""),
                EndWritten("a", "1", 11), Sees("a@12"), Reports("a:w"),
            ]),
            ("a change of another object is reported at once", vec![
                Begin("a"), Upsert("b", "2", 11), Reports("b:w"), EndWritten("a", "1", 12), Reports("a:u"),
            ]),
            ("a deletion told before its answer is our doing", vec![
                Begin("a"), Deleted("a", "1", 11), Sees(""), Reports(""), EndGone("1"), Reports("a:u"),
            ]),
            ("a deleted object that came back is news", vec![
                Begin("a"), Deleted("a", "1", 11), Upsert("a", "2", 12), Reports(""),
                EndGone("1"), Sees("a@12"), Reports("a:w"),
            ]),
            ("a failed write tells nothing", vec![
                Begin("a"), EndUnknown, Reports(""),
                Begin("a"), Upsert("a", "1", 11), EndUnknown, Sees("a@11"), Reports("a:w"),
            ]),
            ("of two writes the one whose echo it was decides", vec![
                Begin("a"), Begin("a"), Upsert("a", "1", 11), EndUnknown, Reports(""),
                EndWritten("a", "1", 11), Reports("a:u"),
                Begin("a"), Begin("a"), Upsert("a", "1", 12), EndWritten("a", "1", 12), Reports("a:u"),
                EndUnknown, Reports(""),
            ]),
            ("a read is no write", vec![
                Read("a", "1", 11), Sees("a@11"), Reports("a:w"), Upsert("a", "1", 11), Reports(""),
                ReadGone("a", "1"), Sees(""), Reports("a:w"), Deleted("a", "1", 12), Reports(""),
            ]),
        ]);
    }

    #[test]
    fn labels_and_what_is_settled() {
        check_after_list(vec![
            ("a written object without the label is no child any more", vec![
                Unlabelled("a", "1", 12), Sees(""), Reports("a:u"),
                Deleted("a", "1", 12), Sees(""), Reports(""),
            ]),
            ("a written object without the label never was a child", vec![
                Unlabelled("b", "2", 12), Sees("a@5"), Reports(""),
            ]),
            ("a late answer without the label says nothing", vec![
                Upsert("a", "1", 13), Unlabelled("a", "1", 12), Sees("a@13"), Reports("a:w"),
            ]),
            ("what is settled outlives changes of the object", vec![
                Settled("a"), Sees("a@5!"), Upsert("a", "1", 11), Sees("a@11!"),
                Written("a", "1", 12), Sees("a@12!"), Upsert("a", "1", 12), Bookmark(13), Sees("a@12!"),
                ListStarted, Listed("a", "1", 12), ListDone(20), Sees("a@12!"),
            ]),
            ("what is settled does not outlive the object", vec![
                Settled("a"), Upsert("a", "2", 12), Sees("a@12"), Settled("b"), Sees("a@12"),
            ]),
            ("versions that are no integers leave it to the watch", vec![
                Upsert("b", "2", 0), Sees("a@5 b@0"), Reports("b:w"),
                Upsert("b", "2", 0), Reports("b:w"), Written("b", "2", 0), Sees("a@5 b@0"), Reports(""),
            ]),
        ]);
    }

    #[test]
    fn writes_before_the_first_list() {
        check("confirmed by the list", &[
            ListStarted, Written("a", "1", 5), Sees("a@5"), Reports("a:u"),
            Listed("a", "1", 5), ListDone(6), Sees("a@5"), Reports(""),
        ]);
        check("not in the list", &[
            ListStarted, Written("a", "1", 5), Reports("a:u"), ListDone(6), Sees(""), Reports("a:w"),
        ]);
        check("newer than the list", &[
            ListStarted, Written("a", "1", 7), ListDone(6), Sees("a@7"),
            Upsert("a", "1", 7), Sees("a@7"), Reports("a:u"),
        ]);
    }

    #[test]
    fn changes_name_owners_of_before_and_after() {
        let (store, reports) = store();
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::ListDone { resource_version: 1 });
        store.on_event(&Event::Upsert(&object("a", "1", 2, true)));
        store.on_event(&Event::Upsert(&object("a", "1", 3, true)));
        store.on_event(&Event::Deleted(&object("a", "1", 4, true)));
        let owners: Vec<Vec<String>> = reports
            .lock()
            .iter()
            .map(|change| change.owners.iter().map(|owner| owner.uid.to_string()).collect())
            .collect();
        assert_eq!(owners, [vec!["owner-2"], vec!["owner-3", "owner-2"], vec!["owner-3"]]);
        let key = reports.lock()[0].key.to_string();
        assert_eq!(key, "ConfigMap n/a");
    }

    #[test]
    fn who_controls_is_told_as_of_after() {
        let state = |owners: &[(&str, bool)]| {
            let owners = owners.iter().map(|(uid, controller)| Owner {
                group: "g".into(),
                kind: "K".into(),
                name: (*uid).into(),
                uid: (*uid).into(),
                controller: *controller,
            });
            Arc::new(Stored {
                body: "{}".into(),
                uid: "1".into(),
                resource_version: 1,
                owners: owners.collect(),
                settled: None,
            })
        };
        let one = state(&[("r1", true)]);
        let both = state(&[("r1", false), ("r2", true)]);
        let two = state(&[("r2", true)]);
        let table = [
            (None, Some(&one), "r1+"),
            (Some(&one), Some(&both), "r1 r2+"),
            (Some(&both), Some(&two), "r2+ r1"),
            (Some(&one), Some(&two), "r2+ r1"),
            (Some(&both), None, "r1 r2+"),
        ];
        for (before, after, expected) in table {
            let told: Vec<String> = owners(before, after)
                .iter()
                .map(|owner| format!("{}{}", owner.uid, if owner.controller { "+" } else { "" }))
                .collect();
            assert_eq!(told.join(" "), expected);
        }
    }

    #[test]
    fn deletions_are_not_remembered_for_ever() {
        let (store, _) = store();
        store.on_event(&Event::ListStarted);
        store.on_event(&Event::ListDone { resource_version: 1 });
        store.on_event(&Event::Upsert(&object("a", "1", 2, true)));
        store.on_event(&Event::Upsert(&object("b", "2", 3, true)));
        store.read_gone("n", "a", "1");
        store.read_gone("n", "b", "2");
        store.read_gone("n", "unknown", "3");
        assert_eq!(store.inner.lock().deleted.len(), 2);
        store.on_event(&Event::Deleted(&object("a", "1", 4, true)));
        assert_eq!(store.inner.lock().deleted.len(), 1);
        store.on_event(&Event::ListStarted);
        assert_eq!(store.inner.lock().deleted.len(), 1);
        store.on_event(&Event::ListDone { resource_version: 9 });
        assert!(store.inner.lock().deleted.is_empty());
    }

    #[test]
    fn one_bad_object_is_skipped() {
        let (store, reports) = store();
        let bad = RawValue::from_string("[1]".to_owned()).unwrap();
        store.on_event(&Event::Upsert(&bad));
        store.on_event(&Event::Deleted(&bad));
        store.on_event(&Event::Listed(&bad));
        assert!(store.insert_read("[1]").is_err());
        assert!(store.begin_write("n", "a").written("[1]").is_err());
        assert!(store.inner.lock().flights.is_empty());
        assert!(store.is_empty());
        assert!(reports.lock().is_empty());
    }
}
