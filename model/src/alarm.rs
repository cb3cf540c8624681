//! The violations of rules by requests.

use baton_engine::{Answer, Request};

use crate::{
    contents::Facts,
    dialogue::{Pending, View},
    state::{Alarm, Life, Record, Reported, Status},
    world::{Class, World},
};

/// A request that was carried out.
pub(crate) struct Write<'a> {
    /// Actor that sent the request.
    pub set: usize,
    /// Number of the actor's revision.
    pub number: u8,
    pub world: &'a World,
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
                let own = World::revision(self.set);
                let newer = controller.filter(|other| {
                    let record = self.view[*other];
                    let is_stranger = !self.world.shares_chain(own, World::revision(*other));
                    let ranks = record.number > self.number || is_stranger;
                    record.exists() && !record.status.archived && ranks
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
/// as part of a complete rollout. Nor may it create an object that it has given to a newer revision
/// by its own status, if that revision is paused. `own` is the pass's actor, with its number and status.
pub(crate) fn alarm_of_decision(
    world: &World,
    (set, number, own): (usize, u8, Status),
    pending: &[Pending],
    view: &View,
) -> Option<Alarm> {
    let is_taken = |object: usize| {
        view.iter().enumerate().any(|(actor, other)| {
            let is_live = other.exists() && !other.is_closed() && other.number > number;
            let is_ours = world.shares_chain(World::revision(set), World::revision(actor));
            let is_given = own.succeeded && own.in_transition && own.controls & (1 << object) == 0;
            let had = || {
                let has_all = other.status.succeeded || (is_given && other.paused);
                has_all && !World::is_phase(actor) && world.content(actor, object).is_some()
            };
            is_live && is_ours && (other.status.controls & (1 << object) != 0 || had())
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
