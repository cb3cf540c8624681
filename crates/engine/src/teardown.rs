//! Deletes a revision's objects in reverse order, and does not touch those of others.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use baton_apis::{
    ControlledObjectReference, EndedObject, WaitingForObject,
    conditions::{AVAILABLE, Reason, SUCCEEDED},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::{
    Answer, Precondition, Request,
    condition_list::find,
    containers::Container,
    delegated::{Delegated, Delegation, DelegationAnswer, PhaseState},
    heirs::hand_back,
    keep::is_kept,
    object::{
        controlled_reference, is_controller, is_terminating, owner_references, precondition, text,
        why_terminating,
    },
    object_pass::Live,
    owners,
    pass::{Position, Step},
    revision::{KindState, Kinds, Phase, Revision, may_be_written},
};

/// A teardown in progress.
///
/// # Guarantees
/// - An object is deleted only while the revision is its controller, in exactly the state that
///   shows this. If the revision is an owner but not the controller, only its owner reference is
///   removed.
/// - An object that an heir wants ([`Revision::heirs`]) is not deleted: the heir becomes its
///   controller. An object that is to be kept ([`is_kept`]) is released, and so is a [`Container`]
///   of objects that newer revisions want.
/// - Requests about an earlier phase follow only after the later one has ended: the server has
///   reported that each object is gone or not the revision's. The cache is not enough, because it
///   has labelled objects only and may lag behind a write whose answer was lost.
/// - A kind has no objects only if it exists in no version. A kind that may exist but cannot be
///   accessed is waited for, unless the revision has [written](Revision::written) none of them.
/// - An abandoned revision leaves objects behind that the server refuses to release, and does not
///   wait for them.
#[derive(Clone)]
pub struct Teardown<'a> {
    revision: &'a Revision,
    phases: &'a [Phase],
    kinds: &'a Kinds,
    objects: Vec<Vec<ObjectTeardown>>,
    /// By phase; `None` for phases that are run in-process.
    delegates: Vec<Option<PhaseTeardown>>,
    /// Number of phases that are not done; the last of them is the current one.
    left: usize,
    kept: Vec<Position>,
}

/// Progress of a teardown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeardownOutcome {
    /// No object of the revision is left.
    Done,
    /// These objects wait for finalizers; their deletion is an event.
    Waiting(Vec<WaitingForObject>),
    /// The server refused requests, requests failed, or no event reports the end of these objects;
    /// a retry may help.
    Failed(Vec<WaitingForObject>),
}

#[derive(Clone, Debug)]
struct PhaseTeardown {
    state: Option<PhaseState>,
    /// The server reported that the phase object does not exist. Its absence in the watch is not
    /// enough, because the watch may lag.
    gone: bool,
    attempts: Attempts,
}

#[derive(Clone, Debug)]
struct ObjectTeardown {
    live: Live,
    /// True if the state is from the server itself, not from the cache.
    confirmed: bool,
    deleting: bool,
    attempts: Attempts,
}

#[derive(Clone, Debug, Default)]
struct Attempts {
    conflicts: u8,
    /// The reason why no more requests are sent.
    problem: Option<String>,
}

enum NextAction<T> {
    Nothing,
    Send(T),
    Wait,
}

const MAX_CONFLICTS: u8 = 8;

impl Attempts {
    fn conflict(&mut self) {
        self.conflicts += 1;
        if self.conflicts >= MAX_CONFLICTS {
            self.problem = Some("the object keeps changing while it is removed".to_owned());
        }
    }
}

/// Prints the same fields as a [`Pass`](crate::pass::Pass).
impl fmt::Debug for Teardown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision: _,
            phases: _,
            kinds: _,
            objects,
            delegates,
            left,
            kept,
        } = self;
        f.debug_struct("Teardown")
            .field("objects", objects)
            .field("delegates", delegates)
            .field("left", left)
            .field("kept", kept)
            .finish_non_exhaustive()
    }
}

impl<'a> Teardown<'a> {
    /// Starts a teardown; `observe` returns the cached state of an object.
    pub fn new(
        revision: &'a Revision,
        phases: &'a [Phase],
        kinds: &'a Kinds,
        mut observe: impl FnMut(Position) -> Live,
    ) -> Self {
        let mut objects = |(phase, content): (usize, &Phase)| {
            let own = 0..content.own_objects().len();
            own.map(|object| {
                let cause = match kinds.get(&content.objects[object].gvk) {
                    Some(KindState::Unknown(cause) | KindState::Away(cause)) => Some(cause.clone()),
                    _ => None,
                };
                ObjectTeardown {
                    live: observe(Position { phase, object }),
                    confirmed: false,
                    deleting: false,
                    attempts: Attempts {
                        problem: cause,
                        ..Attempts::default()
                    },
                }
            })
            .collect()
        };
        let delegate = |phase: &Phase| {
            phase.delegated.as_ref().map(|delegated| PhaseTeardown {
                state: delegated.state.clone(),
                gone: false,
                attempts: Attempts::default(),
            })
        };
        Self {
            revision,
            phases,
            kinds,
            objects: phases.iter().enumerate().map(&mut objects).collect(),
            delegates: phases.iter().map(delegate).collect(),
            left: phases.len(),
            kept: Vec::new(),
        }
    }

    /// The objects that were released instead of deleted, because they are to be kept.
    pub fn kept(&self) -> &[Position] {
        &self.kept
    }

    /// Returns the next action.
    pub fn step(&mut self) -> Step {
        while let Some(phase) = self.left.checked_sub(1) {
            match self.need_of_phase(phase) {
                NextAction::Nothing => {}
                NextAction::Send(delegation) => return Step::Delegate(phase, delegation),
                NextAction::Wait => break,
            }
            let mut requests = Vec::new();
            let mut waiting = false;
            for object in 0..self.objects[phase].len() {
                let at = Position { phase, object };
                match self.next_action(at) {
                    NextAction::Nothing => {}
                    NextAction::Wait => waiting = true,
                    NextAction::Send(request) => requests.push((at, request)),
                }
            }
            if !requests.is_empty() {
                return Step::Send(requests);
            }
            if waiting {
                break;
            }
            self.left = phase;
        }
        Step::Done
    }

    fn next_action(&self, at: Position) -> NextAction<Request> {
        let object = &self.objects[at.phase][at.object];
        let desired = at.of(self.phases);
        let may_be_there = match self.kinds.get(&desired.gvk) {
            Some(KindState::Served { scope, .. }) => may_be_written(self.revision, desired, *scope),
            Some(KindState::Unknown(_) | KindState::Away(_)) => {
                let written = self.revision.written.as_ref();
                written.is_none_or(|it| it.contains(&controlled_reference(&desired.key)))
            }
            Some(KindState::Unmanageable) | None => false,
        };
        if !may_be_there || !desired.violations.is_empty() {
            // The revision has never written the object, or the object is gone with its kind.
            return NextAction::Nothing;
        }
        if object.attempts.problem.is_some() {
            return if self.revision.is_abandoned {
                NextAction::Nothing
            } else {
                NextAction::Wait
            };
        }
        let live = match &object.live {
            Live::Gone => return NextAction::Nothing,
            Live::Unread | Live::Uncached | Live::Ended(_) => {
                return NextAction::Send(Request::Get);
            }
            Live::Present(live) => live,
        };
        match removal(live, &self.revision.identity.uid) {
            None if object.confirmed => NextAction::Nothing,
            // The cache may lag behind a write of ours whose answer was lost.
            None => NextAction::Send(Request::Get),
            Some(Request::Delete(_)) if object.deleting || is_terminating(live) => NextAction::Wait,
            Some(Request::Delete(precondition)) => {
                let is_kept = || {
                    is_kept([&desired.manifest, live])
                        || Container::of(&desired.gvk, &desired.manifest)
                            .is_some_and(|it| it.contains_any(&self.revision.newer_wants))
                };
                let kept = || is_kept().then(|| release(live, &self.revision.identity.uid))?;
                let request = hand_back(self.revision, desired, live).or_else(kept);
                NextAction::Send(request.unwrap_or(Request::Delete(precondition)))
            }
            Some(request) => NextAction::Send(request),
        }
    }

    /// True if a watch reports the end of an object.
    fn is_watched(&self, at: Position) -> bool {
        let gvk = &at.of(self.phases).gvk;
        let state = self.kinds.get(gvk);
        matches!(state, Some(KindState::Served { is_watched, .. }) if *is_watched)
    }

    fn need_of_phase(&self, phase: usize) -> NextAction<Delegation> {
        let Some(delegate) = self.delegates[phase].as_ref().filter(|d| !d.gone) else {
            return NextAction::Nothing;
        };
        let delegated = self.phases[phase].delegated.as_ref();
        let is_impossible = delegated.is_some_and(Delegated::is_impossible);
        match &delegate.state {
            _ if delegate.attempts.problem.is_some() => NextAction::Wait,
            // The phase object was never created.
            None if is_impossible => NextAction::Nothing,
            None => NextAction::Send(Delegation::Get),
            // The phase object is orphaned, or belongs to another owner.
            Some(state) if !state.is_ours => NextAction::Nothing,
            Some(state) if state.is_deleting => NextAction::Wait,
            Some(state) => NextAction::Send(Delegation::Delete {
                uid: state.uid.clone(),
                resource_version: state.resource_version,
            }),
        }
    }

    /// Processes the answer to a request of [`Teardown::step`] about a phase object.
    pub fn answer_delegation(&mut self, phase: usize, answer: DelegationAnswer) {
        let Some(Some(delegate)) = self.delegates.get_mut(phase) else {
            return;
        };
        match answer {
            DelegationAnswer::Object(state) => {
                let was_deleted = delegate.state.replace(state.clone()).is_some();
                if was_deleted && state.is_ours && !state.is_deleting {
                    delegate.attempts.conflict();
                }
            }
            DelegationAnswer::Gone => delegate.gone = true,
            DelegationAnswer::Changed => {
                delegate.state = None;
                delegate.attempts.conflict();
            }
            DelegationAnswer::Refused(text) | DelegationAnswer::Failed(text) => {
                delegate.attempts.problem = Some(text);
            }
        }
    }

    /// Processes the answer to a request of [`Teardown::step`].
    pub fn answer(&mut self, at: Position, request: &Request, answer: Answer) {
        let own_uid = &self.revision.identity.uid;
        let is_undone = matches!(
            (request, &answer),
            (Request::Release { .. } | Request::HandOver(_), Answer::Object(live))
                if removal(live, own_uid).is_some()
        );
        let object = &mut self.objects[at.phase][at.object];
        if let (Request::Release { .. }, Answer::Object(_), Live::Present(live)) =
            (request, &answer, &object.live)
            && !is_undone
            && matches!(removal(live, own_uid), Some(Request::Delete(_)))
        {
            self.kept.push(at);
        }
        if is_undone {
            // A webhook can put the owner back each time, so the number of repetitions is limited.
            object.attempts.conflict();
        }
        let live = match &object.live {
            Live::Present(live) => Some(live),
            _ => None,
        };
        let desired = &at.of(self.phases).manifest;
        match answer.without_values(&[Some(desired), live]) {
            Answer::Object(live) => {
                object.deleting = matches!(request, Request::Delete(_));
                object.live = Live::Present(live);
                object.confirmed = true;
            }
            Answer::NotFound => object.live = Live::Gone,
            // The kind was served a moment ago. The next pass determines if the kind is gone, or
            // only this version.
            Answer::KindNotServed => {
                let gvk = &at.of(self.phases).gvk;
                object.attempts.problem = Some(format!("{gvk} is not served any more"));
            }
            Answer::Conflict => {
                object.live = Live::Unread;
                object.attempts.conflict();
            }
            Answer::Refused(text) | Answer::Immutable(text) | Answer::Failed(text) => {
                object.attempts.problem = Some(text);
            }
            // No request of a teardown creates an object, or asks for an affected one.
            Answer::Created(_) | Answer::Merged(_) | Answer::Affected(_) => {
                object.live = Live::Unread;
            }
        }
    }

    /// Ends the teardown.
    pub fn outcome(self) -> TeardownOutcome {
        let Some(index) = self.left.checked_sub(1) else {
            return TeardownOutcome::Done;
        };
        let reason = Reason::ArchivalInProgress;
        let phase = &self.phases[index];
        if let (Some(delegate), Some(delegated)) = (&self.delegates[index], &phase.delegated) {
            let problem = delegate.attempts.problem.clone();
            let failed = problem.is_some();
            let message = problem.unwrap_or_else(|| {
                let state = delegate.state.as_ref();
                state.map_or_else(String::new, PhaseState::why_waiting)
            });
            let waiting = vec![delegated.waiting(&phase.name, reason, &message)];
            return TeardownOutcome::unfinished(failed, waiting);
        }
        let mut failed = false;
        let mut waiting = Vec::new();
        for (object, teardown) in self.objects[index].iter().enumerate() {
            let at = Position {
                phase: index,
                object,
            };
            if matches!(self.next_action(at), NextAction::Wait) {
                let problem = teardown.attempts.problem.clone();
                failed |= problem.is_some() || !self.is_watched(at);
                let message = problem.unwrap_or_else(|| match &teardown.live {
                    Live::Present(live) => why_terminating(live),
                    _ => "being deleted".to_owned(),
                });
                waiting.push(phase.waiting(object, reason, &message));
            }
        }
        TeardownOutcome::unfinished(failed, waiting)
    }
}

/// The request that removes an owner's claim to an object, with the observed state as its
/// precondition: a controller deletes the object, any other owner removes its reference. `None` if
/// it is no owner.
fn removal(live: &Value, own_uid: &str) -> Option<Request> {
    let mut references = owner_references(live).iter();
    let reference = references.find(|reference| text(reference, "uid") == own_uid)?;
    if is_controller(reference) {
        return Some(Request::Delete(precondition(live)));
    }
    release(live, own_uid)
}

/// The request that only removes an owner from an object; `None` if it is no owner.
fn release(live: &Value, owner_uid: &str) -> Option<Request> {
    let mut references = owner_references(live).iter();
    let owner_index = references.position(|reference| text(reference, "uid") == owner_uid)?;
    Some(Request::Release {
        owner_uid: owner_uid.to_owned(),
        live: Precondition {
            owner_index,
            ..precondition(live)
        },
        left: owners::without(live, owner_uid),
    })
}

/// The objects that an owner may have written, by its last report. `None` if any object may be: the
/// owner has not reported yet, or was available.
///
/// # Caveats
/// A pass that is killed before its report may have written further objects. Garbage collection
/// deletes them in the owner's cluster; elsewhere they are deleted when they are observed.
pub fn reported_writes(
    conditions: &[Condition],
    controlled: &[ControlledObjectReference],
    ended: &[EndedObject],
) -> Option<BTreeSet<ControlledObjectReference>> {
    let available = find(conditions, AVAILABLE)?;
    if available.status == "True" || find(conditions, SUCCEEDED).is_some() {
        return None;
    }
    let ended = ended.iter().map(|end| ControlledObjectReference {
        group: end.group.clone(),
        kind: end.kind.clone(),
        namespace: end.namespace.clone(),
        name: end.name.clone(),
        ..ControlledObjectReference::default()
    });
    Some(controlled.iter().cloned().chain(ended).collect())
}

/// The request that removes the claim of an owner that had ended before the object was observed;
/// `None` if none is needed.
///
/// A pending write of the owner was late, and a newer revision may have taken the object over
/// since.
pub fn stray(live: &Value, ended_uid: &str) -> Option<Request> {
    match removal(live, ended_uid).filter(|_| !is_terminating(live))? {
        Request::Delete(_) if is_kept([live]) => release(live, ended_uid),
        request => Some(request),
    }
}

impl TeardownOutcome {
    fn unfinished(failed: bool, waiting: Vec<WaitingForObject>) -> Self {
        if failed {
            Self::Failed(waiting)
        } else {
            Self::Waiting(waiting)
        }
    }
}
