//! The revisions before and after a revision in its chain.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use super::{RevisionRecord, Revisions};

/// The revisions that can be reached by any number of steps, in the order of their names.
fn closure(
    from: &RevisionRecord,
    step: impl Fn(&RevisionRecord) -> Vec<Arc<RevisionRecord>>,
) -> Vec<Arc<RevisionRecord>> {
    let mut found = BTreeMap::new();
    let mut walk = step(from);
    while let Some(next) = walk.pop() {
        if found.insert(next.key.clone(), Arc::clone(&next)).is_none() {
            walk.extend(step(&next));
        }
    }
    found.into_values().collect()
}

impl Revisions {
    /// The revisions from which this one may take objects over, in the order of their names: those
    /// that it lists as previous, and the older ones of its deployment.
    pub fn before(&self, record: &RevisionRecord) -> Vec<Arc<RevisionRecord>> {
        let key = &record.key;
        let mut found = BTreeMap::new();
        let listed = record.previous.iter().map(|name| key.named(name));
        for earlier in listed.filter_map(|key| self.get(&key)) {
            found.insert(earlier.key.clone(), earlier);
        }
        if let Some(deployment) = &record.deployment {
            let made = self.of_deployment(key, deployment);
            let older = made.into_iter().filter(|made| made.number < record.number);
            found.extend(older.map(|made| (made.key.clone(), made)));
        }
        found.into_values().collect()
    }

    /// The revisions that get the objects of a deleted one back, the newest first: those before it,
    /// over any number of steps, that have a lower number and are in force. Empty if the revision
    /// is not being deleted, or hands nothing back.
    pub fn heirs(&self, record: &RevisionRecord) -> Vec<Arc<RevisionRecord>> {
        if !record.deleting || !record.hands_back {
            return Vec::new();
        }
        let is_alive = |heir: &Arc<RevisionRecord>| heir.is_in_force();
        let is_older = |heir: &Arc<RevisionRecord>| {
            let number = heir.number.unwrap_or(0);
            0 < number && record.number.is_some_and(|own| number < own)
        };
        let mut heirs = closure(record, |earlier| self.before(earlier));
        heirs.retain(|heir| is_alive(heir) && is_older(heir));
        heirs.sort_by_key(|heir| Reverse(heir.number));
        heirs
    }

    /// The revisions before this one, over any number of steps, the newest first.
    pub fn all_before(&self, record: &RevisionRecord) -> Vec<Arc<RevisionRecord>> {
        let mut found = closure(record, |earlier| self.before(earlier));
        found.retain(|earlier| earlier.key != record.key);
        found.sort_by_key(|earlier| Reverse(earlier.number));
        found
    }

    /// The revisions of [`Revisions::all_before`] that are not archived: they may still delete
    /// their objects.
    pub fn unfinished_before(&self, record: &RevisionRecord) -> Vec<Arc<RevisionRecord>> {
        let mut found = self.all_before(record);
        found.retain(|earlier| !earlier.archived);
        found
    }

    /// The revisions after this one, over any number of `previous` steps or with the label of its
    /// deployment, that have a higher number and are in force.
    pub fn newer(&self, record: &RevisionRecord) -> Vec<Arc<RevisionRecord>> {
        let after = |earlier: &RevisionRecord| {
            let mut found = self.successors(&earlier.key);
            if let Some(deployment) = &earlier.deployment {
                found.extend(self.of_deployment(&earlier.key, deployment));
            }
            found
        };
        let mut found = closure(record, after);
        found.retain(|later| later.is_in_force() && later.number > record.number);
        found
    }
}

impl RevisionRecord {
    /// True if both revisions have the label of one deployment, or of one chain.
    pub fn shares_label_with(&self, other: &Self) -> bool {
        let is_one = |own: Option<&str>, other: Option<&str>| own.is_some() && own == other;
        is_one(self.deployment.as_deref(), other.deployment.as_deref())
            || is_one(self.chain(), other.chain())
    }

    /// True if the revision has neither the label of a deployment nor that of a chain.
    pub fn is_unlabelled(&self) -> bool {
        self.deployment.is_none() && self.chain().is_none()
    }
}
