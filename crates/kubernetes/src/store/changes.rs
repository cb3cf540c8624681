//! The changes of children that one event causes.

use std::sync::Arc;

use super::{Id, ObjectChange, Source, Store};
use crate::object::Owner;
use baton_engine::{Gvk, ObjectKey};

/// Collects changes under the lock, to report them after it is released.
pub(super) struct Changes<'a> {
    pub(super) store: &'a Store,
    pub(super) source: Source,
    pub(super) found: Vec<ObjectChange>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(store: &'a Store, source: Source) -> Self {
        Self {
            store,
            source,
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, (namespace, name): Id<'_>, owners: Vec<Owner>, source: Source) {
        let earlier = self.found.iter_mut().find(|change| {
            // A write and a state that was observed meanwhile are one change.
            self.source == Source::Write
                && *change.key.namespace == *namespace
                && *change.key.name == *name
        });
        if let Some(earlier) = earlier {
            merge(&mut earlier.owners, owners);
            earlier.source = source;
            return;
        }
        self.found.push(ObjectChange {
            gvk: Arc::clone(&self.store.gvk),
            key: object_key(&self.store.gvk, (namespace, name)),
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

/// Adds the owners that are missing.
pub(super) fn merge(owners: &mut Vec<Owner>, more: Vec<Owner>) {
    for owner in more {
        if !owners.iter().any(|listed| listed.uid == owner.uid) {
            owners.push(owner);
        }
    }
}

/// The key of a child.
pub(super) fn object_key(gvk: &Gvk, (namespace, name): Id<'_>) -> ObjectKey {
    ObjectKey {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
