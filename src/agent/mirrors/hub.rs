//! The hub of an agent.

use baton_apis::constants::ANNOTATION_HUB;
use baton_engine::owners::lost_hubs;
use baton_fleet::mirror::Origin;

use super::Mirrors;

impl Mirrors {
    /// UID of the hub; empty while it is unknown. It stays while the heartbeat object is missing.
    pub(crate) fn hub(&self) -> String {
        self.hub.lock().clone()
    }

    /// Notes the hub that the heartbeat object names.
    pub(super) fn note_hub(&self) {
        let heartbeat = self.heartbeat.borrow().clone();
        let named = heartbeat.and_then(|it| it.annotations.get(ANNOTATION_HUB).cloned());
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return;
        };
        let mut hub = self.hub.lock();
        if *hub != named {
            *hub = named;
            // The stored state does not name this hub yet.
            self.changed();
        }
    }

    /// True if a mirror names the hub with this UID as one that does not exist any more.
    pub(crate) fn is_lost_hub(&self, hub: &str) -> bool {
        let mirrors = self.items.filter(|mirror| {
            Origin::read(mirror).is_ok_and(|origin| lost_hubs(origin.lost_hubs()).contains(hub))
        });
        !mirrors.is_empty()
    }
}
