//! Objects that an owner controls although it has ended: a write that was under way when it ended came late, for
//! instance that of a manager that was stopped for a while and has lost the lease meanwhile.
//!
//! An owner that has ended uses no watches. Its strays are observed by the watches of others, on the same kinds.
//!
//! What is observed may be ahead of a server that was restored from a backup: there the owner has not ended, and its
//! objects are live. So nothing is removed before the object and its owner were read again.

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

/// The server that has the owners of strays.
pub(crate) struct OwnerServer<'a, K: RecordKind> {
    pub api: &'a Api,
    /// Leads from the uid of an owner to what is to be read; `None` while the server cannot be reached.
    pub at: &'a (dyn Fn(&str) -> Option<Key<K>> + Sync),
    /// Whether what was read, for this uid, says that the owner has ended.
    pub says_ended: fn(&Record<K>, &str) -> bool,
}

impl<K: RecordKind> OwnerServer<'_, K> {
    /// Whether an owner has ended, by what the server says now: it does not exist any more, or says so.
    ///
    /// # Errors
    /// When the server does not answer; the text says why.
    async fn has_ended(&self, uid: &str) -> Result<bool, String> {
        let key = (self.at)(uid).ok_or("the server that has the owner is away")?;
        let found = self.api.get(&key).await;
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.is_none_or(|found| (self.says_ended)(&found, uid)))
    }
}

/// What has become of a stray.
enum Fate {
    Removed,
    /// It is gone, has changed, or is somebody else's.
    NoStray,
    /// Its owner has not ended.
    Live,
    /// Its cluster cannot be reached.
    Unreachable,
}

impl Place {
    /// Takes a stray away, by what the servers say now.
    ///
    /// # Errors
    /// When one of them does not answer, or refuses it; the text says why.
    async fn take_away<K: RecordKind>(
        &self,
        Stray { uid, gvk, object }: &Stray,
        server: &OwnerServer<'_, K>,
    ) -> Result<Fate, String> {
        let Some(target) = &self.target else {
            return Ok(Fate::Unreachable);
        };
        // Most of what has an owner that has ended is being let go of: that costs no request.
        let observed = target.get(gvk, &object.namespace, &object.name);
        let observed = observed.and_then(|stored| stored.parse().ok());
        if observed.is_none_or(|observed| teardown::stray(&observed, uid).is_none()) {
            return Ok(Fate::NoStray);
        }
        let account = self.account.as_ref();
        let live = match target.send(account, gvk, object, &Request::Get).await {
            Answer::Object(live) => live,
            Answer::NotFound | Answer::KindNotServed => return Ok(Fate::NoStray),
            answer => return Err(cause(answer)),
        };
        let Some(request) = teardown::stray(&live, uid) else {
            return Ok(Fate::NoStray);
        };
        if !server.has_ended(uid).await? {
            return Ok(Fate::Live);
        }
        match target.send(account, gvk, object, &request).await {
            answer @ (Answer::Refused(_) | Answer::Immutable(_) | Answer::Failed(_)) => {
                Err(cause(answer))
            }
            // Changed meanwhile: that is an event.
            Answer::Conflict => Ok(Fate::NoStray),
            _ => Ok(Fate::Removed),
        }
    }
}

/// Why a request had no success.
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
    /// time. `place` leads from the uid of an owner to its strays if it has ended, `server` to the owner.
    pub(crate) async fn take_away(
        &self,
        owner: &Key<K>,
        place: impl Fn(&str) -> Option<Place>,
        server: OwnerServer<'_, K>,
    ) -> bool {
        let strays = self.0.lock().remove(owner).unwrap_or_default();
        let mut left = BTreeSet::new();
        for stray in strays {
            let Some(place) = place(&stray.uid) else {
                continue;
            };
            let object = &stray.object;
            match place.take_away(&stray, &server).await {
                Ok(Fate::Removed) => {
                    info!(%object, %owner, "removed an object that came after its owner had ended");
                }
                Ok(Fate::Live) => {
                    warn!(%object, %owner, "kept an object: on the server its owner has not ended");
                }
                Ok(Fate::NoStray) => {}
                Ok(Fate::Unreachable) => {
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

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, owner: &Key<K>) {
        self.0.lock().remove(owner);
    }
}
