//! The state of an object in the three conditions of general tools: `Ready`, `Reconciling`,
//! `Stalled`.
//!
//! They follow the conventions of kstatus, on which Flux, Argo CD, Helm and others rely: `Ready` is
//! always present, `Reconciling` and `Stalled` only while they are true, and
//! `status.observedGeneration` is the generation of the spec that all of them are about. They
//! repeat the other conditions in general words, and are derived from those alone.
//!
//! Observable behaviour: `docs/contract/status.md`.

#[cfg(test)]
mod tests;

use baton_apis::{
    ObjectDeploymentStatusPhase,
    conditions::{
        ABORTED, ARCHIVED, AVAILABLE, PAUSED, PLACED, PROGRESSING, READY, RECONCILING, Reason,
        STALLED, SUCCEEDED, messages,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{condition_list::Conditions, texts::truncate};

/// Greatest length of the message of the three conditions, in bytes: it is one column of a table.
/// The condition that it is taken from has the whole text.
const MAX_MESSAGE: usize = 256;

/// The state of an object in the terms of general tools.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Readiness {
    /// The object has the wanted state.
    Ready,
    /// The object does not have the wanted state, and work continues. `Ready` is false or unknown.
    Reconciling { ready: &'static str },
    /// The object does not have the wanted state, and will not get it until somebody changes
    /// something.
    Stalled,
    /// The object does not have the wanted state, and no controller is working on it: it is paused, or
    /// lost the state after it had it.
    NotReady,
    /// The object has no state to wait for, because it is an archived revision.
    AtRest,
}

/// A readiness, with reason and message of the condition that it is derived from.
struct Verdict {
    readiness: Readiness,
    reason: String,
    message: String,
}

impl Verdict {
    fn new(readiness: Readiness, reason: &str, message: &str) -> Self {
        Self {
            readiness,
            reason: reason.to_owned(),
            message: truncate(message, MAX_MESSAGE).into_owned(),
        }
    }

    fn of(readiness: Readiness, why: &Condition) -> Self {
        Self::new(readiness, &why.reason, &why.message)
    }

    fn write(self, conditions: &mut Conditions) {
        let (ready, other) = match self.readiness {
            Readiness::Ready => (Some("True"), None),
            Readiness::Reconciling { ready } => (Some(ready), Some(RECONCILING)),
            Readiness::Stalled => (Some("False"), Some(STALLED)),
            Readiness::NotReady => (Some("False"), None),
            Readiness::AtRest => (None, None),
        };
        let others = [RECONCILING, STALLED].map(|it| (it, (other == Some(it)).then_some("True")));
        for (type_, status) in [(READY, ready)].into_iter().chain(others) {
            match status {
                Some(status) => conditions.copy(type_, status, &self.reason, &self.message),
                None => conditions.remove(type_),
            }
        }
    }
}

/// Updates the three conditions of a revision, or of a delegated phase, from its other conditions.
///
/// If `waits_for_success`, it is ready only after it has succeeded; this is so for revisions, but
/// not for phases.
///
/// Returns the generation that the status as a whole reports on: the present one, unless the pass
/// ended before there was anything to report.
pub(crate) fn set_of_revision(
    conditions: &mut Conditions,
    observed: Option<i64>,
    waits_for_success: bool,
) -> Option<i64> {
    let generation = conditions.generation();
    let current = |type_: &str| {
        let found = conditions.get(type_);
        found.filter(|condition| condition.observed_generation == Some(generation))
    };
    let is_true = |type_: &str| conditions.is_true(type_);
    let verdict = match (current(ARCHIVED), current(AVAILABLE)) {
        (Some(archived), _) if archived.status == "True" => {
            Verdict::of(Readiness::AtRest, archived)
        }
        (Some(archiving), _) => Verdict::of(Readiness::Reconciling { ready: "False" }, archiving),
        (None, Some(available)) if available.status == "True" => {
            if waits_for_success && !is_true(SUCCEEDED) {
                let readiness = Readiness::Reconciling { ready: "False" };
                Verdict::new(
                    readiness,
                    Reason::SuccessDelay.as_str(),
                    messages::SUCCESS_DELAY,
                )
            } else {
                Verdict::of(Readiness::Ready, available)
            }
        }
        (None, Some(available)) => Verdict::of(unavailable(available, is_true(PAUSED)), available),
        // A request failed before there was anything to report, so the conditions are those of an
        // earlier spec.
        (None, None) => return observed,
    };
    verdict.write(conditions);
    Some(generation)
}

/// The readiness of a revision that is not available.
fn unavailable(available: &Condition, is_paused: bool) -> Readiness {
    if Reason::is_in(&available.reason, &Reason::REFUSALS) {
        Readiness::Stalled
    } else if available.status == "Unknown" {
        Readiness::Reconciling { ready: "Unknown" }
    } else if is_paused {
        Readiness::NotReady
    } else {
        Readiness::Reconciling { ready: "False" }
    }
}

/// Updates the three conditions of a rollout over sites from its other conditions.
///
/// The rollout is stalled if it was aborted, if the request is invalid or impossible, and if it is
/// complete except for sites that were not assigned to it. A rollout that waits for a version to
/// appear continues by itself.
pub fn set_of_rollout(conditions: &mut Conditions) {
    let is = |type_: &str, status: &str| {
        let found = conditions.get(type_);
        found.filter(|condition| condition.status == status)
    };
    let Some(progressing) = conditions.get(PROGRESSING) else {
        return;
    };
    let is_over = progressing.status == "False";
    let cannot = [Reason::InvalidStrategy, Reason::NumbersExhausted];
    let cannot = is_over && Reason::is_in(&progressing.reason, &cannot);
    let is_complete = is_over && progressing.reason == Reason::Complete;
    let verdict = if let Some(aborted) = is(ABORTED, "True") {
        Verdict::of(Readiness::Stalled, aborted)
    } else if cannot {
        Verdict::of(Readiness::Stalled, progressing)
    } else if let Some(unplaced) = is(PLACED, "False").filter(|_| is_over) {
        Verdict::of(Readiness::Stalled, unplaced)
    } else if !is_complete {
        Verdict::of(Readiness::Reconciling { ready: "False" }, progressing)
    } else if let Some(available) = is(AVAILABLE, "Unknown") {
        Verdict::of(Readiness::Reconciling { ready: "Unknown" }, available)
    } else if let Some(available) = is(AVAILABLE, "False") {
        Verdict::of(Readiness::NotReady, available)
    } else {
        Verdict::of(Readiness::Ready, progressing)
    };
    verdict.write(conditions);
}

/// Updates the three conditions of a deployment from its other conditions and its current revision.
/// `stalled` is the revision's condition of this type, if it is true, and `available` its present
/// one.
///
/// Returns the state in one word.
pub(crate) fn set_of_deployment(
    conditions: &mut Conditions,
    stalled: Option<&Condition>,
    available: Option<&Condition>,
) -> ObjectDeploymentStatusPhase {
    use ObjectDeploymentStatusPhase as Phase;
    let Some(progressing) = conditions.get(PROGRESSING) else {
        return Phase::Pending;
    };
    let failures = [
        Reason::ObjectSetCreateError,
        Reason::ProgressDeadlineExceeded,
        Reason::NumbersExhausted,
        Reason::RevisionRepeated,
    ];
    let has_failed = Reason::is_in(&progressing.reason, &failures);
    let (verdict, phase) = match (stalled, available) {
        _ if has_failed => (Verdict::of(Readiness::Stalled, progressing), Phase::Failed),
        (Some(stalled), _) => (Verdict::of(Readiness::Stalled, stalled), Phase::Failed),
        _ if progressing.status != "False" => {
            let readiness = Readiness::Reconciling { ready: "False" };
            (Verdict::of(readiness, progressing), Phase::Progressing)
        }
        // The revision had succeeded.
        (None, Some(available)) if available.status != "True" => {
            let readiness = match &*available.status {
                "Unknown" => Readiness::Reconciling { ready: "Unknown" },
                _ => Readiness::NotReady,
            };
            (Verdict::of(readiness, available), Phase::NotReady)
        }
        // No write is pending; this includes a template without phases.
        (None, _) => (Verdict::of(Readiness::Ready, progressing), Phase::Ready),
    };
    verdict.write(conditions);
    phase
}
