//! The events that are possible in a state of a world, and the state after each.

mod facts;
mod foreign;
mod phases;
mod strays;
mod users;

use baton_engine::{
    Request,
    chain::{self, ChainLink, Numbering},
    delegated::Delegation,
    object::owner_references,
};
use serde_json::json;

use crate::{
    contents::Contents,
    dialogue::{ArrivedRequest, Dialogues, Ending, PhaseAnswer, RequestOutcome, Start, View},
    server::{self, Change},
    state::{
        Alarm, Cached, ContentId, Late, Life, Record, Reported, RequestedState, State, Status,
    },
    world::{ACTORS, OBJECTS, REVISIONS, World},
};

pub use foreign::ForeignAction;

use facts::{can_start, gone, is_busy, is_write, number, view, wish_of_phase};

/// An event. Numbers are indexes of actors, objects and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The user creates a revision.
    Create(u8),
    /// The user sets the life cycle state of a revision.
    Wish(u8, RequestedState),
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
                if can_start(state, index) && !self.world.is_foreign(index) {
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
            Action::Wish(index, wish) => state.sets[usize::from(index)].requested = wish,
            Action::Delete(index) => state.sets[usize::from(index)].record.life = Life::Deleting,
            Action::Edit(index) | Action::Remove(index) | Action::Hold(index) => {
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

    /// Changes an object by another actor than the passes of the manager.
    fn touch(&mut self, state: &mut State, index: usize, action: Action) {
        let contents = &self.dialogues.contents;
        let Some(live) = contents.object(state.objects[index].content).cloned() else {
            return;
        };
        let next = Contents::next();
        let change = match action {
            Action::Edit(_) => Change::Put(server::edited(&live, "edited")),
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
    fn write(&self, state: &mut State, index: usize, content: ContentId, is_seen: bool) {
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
    fn forget_unseen(&self, state: &mut State, index: usize) {
        if self.seen(state, index).is_none() {
            state.objects[index].settled = 0;
        }
    }

    /// The state of an object in the cache.
    fn seen(&self, state: &State, index: usize) -> Option<ContentId> {
        let object = state.objects[index];
        let content = match object.cached {
            Cached::Current => object.content,
            Cached::Former(content) => content,
        };
        let is_visible = content != 0 && self.dialogues.contents.facts(content).is_labelled;
        is_visible.then_some(content)
    }

    fn start(&mut self, state: &mut State, index: usize) {
        let set = state.sets[index];
        let is_teardown =
            set.record.life == Life::Deleting || set.requested == RequestedState::Archived;
        if set.record.status.archived {
            state.sets[index].record = gone();
            return;
        }
        if is_teardown && set.record.number == 0 {
            // The revision was never set up, so it never wrote anything.
            state.sets[index].record.status.archived = true;
            if set.record.life == Life::Deleting {
                state.sets[index].record = gone();
            }
            return;
        }
        let (number, wish) = if World::is_phase(index) {
            (set.record.number, wish_of_phase(set.record))
        } else {
            let number = number(state, index).unwrap_or(set.record.number);
            (number, set.requested)
        };
        state.sets[index].record.number = number;
        let mut seen = [(None, 0); OBJECTS];
        let mut current = 0;
        for (object, entry) in seen.iter_mut().enumerate() {
            let memory = state.objects[object];
            *entry = (self.seen(state, object), memory.settled);
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
            requested: wish,
            is_teardown,
            reported: set.record.status.controls & self.world.recreated(index),
            seen,
            view: view(state, index),
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
            is_known: self.seen(state, object).is_some(),
            outcome: fate,
            view: view(state, index),
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
            view: view(state, index),
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
        (state.sets[index].dialogue, state.sets[index].current) = (0, 0);
        if let Ending::Pass { learned, .. } = &ending {
            for (object, learned) in learned.iter().enumerate() {
                if *learned != 0 && self.seen(state, object).is_some() {
                    state.objects[object].settled = *learned;
                }
            }
        }
        if !is_written {
            return;
        }
        if World::is_phase(index) {
            self.report_phase(state, index, set.dialogue, &ending);
            return;
        }
        match ending {
            Ending::Teardown { is_done, .. } if set.record.life == Life::Deleting => {
                if is_done {
                    state.sets[index].record = gone();
                }
            }
            Ending::Pass { status, .. } | Ending::Teardown { status, .. } => {
                state.sets[index].record.status = status;
            }
        }
        if state.sets[index].record.life == Life::Gone {
            state.sets[index].requested = RequestedState::Active;
        }
    }
}
