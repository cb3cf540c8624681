//! The events that are possible in a state of a world, and the state after each.

mod facts;
mod foreign;
mod lives;
mod objects;
mod phases;
mod strays;
mod users;

use baton_engine::{
    Request,
    chain::{self, ChainLink, Numbering},
    delegated::Delegation,
};
use indexmap::IndexSet;

use crate::{
    contents::Contents,
    dialogue::{ArrivedRequest, Dialogues, Ending, PhaseAnswer, RequestOutcome, Start, View},
    server,
    state::{
        Alarm, BackupId, Cached, ContentId, Late, Life, Record, Reported, RequestedState, State,
        Status,
    },
    world::{ACTORS, EngineFault, HIGHEST, OBJECTS, REVISIONS, World},
};

pub use foreign::ForeignAction;

use self::lives::Backup;
use facts::{can_start, gone, is_busy, is_write, number, requested_of_phase, view};

/// An event. Numbers are indexes of actors, objects and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The user creates a revision.
    Create(u8),
    /// The user sets the life cycle state of a revision.
    SetState(u8, RequestedState),
    /// The user deletes a revision.
    Delete(u8),
    /// The user changes the content of an object.
    Edit(u8),
    /// The user deletes an object.
    Remove(u8),
    /// Another client adds a finalizer to an object.
    Hold(u8),
    /// Another client removes that finalizer.
    Unhold(u8),
    /// The user deletes the phase object of a revision.
    RemovePhase(u8),
    /// The user writes a number into the revision annotation of an object, the highest one or none.
    Forge(u8),
    /// A backup of the server is taken.
    Save,
    /// The server goes back to its backup.
    Restore,
    /// The manager lists the records of a server that has gone back.
    Relist,
    /// The slice of a revision is deleted, or created again.
    Lose(u8),
    /// A foreign controller acts on its phase object.
    Foreign(u8, ForeignAction),
    /// Garbage collection handles an object whose owner is gone.
    Collect(u8),
    /// The watch delivers the present state of an object.
    Deliver(u8),
    /// The manager takes away a stray of an archived revision.
    TakeAway(u8),
    /// A worker starts to reconcile a revision.
    Start(u8),
    /// A request of the pass over a revision has this outcome.
    Request(u8, u8, RequestOutcome),
    /// A request of the pass over a revision about its phase object has this outcome.
    Delegate(u8, RequestOutcome),
    /// A pass is over, and its status is written.
    Report(u8),
    /// A pass is over, and the write of its status fails.
    LoseReport(u8),
    /// A request that was given up is carried out late.
    Arrive,
    /// A request that was given up is never carried out.
    Vanish,
    /// The manager crashes and starts again.
    Crash,
}

/// A world with its cached transitions.
pub struct System {
    /// The world.
    pub world: World,
    /// The conversations of the engine.
    pub dialogues: Dialogues,
    /// The states of the server that were taken as a backup, or that a cache still has.
    backups: IndexSet<Backup>,
}

const fn bit(index: usize) -> u8 {
    1 << index
}

/// An index in the form of an action.
fn small(index: usize) -> u8 {
    u8::try_from(index).expect("few of everything")
}

impl System {
    /// A world without any event.
    #[must_use]
    pub fn new(world: World) -> Self {
        let mut talks = Dialogues::new(world.clone());
        talks.contents.intern(None);
        Self {
            world,
            dialogues: talks,
            backups: IndexSet::new(),
        }
    }

    /// The state without any object.
    #[must_use]
    pub fn initial(&self) -> State {
        State {
            delays: self.world.faults.late,
            edits: self.world.edits,
            ..State::default()
        }
    }

    fn count(&self) -> usize {
        self.world.revisions.len()
    }

    /// All events that are possible next.
    pub fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.acts_of_users(state, actions);
        self.acts_of_lives(state, actions);
        let seen = &self.seen(state);
        self.acts_of_foreigners(state, actions);
        let faults = self.world.faults;
        for (index, object) in state.objects.iter().enumerate() {
            let index = small(index);
            if self.has_gone_owners(state, object.content) {
                actions.push(Action::Collect(index));
            }
            if object.cached != Cached::Current {
                actions.push(Action::Deliver(index));
            }
            if self.stray(state, index.into()).is_some() {
                actions.push(Action::TakeAway(index));
            }
        }
        for index in self.world.actors() {
            let set = state.sets[index];
            let number = small(index);
            if set.dialogue == 0 {
                if can_start(seen, index) && !self.world.is_foreign(index) {
                    actions.push(Action::Start(number));
                }
                continue;
            }
            if let Some(delegation) = self.dialogues.delegation(set.dialogue) {
                actions.push(Action::Delegate(number, RequestOutcome::Answered));
                if faults.losses {
                    actions.push(Action::Delegate(number, RequestOutcome::Lost));
                    if *delegation != Delegation::Get {
                        actions.push(Action::Delegate(number, RequestOutcome::Unanswered));
                    }
                }
                continue;
            }
            let pending = self.dialogues.pending(set.dialogue);
            for (which, pending) in pending.iter().enumerate() {
                let which = small(which);
                actions.push(Action::Request(number, which, RequestOutcome::Answered));
                if !faults.losses {
                    continue;
                }
                actions.push(Action::Request(number, which, RequestOutcome::Lost));
                if is_write(&pending.request) {
                    actions.push(Action::Request(number, which, RequestOutcome::Unanswered));
                    if state.delays > 0 && state.late.talk == 0 {
                        actions.push(Action::Request(number, which, RequestOutcome::GivenUp));
                    }
                }
            }
            if pending.is_empty() {
                actions.push(Action::Report(number));
                if faults.losses {
                    actions.push(Action::LoseReport(number));
                }
            }
        }
        if state.late.talk != 0 {
            actions.extend([Action::Arrive, Action::Vanish]);
        }
        if faults.crashes && is_busy(state) {
            actions.push(Action::Crash);
        }
    }

    /// True if an owner of an object is a revision that is gone.
    fn has_gone_owners(&self, state: &State, content: ContentId) -> bool {
        let owners = self.dialogues.contents.facts(content).owners;
        let is_gone = |index: usize| state.sets[index].record.life == Life::Gone;
        // Garbage collection does not read owners in annotations.
        let collects = !self.world.is_remote;
        collects && (0..ACTORS).any(|index| owners & bit(index) != 0 && is_gone(index))
    }

    /// The state after an event.
    pub fn next(&mut self, before: &State, action: Action) -> State {
        let mut state = *before;
        match action {
            Action::Create(index) => state.sets[usize::from(index)].record.life = Life::Alive,
            Action::SetState(index, requested) => {
                state.sets[usize::from(index)].requested = requested;
            }
            Action::Delete(index) => state.sets[usize::from(index)].record.life = Life::Deleting,
            Action::Edit(index)
            | Action::Remove(index)
            | Action::Hold(index)
            | Action::Forge(index) => {
                state.edits -= 1;
                self.touch(&mut state, index.into(), action);
            }
            Action::RemovePhase(index) => {
                state.edits -= 1;
                phases::delete(&mut state.sets[usize::from(index)].record);
            }
            Action::Lose(index) => {
                let record = &mut state.sets[usize::from(index)].record;
                state.edits -= u8::from(!record.is_lost);
                record.is_lost = !record.is_lost;
            }
            Action::Save => state.lives.backup = self.backup(&state),
            Action::Restore => self.restore(&mut state),
            Action::Relist => state.lives.cached = 0,
            Action::Foreign(index, deed) => self.foreign(&mut state, index.into(), deed),
            Action::Unhold(index) | Action::Collect(index) | Action::TakeAway(index) => {
                self.touch(&mut state, index.into(), action);
            }
            Action::Deliver(index) => {
                state.objects[usize::from(index)].cached = Cached::Current;
                self.forget_unseen(&mut state, index.into());
            }
            Action::Start(index) => self.start(&mut state, index.into()),
            Action::Request(index, which, fate) => {
                self.request(&mut state, index.into(), which, fate);
            }
            Action::Delegate(index, fate) => self.delegate(&mut state, index.into(), fate),
            Action::Report(index) => self.report(&mut state, index.into(), true),
            Action::LoseReport(index) => self.report(&mut state, index.into(), false),
            Action::Arrive => self.arrive(&mut state),
            Action::Vanish => state.late = Late::default(),
            Action::Crash => {
                (state.lives.cached, state.lives.refused) = (0, 0);
                for set in &mut state.sets {
                    (set.dialogue, set.current) = (0, 0);
                }
                for object in &mut state.objects {
                    (object.cached, object.settled) = (Cached::Current, 0);
                }
            }
        }
        state
    }

    fn start(&mut self, state: &mut State, index: usize) {
        let seen = self.seen(state);
        let set = seen.sets[index];
        if self.is_restored(state, index) {
            state.lives.refused |= bit(index);
        }
        let is_teardown =
            set.record.life == Life::Deleting || set.requested == RequestedState::Archived;
        if set.record.status.archived {
            self.store(state, index, gone());
            return;
        }
        if is_teardown && set.record.number == 0 {
            // The revision was never set up, so it never wrote anything.
            let mut record = set.record;
            record.status.archived = true;
            if set.record.life == Life::Deleting {
                record = gone();
            }
            self.store(state, index, record);
            return;
        }
        let (number, requested) = if World::is_phase(index) {
            (set.record.number, requested_of_phase(set.record))
        } else {
            let number = if self.world.is_stranger(index) {
                HIGHEST
            } else {
                number(&seen, index).unwrap_or(set.record.number)
            };
            (number, set.requested)
        };
        let record = Record {
            number,
            ..set.record
        };
        if record != set.record && !self.store(state, index, record) {
            return;
        }
        let seen = self.seen(state);
        let mut observed = [(None, 0); OBJECTS];
        let mut current = 0;
        for (object, entry) in observed.iter_mut().enumerate() {
            let memory = state.objects[object];
            *entry = (self.observed(state, object), memory.settled);
            if !self.world.looks_after(index, object) {
                // The engine never asks about the object.
                *entry = (None, 0);
            } else if entry.0.is_some() && memory.cached == Cached::Current {
                current |= bit(object);
            }
        }
        let start = Start {
            set: index,
            number,
            requested,
            is_teardown,
            reported: set.record.status.controls & self.world.recreated(index),
            own: if set.record.status.in_transition {
                set.record.status
            } else {
                Status::default()
            },
            observed,
            view: view(&seen, index),
        };
        let (talk, alarm) = self.dialogues.start(&start);
        state.alarm = state.alarm.or(alarm);
        self.continue_with(state, index, talk, current);
    }

    fn continue_with(&self, state: &mut State, index: usize, talk: u32, current: u8) {
        let is_over = self.dialogues.is_over(talk);
        state.sets[index].dialogue = talk;
        state.sets[index].current = if is_over { 0 } else { current };
    }

    fn request(&mut self, state: &mut State, index: usize, which: u8, fate: RequestOutcome) {
        let set = state.sets[index];
        let object = self.dialogues.pending(set.dialogue)[usize::from(which)].object;
        let reply = self.dialogues.reply(&ArrivedRequest {
            dialogue: set.dialogue,
            which,
            live: state.objects[object].content,
            is_current: set.current & bit(object) != 0,
            is_known: self.observed(state, object).is_some(),
            outcome: fate,
            view: view(&self.seen(state), index),
            is_archived: set.record.status.archived,
        });
        if let Some(content) = reply.written {
            self.write(state, object, content, reply.is_seen);
        } else if reply.is_seen {
            state.objects[object].cached = Cached::Current;
        }
        if reply.is_seen {
            self.forget_unseen(state, object);
        }
        let pending = &self.dialogues.pending(set.dialogue)[usize::from(which)];
        let is_bound = !matches!(pending.request, Request::Create(_));
        // A request that is bound to a state that is gone for good would be refused whenever it
        // arrives.
        if fate == RequestOutcome::GivenUp && (!is_bound || set.current & bit(object) != 0) {
            state.delays -= 1;
            state.late = Late {
                talk: set.dialogue,
                which,
                set: small(index),
            };
        }
        state.alarm = state.alarm.or(reply.alarm);
        let current = match reply.holds {
            None => state.sets[index].current | (set.current & bit(object)),
            Some(true) => state.sets[index].current | bit(object),
            Some(false) => state.sets[index].current & !bit(object),
        };
        self.continue_with(state, index, reply.talk, current);
    }

    fn arrive(&mut self, state: &mut State) {
        let late = std::mem::take(&mut state.late);
        let object = self.dialogues.pending(late.talk)[usize::from(late.which)].object;
        let index = usize::from(late.set);
        let reply = self.dialogues.reply(&ArrivedRequest {
            dialogue: late.talk,
            which: late.which,
            live: state.objects[object].content,
            // A request that is bound to another state was dropped when the object changed.
            is_current: true,
            is_known: false,
            outcome: RequestOutcome::Late,
            view: view(&self.seen(state), index),
            is_archived: state.sets[index].record.status.archived,
        });
        if let Some(content) = reply.written {
            self.write(state, object, content, false);
        }
        state.alarm = state.alarm.or(reply.alarm);
    }

    fn report(&mut self, state: &mut State, index: usize, is_written: bool) {
        let set = state.sets[index];
        let ending = self.dialogues.end(set.dialogue, set.record.status);
        let is_refused = state.lives.refused & bit(index) != 0
            && self.world.sabotage != EngineFault::OverwritesRestored;
        state.lives.refused &= !bit(index);
        (state.sets[index].dialogue, state.sets[index].current) = (0, 0);
        if let Ending::Pass { learned, .. } = &ending {
            for (object, learned) in learned.iter().enumerate() {
                if *learned != 0 && self.observed(state, object).is_some() {
                    state.objects[object].settled = *learned;
                }
            }
        }
        if !is_written || is_refused {
            return;
        }
        if World::is_phase(index) {
            self.report_phase(state, index, set.dialogue, &ending);
            return;
        }
        match ending {
            Ending::Teardown { is_done, .. } if set.record.life == Life::Deleting => {
                if is_done {
                    self.store(state, index, gone());
                }
            }
            Ending::Pass { status, .. } | Ending::Teardown { status, .. } => {
                let record = Record {
                    status,
                    ..set.record
                };
                self.store(state, index, record);
            }
        }
        if state.sets[index].record.life == Life::Gone {
            state.sets[index].requested = RequestedState::Active;
        }
    }
}
