//! Strays: objects that an owner still controls after it has ended. A revision has ended when it is
//! archived or deleted, a phase when it is being deleted.
//!
//! The write of a stray was under way when its owner ended, for example from a manager that was
//! suspended for a while and lost the lease meanwhile.
//!
//! An owner that has ended has no watches. Its strays are observed by the watches that other owners
//! have on the same kinds.
//!
//! The cached state may be newer than a server that was restored from a backup: on that server the
//! owner has not ended, and its objects are live. So an object is deleted only after the object and
//! its owner were read again.

use std::collections::{BTreeSet, HashMap};

use baton_engine::{Answer, Gvk, ObjectKey, Request, teardown};
use baton_kubernetes::{
    account::Account,
    target::{Target, TargetEvent},
};
use baton_records::{
    api::Api,
    key::Key,
    record::{Record, RecordKind},
};
use baton_runtime::source::Wake;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::shared::BURST;

/// The observed strays, by the key of their owner.
pub(crate) struct Strays<K: RecordKind>(Mutex<HashMap<Key<K>, BTreeSet<Stray>>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stray {
    /// The uid of the owner.
    uid: Box<str>,
    gvk: Gvk,
    object: ObjectKey,
}

/// The cluster of an owner's strays, and the account that deletes them.
pub(crate) struct StrayCluster {
    /// `None` if the cluster cannot be reached at present.
    pub target: Option<Target>,
    pub account: Option<Account>,
}

/// The server with the owners of strays.
pub(crate) struct OwnerServer<'a, K: RecordKind> {
    pub api: &'a Api,
    /// Maps the uid of an owner to the key under which it is read; `None` while the server cannot
    /// be reached.
    pub at: &'a (dyn Fn(&str) -> Option<Key<K>> + Sync),
    /// True if the object that was read shows that the owner with this uid has ended.
    pub says_ended: fn(&Record<K>, &str) -> bool,
}

impl<K: RecordKind> OwnerServer<'_, K> {
    /// True if an owner has ended by the current state on the server: it does not exist any more,
    /// or its status shows that.
    ///
    /// # Errors
    /// When the server does not answer; the text is the cause.
    async fn has_ended(&self, uid: &str) -> Result<bool, String> {
        let key = (self.at)(uid).ok_or("the server of the owner is unreachable")?;
        let found = self.api.get(&key).await;
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.is_none_or(|found| (self.says_ended)(&found, uid)))
    }
}

/// The outcome of an attempt to delete a stray.
enum DeletionOutcome {
    Removed,
    /// The object does not exist any more, has changed, or another owner has it or wants it.
    NoStray,
    /// The owner has not ended.
    Live,
    /// The cluster cannot be reached.
    Unreachable,
}

impl StrayCluster {
    /// Deletes a stray, if the servers confirm that it is one.
    ///
    /// # Errors
    /// When a server does not answer or refuses the request; the text is the cause.
    async fn take_away<K: RecordKind>(
        &self,
        Stray { uid, gvk, object }: &Stray,
        server: &OwnerServer<'_, K>,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<DeletionOutcome, String> {
        let Some(target) = &self.target else {
            return Ok(DeletionOutcome::Unreachable);
        };
        // The cache is checked first, because that takes no request: most objects that an ended
        // owner still has are about to be released.
        let observed = target.get(gvk, &object.namespace, &object.name);
        let observed = observed.and_then(|stored| stored.parse().ok());
        if observed.is_none_or(|observed| teardown::stray(&observed, uid).is_none()) {
            return Ok(DeletionOutcome::NoStray);
        }
        let account = self.account.as_ref();
        let live = match target.send(account, gvk, object, &Request::Get).await {
            Answer::Object(live) => live,
            Answer::NotFound | Answer::KindNotServed => return Ok(DeletionOutcome::NoStray),
            answer => return Err(cause(answer)),
        };
        let Some(request) = teardown::stray(&live, uid) else {
            return Ok(DeletionOutcome::NoStray);
        };
        if matches!(request, Request::Delete(_)) && is_wanted() {
            return Ok(DeletionOutcome::NoStray);
        }
        if !server.has_ended(uid).await? {
            return Ok(DeletionOutcome::Live);
        }
        match target.send(account, gvk, object, &request).await {
            answer @ (Answer::Refused(_) | Answer::Immutable(_) | Answer::Failed(_)) => {
                Err(cause(answer.without_values(&[Some(&live)])))
            }
            // The object has changed meanwhile; if it is still a stray, the event of the change records it.
            Answer::Conflict => Ok(DeletionOutcome::NoStray),
            _ => Ok(DeletionOutcome::Removed),
        }
    }
}

/// The reason that a request failed.
fn cause(answer: Answer) -> String {
    match answer {
        Answer::Refused(cause) | Answer::Immutable(cause) | Answer::Failed(cause) => cause,
        other => format!("unexpected answer: {other:?}"),
    }
}

impl<K: RecordKind> Default for Strays<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: RecordKind> Strays<K> {
    /// Trigger: records the objects in a change that are strays, and wakes their owners. `ended`
    /// maps the uid of an owner to its key, if the owner has ended.
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
            TargetEvent::Blocker { .. }
            | TargetEvent::Availability { .. }
            | TargetEvent::KindsChanged { .. } => return Vec::new(),
        };
        let mut strays = self.0.lock();
        let wake = |(owner, stray): (Key<K>, Stray)| {
            strays.entry(owner.clone()).or_default().insert(stray);
            Wake::after(BURST, owner)
        };
        found.into_iter().map(wake).collect()
    }

    /// Deletes the strays of all owners with this key.
    ///
    /// Returns true if none is left; the next call retries the others. `cluster_of` maps the uid of
    /// an ended owner to the cluster of its strays, `server` reads the owner. An object that another
    /// owner wants (`is_wanted`, for the uid of the ended one) stays: that owner takes it over.
    pub(crate) async fn take_away(
        &self,
        owner: &Key<K>,
        cluster_of: impl Fn(&str) -> Option<StrayCluster>,
        server: OwnerServer<'_, K>,
        is_wanted: impl Fn(&str, &ObjectKey) -> bool,
    ) -> bool {
        let strays = self.0.lock().remove(owner).unwrap_or_default();
        let mut left = BTreeSet::new();
        for stray in strays {
            let Some(cluster) = cluster_of(&stray.uid) else {
                continue;
            };
            let object = &stray.object;
            let is_wanted = || is_wanted(&stray.uid, object);
            match cluster.take_away(&stray, &server, is_wanted).await {
                Ok(DeletionOutcome::Removed) => {
                    info!(%object, %owner, "removed an object that was created after its owner had ended");
                }
                Ok(DeletionOutcome::Live) => {
                    warn!(%object, %owner, "kept an object: on the server its owner has not ended");
                }
                Ok(DeletionOutcome::NoStray) => {}
                Ok(DeletionOutcome::Unreachable) => {
                    left.insert(stray);
                }
                Err(cause) => {
                    warn!(%object, %owner, cause, "an object of an owner that has ended is not removed, trying again");
                    left.insert(stray);
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

    /// Drops the strays of a deleted owner.
    pub(crate) fn forget(&self, owner: &Key<K>) {
        self.0.lock().remove(owner);
    }
}
