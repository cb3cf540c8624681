//! Objects that a pass leaves out because their kinds are not served, or do not answer.
//!
//! Such an object stops neither the other objects of its phase nor those before. Its own phase does
//! not pass.

use std::collections::BTreeMap;

use baton_apis::conditions::Reason;

use super::{Pass, PassResult, Position, Snapshot};
use crate::{
    object::controlled_reference,
    object_pass::ObjectPass,
    revision::{KindProblem, Phase, violations},
};
use baton_apis::ControlledObjectReference;

/// The objects that are left out, with the reasons.
pub(super) type Held = BTreeMap<Position, KindProblem>;

/// Finds the objects to leave out in the phases that are not delegated.
pub(super) fn held(snapshot: &Snapshot<'_>, objects: &[Vec<ObjectPass<'_>>]) -> Held {
    let phases = objects.iter().enumerate();
    let all = phases.flat_map(|(phase, objects)| {
        let objects = objects.iter().enumerate();
        objects.map(move |(object, pass)| (Position { phase, object }, pass))
    });
    all.filter_map(|(at, pass)| Some((at, KindProblem::of(pass.desired, snapshot.kinds)?)))
        .collect()
}

impl Pass<'_> {
    /// The violations of the current phase, if one of them stops the phase.
    pub(super) fn stopping_violations(&self, phase: &Phase) -> Vec<String> {
        let found = violations(self.snapshot.revision, phase, self.snapshot.kinds);
        let held = self.held.iter().filter(|(at, _)| at.phase == self.phase);
        let unserved = held.filter(|(_, problem)| matches!(problem, KindProblem::Unserved(_)));
        if found.len() > unserved.count() {
            found
        } else {
            Vec::new()
        }
    }

    /// The result of the current phase if objects of it are left out.
    pub(super) fn held_result(&mut self) -> Option<PassResult> {
        let phase = self.phase;
        let held = self.held.iter().filter(|(at, _)| at.phase == phase);
        let held: Vec<_> = held.map(|(at, it)| (*at, it.clone())).collect();
        let (mut unserved, mut away) = (Vec::new(), Vec::new());
        for (at, problem) in held {
            let position = at.of(self.snapshot.phases);
            let position = position.position(&self.snapshot.phases[phase].name);
            let (reason, text, texts) = match problem {
                KindProblem::Unserved(text) => (Reason::PreflightError, text, &mut unserved),
                KindProblem::Away(text) => (Reason::ListFailed, text, &mut away),
            };
            let text = format!("{position}: {text}");
            texts.push(text.clone());
            self.wait_for(at, reason, &text);
        }
        if !unserved.is_empty() {
            Some(PassResult::Preflight(unserved))
        } else if !away.is_empty() {
            Some(PassResult::Away(away))
        } else {
            None
        }
    }

    /// The result of the checks of all phases if objects cannot be checked.
    pub(super) fn unchecked(&mut self) -> Option<PassResult> {
        let away = self.held.iter().filter_map(|(at, problem)| match problem {
            KindProblem::Away(text) => {
                let phase = &self.snapshot.phases[at.phase].name;
                let position = at.of(self.snapshot.phases).position(phase);
                Some(format!("{position}: {text}"))
            }
            KindProblem::Unserved(_) => None,
        });
        let away: Vec<String> = away.collect();
        (!away.is_empty()).then_some(PassResult::Away(away))
    }

    /// The objects whose state is unknown because their kinds are away.
    pub(super) fn away(&self) -> Vec<ControlledObjectReference> {
        let away = self
            .held
            .iter()
            .filter(|(_, it)| matches!(it, KindProblem::Away(_)));
        away.map(|(at, _)| controlled_reference(&at.of(self.snapshot.phases).key))
            .collect()
    }
}
