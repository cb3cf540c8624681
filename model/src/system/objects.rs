//! Changes of objects, and the cache of objects.

use baton_engine::{Request, object::owner_references};
use serde_json::json;

use super::{
    ACTORS, Action, Cached, ContentId, Contents, Late, Life, State, System, World, bit,
    server::{self, Change},
};

impl System {
    /// Changes an object by another actor than the passes of the manager.
    pub(super) fn touch(&mut self, state: &mut State, index: usize, action: Action) {
        let contents = &self.dialogues.contents;
        let Some(live) = contents.object(state.objects[index].content).cloned() else {
            return;
        };
        let next = Contents::next();
        let change = match action {
            Action::Edit(_) => Change::Put(server::edited(&live, "edited")),
            Action::Forge(_) => Change::Put(server::forged(&live)),
            Action::Hold(_) => {
                let mut object = live;
                object["metadata"]["finalizers"] = json!(["test/hold"]);
                Change::Put(object)
            }
            Action::Unhold(_) => {
                let mut object = live;
                let metadata = object["metadata"].as_object_mut();
                let is_terminating = metadata.is_some_and(|metadata| {
                    metadata.remove("finalizers");
                    metadata.contains_key("deletionTimestamp")
                });
                if is_terminating {
                    Change::Gone
                } else {
                    Change::Put(object)
                }
            }
            Action::Collect(_) => {
                let is_gone = |reference: &serde_json::Value| {
                    (0..ACTORS).any(|set| {
                        World::identity(set).is(reference)
                            && state.sets[set].record.life == Life::Gone
                    })
                };
                if owner_references(&live).iter().all(is_gone) {
                    server::delete(&live, &next).0
                } else {
                    let mut object = live;
                    server::keep_references(&mut object, |reference| !is_gone(reference));
                    Change::Put(object)
                }
            }
            Action::TakeAway(_) => match self.stray(state, index) {
                Some(request) => server::serve(&World::key(index), Some(&live), &request, &next).0,
                None => return,
            },
            _ => server::delete(&live, &next).0,
        };
        let content = match change {
            Change::None => return,
            Change::Put(object) => self.dialogues.contents.intern(Some(object)),
            Change::Gone => 0,
        };
        self.write(state, index, content, false);
    }

    /// Changes the state of an object. `is_seen`: the cache receives the change at once.
    pub(super) fn write(&self, state: &mut State, index: usize, content: ContentId, is_seen: bool) {
        let object = &mut state.objects[index];
        let before = std::mem::replace(&mut object.content, content);
        if is_seen || !self.world.faults.lags {
            object.cached = Cached::Current;
        } else if object.cached == Cached::Current {
            object.cached = Cached::Former(before);
        }
        if content == 0 {
            // The next object of this name has another UID, for which nothing is stored.
            object.settled = 0;
        }
        for set in &mut state.sets {
            set.current &= !bit(index);
        }
        let late = state.late;
        if late.talk != 0 {
            let pending = &self.dialogues.pending(late.talk)[usize::from(late.which)];
            if pending.object == index && !matches!(pending.request, Request::Create(_)) {
                // The request is bound to a state that is gone for good.
                state.late = Late::default();
            }
        }
    }

    /// Removes the fingerprints of an object that the cache does not contain.
    pub(super) fn forget_unseen(&self, state: &mut State, index: usize) {
        if self.observed(state, index).is_none() {
            state.objects[index].settled = 0;
        }
    }

    /// The state of an object in the cache.
    pub(super) fn observed(&self, state: &State, index: usize) -> Option<ContentId> {
        let object = state.objects[index];
        let content = match object.cached {
            Cached::Current => object.content,
            Cached::Former(content) => content,
        };
        let is_visible = content != 0 && self.dialogues.contents.facts(content).is_labelled;
        is_visible.then_some(content)
    }
}
