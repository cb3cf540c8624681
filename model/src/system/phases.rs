//! Changes of phase objects.

use super::{
    Alarm, Delegation, Ending, Life, OBJECTS, PhaseAnswer, Record, Reported, RequestOutcome,
    RequestedState, State, Status, System, World,
    facts::{gone, requested_of_phase, view},
};

impl System {
    /// Carries out a request of a revision about its phase object. The cache for phase objects is
    /// never outdated here.
    pub(super) fn delegate(&mut self, state: &mut State, index: usize, fate: RequestOutcome) {
        let set = state.sets[index];
        let phase = World::phase_of(index);
        let record = &mut state.sets[phase].record;
        let delegation = self.dialogues.delegation(set.dialogue).cloned();
        let mut said = if record.exists() {
            PhaseAnswer::Changed
        } else {
            PhaseAnswer::Gone
        };
        if fate != RequestOutcome::Lost {
            match delegation {
                Some(Delegation::Create(_)) if !record.exists() => {
                    *record = Record {
                        life: Life::Alive,
                        number: set.record.number,
                        paused: self.dialogues.requested(set.dialogue) == RequestedState::Paused,
                        // The controller of another class adds a finalizer itself, or none.
                        is_held: !self.world.is_foreign(phase),
                        is_lost: false,
                        status: Status::default(),
                    };
                    said = PhaseAnswer::Is(*record);
                }
                Some(Delegation::Pause(paused)) if record.exists() => {
                    record.paused = paused;
                    outdate(record);
                    said = PhaseAnswer::Is(*record);
                }
                Some(Delegation::Delete {
                    resource_version, ..
                }) if record.exists() && record.version() == resource_version => {
                    let going = Record {
                        life: Life::Deleting,
                        ..*record
                    };
                    delete(record);
                    // The answer does not reveal if a finalizer holds the object.
                    said = PhaseAnswer::Is(going);
                    self.mind_order(state, index);
                }
                Some(Delegation::Get) if record.exists() => said = PhaseAnswer::Is(*record),
                Some(Delegation::Pause(_) | Delegation::Delete { .. }) => {
                    said = PhaseAnswer::Changed;
                }
                _ => {}
            }
        }
        if fate != RequestOutcome::Answered {
            said = PhaseAnswer::Failed;
        }
        let view = view(state, index);
        let (talk, alarm) = self.dialogues.answer_delegation(set.dialogue, said, view);
        state.alarm = state.alarm.or(alarm);
        self.continue_with(state, index, talk, set.current);
    }

    /// Checks that the phases after a delegated phase are gone when its phase object is deleted.
    fn mind_order(&self, state: &mut State, index: usize) {
        let world = &self.world;
        let is_left = |object: &usize| {
            let is_later = world.revisions[index][*object].phase() > Some(world.delegated);
            let content = state.objects[*object].content;
            is_later && self.dialogues.contents.facts(content).controller == Some(index)
        };
        if (0..OBJECTS).any(|object| is_left(&object)) {
            state.alarm = state.alarm.or(Some(Alarm::OutOfOrder));
        }
    }

    /// Writes the status of a phase object, or ends it.
    pub(super) fn report_phase(&self, state: &mut State, index: usize, talk: u32, ending: &Ending) {
        let started = self.dialogues.requested(talk);
        let record = &mut state.sets[index].record;
        match *ending {
            Ending::Teardown { is_done, .. } if record.life == Life::Deleting => {
                if is_done {
                    *record = gone();
                }
            }
            Ending::Pass { status, .. } | Ending::Teardown { status, .. } => {
                record.status = status;
                if requested_of_phase(*record) != started {
                    outdate(record);
                }
            }
        }
    }
}

/// Deletes a phase object.
pub(super) fn delete(record: &mut Record) {
    if record.is_held {
        record.life = Life::Deleting;
    } else {
        *record = gone();
    }
}

/// Changes the spec: the report becomes one on an earlier generation.
fn outdate(record: &mut Record) {
    record.status.reported = Reported::Nothing;
    record.status.pauses = false;
}
