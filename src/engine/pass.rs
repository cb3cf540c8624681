//! One pass over a revision that is to be rolled out or kept: the phases loop (contract 2.4).

use baton_apis::{
    ControlledObjectReference, RemotePhaseReference, WaitingForObject, conditions::reasons,
};

use super::{
    Answer, Request,
    delegated::{Delegated, Delegation, DelegationAnswer, Told},
    handover::Lineage,
    mapping::{MappedCondition, mapped},
    object::{controlled_reference, metadata},
    probes::{Probes, Verdict as ProbeVerdict},
    revision::{Kinds, Phase, Revision, violations},
    slot::{Deed, Live, Need, Settled, Slot},
};

/// Everything that a pass is decided upon.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    /// The revision.
    pub revision: &'a Revision,
    /// Its phases, slices included.
    pub phases: &'a [Phase],
    /// Its probes.
    pub probes: &'a Probes,
    /// What the server serves.
    pub kinds: &'a Kinds,
    /// The other revisions.
    pub lineage: &'a dyn Lineage,
}

/// Which object a request is about: index of the phase, index of the object in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index of the phase.
    pub phase: usize,
    /// Index of the object in its phase.
    pub object: usize,
}

/// What the caller has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send these requests side by side and hand each answer back.
    Send(Vec<(Position, Request)>),
    /// Do this about the object of the phase with this index and hand the answer back.
    Delegate(usize, Delegation),
    /// The pass is over.
    Done,
}

/// What a pass came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every phase was written and passed its probes.
    Passed,
    /// A phase fails its probes; the failures as in the condition's message.
    ProbeFailure {
        /// Name of the phase.
        phase: String,
        /// The failures, joined.
        failures: String,
    },
    /// A delegated phase is not available, or nobody knows; as its controller told.
    Delegated {
        /// Name of the phase.
        phase: String,
        /// `False` or `Unknown`.
        status: String,
        /// Reason, one of ours.
        reason: &'static str,
        /// Message.
        message: String,
        /// Whether its controller has not told anything yet about the phase object as it is now.
        is_silent: bool,
    },
    /// Something was refused before any write of its phase.
    Preflight(Vec<String>),
    /// An object belongs to somebody else; the whole message.
    Collision(String),
    /// The server refused writes whose dry runs had passed.
    WriteError(Vec<String>),
    /// Requests failed for reasons that may pass by themselves.
    Failed(Vec<String>),
}

/// The result of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What it came to.
    pub verdict: Verdict,
    /// Objects whose controller is the revision, of all phases.
    pub controller_of: Vec<ControlledObjectReference>,
    /// Whether that is every object of the spec.
    pub controls_all: bool,
    /// Objects that keep the revision from being available.
    pub waiting_for: Vec<WaitingForObject>,
    /// The phase objects that exist.
    pub remote_phases: Vec<RemotePhaseReference>,
    /// Whether the delegated phases are paused if and only if the revision is.
    pub pause_agreed: bool,
    /// Conditions of objects to copy to the revision.
    pub mapped: Vec<MappedCondition>,
    /// The writes that happened.
    pub deeds: Vec<(Position, Deed)>,
    /// Fingerprints to remember.
    pub learned: Vec<(Position, Settled)>,
    /// Objects that somebody else holds against the revision, in the `resourceVersion` that was
    /// seen: a change of them is worth a pass.
    pub blockers: Vec<(Position, String)>,
}

/// A pass in progress.
///
/// # Guarantees
/// - Every dry run of a phase precedes its first write, and no write is asked for when any of
///   them was refused: an invalid object stops its phase before anything was touched. What earlier
///   releases left in `managedFields` is put right between the dry runs that need none of it and
///   those that do; that changes nothing of what an object says.
/// - A phase is asked for only when every object of the one before was written and passed its
///   probes in this very pass.
/// - Objects before the first collision of a phase are written, those after it are not.
/// - The number of steps is bounded, however the answers fall.
pub struct Pass<'a> {
    snapshot: Snapshot<'a>,
    slots: Vec<Vec<Slot<'a>>>,
    /// By phase; `None` for those that are run in-process.
    delegates: Vec<Option<Delegate>>,
    phase: usize,
    verdict: Option<Verdict>,
    waiting_for: Vec<WaitingForObject>,
    blockers: Vec<(Position, String)>,
}

/// A delegated phase during a pass.
#[derive(Debug)]
struct Delegate {
    /// The phase object as it is known now.
    delegated: Delegated,
    /// What went wrong with the last request about it.
    problem: Option<DelegationAnswer>,
}

impl<'a> Pass<'a> {
    /// Starts a pass.
    ///
    /// `observe` gives what a cache knows of an object and the fingerprints remembered for it.
    pub fn new(
        snapshot: Snapshot<'a>,
        mut observe: impl FnMut(Position) -> (Live, Option<Settled>),
    ) -> Self {
        let delegate = |phase: &Phase| {
            let delegated = phase.delegated.clone()?;
            let problem = None;
            Some(Delegate { delegated, problem })
        };
        let slots = snapshot
            .phases
            .iter()
            .enumerate()
            .map(|(index, phase)| {
                let own = phase.own_objects().iter().enumerate();
                own.map(|(object, desired)| {
                    let phase = index;
                    let (live, settled) = observe(Position { phase, object });
                    Slot::new(desired, live, settled)
                })
                .collect()
            })
            .collect();
        Self {
            delegates: snapshot.phases.iter().map(delegate).collect(),
            snapshot,
            slots,
            phase: 0,
            verdict: None,
            waiting_for: Vec::new(),
            blockers: Vec::new(),
        }
    }

    /// What to do next.
    pub fn step(&mut self) -> Step {
        if let Some(step) = self.pause_delegates() {
            return step;
        }
        while self.verdict.is_none() {
            let Some(phase) = self.snapshot.phases.get(self.phase) else {
                self.verdict = Some(Verdict::Passed);
                break;
            };
            if phase.delegated.is_some() {
                if let Some(delegation) = self.delegate(phase) {
                    return Step::Delegate(self.phase, delegation);
                }
                continue;
            }
            let refused = violations(self.snapshot.revision, phase, self.snapshot.kinds);
            if !refused.is_empty() {
                self.verdict = Some(Verdict::Preflight(refused));
                break;
            }
            let requests = self.requests();
            if !requests.is_empty() {
                return Step::Send(requests);
            }
            if self.verdict.is_none() {
                self.finish_phase(phase);
            }
        }
        Step::Done
    }

    /// Passes the revision's pause, or its end, on to all phase objects, also to those of phases that
    /// are not reached.
    fn pause_delegates(&self) -> Option<Step> {
        let paused = self.snapshot.revision.is_paused();
        let mut delegates = self.delegates.iter().enumerate();
        delegates.find_map(|(index, delegate)| {
            let Delegate { delegated, problem } = delegate.as_ref()?;
            let state = delegated.state.as_ref()?;
            let differs = state.is_ours && !state.is_deleting && state.paused != paused;
            (differs && problem.is_none())
                .then_some(Step::Delegate(index, Delegation::Pause(paused)))
        })
    }

    /// What to ask about the current, delegated phase; `None` when it has passed or failed.
    fn delegate(&mut self, phase: &Phase) -> Option<Delegation> {
        let Some(Delegate { delegated, problem }) = &self.delegates[self.phase] else {
            return None;
        };
        let at = |text: &str| {
            format!(
                "Phase \"{}\", {} {}: {text}",
                phase.name, delegated.kind, delegated.name
            )
        };
        let preflight = |text: String| {
            let verdict = Verdict::Preflight(vec![text.clone()]);
            (reasons::PREFLIGHT_ERROR, text, verdict)
        };
        let failed = |text: &str| {
            let verdict = Verdict::Failed(vec![at(text)]);
            (reasons::WRITE_ERROR, at(text), verdict)
        };
        let (reason, message, verdict) = match (problem, &delegated.state) {
            (Some(DelegationAnswer::Refused(text)), _) => preflight(at(text)),
            (Some(DelegationAnswer::Failed(text)), _) => failed(text),
            (Some(_), _) => failed("it has changed meanwhile"),
            (None, None) => match delegated.fault() {
                Some(fault) => preflight(format!("Phase \"{}\", {fault}", phase.name)),
                None => return Some(Delegation::Create(delegated.manifest.clone())),
            },
            (None, Some(state)) if !state.is_ours => {
                let text = at("refusing adoption, it belongs to another owner, or to none");
                let verdict = Verdict::Collision(text.clone());
                (reasons::COLLISION_DETECTED, text, verdict)
            }
            (None, Some(state)) => {
                let told = state.told();
                let (status, reason, message) = match told {
                    Told::Passed => {
                        self.phase += 1;
                        return None;
                    }
                    Told::Nothing => ("False", reasons::PROBE_FAILURE, "no status reported"),
                    Told::Not(status, reason, message) => (status, reason, message),
                };
                let reason = reasons::OF_AVAILABLE
                    .into_iter()
                    .find(|known| *known == reason)
                    .unwrap_or(reasons::PROBE_FAILURE);
                let verdict = Verdict::Delegated {
                    phase: phase.name.clone(),
                    status: status.to_owned(),
                    reason,
                    message: message.to_owned(),
                    is_silent: told == Told::Nothing,
                };
                (reason, message.to_owned(), verdict)
            }
        };
        let waiting = delegated.waiting(&phase.name, reason, &message);
        self.waiting_for.push(waiting);
        self.verdict = Some(verdict);
        None
    }

    /// Takes the answer to what [`Pass::step`] asked about a phase object.
    pub fn delegated(&mut self, phase: usize, answer: DelegationAnswer) {
        if let Some(Some(delegate)) = self.delegates.get_mut(phase) {
            match answer {
                DelegationAnswer::Object(state) => delegate.delegated.state = Some(state),
                // The next pass makes it anew, or sees what it has become.
                problem => delegate.problem = Some(problem),
            }
        }
    }

    /// Takes the answer to a request that [`Pass::step`] named.
    pub fn answer(&mut self, at: Position, request: &Request, answer: Answer) {
        self.slots[at.phase][at.object].answer(
            request,
            answer,
            self.snapshot.revision,
            self.snapshot.lineage,
        );
    }

    /// The next requests of the current phase; sets the verdict when the phase has failed.
    fn requests(&mut self) -> Vec<(Position, Request)> {
        let phase = &self.snapshot.phases[self.phase];
        let mut checks = Vec::new();
        let mut preparations = Vec::new();
        let mut writes = Vec::new();
        let mut problems = Problems::default();
        for (object, slot) in self.slots[self.phase].iter().enumerate() {
            let at = Position {
                phase: self.phase,
                object,
            };
            let position = || slot.desired.position(&phase.name);
            match slot.need(self.snapshot.revision, self.snapshot.lineage) {
                Need::Nothing | Need::Wait(_) => {}
                Need::Check(request) => checks.push((at, request)),
                Need::Prepare(request) => preparations.push((at, request)),
                Need::Write(request) => writes.push((at, request)),
                Need::Violation(text) => {
                    problems
                        .violations
                        .push((at, format!("{}: {text}", position())));
                }
                Need::WriteRefused(text) => {
                    problems
                        .refused
                        .push((at, format!("{}: {text}", position())));
                }
                Need::Failed(text) => problems
                    .failed
                    .push((at, format!("{}: {text}", position()))),
                Need::Collision(text) => {
                    problems.collision = Some((at, text));
                    // Objects after it are not looked at; the first collision ends the phase.
                    break;
                }
            }
        }
        if !checks.is_empty() {
            return checks;
        }
        if problems.violations.is_empty() && problems.failed.is_empty() {
            let next = if preparations.is_empty() {
                writes
            } else {
                preparations
            };
            if !next.is_empty() {
                return next;
            }
        }
        self.fail(problems);
        Vec::new()
    }

    fn fail(&mut self, problems: Problems) {
        let (reason, found, verdict): (_, Vec<_>, fn(Vec<String>) -> Verdict) =
            if !problems.violations.is_empty() {
                (
                    reasons::PREFLIGHT_ERROR,
                    problems.violations,
                    Verdict::Preflight,
                )
            } else if !problems.refused.is_empty() {
                (reasons::WRITE_ERROR, problems.refused, Verdict::WriteError)
            } else if !problems.failed.is_empty() {
                (reasons::WRITE_ERROR, problems.failed, Verdict::Failed)
            } else if let Some((at, text)) = problems.collision {
                let live = self.slots[at.phase][at.object].live();
                let version = live.map_or("", |live| metadata(live, "resourceVersion"));
                self.blockers.push((at, version.to_owned()));
                (
                    reasons::COLLISION_DETECTED,
                    vec![(at, text)],
                    |mut texts| Verdict::Collision(texts.pop().unwrap_or_default()),
                )
            } else {
                return;
            };
        for (at, text) in &found {
            self.wait_for(*at, reason, text);
        }
        self.verdict = Some(verdict(found.into_iter().map(|(_, text)| text).collect()));
    }

    /// Probes the objects of the current phase and goes on to the next one if they pass.
    fn finish_phase(&mut self, phase: &Phase) {
        let mut failures = Vec::new();
        for object in 0..phase.objects.len() {
            let at = Position {
                phase: self.phase,
                object,
            };
            let Some(messages) = self.probe(at) else {
                continue;
            };
            let key = &phase.objects[object].key;
            let messages = messages.join(", ");
            self.wait_for(at, reasons::PROBE_FAILURE, &messages);
            failures.push(format!(
                "{} {} {}/{}: {messages}",
                key.group, key.kind, key.namespace, key.name
            ));
        }
        if failures.is_empty() {
            self.phase += 1;
        } else {
            self.verdict = Some(Verdict::ProbeFailure {
                phase: phase.name.clone(),
                failures: failures.join(", "),
            });
        }
    }

    /// Why an object does not pass, or nothing when it does.
    fn probe(&self, at: Position) -> Option<Vec<String>> {
        let slot = &self.slots[at.phase][at.object];
        if let Need::Wait(text) = slot.need(self.snapshot.revision, self.snapshot.lineage) {
            return Some(vec![text]);
        }
        let Some(live) = slot.live() else {
            return Some(vec!["not found".to_owned()]);
        };
        let key = &slot.desired.key;
        match self.snapshot.probes.evaluate(&key.group, &key.kind, live) {
            ProbeVerdict::True => None,
            ProbeVerdict::False(messages) | ProbeVerdict::Unknown(messages) => Some(messages),
        }
    }

    fn wait_for(&mut self, at: Position, reason: &str, message: &str) {
        let key = &self.snapshot.phases[at.phase].objects[at.object].key;
        self.waiting_for.push(WaitingForObject {
            phase: self.snapshot.phases[at.phase].name.clone(),
            group: key.group.clone(),
            kind: key.kind.clone(),
            name: key.name.clone(),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Ends the pass.
    ///
    /// # Panics
    /// When [`Pass::step`] has not said [`Step::Done`] yet.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        let identity = &self.snapshot.revision.identity;
        let mut outcome = Outcome {
            verdict: self
                .verdict
                .expect("a pass is asked for its outcome when it is done"),
            controller_of: Vec::new(),
            controls_all: true,
            waiting_for: self.waiting_for,
            remote_phases: Vec::new(),
            pause_agreed: true,
            mapped: Vec::new(),
            deeds: Vec::new(),
            learned: Vec::new(),
            blockers: self.blockers,
        };
        let paused = self.snapshot.revision.is_paused();
        for (phase, slots) in self.slots.iter().enumerate() {
            if let Some(Delegate { delegated, .. }) = &self.delegates[phase] {
                let state = delegated.state.as_ref().filter(|state| state.is_ours);
                let controlled = state.map_or(&[][..], |state| &state.controller_of);
                outcome.controls_all &=
                    controlled.len() >= self.snapshot.phases[phase].objects.len();
                outcome.controller_of.extend_from_slice(controlled);
                outcome.remote_phases.extend(delegated.reference());
                if let Some(state) = state {
                    outcome.pause_agreed &= state.reports_pause() == paused;
                    outcome.mapped.extend(state.mapped());
                }
            }
            for (object, slot) in slots.iter().enumerate() {
                let at = Position { phase, object };
                if slot.is_controlled_by(identity) {
                    outcome
                        .controller_of
                        .push(controlled_reference(&slot.desired.key));
                } else {
                    outcome.controls_all = false;
                }
                outcome
                    .deeds
                    .extend(slot.deed.clone().map(|deed| (at, deed)));
                outcome
                    .learned
                    .extend(slot.learned.map(|settled| (at, settled)));
                if let Some(live) = slot.live() {
                    outcome.mapped.extend(mapped(&slot.desired.mappings, live));
                }
            }
        }
        outcome
    }
}

/// What stands in the way of a phase, most serious kind first.
#[derive(Default)]
struct Problems {
    violations: Vec<(Position, String)>,
    refused: Vec<(Position, String)>,
    failed: Vec<(Position, String)>,
    collision: Option<(Position, String)>,
}
