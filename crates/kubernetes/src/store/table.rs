//! The states of the children of one kind, and the rules by which they replace each other.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use super::{
    Id, Source, Store,
    changes::{Changes, merge, object_key},
};
use crate::object::{Names, ObjectParts, Owner, Stored};
use baton_engine::{Gvk, ObjectKey, ended};

/// Objects by namespace, then by name.
type Objects = HashMap<Box<str>, HashMap<Box<str>, Entry>>;

/// The state behind the lock of a [`Store`].
#[derive(Default)]
pub(super) struct Table {
    objects: Objects,
    /// The version that the watch has reached.
    version: u64,
    /// Written states by version: they are dropped when the watch passes them.
    unconfirmed: BTreeSet<(u64, Box<str>, Box<str>)>,
    /// UIDs of objects that an answer has reported as deleted, each with the number of the list
    /// that ran then or was the last.
    deleted: HashMap<Box<str>, u64>,
    /// Number of the list that is running, or was the last.
    list: u64,
    /// The highest version that the server had reported before that list began, also by answers.
    before_list: u64,
    /// True if a list was ever complete; until then listed objects are no changes.
    listed: bool,
    names: Names,
    /// True if an object did not fit into the budget since the last list began.
    over_budget: bool,
    /// Objects with writes under way; a handful at most.
    pending: Vec<Pending>,
    /// The last states of objects that had ended, the newest first.
    ended: VecDeque<Ended>,
}

/// Namespace, name and last state of an object that had ended.
type Ended = (Box<str>, Box<str>, Arc<Stored>);

/// Greatest number of ended objects whose last state is stored. A pass of their owner is due, and
/// records the end in the API.
const MAX_ENDED: usize = 1_000;

struct Pending {
    namespace: Box<str>,
    name: Box<str>,
    writes: usize,
    /// The owners to notify of the state that was observed meanwhile; `None` if there is none.
    observed: Option<Vec<Owner>>,
}

/// Number of entries in the parts of the table that are not the objects.
#[cfg(test)]
pub(super) struct Sizes {
    pub(super) written: usize,
    pub(super) unconfirmed: usize,
    pub(super) deleted: usize,
    pub(super) pending: usize,
}

/// The outcome of a write to an object.
pub(super) enum WriteEnd<'a> {
    Written(&'a ObjectParts<'a>),
    /// The object with this UID does not exist, or no longer.
    Gone(&'a str),
    Unknown,
}

/// The states of an object: at least one.
#[derive(Debug, Default)]
struct Entry {
    observed: Option<Arc<Stored>>,
    written: Option<Arc<Stored>>,
    /// Number of the last list that contained the object, or that ran when it was observed.
    list: u64,
}

impl Entry {
    fn is_written_newer(&self) -> bool {
        let observed = self.observed.as_ref().map(|state| state.resource_version);
        let written = self.written.as_ref().map(|state| state.resource_version);
        written > observed
    }

    fn current(&self) -> Option<&Arc<Stored>> {
        if self.is_written_newer() {
            self.written.as_ref()
        } else {
            self.observed.as_ref()
        }
    }

    fn current_mut(&mut self) -> Option<&mut Arc<Stored>> {
        if self.is_written_newer() {
            self.written.as_mut()
        } else {
            self.observed.as_mut()
        }
    }
}

impl Table {
    pub(super) fn current(&self, (namespace, name): Id<'_>) -> Option<&Arc<Stored>> {
        self.objects.get(namespace)?.get(name)?.current()
    }

    pub(super) fn ended(&self, (namespace, name): Id<'_>) -> Option<&Arc<Stored>> {
        let mut ended = self.ended.iter();
        let found = ended.find(|(ns, it, _)| (&**ns, &**it) == (namespace, name));
        found.map(|(_, _, last)| last)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.values().map(HashMap::len).sum()
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> Sizes {
        let entries = self.objects.values().flat_map(HashMap::values);
        Sizes {
            written: entries.filter(|entry| entry.written.is_some()).count(),
            unconfirmed: self.unconfirmed.len(),
            deleted: self.deleted.len(),
            pending: self.pending.len(),
        }
    }

    pub(super) fn owned(&self, gvk: &Gvk, by: impl Fn(&str) -> bool) -> Vec<(ObjectKey, Box<str>)> {
        let entries = self.objects.iter().flat_map(|(namespace, names)| {
            let entries = names.iter();
            entries.map(move |(name, entry)| ((&**namespace, &**name), entry))
        });
        let owned = entries.filter_map(|(id, entry)| {
            let mut owners = entry.current()?.owners.iter();
            let found = owners.find(|owner| by(&owner.uid))?;
            Some((object_key(gvk, id), found.uid.clone()))
        });
        owned.collect()
    }

    pub(super) fn set_fingerprints(&mut self, id: Id<'_>, settled: (u64, u64)) {
        let current = entry_mut(&mut self.objects, id).and_then(Entry::current_mut);
        // An object may end and be deleted in the pass that creates it.
        let ended = self.ended.iter_mut();
        let mut ended = ended.filter(|(namespace, name, _)| (&**namespace, &**name) == id);
        if let Some(state) = current.or_else(|| ended.next().map(|(_, _, last)| last)) {
            Arc::make_mut(state).settled = Some(settled);
        }
    }

    pub(super) fn report_first_list(&mut self) {
        self.listed = true;
    }

    pub(super) fn is_over_budget(&self) -> bool {
        self.over_budget
    }

    /// Converts an object for the store.
    fn pack(&mut self, parts: &ObjectParts<'_>, store: &Store) -> Option<Arc<Stored>> {
        let packed = parts.pack(&store.gvk, &mut self.names, &store.budget);
        let is_whole = packed
            .as_ref()
            .is_some_and(|it| it.body.is_some() == parts.is_owned);
        self.over_budget |= !is_whole;
        packed.map(Arc::new)
    }

    pub(super) fn list_started(&mut self) {
        self.over_budget = false;
        self.list += 1;
        let written = self.unconfirmed.last().map_or(0, |(version, ..)| *version);
        self.before_list = written.max(self.version);
    }

    pub(super) fn listed(&mut self, parts: &ObjectParts<'_>, changes: &mut Changes<'_>) {
        // A list contains an object that was deleted before only if the cluster was restored.
        let uid = parts.uid.as_ref();
        if self
            .deleted
            .get(uid)
            .is_some_and(|during| *during < self.list)
        {
            self.deleted.remove(uid);
        }
        self.observe(parts, changes);
        if !self.listed {
            changes.found.clear();
        }
    }

    pub(super) fn upsert(&mut self, parts: &ObjectParts<'_>, changes: &mut Changes<'_>) {
        self.observe(parts, changes);
        self.advance(parts.resource_version, changes);
    }

    pub(super) fn deleted(&mut self, parts: &ObjectParts<'_>, changes: &mut Changes<'_>) {
        self.deleted.remove(parts.uid.as_ref());
        self.edit(parts.id(), changes, |entry| entry.observed = None);
        self.advance(parts.resource_version, changes);
    }

    fn observe(&mut self, parts: &ObjectParts<'_>, changes: &mut Changes<'_>) {
        if self.deleted.contains_key(parts.uid.as_ref()) {
            return;
        }
        let entry = entry_or_new(&mut self.objects, parts.id());
        let before = entry.current().cloned();
        let version = parts.resource_version;
        let is_same = |state: &&Arc<Stored>| {
            version != 0 && state.resource_version == version && *state.uid == *parts.uid
        };
        let mut states = entry.observed.iter().chain(&entry.written);
        // The echo of a write, or an object that is listed again, is not converted again.
        let same = states.find(is_same).cloned();
        let same = same.filter(|state| state.body.is_some() == parts.is_owned);
        let observed = same.or_else(|| self.pack(parts, changes.store));
        let entry = entry_or_new(&mut self.objects, parts.id());
        entry.list = self.list;
        entry.observed = observed;
        self.compare(parts.id(), before.as_ref(), changes);
    }

    pub(super) fn written(&mut self, parts: &ObjectParts<'_>, changes: &mut Changes<'_>) {
        let version = parts.resource_version;
        if version <= self.version || self.deleted.contains_key(parts.uid.as_ref()) {
            return;
        }
        let id @ (namespace, name) = parts.id();
        let is_older = |state: &Arc<Stored>| state.resource_version < version;
        if !parts.labelled() {
            self.edit(id, changes, |entry| {
                entry.observed.take_if(|state| is_older(state));
                entry.written.take_if(|state| is_older(state));
            });
            return;
        }
        let entry = entry_or_new(&mut self.objects, id);
        let before = entry.current().cloned();
        if before.as_ref().is_none_or(is_older)
            && let Some(state) = self.pack(parts, changes.store)
        {
            let entry = entry_or_new(&mut self.objects, id);
            if let Some(old) = entry.written.replace(state) {
                let old = (old.resource_version, namespace.into(), name.into());
                self.unconfirmed.remove(&old);
            }
            self.unconfirmed
                .insert((version, namespace.into(), name.into()));
        }
        self.compare(id, before.as_ref(), changes);
    }

    pub(super) fn deletion_answered(&mut self, id: Id<'_>, uid: &str, changes: &mut Changes<'_>) {
        let mut was_known = false;
        self.edit(id, changes, |entry| {
            for state in [&mut entry.observed, &mut entry.written] {
                was_known |= state.take_if(|state| *state.uid == *uid).is_some();
            }
        });
        if was_known {
            // The watch may never report the deletion of an object that it never reported.
            self.deleted.insert(uid.into(), self.list);
        }
    }

    pub(super) fn begin_write(&mut self, id @ (namespace, name): Id<'_>) {
        if let Some(pending) = self.pending(id) {
            pending.writes += 1;
        } else {
            self.pending.push(Pending {
                namespace: namespace.into(),
                name: name.into(),
                writes: 1,
                observed: None,
            });
        }
    }

    pub(super) fn end_write(&mut self, id: Id<'_>, end: &WriteEnd<'_>, changes: &mut Changes<'_>) {
        let result = match end {
            WriteEnd::Written(parts) => {
                self.written(parts, changes);
                // For the watch, an object without the label is deleted.
                Some(parts.labelled().then_some(parts.resource_version))
            }
            WriteEnd::Gone(uid) => {
                self.deletion_answered(id, uid, changes);
                Some(None)
            }
            WriteEnd::Unknown => None,
        };
        let ours = result == Some(self.current(id).map(|state| state.resource_version));
        let Some(pending) = self.pending(id) else {
            return;
        };
        pending.writes -= 1;
        let last = pending.writes == 0;
        if ours || last {
            // The observed state is the echo of this write, or no write is left whose echo it can
            // be.
            let source = if ours { Source::Write } else { Source::Watch };
            if let Some(owners) = pending.observed.take() {
                changes.add(id, owners, source);
            }
        }
        if last {
            self.pending.retain(|pending| pending.writes > 0);
        }
    }

    fn pending(&mut self, (namespace, name): Id<'_>) -> Option<&mut Pending> {
        let mut pending = self.pending.iter_mut();
        pending.find(|pending| *pending.namespace == *namespace && *pending.name == *name)
    }

    pub(super) fn list_done(&mut self, version: u64, changes: &mut Changes<'_>) {
        // Versions go back only if the cluster was restored: then no answer is valid any more.
        let rewound = version < self.before_list;
        let list = self.list;
        let is_gone = |entry: &Entry| entry.list != list && entry.observed.is_some();
        let entries = self.objects.iter().flat_map(|(namespace, names)| {
            let entries = names.iter().filter(|(_, entry)| is_gone(entry));
            entries.map(move |(name, _)| (namespace.clone(), name.clone()))
        });
        let gone: Vec<(Box<str>, Box<str>)> = entries.collect();
        for (namespace, name) in &gone {
            self.edit((namespace, name), changes, |entry| entry.observed = None);
        }
        self.advance(if rewound { u64::MAX } else { version }, changes);
        self.version = version;
        self.listed = true;
        // A list that began after a deletion does not contain the object, and neither do later
        // events of the watch.
        self.deleted.retain(|_, during| *during >= list);
    }

    /// Notes that the watch has reported all events up to this version.
    pub(super) fn advance(&mut self, version: u64, changes: &mut Changes<'_>) {
        self.version = self.version.max(version);
        while let Some(first) = self.unconfirmed.first()
            && first.0 <= version
            && let Some((passed, namespace, name)) = self.unconfirmed.pop_first()
        {
            self.edit((&namespace, &name), changes, |entry| {
                entry
                    .written
                    .take_if(|state| state.resource_version == passed);
            });
        }
    }

    pub(super) fn clear(&mut self, changes: &mut Changes<'_>) {
        for (namespace, names) in std::mem::take(&mut self.objects) {
            for (name, entry) in names {
                let owners = owners(entry.current(), None);
                changes.add((&namespace, &name), owners, Source::Watch);
            }
        }
        self.version = 0;
        self.before_list = 0;
        self.unconfirmed.clear();
        self.deleted.clear();
    }

    /// Changes an entry, if there is one.
    fn edit(&mut self, id: Id<'_>, changes: &mut Changes<'_>, edit: impl FnOnce(&mut Entry)) {
        if let Some(entry) = entry_mut(&mut self.objects, id) {
            let before = entry.current().cloned();
            edit(entry);
            self.compare(id, before.as_ref(), changes);
        }
    }

    /// Completes the change of an entry: removes the entry if it has no state left, keeps the noted
    /// fingerprints, and notes the change if another state is current.
    fn compare(
        &mut self,
        id @ (namespace, name): Id<'_>,
        before: Option<&Arc<Stored>>,
        changes: &mut Changes<'_>,
    ) {
        let Some(names) = self.objects.get_mut(namespace) else {
            return;
        };
        let owners = if let Some(after) = names.get_mut(name).and_then(Entry::current_mut) {
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
            let Some(before) = before else { return };
            note_end(&mut self.ended, &changes.store.gvk, id, before);
            owners(Some(before), None)
        };
        match (changes.source, self.pending(id)) {
            (Source::Watch, Some(pending)) => {
                merge(pending.observed.get_or_insert_default(), owners);
            }
            (source, _) => changes.add(id, owners, source),
        }
    }
}

/// The present owners, then the former ones. A former owner is no controller, unless the object is
/// gone.
pub(super) fn owners(before: Option<&Arc<Stored>>, after: Option<&Arc<Stored>>) -> Vec<Owner> {
    let of =
        |state: Option<&Arc<Stored>>| state.map_or_else(Vec::new, |state| state.owners.to_vec());
    let (mut owners, mut former) = (of(after), of(before));
    for owner in &mut former {
        owner.controller &= after.is_none();
    }
    merge(&mut owners, former);
    owners
}

/// Stores the last state of an object that is gone, if it had run to its end. The state of an
/// earlier object of the same name counts no longer.
fn note_end(ended: &mut VecDeque<Ended>, gvk: &Gvk, id: Id<'_>, last: &Arc<Stored>) {
    if !ended::may_kind_end(&gvk.group, &gvk.kind) {
        return;
    }
    ended.retain(|(namespace, name, _)| (&**namespace, &**name) != id);
    let has_ended = |live| ended::outcome(&object_key(gvk, id), &live).is_some();
    if last.parse().is_ok_and(has_ended) {
        ended.push_front((id.0.into(), id.1.into(), Arc::clone(last)));
        ended.truncate(MAX_ENDED);
    }
}

fn entry_mut<'a>(objects: &'a mut Objects, (namespace, name): Id<'_>) -> Option<&'a mut Entry> {
    objects.get_mut(namespace)?.get_mut(name)
}

fn entry_or_new<'a>(objects: &'a mut Objects, (namespace, name): Id<'_>) -> &'a mut Entry {
    // The entry API would copy both names each time, and most objects are stored already.
    if !objects.contains_key(namespace) {
        objects.insert(namespace.into(), HashMap::new());
    }
    let names = objects.get_mut(namespace).expect("inserted above");
    if !names.contains_key(name) {
        names.insert(name.into(), Entry::default());
    }
    names.get_mut(name).expect("inserted above")
}
