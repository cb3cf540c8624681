//! The search, breadth first through all states of a world, so that a violation is reported with
//! the shortest trace.
//!
//! The idea is that of `stateright` 0.31, which is not used for three reasons: its trace of a
//! broken invariant is the last one that was found, and not the shortest; each state in its queue
//! contains its whole trace, which is more than ten times the size of the state here; and its
//! `eventually` misses worlds that go round in circles, so the end of a world would have to be
//! checked here anyway.

use std::time::{Duration, Instant};

use indexmap::IndexSet;

use crate::{
    end::Ends,
    state::State,
    system::{Action, System},
    world::World,
};

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// Number of transitions.
    pub transitions: u64,
    /// Number of different states.
    pub states: usize,
    /// Number of states of passes and teardowns.
    pub dialogues: usize,
    /// Number of states from which the world was followed to its end.
    pub ends: usize,
    /// Length of the longest of all shortest traces.
    pub depth: u32,
    /// Duration of the search.
    pub time: Duration,
    /// First violation, with the shortest trace.
    pub violation: Option<Violation>,
    /// True if the search is incomplete, because some states were not continued.
    pub is_cut_off: bool,
    /// Notable situations that the search found.
    pub situations: NotableSituations,
}

/// A state that violates a rule, with its trace.
#[derive(Debug)]
pub struct Violation {
    /// The violated rule.
    pub reason: String,
    /// The events that lead to the state.
    pub trace: Vec<String>,
}

/// Notable situations that worlds should contain, so that their search is useful.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct NotableSituations {
    /// An object with two owners, which is a handover.
    pub handover: bool,
    /// A revision that is archived.
    pub archived: bool,
    /// A revision that is deleted and gone.
    pub gone: bool,
    /// Two passes at the same time.
    pub overlap: bool,
    /// An object that is owned by an archived revision.
    pub strays: bool,
}

impl NotableSituations {
    fn add(&mut self, system: &System, state: &State) {
        let owners = |id| system.dialogues.contents.facts(id).owners.count_ones();
        self.handover |= state
            .objects
            .iter()
            .any(|object| owners(object.content) > 1);
        self.archived |= state.sets.iter().any(|set| set.record.status.archived);
        self.strays |= system.has_strays(state);
        self.gone |= state
            .sets
            .iter()
            .any(|set| set.record.life == crate::state::Life::Gone);
        self.overlap |= state.sets.iter().filter(|set| set.dialogue != 0).count() > 1;
    }
}

/// Searches a world, up to `limit` states.
///
/// # Panics
/// If the limit does not fit in 32 bits.
#[must_use]
pub fn search(world: World, limit: usize) -> SearchResult {
    let begin = Instant::now();
    let mut system = System::new(world);
    let mut ends = Ends::default();
    let mut states: IndexSet<State, foldhash::fast::FixedState> = IndexSet::default();
    // The depth of each state, and the action by which it was found first.
    let mut ways: Vec<(u32, Action)> = vec![(0, Action::Vanish)];
    states.insert(system.initial());
    let mut found = SearchResult {
        transitions: 0,
        states: 0,
        dialogues: 0,
        ends: 0,
        depth: 0,
        time: Duration::ZERO,
        violation: None,
        is_cut_off: false,
        situations: NotableSituations::default(),
    };
    let mut actions = Vec::new();
    let mut position = 0;
    let mut level_end = 1;
    while position < states.len() {
        if position == level_end {
            found.depth += 1;
            level_end = states.len();
        }
        let state = states[position];
        found.situations.add(&system, &state);
        let reason = match state.alarm {
            Some(alarm) => Some(format!("{alarm:?}")),
            None => ends.check(&mut system, &state).err(),
        };
        if let Some(reason) = reason {
            let trace = trace(&mut system, &states, &ways, position);
            found.violation = Some(Violation { reason, trace });
            break;
        }
        if states.len() >= limit {
            found.is_cut_off = true;
            break;
        }
        actions.clear();
        system.actions(&state, &mut actions);
        for action in &actions {
            found.transitions += 1;
            let next = system.next(&state, *action);
            if states.insert(next) {
                ways.push((u32::try_from(position).expect("limited"), *action));
            }
        }
        position += 1;
    }
    found.states = states.len();
    found.dialogues = system.dialogues.len();
    found.ends = ends.len();
    found.time = begin.elapsed();
    found
}

/// The trace of a state, for people.
fn trace(
    system: &mut System,
    states: &IndexSet<State, foldhash::fast::FixedState>,
    ways: &[(u32, Action)],
    mut position: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    while position != 0 {
        let (before, action) = ways[position];
        let before = before as usize;
        lines.push(crate::report::step(
            system,
            &states[before],
            action,
            &states[position],
        ));
        position = before;
    }
    lines.reverse();
    lines
}
