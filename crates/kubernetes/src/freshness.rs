//! The rule by which a store applies the events of a watch and the answers to its own writes.
//!
//! # Guarantees
//! - After the answer to one of our writes was applied, the stored object is never older than this
//!   write.
//! - The answer to a write does not restore an object if the watch has reported a later deletion of
//!   it. Exception: during a list it may restore the object until the list ends.
//! - A list is the state of the server. Stored objects that it does not contain are removed, and all
//!   others are replaced, even by an older version, as after a backup was restored. Exception:
//!   objects that were written since the list began.
//!
//! Versions of one kind are comparable. A version that is no number is passed as 0. An event or an
//! answer with version 0 never replaces a stored object.

use std::collections::BTreeSet;

/// The versions that were observed and written.
#[derive(Debug)]
pub struct Freshness<K> {
    /// The newest version that the watch has reported.
    observed: u64,
    /// The objects that were written since the current list began; `None` if no list is in progress.
    written: Option<BTreeSet<K>>,
}

impl<K> Default for Freshness<K> {
    fn default() -> Self {
        Self {
            observed: 0,
            written: None,
        }
    }
}

impl<K: Ord> Freshness<K> {
    /// Records that a list begins.
    pub fn list_started(&mut self) {
        // A server that was restored from a backup counts from a lower version.
        self.observed = 0;
        self.written = Some(BTreeSet::new());
    }

    /// True if an object of the list, with this version, replaces the stored version `stored`.
    pub fn listed(&self, key: &K, stored: Option<u64>, version: u64) -> bool {
        let was_written = (self.written.as_ref()).is_some_and(|written| written.contains(key));
        stored.is_none_or(|stored| version > stored || (version < stored && !was_written))
    }

    /// Records the end of a list of this version. Returns a predicate for stored objects that the
    /// list does not contain: true for an object and its stored version if the object was written
    /// after the list, so that it stays.
    pub fn list_done(&mut self, version: u64) -> impl Fn(&K, u64) -> bool + use<K> {
        self.reached(version);
        let written = self.written.take().unwrap_or_default();
        move |key, kept| kept > version && written.contains(key)
    }

    /// True if an object that the watch reports, with this version, replaces the stored version
    /// `stored`.
    pub fn observed(&mut self, stored: Option<u64>, version: u64) -> bool {
        self.reached(version);
        stored.is_none_or(|stored| version > stored)
    }

    /// Records that the watch has reported all events up to a version.
    pub fn reached(&mut self, version: u64) {
        self.observed = self.observed.max(version);
    }

    /// True if the answer to a write, with this version, replaces the stored version `stored`.
    ///
    /// If the object is not stored, the version is compared with the newest one that the watch has
    /// reported: an object of an older version was deleted in the meantime.
    pub fn written(&mut self, key: K, stored: Option<u64>, version: u64) -> bool {
        let is_newer = version > stored.unwrap_or(self.observed);
        if let Some(written) = self.written.as_mut().filter(|_| is_newer) {
            written.insert(key);
        }
        is_newer
    }
}

#[cfg(test)]
mod tests;
