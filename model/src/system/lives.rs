//! A server that goes back to its backup, while the manager keeps its caches and its passes.
//!
//! The manager lists records and objects again at any later time, or dies and starts again. Versions
//! count again from the backup in reality, so that an old version may denote a new state. The model
//! has no such version: a write that is bound to a state of the former life is refused, unless the
//! restore has not changed the object.
//!
//! The backup has all revisions, with their numbers. One that a restore removes may leave an object
//! behind, about which the next one reports a collision: nobody knows if that was on purpose. Pages for
//! operators say so.

use super::{
    ACTORS, Action, BackupId, Cached, ContentId, OBJECTS, Record, RequestedState, State, System,
    bit,
};
use crate::world::{EngineFault, UserAction};

/// A state of the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Backup {
    sets: [(Record, RequestedState); ACTORS],
    objects: [ContentId; OBJECTS],
}

impl System {
    /// The events around a backup that are possible next.
    pub(super) fn acts_of_lives(&self, state: &State, actions: &mut Vec<Action>) {
        let lives = state.lives;
        if lives.cached != 0 {
            actions.push(Action::Relist);
        }
        if lives.backup != 0 {
            actions.push(Action::Restore);
        } else if !lives.is_over && self.world.powers.contains(&UserAction::Restore) {
            let count = self.world.revisions.len();
            let is_calm = state
                .sets
                .iter()
                .take(count)
                .all(|set| set.dialogue == 0 && set.record.exists() && set.record.number != 0);
            let has_objects = state.objects.iter().any(|object| object.content != 0);
            if is_calm && has_objects {
                actions.push(Action::Save);
            }
        }
    }

    /// The index of the present state of the server.
    pub(super) fn backup(&mut self, state: &State) -> BackupId {
        let backup = Backup {
            sets: state.sets.map(|set| (set.record, set.requested)),
            objects: state.objects.map(|object| object.content),
        };
        let (index, _) = self.backups.insert_full(backup);
        BackupId::try_from(index + 1).expect("few backups")
    }

    fn backed_up(&self, id: BackupId) -> Backup {
        self.backups[usize::from(id) - 1]
    }

    /// The server goes back to its backup.
    pub(super) fn restore(&mut self, state: &mut State) {
        let Backup { sets, objects } = self.backed_up(state.lives.backup);
        state.lives.backup = 0;
        state.lives.is_over = true;
        for (index, content) in objects.into_iter().enumerate() {
            let before = state.objects[index];
            if content != before.content {
                self.write(state, index, content, false);
                if before.cached == Cached::Current {
                    state.objects[index].cached = Cached::Former(before.content);
                }
            }
        }
        if self.world.is_remote {
            return;
        }
        let cached = self.backup(state);
        for (index, (record, requested)) in sets.into_iter().enumerate() {
            let set = &mut state.sets[index];
            if (set.record, set.requested) != (record, requested) {
                state.lives.cached = cached;
                state.lives.refused |= bit(index) * u8::from(set.dialogue != 0);
            }
            (set.record, set.requested) = (record, requested);
        }
    }

    /// The state with the records that the manager has in its cache.
    pub(super) fn seen(&self, state: &State) -> State {
        let mut seen = *state;
        if state.lives.cached != 0 {
            let cached = self.backed_up(state.lives.cached);
            for (set, (record, requested)) in seen.sets.iter_mut().zip(cached.sets) {
                (set.record, set.requested) = (record, requested);
            }
        }
        seen
    }

    /// True if the manager has read another record than the present one.
    pub(super) fn is_restored(&self, state: &State, index: usize) -> bool {
        let of = |state: &State| (state.sets[index].record, state.sets[index].requested);
        of(&self.seen(state)) != of(state)
    }

    /// Writes a record; false if the server refuses the write, because the manager has read another
    /// one.
    pub(super) fn store(&mut self, state: &mut State, index: usize, record: Record) -> bool {
        let mut seen = self.seen(state);
        if self.is_restored(state, index) && self.world.sabotage != EngineFault::OverwritesRestored
        {
            return false;
        }
        state.sets[index].record = record;
        if state.lives.cached != 0 {
            seen.sets[index].record = record;
            state.lives.cached = self.backup(&seen);
        }
        true
    }
}
