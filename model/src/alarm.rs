//! The violations of rules by requests.

use baton_engine::{Answer, Request};

use crate::{
    contents::Facts,
    dialogue::{Pending, View},
    state::{Alarm, Life, Record, Reported},
    world::{Class, World},
};

/// A request that was carried out.
pub(crate) struct Write<'a> {
    /// Actor that sent the request.
    pub set: usize,
    /// Number of the actor's revision.
    pub number: u8,
    pub request: &'a Request,
    pub answer: &'a Answer,
    pub before: Facts,
    /// Facts about the object afterwards, if it changed.
    pub after: Option<Facts>,
    pub view: &'a View,
    /// True if the revision is archived by now.
    pub is_archived: bool,
}

impl Write<'_> {
    /// The rule that the request violates, if any.
    pub fn alarm(&self) -> Option<Alarm> {
        let is_apply = matches!(self.request, Request::Apply(_));
        if is_apply && matches!(self.answer, Answer::Refused(_)) {
            return Some(Alarm::TwoControllers);
        }
        let is_deletion = matches!(
            self.request,
            Request::Delete(_) | Request::DeleteForRecreation(_)
        );
        let is_effective = !matches!(self.answer, Answer::Conflict | Answer::Refused(_));
        if is_deletion && is_effective && self.before.is_kept && !self.before.is_terminating {
            return Some(Alarm::DeletedKept);
        }
        let after = self.after?;
        if after.controllers > 1 {
            return Some(Alarm::TwoControllers);
        }
        let is_let_go = self.before.is_kept && matches!(self.request, Request::Release { .. });
        if after.is_managed && after.controllers == 0 && self.before.controllers > 0 && !is_let_go {
            return Some(Alarm::NoController);
        }
        let controller = self.before.controller.filter(|other| *other != self.set);
        match self.request {
            Request::Delete(_) if self.before.controller != Some(self.set) => {
                Some(Alarm::DeletedOfOthers)
            }
            Request::Create(_) | Request::Apply(_) | Request::DeleteForRecreation(_) => {
                // The server accepts a write only in the state for which it was decided. So the
                // controller at the time of the write is the one that the decision was based on.
                let newer = controller.map(|other| self.view[other]).filter(|other| {
                    other.exists() && !other.status.archived && other.number > self.number
                });
                match newer {
                    Some(_) => Some(Alarm::WriteOfReplaced),
                    None if self.is_archived => Some(Alarm::WriteOfArchived),
                    None => None,
                }
            }
            _ => None,
        }
    }
}

/// The rule that the decision of a pass violates, if any.
///
/// A pass may not create an object that a newer revision controls according to its status, or had
/// as part of a complete rollout. `number` is the number of the pass's revision.
pub(crate) fn alarm_of_decision(
    world: &World,
    number: u8,
    pending: &[Pending],
    view: &View,
) -> Option<Alarm> {
    let is_taken = |object: usize| {
        view.iter().enumerate().any(|(actor, other)| {
            let is_live = other.exists() && !other.is_closed() && other.number > number;
            let had = || {
                let has_all = other.status.succeeded && !World::is_phase(actor);
                has_all && world.content(actor, object).is_some()
            };
            is_live && (other.status.controls & (1 << object) != 0 || had())
        })
    };
    let creates = |pending: &&Pending| matches!(pending.request, Request::Create(_));
    let taken = pending
        .iter()
        .filter(creates)
        .any(|pending| is_taken(pending.object));
    taken.then_some(Alarm::WriteOfReplaced)
}

/// The rule that the order of requests violates, if any: requests about objects of other actors, or
/// about objects of a phase that is not reached.
///
/// `record` is the phase object at the start of a pass; `None` for a teardown.
pub(crate) fn alarm_of_order(
    world: &World,
    actor: usize,
    pending: &[Pending],
    record: Option<Record>,
    view: &View,
) -> Option<Alarm> {
    let is_stranger = |pending: &Pending| !world.looks_after(actor, pending.object);
    if pending.iter().any(is_stranger) {
        return Some(Alarm::NotItsObject);
    }
    if World::is_phase(actor) || world.classes[actor] == Class::None {
        return None;
    }
    let phase = |pending: &Pending| world.revisions[actor][pending.object].phase();
    let is_late = |pending: &Pending| phase(pending) > Some(world.delegated);
    let is_early = |pending: &Pending| phase(pending) < Some(world.delegated);
    let is_out_of_order = match record {
        Some(record) => {
            let passed =
                record.life == Life::Alive && record.status.reported == Reported::Available;
            !passed && pending.iter().any(is_late)
        }
        None => view[World::phase_of(actor)].exists() && pending.iter().any(is_early),
    };
    is_out_of_order.then_some(Alarm::OutOfOrder)
}
