//! The actions of users.

use crate::{
    state::{Life, Set, State, Wish},
    world::{Power, World},
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
            let facts = |index: usize| self.talks.contents.facts(content(index));
            let data = |index: usize| self.talks.contents.data(content(index));
            let may_touch = |index: usize| content(index) != 0 && state.edits > 0;
            match *power {
                Power::Archive(index) | Power::Pause(index) | Power::Delete(index)
                    if state.sets[index].record.life != Life::Alive => {}
                Power::Archive(index) if state.sets[index].wish != Wish::Archived => {
                    actions.push(Action::Wish(small(index), Wish::Archived));
                }
                Power::Pause(index) => match state.sets[index].wish {
                    Wish::Active => actions.push(Action::Wish(small(index), Wish::Paused)),
                    Wish::Paused => actions.push(Action::Wish(small(index), Wish::Active)),
                    Wish::Archived => {}
                },
                Power::Delete(index) => actions.push(Action::Delete(small(index))),
                Power::Edit(index) if may_touch(index) && data(index) != "edited" => {
                    actions.push(Action::Edit(small(index)));
                }
                Power::Remove(index) if may_touch(index) && !facts(index).is_terminating => {
                    actions.push(Action::Remove(small(index)));
                }
                Power::Hold(index) if facts(index).is_held => {
                    actions.push(Action::Unhold(small(index)));
                }
                Power::Hold(index) if may_touch(index) && !facts(index).is_terminating => {
                    actions.push(Action::Hold(small(index)));
                }
                Power::RemovePhase(index) => {
                    let phase = World::phase_of(index);
                    let is_there = state.sets[phase].record.life == Life::Alive;
                    if is_there && state.edits > 0 {
                        actions.push(Action::RemovePhase(small(phase)));
                    }
                }
                Power::Lose(index) => {
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
