//! One pass over a revision that is to be rolled out or maintained, phase after phase.
//!
//! Observable behaviour: `docs/contract/phases.md`.

mod ahead;
mod delegates;
mod held;
mod outcome;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use baton_apis::{EndedObject, WaitingForObject, conditions::Reason};

use crate::{
    Answer, Request,
    definitions::is_definition,
    delegated::Delegation,
    handover::Siblings,
    mapping::{mapped, stopped_as_a_whole},
    object::{controlled_reference, metadata},
    object_pass::{AppliedFingerprints, Live, NextAction, ObjectPass, Problem},
    revision::{Desired, KindProblem, Kinds, Phase, Revision},
    texts::Joined,
    workload,
};
use ahead::Ahead;
use baton_probes::{Probes, Verdict, budget::Budget};
use delegates::Delegate;
use held::{Held, held};

pub use outcome::{Outcome, PassResult};

/// The complete input of a pass.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    /// The revision that is rolled out.
    pub revision: &'a Revision,
    /// The phases of the revision, slices included.
    pub phases: &'a [Phase],
    /// The probes of the revision.
    pub probes: &'a Probes,
    /// The kinds that the server serves.
    pub kinds: &'a Kinds,
    /// The other revisions.
    pub siblings: &'a dyn Siblings,
}

/// The position of an object in a revision: index of the phase, index of the object in the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index of the phase.
    pub phase: usize,
    /// Index of the object in its phase.
    pub object: usize,
}

impl Position {
    /// Returns the object at the position.
    pub fn of(self, phases: &[Phase]) -> &Desired {
        &phases[self.phase].objects[self.object]
    }
}

/// The next action of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send these requests concurrently and return each answer.
    Send(Vec<(Position, Request)>),
    /// Send this request about the phase object of the phase with this index and return the answer.
    Delegate(usize, Delegation),
    /// The pass is over.
    Done,
}

/// A pass in progress.
///
/// # Guarantees
/// - Every dry run of a phase precedes its first write, and no write follows if a dry run was
///   refused: an invalid object stops its phase before anything is written. One object needs no dry
///   run: if all others are accepted, its write goes first and alone, and if that is refused,
///   nothing has been written either. A revision that was refused before does not use this
///   exception, because it would retry the write again and again. Legacy entries of `managedFields`
///   are migrated between the dry runs that need no migration and those that do; a migration
///   changes no object's content.
/// - Requests about a phase follow only after every object of the preceding phase was written and
///   passed its probes in this pass.
/// - Objects before the first collision of a phase are written, those after it are not.
/// - An object whose kind is not served, or does not answer, does not stop the other objects of its
///   phase.
/// - A revision that [checks all first](Revision::checks_all_first), and controls no object yet,
///   writes nothing before all objects of all phases are checked that can be checked.
/// - The number of steps is bounded for any answers, and so is the time for probes.
#[derive(Clone)]
pub struct Pass<'a> {
    snapshot: Snapshot<'a>,
    objects: Vec<Vec<ObjectPass<'a>>>,
    /// By phase; `None` for phases that are run in-process.
    delegates: Vec<Option<Delegate>>,
    /// Present until the objects of all phases are checked, if that has to precede the first write.
    ahead: Option<Ahead>,
    /// True if the pass ends after these checks.
    only_checks: bool,
    held: Held,
    phase: usize,
    result: Option<PassResult>,
    waiting_for: Vec<WaitingForObject>,
    blockers: Vec<(Position, String)>,
    budget: Budget,
}

/// Prints all state that changes during the pass, and leaves the input out. Two passes over the
/// same revision that print the same continue in the same way.
impl fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            snapshot: _,
            objects,
            delegates,
            ahead,
            only_checks: _,
            held: _,
            phase,
            result,
            waiting_for,
            blockers,
            budget,
        } = self;
        f.debug_struct("Pass")
            .field("objects", objects)
            .field("delegates", delegates)
            .field("ahead", &ahead.is_some())
            .field("phase", phase)
            .field("result", result)
            .field("waiting_for", waiting_for)
            .field("blockers", blockers)
            .field("budget", budget)
            .finish_non_exhaustive()
    }
}

/// The messages of an object that does not pass its probes.
struct Failure {
    /// All messages, with the cause.
    messages: String,
    /// The cause of failed probes, if it is known.
    cause: Option<String>,
}

impl From<String> for Failure {
    fn from(messages: String) -> Self {
        let cause = None;
        Self { messages, cause }
    }
}

impl<'a> Pass<'a> {
    /// Starts a pass.
    ///
    /// `observe` returns the cached state of an object and its recorded fingerprints.
    pub fn new(
        snapshot: Snapshot<'a>,
        mut observe: impl FnMut(Position) -> (Live, Option<AppliedFingerprints>),
    ) -> Self {
        let Snapshot {
            revision, siblings, ..
        } = snapshot;
        let mut objects = |(phase, content): (usize, &'a Phase)| {
            let own = content.own_objects().iter().enumerate();
            own.map(|(object, desired)| {
                let observed = observe(Position { phase, object });
                ObjectPass::new(revision, siblings, desired, observed)
            })
            .collect()
        };
        let phases = snapshot.phases.iter().enumerate();
        let objects: Vec<Vec<ObjectPass<'_>>> = phases.map(&mut objects).collect();
        Self {
            ahead: Ahead::of(&snapshot, &objects),
            only_checks: false,
            held: held(&snapshot, &objects),
            objects,
            delegates: snapshot.phases.iter().map(Delegate::of).collect(),
            snapshot,
            phase: 0,
            result: None,
            waiting_for: Vec::new(),
            blockers: Vec::new(),
            budget: Budget::default(),
        }
    }

    /// Starts a pass that writes nothing, for phases that are not delegated. It has passed when all
    /// objects of all phases are checked that can be checked.
    pub fn check(
        snapshot: Snapshot<'a>,
        observe: impl FnMut(Position) -> (Live, Option<AppliedFingerprints>),
    ) -> Self {
        Self {
            ahead: Some(Ahead::all(&snapshot)),
            only_checks: true,
            ..Self::new(snapshot, observe)
        }
    }

    /// Returns the next action.
    pub fn step(&mut self) -> Step {
        if let Some(step) = self.pause_delegates() {
            return step;
        }
        if let Some(step) = self.create_delegates_ahead() {
            return step;
        }
        if self.ahead.is_some() {
            let checks = self.look_ahead();
            if !checks.is_empty() {
                return Step::Send(checks);
            }
        }
        if self.only_checks {
            self.result.get_or_insert(PassResult::Passed);
        }
        while self.result.is_none() {
            let Some(phase) = self.snapshot.phases.get(self.phase) else {
                self.result = Some(PassResult::Passed);
                break;
            };
            if phase.delegated.is_some() {
                if let Some(delegation) = self.delegate(phase) {
                    return Step::Delegate(self.phase, delegation);
                }
                continue;
            }
            let refused = self.stopping_violations(phase);
            if !refused.is_empty() {
                self.result = Some(PassResult::Preflight(refused));
                break;
            }
            let requests = self.requests();
            if !requests.is_empty() {
                return Step::Send(requests);
            }
            if self.result.is_none() {
                self.finish_phase(phase);
            }
        }
        Step::Done
    }

    /// Processes the answer to a request of [`Pass::step`].
    pub fn answer(&mut self, at: Position, request: &Request, answer: Answer) {
        self.objects[at.phase][at.object].answer(request, answer);
    }

    /// Returns the next requests of the current phase; ends the pass if the phase has failed.
    fn requests(&mut self) -> Vec<(Position, Request)> {
        let phase = self.phase;
        let mut checks = Vec::new();
        let mut dry_runs = Vec::new();
        let mut preparations = Vec::new();
        let mut writes = Vec::new();
        let mut problems = Vec::new();
        for (object, pass) in self.objects[phase].iter().enumerate() {
            let at = Position { phase, object };
            if self.held.contains_key(&at) {
                continue;
            }
            match pass.next_action() {
                NextAction::Nothing | NextAction::Wait(_) => {}
                NextAction::Check(request) => checks.push((at, request)),
                NextAction::DryRun(request) => dry_runs.push((at, request)),
                NextAction::Prepare(request) => preparations.push((at, request)),
                NextAction::Write(request) => writes.push((at, request)),
                NextAction::Blocked(Problem::Collision, text) => {
                    problems.push((Problem::Collision, at, text));
                    // Objects after the first collision are skipped.
                    break;
                }
                NextAction::Blocked(problem, text) => {
                    let position = pass.desired.position(&self.snapshot.phases[phase].name);
                    problems.push((problem, at, format!("{position}: {text}")));
                }
            }
        }
        let stops_writes = |problem| matches!(problem, Problem::Violation | Problem::Failed);
        let is_stopped = problems.iter().any(|(problem, ..)| stops_writes(*problem));
        // If the phase is stopped anyway, all objects are checked, so that all faults are reported
        // at once.
        let may_lead = !is_stopped && preparations.is_empty();
        let leader = dry_runs.pop_if(|_| may_lead && !self.snapshot.revision.was_refused);
        checks.append(&mut dry_runs);
        if !checks.is_empty() {
            return checks;
        }
        if let Some((at, _)) = leader {
            let pass = &mut self.objects[at.phase][at.object];
            pass.write_first();
            if let NextAction::Write(request) = pass.next_action() {
                return vec![(at, request)];
            }
        }
        if !is_stopped {
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

    /// Ends the pass with the most serious kind of problem, if any.
    fn fail(&mut self, problems: Vec<(Problem, Position, String)>) {
        let Some(worst) = problems.iter().map(|(problem, ..)| *problem).min() else {
            return;
        };
        let (reason, result): (_, fn(Vec<String>) -> PassResult) = match worst {
            Problem::Violation => (Reason::PreflightError, PassResult::Preflight),
            Problem::WriteRefused => (Reason::WriteError, PassResult::WriteError),
            Problem::Failed => (Reason::WriteError, PassResult::Failed),
            Problem::Collision => (Reason::CollisionDetected, |texts| {
                PassResult::Collision(texts.concat())
            }),
        };
        let mut texts = Vec::new();
        for (_, at, text) in problems
            .into_iter()
            .filter(|(problem, ..)| *problem == worst)
        {
            self.wait_for(at, reason, &text);
            let object = &self.objects[at.phase][at.object];
            // A user can allow the change of a definition by an annotation on the object.
            let is_changed = is_definition(&object.desired.gvk) && object.live().is_some();
            if worst == Problem::Collision || is_changed {
                let version = object
                    .live()
                    .map_or("", |it| metadata(it, "resourceVersion"));
                self.blockers.push((at, version.to_owned()));
            }
            texts.push(text);
        }
        self.result = Some(result(texts));
    }

    /// Probes the objects of the current phase, and continues with the next phase if they pass.
    fn finish_phase(&mut self, phase: &Phase) {
        let mut failures = Joined::default();
        for (object, desired) in phase.objects.iter().enumerate() {
            let at = Position {
                phase: self.phase,
                object,
            };
            if self.held.contains_key(&at) {
                continue;
            }
            let Some(Failure { messages, cause }) = self.probe(at) else {
                continue;
            };
            let key = &desired.key;
            if let Some(waiting) = self.wait_for(at, Reason::ProbeFailure, &messages) {
                waiting.cause = cause;
            }
            failures.push(&format!(
                "{} {} {}/{}: {messages}",
                key.group, key.kind, key.namespace, key.name
            ));
        }
        if let Some(result) = self.held_result() {
            self.result = Some(result);
        } else if failures.is_empty() {
            self.phase += 1;
        } else {
            self.result = Some(PassResult::ProbeFailure {
                phase: phase.name.clone(),
                failures: failures.into_text(),
            });
        }
    }

    /// The reason why an object does not pass its probes; `None` if it passes.
    fn probe(&mut self, at: Position) -> Option<Failure> {
        let object = &self.objects[at.phase][at.object];
        if let NextAction::Wait(text) = object.next_action() {
            // An object of somebody else is taken over when it is gone.
            let blocker = object.unowned_version().map(|it| (at, it.to_owned()));
            self.blockers.extend(blocker);
            return Some(text.into());
        }
        let ended = object.ended().map(|(last, _)| last);
        if ended.is_none()
            && let Some(end) = object.recorded_end()
        {
            return end.message.clone().map(Failure::from);
        }
        let Some(live) = object.live().or(ended) else {
            return Some("not found".to_owned().into());
        };
        let Desired {
            key, lacks, reason, ..
        } = object.desired;
        let probes = self.snapshot.probes;
        let failure = match probes.evaluate(&mut self.budget, &key.group, &key.kind, live) {
            Verdict::True => None,
            Verdict::False(messages) | Verdict::Unknown(messages) => {
                let messages = messages.join(", ");
                // The account's right to read an object is checked only if the object is probed.
                let cause = reason.clone().or_else(|| workload::own_reason(key, live));
                let messages = match &cause {
                    Some(cause) => workload::with_reason(&messages, cause),
                    None => messages,
                };
                Some(Failure { messages, cause })
            }
        };
        let lacks = lacks.clone().filter(|_| live["status"]["phase"] != "Bound");
        match (failure, lacks) {
            (Some(mut failure), Some(lacks)) => {
                failure.messages = format!("{}, {lacks}", failure.messages);
                Some(failure)
            }
            (failure, lacks) => failure.or_else(|| lacks.map(Failure::from)),
        }
    }

    /// Ends the pass.
    ///
    /// # Panics
    /// If [`Pass::step`] has not returned [`Step::Done`] yet.
    pub fn outcome(mut self) -> Outcome {
        let (ended, away) = (self.ended(), self.away());
        let mut outcome = Outcome {
            result: self
                .result
                .expect("a pass is asked for its outcome when it is done"),
            controller_of: Vec::new(),
            controls_all: true,
            away,
            ended,
            waiting_for: self.waiting_for,
            remote_phases: Vec::new(),
            pause_agreed: true,
            mapped: Vec::new(),
            stopped_for: None,
            writes: Vec::new(),
            learned: Vec::new(),
            blockers: self.blockers,
            failing_for: Duration::ZERO,
            delayed_for: None,
        };
        let paused = self.snapshot.revision.is_paused();
        for (phase, objects) in self.objects.into_iter().enumerate() {
            if let Some(Delegate { delegated, .. }) = &self.delegates[phase] {
                let state = delegated.state.as_ref().filter(|state| state.is_ours);
                let wanted = &self.snapshot.phases[phase].objects;
                let keys = || wanted.iter().map(|it| (&it.key, &*it.written_namespace));
                let (controlled, ended) = state.map_or_else(Default::default, |state| {
                    (state.controlled(keys()), state.ended(keys()))
                });
                let is_gone = |end: &&EndedObject| !controlled.iter().any(|it| end.is(it));
                let count = controlled.len() + ended.iter().filter(is_gone).count();
                outcome.controls_all &= count >= wanted.len();
                outcome.ended.extend(ended);
                outcome.controller_of.extend(controlled);
                outcome.remote_phases.extend(delegated.reference());
                if let Some(state) = state {
                    outcome.pause_agreed &= state.reports_pause() == paused;
                    outcome.mapped.extend(state.mapped());
                }
            }
            for (object, pass) in objects.into_iter().enumerate() {
                let at = Position { phase, object };
                let Desired { key, mappings, .. } = pass.desired;
                if pass.is_controlled() {
                    outcome.controller_of.push(controlled_reference(key));
                } else if !matches!(self.held.get(&at), Some(KindProblem::Away(_))) {
                    outcome.controls_all &= pass.has_ended();
                }
                if let Some(live) = pass.live().filter(|_| pass.desired.hidden.is_none()) {
                    outcome.mapped.extend(mapped(mappings, live));
                }
                outcome
                    .learned
                    .extend(pass.learned.map(|settled| (at, settled)));
                outcome.writes.extend(pass.write.map(|write| (at, write)));
            }
        }
        stopped_as_a_whole(&mut outcome.mapped, self.delegates.iter().flatten().count());
        outcome
    }
}
