//! The input that a pass over an actor borrows.

use super::{
    Class, Delivery, Desired, Dialogues, Gvk, KindScope, KindState, Kinds, LifecycleState,
    ModelSiblings, Mutex, OBJECTS, Phase, Position, Probes, REVISIONS, Record, RequestedState,
    Revision, Status, World, controlled, controlled_reference, delegated, has_given, leak, phases,
    prepare, status_of,
};

/// The key of a prepared input.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Case {
    pub actor: usize,
    pub number: u8,
    pub requested: RequestedState,
    /// Phase object of the actor.
    pub phase: Record,
    /// See [`Start::reported`].
    pub reported: u8,
    /// See [`Start::own`].
    pub own: Status,
}

/// A revision with everything that its passes borrow.
pub(super) struct Prepared {
    pub case: Case,
    pub set: usize,
    pub revision: Revision,
    pub phases: Vec<Phase>,
    pub probes: &'static Probes,
    pub kinds: Kinds,
    pub siblings: ModelSiblings,
}

impl Prepared {
    pub fn desired(&self, at: Position) -> &Desired {
        &self.phases[at.phase].objects[at.object]
    }
}

const REVISIONS_ALL: [usize; REVISIONS] = [0, 1, 2];

/// The objects that an actor has given to newer revisions by its status, one bit each.
fn given(set: usize, own: Status) -> u8 {
    let status = status_of(set, own);
    let is_given = |object: &usize| has_given(&status, &controlled_reference(&World::key(*object)));
    (0..OBJECTS)
        .filter(is_given)
        .fold(0, |bits, object| bits | 1 << object)
}

impl Dialogues {
    /// The prepared input of a case, created once.
    pub(super) fn prepare(&mut self, case: Case) -> &'static Prepared {
        if let Some(cached) = self.prepared.get(&case) {
            return cached;
        }
        let Case {
            actor: set,
            number,
            requested: wish,
            phase,
            reported,
            own,
        } = case;
        let revision = Revision {
            identity: self.world.owner(set),
            delivery: if self.world.is_remote {
                Delivery::Remote
            } else if World::is_phase(set) {
                Delivery::Delegated
            } else {
                Delivery::InProcess
            },
            number: number.into(),
            generation: 1,
            lifecycle: match wish {
                RequestedState::Active => LifecycleState::Active,
                RequestedState::Paused => LifecycleState::Paused,
                RequestedState::Archived => LifecycleState::Archived,
            },
            checks_all_first: self.world.looks_ahead,
            reported: controlled(reported),
            ..Revision::default()
        };
        let mut mentioned = [0; REVISIONS];
        for (other, bits) in mentioned
            .iter_mut()
            .enumerate()
            .take(self.world.revisions.len())
        {
            for object in 0..OBJECTS {
                *bits |= u8::from(self.world.manifest(other, object).is_some()) << object;
            }
        }
        let mut phases = prepare(&revision, phases(&self.world, set));
        if !World::is_phase(set) && self.world.classes[set] != Class::None {
            let name = format!("phase-{}", self.world.delegated);
            for own in phases.iter_mut().filter(|own| own.name == name) {
                own.delegated = Some(delegated(&self.world, set, phase));
            }
        }
        let prepared = leak(Prepared {
            case,
            set,
            phases,
            revision,
            probes: self.probes,
            kinds: Kinds::from([(
                Gvk::new("v1", "ConfigMap"),
                KindState::served(KindScope::Namespaced),
            )]),
            siblings: ModelSiblings {
                set,
                number,
                mentioned,
                given: given(set, own),
                strangers: REVISIONS_ALL
                    .map(|other| !self.world.shares_chain(World::revision(set), other)),
                view: Mutex::default(),
                sabotage: self.world.sabotage,
            },
        });
        self.prepared.insert(case, prepared);
        prepared
    }
}
