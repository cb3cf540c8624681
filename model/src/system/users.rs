//! The actions of users.

use crate::{
    state::{Life, RequestedState, Set, State},
    world::{UserAction, World},
};

use super::{Action, System, small};

impl System {
    /// The actions that users may take next.
    pub(super) fn acts_of_users(&self, state: &State, actions: &mut Vec<Action>) {
        let unborn = |set: &Set| set.record.life == Life::Unborn;
        let next = state.sets.iter().take(self.count()).position(unborn);
        actions.extend(next.map(|index| Action::Create(small(index))));
        for power in &self.world.powers {
            let content = |index: usize| state.objects[index].content;
            let facts = |index: usize| self.dialogues.contents.facts(content(index));
            let data = |index: usize| self.dialogues.contents.data(content(index));
            let may_touch = |index: usize| content(index) != 0 && state.edits > 0;
            match *power {
                UserAction::Archive(index)
                | UserAction::Pause(index)
                | UserAction::Delete(index)
                    if state.sets[index].record.life != Life::Alive => {}
                UserAction::Archive(index)
                    if state.sets[index].requested != RequestedState::Archived =>
                {
                    actions.push(Action::SetState(small(index), RequestedState::Archived));
                }
                UserAction::Pause(index) => match state.sets[index].requested {
                    RequestedState::Active => {
                        actions.push(Action::SetState(small(index), RequestedState::Paused));
                    }
                    RequestedState::Paused => {
                        actions.push(Action::SetState(small(index), RequestedState::Active));
                    }
                    RequestedState::Archived => {}
                },
                UserAction::Delete(index) => actions.push(Action::Delete(small(index))),
                UserAction::Edit(index) if may_touch(index) && data(index) != "edited" => {
                    actions.push(Action::Edit(small(index)));
                }
                UserAction::Remove(index) if may_touch(index) && !facts(index).is_terminating => {
                    actions.push(Action::Remove(small(index)));
                }
                UserAction::Hold(index) if facts(index).is_held => {
                    actions.push(Action::Unhold(small(index)));
                }
                UserAction::Hold(index) if may_touch(index) && !facts(index).is_terminating => {
                    actions.push(Action::Hold(small(index)));
                }
                UserAction::RemovePhase(index) => {
                    let phase = World::phase_of(index);
                    let is_there = state.sets[phase].record.life == Life::Alive;
                    if is_there && state.edits > 0 {
                        actions.push(Action::RemovePhase(small(phase)));
                    }
                }
                UserAction::Forge(index) if may_touch(index) && !facts(index).is_forged => {
                    actions.push(Action::Forge(small(index)));
                }
                UserAction::Lose(index) => {
                    let record = state.sets[index].record;
                    if record.is_lost || (record.exists() && state.edits > 0) {
                        actions.push(Action::Lose(small(index)));
                    }
                }
                _ => {}
            }
        }
    }
}
