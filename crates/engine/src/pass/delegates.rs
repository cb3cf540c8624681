//! The delegated phases of a pass.

use std::mem;

use baton_apis::conditions::Reason;

use super::{Pass, PassResult, Step};
use crate::{
    delegated::{Delegated, Delegation, DelegationAnswer, PhaseReport},
    revision::Phase,
};

/// The phase object of a delegated phase, and the progress of the pass with it.
#[derive(Clone, Debug)]
pub(super) struct Delegate {
    pub delegated: Delegated,
    /// The answer to the last request, if it had no object.
    problem: Option<DelegationAnswer>,
    /// True if the pause was requested in this pass. A webhook can revert it, so it is not
    /// requested again.
    is_pause_sent: bool,
}

impl Delegate {
    /// Returns `None` for a phase that is run in-process.
    pub fn of(phase: &Phase) -> Option<Self> {
        phase.delegated.clone().map(|delegated| Self {
            delegated,
            problem: None,
            is_pause_sent: false,
        })
    }
}

impl Pass<'_> {
    /// The next request that pauses or resumes a phase object like the revision; `None` if all
    /// requests were made. Phases that the pass does not reach are included.
    pub(super) fn pause_delegates(&mut self) -> Option<Step> {
        let paused = self.snapshot.revision.is_paused();
        let mut delegates = self.delegates.iter_mut().enumerate();
        delegates.find_map(|(index, delegate)| {
            let delegate = delegate.as_mut()?;
            let state = delegate.delegated.state.as_ref()?;
            let differs = state.is_ours && !state.is_deleting && state.paused != paused;
            (differs && !mem::replace(&mut delegate.is_pause_sent, true))
                .then_some(Step::Delegate(index, Delegation::Pause(paused)))
        })
    }

    /// Creates the phase objects of all phases if the revision wants that, also those of phases
    /// that the pass does not reach.
    ///
    /// If one cannot be created, the pass ends at its phase. If an invalid name or class is the
    /// reason, none is created.
    pub(super) fn create_delegates_ahead(&mut self) -> Option<Step> {
        if !self.snapshot.revision.delegates_ahead || self.result.is_some() {
            return None;
        }
        let missing = |delegate: &Delegate| delegate.delegated.state.is_none();
        let delegates = || {
            let delegates = self.delegates.iter().enumerate();
            let delegates = delegates.filter_map(|(at, it)| Some((at, it.as_ref()?)));
            delegates.filter(|(_, delegate)| missing(delegate))
        };
        let is_refused = |delegate: &Delegate| {
            delegate.problem.is_some() || delegate.delegated.violation().is_some()
        };
        if let Some((at, _)) = delegates().find(|(_, delegate)| is_refused(delegate)) {
            self.phase = at;
            return None;
        }
        let (at, delegate) = delegates().next()?;
        let manifest = delegate.delegated.manifest.clone();
        Some(Step::Delegate(at, Delegation::Create(manifest)))
    }

    /// Returns the next request about the current, delegated phase; `None` if the phase has passed
    /// or failed.
    pub(super) fn delegate(&mut self, phase: &Phase) -> Option<Delegation> {
        let Some(Delegate {
            delegated, problem, ..
        }) = &self.delegates[self.phase]
        else {
            return None;
        };
        let at = |text: &str| {
            format!(
                "Phase \"{}\", {} {}: {text}",
                phase.name, delegated.kind, delegated.name
            )
        };
        let preflight = |text: String| {
            let result = PassResult::Preflight(vec![text.clone()]);
            (Reason::PreflightError, text, result)
        };
        let failed = |text: &str| {
            let result = PassResult::Failed(vec![at(text)]);
            (Reason::WriteError, at(text), result)
        };
        let (mut reason, message, result) = match (problem, &delegated.state) {
            (Some(DelegationAnswer::Refused(text)), _) => preflight(at(text)),
            (Some(DelegationAnswer::Failed(text)), _) => failed(text),
            (Some(_), _) => failed("it has changed meanwhile"),
            (None, None) => match delegated.violation() {
                Some(text) => preflight(format!("Phase \"{}\", {text}", phase.name)),
                None => return Some(Delegation::Create(delegated.manifest.clone())),
            },
            (None, Some(state)) if !state.is_ours => {
                let text = at("refusing adoption, it belongs to another owner, or to none");
                let result = PassResult::Collision(text.clone());
                (Reason::CollisionDetected, text, result)
            }
            (None, Some(state)) => {
                let report = state.report();
                let (status, reason, message) = match report {
                    PhaseReport::Passed => {
                        self.phase += 1;
                        return None;
                    }
                    PhaseReport::Nothing => ("False", "", "no status reported"),
                    PhaseReport::Not(status, reason, message) => (status, reason, message),
                };
                let reason = Reason::of_available(reason).unwrap_or(Reason::ProbeFailure);
                let result = PassResult::Delegated {
                    phase: phase.name.clone(),
                    status: status.to_owned(),
                    reason,
                    message: message.to_owned(),
                    is_silent: report == PhaseReport::Nothing,
                };
                (reason, message.to_owned(), result)
            }
        };
        if matches!(
            &result,
            PassResult::Delegated {
                is_silent: true,
                ..
            }
        ) {
            reason = Reason::NotReported;
        }
        let waiting = delegated.waiting(&phase.name, reason, &message);
        self.waiting_for.push(waiting);
        self.result = Some(result);
        None
    }

    /// Processes the answer to a request of [`Pass::step`] about a phase object.
    pub fn answer_delegation(&mut self, phase: usize, answer: DelegationAnswer) {
        if let Some(Some(delegate)) = self.delegates.get_mut(phase) {
            match answer {
                DelegationAnswer::Object(state) => delegate.delegated.state = Some(state),
                // The next pass creates the phase object again, or reads its present state.
                problem => delegate.problem = Some(problem),
            }
        }
    }
}
