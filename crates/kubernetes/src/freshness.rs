//! The rule by which whoever keeps the objects of a kind, and writes them, takes in what a watch reports and how its
//! own writes were answered.
//!
//! # Guarantees
//! - What is kept is never older than our own writes, once their answers were taken in.
//! - An object that the watch has seen go does not come back by the answer to a write that was older than its deletion;
//!   while a list is under way it may, until the end of the list.
//! - A list is the state of the server. It removes what it does not contain, and replaces what it contains even by an
//!   older version, as after a backup was restored; but for objects written since it began.
//!
//! Versions of one kind compare, and 0 stands for one that is no number: then the watch alone counts.

use std::collections::BTreeSet;

/// The versions that were observed and written.
#[derive(Debug)]
pub struct Freshness<K> {
    /// The newest version that the watch has reported.
    observed: u64,
    /// The objects that were written since the list under way began, if one is.
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
    /// A list begins.
    pub fn list_started(&mut self) {
        // A server that was restored from a backup counts from a lower version.
        self.observed = 0;
        self.written = Some(BTreeSet::new());
    }

    /// Whether an object of the list replaces the version that is kept.
    pub fn listed(&self, key: &K, known: Option<u64>, version: u64) -> bool {
        let was_written = (self.written.as_ref()).is_some_and(|written| written.contains(key));
        known.is_none_or(|known| version > known || (version < known && !was_written))
    }

    /// The list is complete, and of this version. The result says of an object that it does not contain, and of the
    /// version that is kept, whether the object was written after the list.
    pub fn list_done(&mut self, version: u64) -> impl Fn(&K, u64) -> bool + use<K> {
        self.reached(version);
        let written = self.written.take().unwrap_or_default();
        move |key, kept| kept > version && written.contains(key)
    }

    /// Whether an object that the watch reports replaces the version that is kept.
    pub fn observed(&mut self, known: Option<u64>, version: u64) -> bool {
        self.reached(version);
        known.is_none_or(|known| version > known)
    }

    /// The watch has reported everything up to a version.
    pub fn reached(&mut self, version: u64) {
        self.observed = self.observed.max(version);
    }

    /// Whether the answer to a write replaces the version that is kept. What is not kept and is older than what the
    /// watch has reported was reported too, and is gone already.
    pub fn written(&mut self, key: K, known: Option<u64>, version: u64) -> bool {
        let is_newer = version > known.unwrap_or(self.observed);
        if let Some(written) = self.written.as_mut().filter(|_| is_newer) {
            written.insert(key);
        }
        is_newer
    }
}

#[cfg(test)]
mod tests;
