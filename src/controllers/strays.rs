//! Objects that an owner controls although it has ended: a write that was under way when it ended came late, for
//! instance that of a manager that was stopped for a while and has lost the lease meanwhile.
//!
//! An owner that has ended uses no watches. Its strays are observed by the watches of others, on the same kinds.

use std::collections::{BTreeSet, HashMap};

use baton_engine::{Answer, Gvk, ObjectKey, teardown};
use baton_kubernetes::{
    account::Account,
    target::{Target, TargetEvent},
};
use baton_records::{key::Key, record::RecordKind};
use baton_runtime::source::Wake;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::BURST;

/// The strays that were observed, by the name of the owner that they have.
pub(crate) struct Strays<K: RecordKind>(Mutex<HashMap<Key<K>, BTreeSet<Stray>>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stray {
    /// The uid of the owner.
    uid: Box<str>,
    gvk: Gvk,
    object: ObjectKey,
}

/// Where the strays of an owner are, and as whom they are taken away.
pub(crate) struct Place {
    /// `None` for a cluster that cannot be reached at present.
    pub target: Option<Target>,
    pub account: Option<Account>,
}

impl<K: RecordKind> Default for Strays<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: RecordKind> Strays<K> {
    /// Trigger: notes the strays in a change in one of the clusters, and wakes their owners; `ended` leads from a uid
    /// to the owner if that has ended.
    pub(crate) fn on_child(
        &self,
        event: &TargetEvent,
        targets: impl Fn() -> Vec<Target>,
        ended: impl Fn(&str) -> Option<Key<K>>,
    ) -> Vec<Wake<Key<K>>> {
        let stray = |gvk: &Gvk, object: &ObjectKey, uid: &str| {
            let stray = Stray {
                uid: uid.into(),
                gvk: gvk.clone(),
                object: object.clone(),
            };
            Some((ended(uid)?, stray))
        };
        let found: Vec<_> = match event {
            TargetEvent::Changed(change) => {
                let owners = change.owners.iter();
                let strays = owners.filter_map(|owner| stray(&change.gvk, &change.key, &owner.uid));
                strays.collect()
            }
            TargetEvent::Listed { gvk } => {
                let owned = targets().into_iter();
                let owned = owned.flat_map(|target| target.owned(gvk, |uid| ended(uid).is_some()));
                let strays = owned.filter_map(|(object, uid)| stray(gvk, &object, &uid));
                strays.collect()
            }
            TargetEvent::Blocker { .. } | TargetEvent::KindsChanged { .. } => return Vec::new(),
        };
        let mut strays = self.0.lock();
        let wake = |(owner, stray): (Key<K>, Stray)| {
            strays.entry(owner.clone()).or_default().insert(stray);
            Wake::after(BURST, owner)
        };
        found.into_iter().map(wake).collect()
    }

    /// Takes the strays of owners of a name away; whether that was successful. What was not is tried again the next
    /// time. `place` leads from the uid of an owner to its strays if it has ended.
    pub(crate) async fn take_away(
        &self,
        owner: &Key<K>,
        place: impl Fn(&str) -> Option<Place>,
    ) -> bool {
        let strays = self.0.lock().remove(owner).unwrap_or_default();
        let mut left = BTreeSet::new();
        for stray in strays {
            let Some(Place { target, account }) = place(&stray.uid) else {
                continue;
            };
            let Some(target) = target else {
                left.insert(stray);
                continue;
            };
            let Stray { uid, gvk, object } = &stray;
            let stored = target.get(gvk, &object.namespace, &object.name);
            let Some(live) = stored.and_then(|stored| stored.parse().ok()) else {
                continue;
            };
            let Some(request) = teardown::stray(&live, uid) else {
                continue;
            };
            match target.send(account.as_ref(), gvk, object, &request).await {
                Answer::Refused(cause) | Answer::Immutable(cause) | Answer::Failed(cause) => {
                    warn!(%object, %owner, cause, "an object of an owner that has ended is not removed, trying again");
                    left.insert(stray);
                }
                // Changed meanwhile: that is an event.
                Answer::Conflict => {}
                _ => {
                    info!(%object, %owner, "removed an object that came after its owner had ended");
                }
            }
        }
        let is_done = left.is_empty();
        if !is_done {
            let mut strays = self.0.lock();
            strays.entry(owner.clone()).or_default().extend(left);
        }
        is_done
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, owner: &Key<K>) {
        self.0.lock().remove(owner);
    }
}
