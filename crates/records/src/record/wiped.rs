//! Statuses that another client has removed.

use super::{Record, RecordKind};

impl<K: RecordKind> Record<K> {
    /// Keeps the status of the record before, if another client has removed it since. The cached
    /// status may have facts that nothing else has, such as the end of an object or of the revision.
    ///
    /// The generations must be equal: an object that a restored server returns to an earlier state
    /// may have no status yet.
    pub(crate) fn keep_wiped_status(&mut self, before: &Self) {
        let is_wiped = before.uid == self.uid
            && before.generation == self.generation
            && before.resource_version <= self.resource_version
            && K::is_reported(&before.fields)
            && !K::is_reported(&self.fields);
        if is_wiped {
            K::copy_status(&mut self.fields, &before.fields);
            self.status.clone_from(&before.status);
            self.is_wiped = true;
        }
    }
}
