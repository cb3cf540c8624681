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

mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;

use self::table::{Changes, Landing, Table};
use super::{
    object::{ObjectError, Owner, Parts, Stored},
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
    table: Mutex<Table>,
    report: Box<dyn Fn(ObjectChange) + Send + Sync>,
}

/// A write that is under way. Dropping it means that its result is unknown.
pub(crate) struct Flight {
    store: Arc<Store>,
    namespace: Box<str>,
    name: Box<str>,
    landed: bool,
}

impl Store {
    /// An empty store, whose changes go to `report`.
    pub fn new(gvk: Arc<Gvk>, report: impl Fn(ObjectChange) + Send + Sync + 'static) -> Self {
        Self {
            gvk,
            table: Mutex::default(),
            report: Box::new(report),
        }
    }

    /// Reports what the first list contains as well. By default it does not, because whoever needs
    /// those objects waits for the list.
    #[must_use]
    pub fn reporting_first_list(self) -> Self {
        self.table.lock().report_first_list();
        self
    }

    /// The object as it is seen.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.table.lock().seen(namespace, name).cloned()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers what the caller has settled about an object, until another one takes its place.
    pub fn set_settled(&self, namespace: &str, name: &str, settled: (u64, u64)) {
        self.table.lock().set_settled(namespace, name, settled);
    }

    /// Takes what the list or watch tells.
    pub fn on_event(&self, event: &Event<'_>) {
        let parts = match event {
            Event::Listed(object) | Event::Upsert(object) | Event::Deleted(object) => {
                match Parts::of(object.get(), &self.gvk) {
                    Ok(parts) => Some(parts),
                    Err(error) => {
                        tracing::warn!(%error, "object not cached");
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
            (Event::Bookmark(version), _) => table.pass(*version, &mut changes),
            (Event::Unserved, _) => table.clear(&mut changes),
            _ => {}
        }
        drop(table);
        changes.report();
    }

    /// Takes the object in the answer to a live read.
    ///
    /// # Errors
    /// When the text is no object.
    pub fn insert_read(&self, object: &str) -> Result<(), ObjectError> {
        let mut changes = Changes::new(self, Source::Watch);
        let parts = Parts::of(object, &self.gvk)?;
        self.table.lock().written(&parts, &mut changes);
        changes.report();
        Ok(())
    }

    /// Removes an object after a read has shown that it does not exist any more.
    pub fn read_gone(&self, namespace: &str, name: &str, uid: &str) {
        let mut changes = Changes::new(self, Source::Watch);
        self.table
            .lock()
            .deletion_answered(namespace, name, uid, &mut changes);
        changes.report();
    }

    /// Says that a write to an object is about to be sent.
    pub(crate) fn begin_write(self: &Arc<Self>, namespace: &str, name: &str) -> Flight {
        self.table.lock().take_off(namespace, name);
        Flight {
            store: Arc::clone(self),
            namespace: namespace.into(),
            name: name.into(),
            landed: false,
        }
    }

    fn end_write(&self, namespace: &str, name: &str, landing: &Landing<'_>) {
        let mut changes = Changes::new(self, Source::Write);
        self.table
            .lock()
            .land(namespace, name, landing, &mut changes);
        changes.report();
    }
}

impl Flight {
    /// The write was answered with this object.
    pub fn written(mut self, object: &str) -> Result<(), ObjectError> {
        let parts = Parts::of(object, &self.store.gvk)?;
        self.landed = true;
        self.store
            .end_write(&self.namespace, &self.name, &Landing::Written(&parts));
        Ok(())
    }

    /// The answer was that the object with this UID does not exist, or no longer.
    pub fn gone(mut self, uid: &str) {
        self.landed = true;
        self.store
            .end_write(&self.namespace, &self.name, &Landing::Gone(uid));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            self.store
                .end_write(&self.namespace, &self.name, &Landing::Unknown);
        }
    }
}
