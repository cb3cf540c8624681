//! Taking a revision's objects away in reverse order, leaving alone what others own
//! (contract 4.2 and 4.3).

use baton_apis::{WaitingForObject, conditions::reasons};

use super::{
    Answer, Request,
    delegated::{Delegation, DelegationAnswer, PhaseState},
    object::{is_controller, is_terminating, owner_references, precondition, text},
    owners,
    pass::{Position, Step},
    revision::{Kinds, Phase, Revision, is_within_reach},
    slot::Live,
};

/// A teardown in progress.
///
/// # Guarantees
/// - An object is deleted only while the revision is its controller, in the very state that said
///   so. Where the revision is one owner among others only its reference is removed.
/// - An earlier phase is asked for only when every object of the later one is really gone: the
///   server said so, not the label-selected cache.
///
/// # Caveats
/// A kind that is not served any more has no objects; nothing is asked for it.
pub struct Teardown<'a> {
    revision: &'a Revision,
    phases: &'a [Phase],
    kinds: &'a Kinds,
    slots: Vec<Vec<Slot>>,
    /// By phase; `None` for those that are run in-process.
    delegates: Vec<Option<Delegate>>,
    /// Phases that are not done yet; the last of them is the current one.
    left: usize,
}

/// What a teardown came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeardownOutcome {
    /// Nothing of the revision is left.
    Done,
    /// Objects that wait for finalizers; their deletion is an event.
    Waiting(Vec<WaitingForObject>),
    /// The server refused or failed requests; trying again later may help.
    Failed(Vec<WaitingForObject>),
    /// The objects could not be looked at; the text says why.
    Blocked(String),
}

/// The object of a delegated phase.
#[derive(Debug)]
struct Delegate {
    state: Option<PhaseState>,
    /// The server said that it does not exist; the watch may not know yet of one that does.
    gone: bool,
    problem: Option<String>,
    rounds: u8,
}

#[derive(Debug)]
struct Slot {
    live: Live,
    deleting: bool,
    problem: Option<String>,
    rounds: u8,
}

enum Delegating {
    Nothing,
    Ask(Delegation),
    Wait,
}

enum Need {
    Nothing,
    Send(Request),
    Wait,
}

const MAX_ROUNDS: u8 = 8;

impl<'a> Teardown<'a> {
    /// Starts a teardown; `observe` gives what a cache knows of an object.
    pub fn new(
        revision: &'a Revision,
        phases: &'a [Phase],
        kinds: &'a Kinds,
        mut observe: impl FnMut(Position) -> Live,
    ) -> Self {
        let slots = phases
            .iter()
            .enumerate()
            .map(|(phase, content)| {
                (0..content.own_objects().len())
                    .map(|object| Slot {
                        live: observe(Position { phase, object }),
                        deleting: false,
                        problem: None,
                        rounds: 0,
                    })
                    .collect()
            })
            .collect();
        let delegate = |phase: &Phase| {
            phase.delegated.as_ref().map(|delegated| Delegate {
                state: delegated.state.clone(),
                gone: false,
                problem: None,
                rounds: 0,
            })
        };
        Self {
            revision,
            phases,
            kinds,
            slots,
            delegates: phases.iter().map(delegate).collect(),
            left: phases.len(),
        }
    }

    /// What to do next.
    pub fn step(&mut self) -> Step {
        while let Some(phase) = self.left.checked_sub(1) {
            let mut requests = Vec::new();
            let mut waiting = false;
            match self.delegation(phase) {
                Delegating::Nothing => {}
                Delegating::Ask(delegation) => return Step::Delegate(phase, delegation),
                Delegating::Wait => break,
            }
            for object in 0..self.slots[phase].len() {
                let at = Position { phase, object };
                match self.need(at) {
                    Need::Nothing => {}
                    Need::Wait => waiting = true,
                    Need::Send(request) => requests.push((at, request)),
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

    fn need(&self, at: Position) -> Need {
        let slot = &self.slots[at.phase][at.object];
        let desired = &self.phases[at.phase].objects[at.object];
        if slot.problem.is_some() {
            return Need::Wait;
        }
        let reachable = self
            .kinds
            .get(&desired.gvk)
            .is_some_and(|scope| is_within_reach(self.revision, desired, *scope));
        if !reachable || !desired.violations.is_empty() {
            // Such an object was never written by this revision.
            return Need::Nothing;
        }
        let live = match &slot.live {
            Live::Gone => return Need::Nothing,
            Live::Unread | Live::Uncached => return Need::Send(Request::Get),
            Live::Present(live) => live,
        };
        let own = owner_references(live)
            .iter()
            .position(|reference| text(reference, "uid") == self.revision.identity.uid);
        let Some(owner_index) = own else {
            return Need::Nothing;
        };
        if !is_controller(&owner_references(live)[owner_index]) {
            let owner_uid = self.revision.identity.uid.clone();
            let left = owners::without(live, &owner_uid);
            let mut live = precondition(live);
            live.owner_index = owner_index;
            return Need::Send(Request::Release {
                owner_uid,
                live,
                left,
            });
        }
        if slot.deleting || is_terminating(live) {
            return Need::Wait;
        }
        Need::Send(Request::Delete(precondition(live)))
    }

    /// What is to be done about the object of a delegated phase (contract 6.7).
    fn delegation(&self, phase: usize) -> Delegating {
        match &self.delegates[phase] {
            None | Some(Delegate { gone: true, .. }) => Delegating::Nothing,
            Some(Delegate {
                problem: Some(_), ..
            }) => Delegating::Wait,
            Some(Delegate { state: None, .. }) => Delegating::Ask(Delegation::Get),
            // Left behind, or the object of somebody else.
            Some(Delegate {
                state: Some(state), ..
            }) if !state.is_ours => Delegating::Nothing,
            Some(Delegate {
                state: Some(state), ..
            }) if state.is_deleting => Delegating::Wait,
            Some(_) => Delegating::Ask(Delegation::Delete),
        }
    }

    /// Takes the answer to what [`Teardown::step`] asked about a phase object.
    pub fn delegated(&mut self, phase: usize, answer: DelegationAnswer) {
        let Some(Some(delegate)) = self.delegates.get_mut(phase) else {
            return;
        };
        match answer {
            DelegationAnswer::Object(state) => delegate.state = Some(state),
            DelegationAnswer::Gone => delegate.gone = true,
            DelegationAnswer::Changed => {
                delegate.rounds += 1;
                delegate.state = None;
                if delegate.rounds >= MAX_ROUNDS {
                    delegate.problem =
                        Some("the object keeps changing while it is removed".to_owned());
                }
            }
            DelegationAnswer::Refused(text) | DelegationAnswer::Failed(text) => {
                delegate.problem = Some(text);
            }
        }
    }

    /// Takes the answer to a request that [`Teardown::step`] named.
    pub fn answer(&mut self, at: Position, request: &Request, answer: Answer) {
        let slot = &mut self.slots[at.phase][at.object];
        match answer {
            Answer::Object(live) => {
                slot.deleting = matches!(request, Request::Delete(_));
                slot.live = Live::Present(live);
            }
            Answer::NotFound | Answer::KindNotServed => slot.live = Live::Gone,
            Answer::Conflict => {
                slot.rounds += 1;
                slot.live = Live::Unread;
                if slot.rounds >= MAX_ROUNDS {
                    slot.problem = Some("the object keeps changing while it is removed".to_owned());
                }
            }
            Answer::Refused(text) | Answer::Failed(text) => slot.problem = Some(text),
            // Nothing of what a teardown sends can create.
            Answer::Created(_) | Answer::Merged(_) => slot.live = Live::Unread,
        }
    }

    /// Ends the teardown.
    #[must_use]
    pub fn outcome(self) -> TeardownOutcome {
        let Some(phase) = self.left.checked_sub(1) else {
            return TeardownOutcome::Done;
        };
        let mut failed = false;
        if let (Some(delegate), Some(delegated)) =
            (&self.delegates[phase], &self.phases[phase].delegated)
        {
            let message = delegate.problem.clone().unwrap_or_else(|| {
                let state = delegate.state.as_ref();
                state.map_or_else(String::new, PhaseState::why_waiting)
            });
            let name = &self.phases[phase].name;
            let waiting = vec![delegated.waiting(name, reasons::ARCHIVAL_IN_PROGRESS, &message)];
            return match delegate.problem {
                Some(_) => TeardownOutcome::Failed(waiting),
                None => TeardownOutcome::Waiting(waiting),
            };
        }
        let waiting = (0..self.slots[phase].len())
            .filter_map(|object| {
                let at = Position { phase, object };
                if !matches!(self.need(at), Need::Wait) {
                    return None;
                }
                let problem = &self.slots[phase][object].problem;
                failed |= problem.is_some();
                let key = &self.phases[phase].objects[object].key;
                Some(WaitingForObject {
                    phase: self.phases[phase].name.clone(),
                    group: key.group.clone(),
                    kind: key.kind.clone(),
                    name: key.name.clone(),
                    namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
                    reason: reasons::ARCHIVAL_IN_PROGRESS.to_owned(),
                    message: problem
                        .clone()
                        .unwrap_or_else(|| "being deleted".to_owned()),
                })
            })
            .collect();
        if failed {
            TeardownOutcome::Failed(waiting)
        } else {
            TeardownOutcome::Waiting(waiting)
        }
    }
}
