//! The documented end of every world: the properties that hold when faults and users stop, and
//! every revision was reconciled until nothing changes.
//!
//! The end is checked from every reachable state without passes in progress. That is enough: passes
//! have a bounded length, and the continuation of a pass without faults leads to a reachable state
//! without passes. From there, garbage collection and watches catch up, finalizers are removed,
//! strays of archived revisions are taken away, and each revision in turn is reconciled.
//!
//! Foreign controllers have no obligations. So there are two ends: they serve their classes, or
//! they do nothing more.

use std::collections::HashSet;

use baton_engine::pass::PassResult;

use crate::{
    dialogue::{Ending, RequestOutcome},
    state::{Cached, Life, Reported, RequestedState, State},
    system::{Action, System},
    world::{ACTORS, DesiredObject, NAMES, OBJECTS, World},
};

/// Maximum number of rounds over all revisions; a world with more does not settle.
const ROUNDS: usize = 20;
/// Maximum number of requests of a pass; a pass with more is endless.
const REQUESTS: usize = 100;

/// The result of the last pass of each actor.
type Results = Vec<Option<PassResult>>;

/// The behaviour of foreign controllers from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Others {
    /// They report that their phases are available, and release deleted phase objects.
    Serve,
    /// They do nothing.
    Rest,
}

/// The states from which the world ends as documented.
#[derive(Default)]
pub struct Ends {
    good: HashSet<(State, Others), foldhash::fast::FixedState>,
}

impl Ends {
    /// Follows a world from a state without faults, and checks its end.
    ///
    /// # Errors
    /// With the difference from the documentation, for people.
    pub fn check(&mut self, system: &mut System, state: &State) -> Result<(), String> {
        let is_calm = state.late.talk == 0 && state.sets.iter().all(|set| set.dialogue == 0);
        if !is_calm {
            return Ok(());
        }
        self.follow(system, state, Others::Serve)?;
        if system.has_foreigners() {
            let end = self.follow(system, state, Others::Rest);
            end.map_err(|reason| format!("while a class is not served: {reason}"))?;
        }
        Ok(())
    }

    fn follow(&mut self, system: &mut System, state: &State, others: Others) -> Result<(), String> {
        let mut state = State {
            edits: 0,
            delays: 0,
            ..*state
        };
        state.lives.backup = 0;
        let mut visited = Vec::new();
        for _ in 0..ROUNDS {
            tidy_up(system, &mut state, others);
            if self.good.contains(&(state, others)) {
                self.good.extend(visited);
                return Ok(());
            }
            visited.push((state, others));
            let before = state;
            let mut results = vec![None; ACTORS];
            for actor in system.world.actors() {
                results[actor] = reconcile(system, &mut state, actor)?;
            }
            tidy_up(system, &mut state, others);
            if let Some(alarm) = state.alarm {
                return Err(format!("on the way to its end: {alarm:?}"));
            }
            if state == before {
                documented(system, &state, &results)?;
                self.good.extend(visited);
                return Ok(());
            }
        }
        Err(format!("does not settle in {ROUNDS} rounds"))
    }

    /// Number of states that lead to a documented end.
    #[must_use]
    pub fn len(&self) -> usize {
        self.good.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.good.is_empty()
    }
}

/// All other actors finish their work, and lost slices are created again.
fn tidy_up(system: &mut System, state: &mut State, others: Others) {
    for set in &mut state.sets {
        set.record.is_lost = false;
    }
    let mut actions = Vec::new();
    for index in 0..OBJECTS {
        if system
            .dialogues
            .contents
            .facts(state.objects[index].content)
            .is_held
        {
            *state = system.next(
                state,
                Action::Unhold(u8::try_from(index).unwrap_or_default()),
            );
        }
    }
    if others == Others::Serve {
        system.serve_foreign_phases(state);
    }
    loop {
        actions.clear();
        system.actions(state, &mut actions);
        let tidies = |action: &&Action| {
            matches!(
                action,
                Action::Collect(_) | Action::Deliver(_) | Action::TakeAway(_) | Action::Relist
            )
        };
        match actions.iter().find(tidies) {
            Some(action) => *state = system.next(state, *action),
            None => return,
        }
    }
}

/// Runs a pass over a revision from its start to its status.
fn reconcile(
    system: &mut System,
    state: &mut State,
    index: usize,
) -> Result<Option<PassResult>, String> {
    let mut actions = Vec::new();
    system.actions(state, &mut actions);
    let index = u8::try_from(index).unwrap_or_default();
    if !actions.contains(&Action::Start(index)) {
        return Ok(None);
    }
    *state = system.next(state, Action::Start(index));
    let set = usize::from(index);
    for _ in 0..REQUESTS {
        let talk = state.sets[set].dialogue;
        if talk == 0 {
            return Ok(None);
        }
        if system.dialogues.delegation(talk).is_some() {
            *state = system.next(state, Action::Delegate(index, RequestOutcome::Answered));
            continue;
        }
        if system.dialogues.is_over(talk) {
            let ending = system.dialogues.end(talk, state.sets[set].record.status);
            *state = system.next(state, Action::Report(index));
            return Ok(match ending {
                Ending::Pass { result, .. } => Some(result),
                Ending::Teardown { .. } => None,
            });
        }
        *state = system.next(state, Action::Request(index, 0, RequestOutcome::Answered));
    }
    Err(format!(
        "a pass over {} does not end",
        World::identity(set).name
    ))
}

/// Checks that a world in which nothing changes any more is as documented.
fn documented(system: &System, state: &State, results: &Results) -> Result<(), String> {
    let world = &system.world;
    let name = |index: usize| World::identity(index).name;
    for (index, set) in state.sets.iter().enumerate() {
        if system.is_kept_waiting(state, World::revision(index)) {
            continue;
        }
        if set.record.life == Life::Deleting {
            return Err(format!("{} is not gone", name(index)));
        }
        if set.record.life == Life::Alive
            && set.requested == RequestedState::Archived
            && !set.record.status.archived
        {
            return Err(format!("{} does not get archived", name(index)));
        }
    }
    for object in 0..OBJECTS {
        of_object(system, state, object)?;
    }
    for index in world.actors().filter(|actor| World::is_phase(*actor)) {
        let set = state.sets[World::revision(index)];
        let record = state.sets[index].record;
        let is_wanted = if system.is_kept_waiting(state, World::revision(index)) {
            set.record.exists() && !set.record.status.archived
        } else {
            set.record.life == Life::Alive && set.requested != RequestedState::Archived
        };
        if record.exists() && !is_wanted {
            return Err(format!("{} is left behind", name(index)));
        }
        let is_paused = set.requested == RequestedState::Paused;
        if record.life == Life::Alive && record.paused != is_paused {
            return Err(format!("{} is not paused as its revision", name(index)));
        }
    }
    for (index, result) in results.iter().enumerate().take(world.revisions.len()) {
        let set = state.sets[index];
        if set.record.life != Life::Alive || set.requested != RequestedState::Active {
            continue;
        }
        let reached = reached(system, state, index);
        let should_pass = (0..OBJECTS)
            .filter(|object| world.revisions[index][*object] != DesiredObject::Nothing)
            .all(|object| {
                let is_reached = reached & (1 << object) != 0;
                is_reached
                    && is_healthy(system, state, index, object)
                    && !is_of_stranger(system, state, index, object)
            });
        let passes = *result == Some(PassResult::Passed);
        if passes != should_pass {
            return Err(format!(
                "the last pass over {} ended as {result:?}",
                name(index)
            ));
        }
        let controlled = (0..OBJECTS).filter(|object| {
            system
                .dialogues
                .contents
                .facts(state.objects[*object].content)
                .controller
                .map(World::revision)
                == Some(index)
        });
        let controlled = controlled.fold(0, |bits, object| bits | 1 << object);
        let elsewhere = reported_elsewhere(system, state, index);
        if set.record.status.controls != controlled | elsewhere {
            return Err(format!(
                "{} reports the wrong objects in controllerOf",
                name(index)
            ));
        }
    }
    Ok(())
}

/// True if an object passes its probe, or the phase object of its phase reports that it is
/// available.
fn is_healthy(system: &System, state: &State, index: usize, object: usize) -> bool {
    if system.world.is_elsewhere(index, object) {
        let phase = state.sets[World::phase_of(index)].record;
        return phase.life == Life::Alive && phase.status.reported == Reported::Available;
    }
    let data = system
        .dialogues
        .contents
        .data(state.objects[object].content);
    !data.is_empty() && !data.starts_with("broken")
}

/// True if a revision of another chain controls an object.
fn is_of_stranger(system: &System, state: &State, index: usize, object: usize) -> bool {
    let facts = system
        .dialogues
        .contents
        .facts(state.objects[object].content);
    let owner = facts.controller.map(World::revision);
    owner.is_some_and(|owner| !system.world.shares_chain(owner, index))
}

/// The objects that the foreign controller reports in the phase object of a revision, one bit
/// each.
fn reported_elsewhere(system: &System, state: &State, index: usize) -> u8 {
    let phase = World::phase_of(index);
    let record = state.sets[phase].record;
    if system.world.is_foreign(phase) && record.exists() {
        record.status.controls
    } else {
        0
    }
}

/// The objects that an active revision has reached, one bit each: all phases up to the first one
/// that fails.
fn reached(system: &System, state: &State, index: usize) -> u8 {
    let wanted = system.world.revisions[index];
    let mut reached = 0;
    for phase in 0..OBJECTS {
        let objects: Vec<_> = (0..OBJECTS)
            .filter(|object| wanted[*object].phase() == Some(phase))
            .collect();
        reached |= objects.iter().fold(0, |bits, object| bits | 1 << object);
        let is_healthy = |object: &usize| is_healthy(system, state, index, *object);
        if !objects.iter().all(is_healthy) {
            break;
        }
    }
    reached
}

fn of_object(system: &System, state: &State, object: usize) -> Result<(), String> {
    let name = NAMES[object];
    let content = state.objects[object].content;
    let facts = system.dialogues.contents.facts(content);
    debug_assert!(
        state.objects[object].cached == Cached::Current,
        "watches have caught up"
    );
    let world = &system.world;
    let set_name = |index: usize| World::identity(index).name;
    let is_kept = |index: usize| {
        let set = state.sets[index];
        set.record.life == Life::Alive && set.requested != RequestedState::Archived
    };
    let mentions = |index: usize| world.revisions[index][object] != DesiredObject::Nothing;
    let wants = |index: usize| mentions(index) && !world.is_elsewhere(index, object);
    // Objects of phases before a phase that is not gone stay until it is gone.
    let is_held_up = |index: usize| {
        let is_ahead = world.revisions[index][object].phase() < Some(world.delegated);
        is_ahead && system.is_kept_waiting(state, index)
    };
    let may_have = |index: usize| wants(index) && (is_kept(index) || is_held_up(index));
    let count = world.revisions.len();
    let is_wanted = (0..count).any(may_have);
    if content != 0 && !is_wanted && !facts.is_kept {
        return Err(format!("{name} is left behind, and no revision wants it"));
    }
    for index in (0..ACTORS).filter(|index| facts.owners & (1 << index) != 0) {
        let owner = World::revision(index);
        if !is_kept(owner) && !is_held_up(owner) {
            return Err(format!("{name} still refers to {}", set_name(index)));
        }
    }
    if content != 0 && !is_wanted {
        // The object was released, so it has no owner.
        return match facts.owners {
            0 => Ok(()),
            _ => Err(format!("{name} is kept, and has owners")),
        };
    }
    if content != 0 && facts.controllers != 1 {
        return Err(format!("{name} has {} controllers", facts.controllers));
    }
    for index in (0..count).filter(|index| is_kept(*index)) {
        let set = state.sets[index];
        let is_reached = reached(system, state, index) & (1 << object) != 0;
        if set.requested != RequestedState::Active
            || !is_reached
            || world.is_elsewhere(index, object)
        {
            continue;
        }
        // If the newer revision should create the object again, the check of that revision covers
        // it.
        let own = set.record.status;
        let is_given = own.succeeded && own.in_transition && own.controls & (1 << object) == 0;
        let is_left_to_newer = (index + 1..count).any(|newer| {
            let record = state.sets[newer].record;
            let has = |bits: u8| bits & (1 << object) != 0;
            let had = has(record.status.controls)
                || has(reported_elsewhere(system, state, newer))
                || (record.status.succeeded && mentions(newer))
                || (is_given && state.sets[newer].requested == RequestedState::Paused);
            let had = had && world.shares_chain(index, newer);
            record.life == Life::Alive && !record.is_closed() && had
        });
        if content == 0 {
            if is_left_to_newer {
                continue;
            }
            return Err(format!("{name}, wanted by {}, is lost", set_name(index)));
        }
        let owner = facts
            .controller
            .filter(|owner| world.looks_after(*owner, object));
        let owner = owner.map(World::revision).filter(|owner| may_have(*owner));
        let Some(owner) = owner else {
            return Err(format!("{name} is controlled by no live revision"));
        };
        if !world.shares_chain(owner, index) {
            // The first one keeps it, and the other one reports a collision.
            continue;
        }
        if owner < index {
            return Err(format!(
                "{name} is left to {}, and {} wants it",
                set_name(owner),
                set_name(index)
            ));
        }
        let data = system.dialogues.contents.data(content);
        if owner == index && world.content(index, object).as_deref() != Some(data) {
            return Err(format!(
                "{name} is \"{data}\", and {} wants it otherwise",
                set_name(index)
            ));
        }
    }
    Ok(())
}
