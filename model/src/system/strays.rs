//! Strays: objects that archived revisions still own.

use super::{Cached, Life, OBJECTS, REVISIONS, Request, State, System, bit};

impl System {
    /// True if an archived revision has a stray.
    #[must_use]
    pub fn has_strays(&self, state: &State) -> bool {
        (0..OBJECTS).any(|object| self.stray(state, object).is_some())
    }

    /// The request that takes an object away from an archived revision, if the cache has the
    /// present state of the object. A request for any other state would be refused.
    pub(super) fn stray(&self, state: &State, index: usize) -> Option<Request> {
        let object = state.objects[index];
        if object.cached != Cached::Current || self.observed(state, index).is_none() {
            return None;
        }
        let owners = self.dialogues.contents.facts(object.content).owners;
        (0..REVISIONS).find_map(|set| {
            let record = state.sets[set].record;
            let is_ended = record.life == Life::Alive && record.status.archived;
            let is_stray = is_ended && owners & bit(set) != 0;
            is_stray.then(|| self.dialogues.stray(object.content, set))?
        })
    }
}
