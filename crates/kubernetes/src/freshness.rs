//! The rule by which a store applies the events of a watch and the answers to its own writes.
//!
//! # Guarantees
//! - A stored object is never older than our own writes, once their answers were applied.
//! - An object whose deletion the watch has reported does not reappear by the answer to a write
//!   that was older than the deletion; while a list is under way it may, until the end of the list.
//! - A list is the state of the server. It removes objects that it does not contain, and replaces
//!   those that it contains even by an older version, as after a backup was restored. Objects
//!   written since the list began are exempt.
//!
//! Versions of one kind are comparable, and 0 stands for a version that is no number: then only the
//! watch counts.

use std::collections::BTreeSet;

/// The versions that were observed and written.
#[derive(Debug)]
pub struct Freshness<K> {
    /// The newest version that the watch has reported.
    observed: u64,
    /// The objects that were written since the list under way began; `None` if no list is under
    /// way.
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
    /// Notes that a list begins.
    pub fn list_started(&mut self) {
        // A server that was restored from a backup counts from a lower version.
        self.observed = 0;
        self.written = Some(BTreeSet::new());
    }

    /// True if an object of the list replaces the stored version.
    pub fn listed(&self, key: &K, stored: Option<u64>, version: u64) -> bool {
        let was_written = (self.written.as_ref()).is_some_and(|written| written.contains(key));
        stored.is_none_or(|stored| version > stored || (version < stored && !was_written))
    }

    /// Ends a list of this version. The result takes an object that the list does not contain, and
    /// its stored version, and reports if the object was written after the list.
    pub fn list_done(&mut self, version: u64) -> impl Fn(&K, u64) -> bool + use<K> {
        self.reached(version);
        let written = self.written.take().unwrap_or_default();
        move |key, kept| kept > version && written.contains(key)
    }

    /// True if an object that the watch reports replaces the stored version.
    pub fn observed(&mut self, stored: Option<u64>, version: u64) -> bool {
        self.reached(version);
        stored.is_none_or(|stored| version > stored)
    }

    /// Notes that the watch has reported all events up to a version.
    pub fn reached(&mut self, version: u64) {
        self.observed = self.observed.max(version);
    }

    /// True if the answer to a write replaces the stored version. An object that is not stored and
    /// is older than the events of the watch was reported too, and is deleted already.
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
