//! The revisions that a revision can look up.

use super::{
    ACTORS, Claim, EngineFault, Mutex, NAMES, ObjectKey, PoisonError, REVISIONS, Relation, Sibling,
    Siblings, View, World,
};

/// The present records of other revisions. The counterpart of `CachedSiblings` of the controllers.
pub(super) struct ModelSiblings {
    pub(super) set: usize,
    pub(super) number: u8,
    /// Objects in each revision, one bit per object.
    pub(super) mentioned: [u8; REVISIONS],
    /// Objects that the revision has given to newer ones, one bit per object.
    pub(super) given: u8,
    /// The revisions of other chains.
    pub(super) strangers: [bool; REVISIONS],
    pub(super) view: Mutex<View>,
    pub(super) sabotage: EngineFault,
}

impl ModelSiblings {
    pub(super) fn view(&self) -> View {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stranger(&self, other: usize) -> bool {
        self.strangers[other] && self.sabotage != EngineFault::BelievesStrangers
    }

    pub(super) fn see(&self, view: View) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }
}

impl Siblings for ModelSiblings {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        let view = self.view();
        let actor = (0..ACTORS).find(|other| World::identity(*other).uid == uid)?;
        // A phase object stands for its revision.
        let (own, other) = (World::revision(self.set), World::revision(actor));
        let exists = view[actor].exists() && view[other].exists();
        (other != own && exists).then(|| Sibling {
            name: World::identity(other).name,
            number: view[other].number.into(),
            relation: if self.is_stranger(other) {
                Relation::OtherChain
            } else if other < own || self.sabotage == EngineFault::NobodyIsNewer {
                Relation::Previous
            } else {
                Relation::SameChain
            },
            is_archived: view[other].status.archived || self.sabotage == EngineFault::NobodyIsNewer,
        })
    }

    fn exists(&self, uid: &str) -> bool {
        let view = self.view();
        (0..ACTORS).any(|actor| World::identity(actor).uid == uid && view[actor].exists())
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim> {
        let object = object_of(key)?;
        let view = self.view();
        let given = match self.sabotage {
            EngineFault::ForgetsGiven => 0,
            _ => self.given,
        };
        (World::revision(self.set) + 1..REVISIONS)
            .filter(|other| !self.is_stranger(*other))
            .filter(|other| {
                let record = view[*other];
                record.exists() && !record.is_closed() && record.number > self.number
            })
            .find(|other| {
                let status = view[*other].status;
                let has = |bits: u8| bits & (1 << object) != 0;
                let phase = view[World::phase_of(*other)];
                let may_contain = if view[*other].is_lost {
                    self.sabotage != EngineFault::IgnoresUnknown
                } else {
                    has(self.mentioned[*other])
                };
                has(status.controls)
                    || (status.succeeded && may_contain)
                    || (view[*other].paused && has(given) && may_contain)
                    || (phase.exists() && has(phase.status.controls))
            })
            .filter(|_| self.sabotage != EngineFault::ForgetsSuccessors)
            .map(|other| Claim::of(&World::identity(other).name))
    }
}

pub(super) fn object_of(key: &ObjectKey) -> Option<usize> {
    NAMES.iter().position(|name| *name == key.name)
}

impl super::Dialogues {
    /// The request that takes an object away from a revision that has ended.
    #[must_use]
    pub fn stray(&self, content: super::ContentId, set: usize) -> Option<super::Request> {
        let mut live = self.contents.object(content).cloned()?;
        super::owners::decode(&mut live);
        baton_engine::teardown::stray(&live, &self.world.owner(set).uid)
    }
}
