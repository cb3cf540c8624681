//! Facts about a state.

use super::{
    Cached, ChainLink, Life, Numbering, REVISIONS, Request, RequestedState, State, Status, View,
    World, chain,
};

/// The record of a revision that is gone.
pub(super) fn gone() -> crate::state::Record {
    crate::state::Record {
        life: Life::Gone,
        number: 0,
        paused: false,
        is_held: false,
        is_lost: false,
        status: Status::default(),
    }
}

/// True if a request may change an object.
pub(super) fn is_write(request: &Request) -> bool {
    !matches!(
        request,
        Request::Get
            | Request::DryRunCreate(_)
            | Request::DryRunApply(_)
            | Request::DryRunMerge(_)
            | Request::FindAffected(_)
    )
}

/// True if a crash of the manager would change the state.
pub(super) fn is_busy(state: &State) -> bool {
    state.sets.iter().any(|set| set.dialogue != 0)
        || state.lives.cached != 0
        || state
            .objects
            .iter()
            .any(|object| object.settled != 0 || object.cached != Cached::Current)
}

/// The records of the others that a revision sees.
pub(super) fn view(state: &State, index: usize) -> View {
    let mut view = state.sets.map(|set| set.record);
    for (record, set) in view.iter_mut().zip(&state.sets).take(REVISIONS) {
        record.paused = set.requested == RequestedState::Paused;
    }
    view[index] = crate::state::Record::default();
    view
}

/// The number of a revision, if it has one or can get one now.
pub(super) fn number(state: &State, index: usize) -> Option<u8> {
    let link = |index: usize| {
        let record = state.sets[index].record;
        ChainLink {
            number: (record.number != 0).then(|| record.number.into()),
            previous: (0..index)
                .map(|previous| World::identity(previous).name)
                .collect(),
            is_closed: record.is_closed(),
        }
    };
    let lookup = |name: &str| {
        let other = (0..REVISIONS).find(|other| World::identity(*other).name == name)?;
        state.sets[other].record.exists().then(|| link(other))
    };
    match chain::number(&World::identity(index).name, &link(index), lookup) {
        Numbering::Given(number) | Numbering::Computed(number) => u8::try_from(number).ok(),
        Numbering::WaitFor(_) | Numbering::Impossible(_) => None,
    }
}

/// The requested state of a phase object.
pub(super) fn requested_of_phase(record: crate::state::Record) -> RequestedState {
    if record.paused {
        RequestedState::Paused
    } else {
        RequestedState::Active
    }
}

/// True if a pass over a revision or a phase object would do anything.
pub(super) fn can_start(state: &State, index: usize) -> bool {
    let set = state.sets[index];
    match set.record.life {
        Life::Unborn | Life::Gone => false,
        Life::Deleting => true,
        Life::Alive if World::is_phase(index) => true,
        // A pass does nothing while the content is unknown.
        Life::Alive if set.record.status.archived || set.record.is_lost => false,
        Life::Alive => set.requested == RequestedState::Archived || number(state, index).is_some(),
    }
}
