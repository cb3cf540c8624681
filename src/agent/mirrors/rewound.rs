//! A hub that went back in time, as after its etcd was restored from a backup.

use std::collections::HashMap;

use baton_records::phase::{PhaseKey, PhaseRecord};
use tracing::warn;

use super::{Change, Mirrors};

impl Mirrors {
    /// The cached versions of the mirrors and of the heartbeat object.
    pub(crate) fn versions(&self) -> HashMap<PhaseKey, u64> {
        let heartbeat = self.heartbeat.borrow().clone();
        let cached = self.all().into_iter().chain(heartbeat);
        let versions = cached.map(|object| (object.key.clone(), object.resource_version));
        versions.collect()
    }

    /// Resolves when an answer of the hub has shown that the cache may be wrong, so that everything is to
    /// be listed again.
    pub(crate) async fn list_requested(&self) {
        self.list_requests.notified().await;
    }

    /// Applies the heartbeat object as the hub has it, after a write of it was refused as outdated. Until
    /// a watch reports that the hub went back, this is the only sign of it.
    pub(crate) fn read_again(&self, live: Option<PhaseRecord>) {
        let cached = self.heartbeat.borrow().clone();
        let Some(cached) = cached else { return };
        match live {
            Some(live) if live.uid == cached.uid => {
                if live.resource_version < cached.resource_version {
                    warn!(
                        "the hub has an older heartbeat than the agent has written; listing everything again"
                    );
                    self.list_requests.notify_one();
                } else {
                    self.process([Change::There(live)]);
                }
            }
            // The watch reports the deletion, unless the hub went back.
            _ => self.list_requests.notify_one(),
        }
    }
}

/// True if a list shows that the hub went back: an object, or the list, is older than the cache was when
/// the list began. The version of the list alone does not show it, as a restored hub may have passed the
/// version of the cache again.
pub(super) fn has_gone_back(
    before: &HashMap<PhaseKey, u64>,
    objects: &[PhaseRecord],
    version: u64,
) -> bool {
    let is_older = |object: &PhaseRecord| {
        let before = before.get(&object.key);
        before.is_some_and(|before| object.resource_version < *before)
    };
    before.values().any(|before| *before > version) || objects.iter().any(is_older)
}
