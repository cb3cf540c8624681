//! The children of one kind, as last observed by their watch or returned by a write of this
//! process.
//!
//! # Freshness
//!
//! Versions of one resource are comparable integers, and a watch reports changes in their order. So
//! an object has at most two states, and one rule decides which of them is current:
//!
//! - **observed**: the state that the list or watch reported last. It is replaced by the next state
//!   that they report, even if its version is lower: that happens after the cluster was restored
//!   from a backup.
//! - **written**: the answer to a write or to a live read, until the watch reaches its version.
//!   Once the watch has passed it, this state or a later one was observed, and the answer is
//!   dropped. An answer that arrives later is dropped at once.
//!
//! The newer of the two is current. Therefore:
//!
//! - A written object is current without waiting for the watch; the echo of the write changes
//!   nothing and is not reported.
//! - A deleted object cannot reappear: a watch that reports the deletion has passed every older
//!   answer, and a newer answer is a new object.
//! - A list removes the objects that it does not contain, except answers newer than the list. If such
//!   an answer was received before the list began, or if the list contains an object that was deleted
//!   before, the cluster was restored from a backup, and the list counts.
//!
//! # Reports
//!
//! Every change of the current state is reported once, with its source: this process or others. The
//! watch is often faster than the answer to the write that it echoes. So a state that is observed
//! while a write to the object is under way is current at once, but reported only with the answer,
//! which decides if the state is the echo. Otherwise a writer would be woken by its own writes.
//!
//! # Foreign objects
//!
//! Anybody can give an object the label by which children are watched. If no owner of an object may
//! own children ([`IsOwner`]), only its UID and version are stored: code that needs the object
//! reads it, as one without the label.
//!
//! # Limits of versions
//!
//! The answer to a deletion has no version, so the UID of the deleted object is remembered until
//! the watch reports the deletion: no older event can add the object again. An object without the
//! label by which the watch selects would never be confirmed or removed by the watch: it is no
//! child, and is removed from the store.

pub mod budget;
mod changes;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;

use self::budget::Budget;
use self::changes::Changes;
use self::table::{Table, WriteEnd};
use crate::{
    object::{ObjectError, ObjectParts, Owner, Stored},
    watch::Event,
};
use baton_engine::{Gvk, ObjectKey};

/// Namespace and name of an object.
type Id<'a> = (&'a str, &'a str);

/// The cause of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Another writer: the change was observed by the list, the watch or a read.
    Watch,
    /// A write of this process.
    Write,
}

/// An object has a new current state, or was added or removed.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The kind and version through which the object is watched.
    pub gvk: Arc<Gvk>,
    /// Identity of the object.
    pub key: ObjectKey,
    /// The present owners, then the former ones. The controller is the present one, or the former
    /// one if the object is gone.
    pub owners: Vec<Owner>,
    /// The cause of the change.
    pub source: Source,
}

/// The children of one kind; see the documentation of the module.
pub struct Store {
    gvk: Arc<Gvk>,
    table: Mutex<Table>,
    is_owner: IsOwner,
    budget: Arc<Budget>,
    report: Box<dyn Fn(ObjectChange) + Send + Sync>,
}

/// True if the UID is that of an object that may own children.
pub type IsOwner = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A write that is under way. If dropped, the result of the write is unknown.
pub(crate) struct PendingWrite {
    store: Arc<Store>,
    namespace: Box<str>,
    name: Box<str>,
    ended: bool,
}

impl Store {
    /// Creates an empty store that reports its changes to `report`. Objects that do not fit into the
    /// budget are stored as foreign ones, or not at all, as if they had no label.
    pub fn new(
        gvk: Arc<Gvk>,
        (is_owner, budget): (IsOwner, Arc<Budget>),
        report: impl Fn(ObjectChange) + Send + Sync + 'static,
    ) -> Self {
        Self {
            gvk,
            is_owner,
            budget,
            table: Mutex::default(),
            report: Box::new(report),
        }
    }

    /// Reports also the objects of the first list. By default they are not reported, because users
    /// that need them wait for the list.
    #[must_use]
    pub fn reporting_first_list(self) -> Self {
        self.table.lock().report_first_list();
        self
    }

    /// The current state of an object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.table.lock().current((namespace, name)).cloned()
    }

    /// The last state of an object that does not exist any more and had
    /// [ended](baton_engine::ended). Of such objects the last thousand are stored.
    pub fn ended(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.table.lock().ended((namespace, name)).cloned()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// True if an object did not fit into the budget since the last list began.
    pub fn is_over_budget(&self) -> bool {
        self.table.lock().is_over_budget()
    }

    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have an owner whose UID `by` accepts, each with that UID.
    pub fn owned(&self, by: impl Fn(&str) -> bool) -> Vec<(ObjectKey, Box<str>)> {
        self.table.lock().owned(&self.gvk, by)
    }

    /// Stores the fingerprints that the caller has noted for an object, until another object
    /// replaces it.
    pub fn set_fingerprints(&self, namespace: &str, name: &str, settled: (u64, u64)) {
        self.table
            .lock()
            .set_fingerprints((namespace, name), settled);
    }

    /// Applies an event of the watch.
    pub fn on_event(&self, event: &Event<'_>) {
        let parts = match event {
            Event::Listed(object) | Event::Upsert(object) | Event::Deleted(object) => {
                match self.parts(object.get()) {
                    Ok(parts) => Some(parts),
                    Err(error) => {
                        tracing::warn!(%error, "an object cannot be cached");
                        return;
                    }
                }
            }
            _ => None,
        };
        let mut changes = Changes::new(self, Source::Watch);
        let mut table = self.table.lock();
        match (event, &parts) {
            (Event::Listed(_), Some(parts)) => table.listed(parts, &mut changes),
            (Event::Upsert(_), Some(parts)) => table.upsert(parts, &mut changes),
            (Event::Deleted(_), Some(parts)) => table.deleted(parts, &mut changes),
            (Event::ListStarted, _) => table.list_started(),
            (Event::ListDone { resource_version }, _) => {
                table.list_done(*resource_version, &mut changes);
            }
            (Event::Bookmark(version), _) => table.advance(*version, &mut changes),
            (Event::Unserved, _) => table.clear(&mut changes),
            _ => {}
        }
        drop(table);
        changes.report();
    }

    /// Applies the object in the answer to a live read.
    ///
    /// # Errors
    /// If the text is no object.
    pub fn insert_read(&self, object: &str) -> Result<(), ObjectError> {
        let mut changes = Changes::new(self, Source::Watch);
        let parts = self.parts(object)?;
        self.table.lock().written(&parts, &mut changes);
        changes.report();
        Ok(())
    }

    /// Removes an object after a read has shown that it no longer exists.
    pub fn read_gone(&self, namespace: &str, name: &str, uid: &str) {
        let mut changes = Changes::new(self, Source::Watch);
        let mut table = self.table.lock();
        table.deletion_answered((namespace, name), uid, &mut changes);
        drop(table);
        changes.report();
    }

    /// Begins a write to an object, which is about to be sent.
    pub(crate) fn begin_write(self: &Arc<Self>, namespace: &str, name: &str) -> PendingWrite {
        self.table.lock().begin_write((namespace, name));
        PendingWrite {
            store: Arc::clone(self),
            namespace: namespace.into(),
            name: name.into(),
            ended: false,
        }
    }

    /// Splits an object. `IsOwner` is called before the lock is taken.
    fn parts<'a>(&self, object: &'a str) -> Result<ObjectParts<'a>, ObjectError> {
        let mut parts = ObjectParts::of(object, &self.gvk)?;
        parts.is_owned = parts.has_owner(|uid| (self.is_owner)(uid));
        Ok(parts)
    }

    fn end_write(&self, id: Id<'_>, end: &WriteEnd<'_>) {
        let mut changes = Changes::new(self, Source::Write);
        self.table.lock().end_write(id, end, &mut changes);
        changes.report();
    }
}

impl PendingWrite {
    /// Ends the write with this object as its answer.
    pub fn written(mut self, object: &str) -> Result<(), ObjectError> {
        let store = Arc::clone(&self.store);
        let parts = store.parts(object)?;
        self.end(&WriteEnd::Written(&parts));
        Ok(())
    }

    /// Ends the write with the answer that the object with this UID does not exist, or no longer.
    pub fn gone(mut self, uid: &str) {
        self.end(&WriteEnd::Gone(uid));
    }

    fn end(&mut self, end: &WriteEnd<'_>) {
        self.ended = true;
        self.store.end_write((&self.namespace, &self.name), end);
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if !self.ended {
            self.end(&WriteEnd::Unknown);
        }
    }
}
