//! The state of an object in the three conditions that general tools know: `Ready`, `Reconciling`, `Stalled`.
//!
//! They follow the conventions of kstatus, which Flux, Argo CD, Helm and others wait by: `Ready` is always there,
//! `Reconciling` and `Stalled` only while they are true, and `status.observedGeneration` says of which spec all of
//! it is. They repeat in general words what the other conditions say, and are derived from those alone.
//!
//! What clients can observe of it: `docs/contract/status.md`.

#[cfg(test)]
mod tests;

use baton_apis::{
    ObjectDeploymentStatusPhase,
    conditions::{
        ABORTED, ARCHIVED, AVAILABLE, PAUSED, PLACED, PROGRESSING, READY, RECONCILING, STALLED,
        SUCCEEDED, messages, reasons,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{condition_list::Conditions, texts::cut};

/// Longest message of the three, in bytes: it is one column of a table. The whole text is in the condition that it
/// was taken from.
const MAX_MESSAGE: usize = 256;

/// What is to be expected of an object, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Readiness {
    /// All that was asked for is there.
    Ready,
    /// It is not, and work goes on. `Ready` is false, or unknown.
    Reconciling { ready: &'static str },
    /// It is not, and will not be unless somebody changes something.
    Stalled,
    /// It was, and is not now: nothing is to be written.
    NotReady,
    /// There is nothing to be ready: an archived revision.
    AtRest,
}

/// A readiness with the reason and the message of the condition that says why.
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
            message: cut(message, MAX_MESSAGE).into_owned(),
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
                Some(status) => conditions.set(type_, status, &self.reason, &self.message),
                None => conditions.remove(type_),
            }
        }
    }
}

/// Brings the three conditions of a revision, or of a delegated phase, in step with its others.
///
/// `waits_for_success`: whether it is ready only when it has succeeded, as revisions are; phases never say that.
///
/// Returns the generation that the status as a whole was reported for: the present one, unless the pass ended before
/// there was anything to say of it.
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
                Verdict::new(readiness, reasons::SUCCESS_DELAY, messages::SUCCESS_DELAY)
            } else {
                Verdict::of(Readiness::Ready, available)
            }
        }
        (None, Some(available)) => Verdict::of(unavailable(available, is_true(PAUSED)), available),
        // A request failed before there was anything to say: what stands there is of an earlier spec.
        (None, None) => return observed,
    };
    verdict.write(conditions);
    Some(generation)
}

/// What is to be expected of a revision that is not available.
fn unavailable(available: &Condition, is_paused: bool) -> Readiness {
    if reasons::REFUSALS.contains(&&*available.reason) {
        Readiness::Stalled
    } else if available.status == "Unknown" {
        Readiness::Reconciling { ready: "Unknown" }
    } else if is_paused {
        Readiness::NotReady
    } else {
        Readiness::Reconciling { ready: "False" }
    }
}

/// Brings the three conditions of a rollout over sites in step with its others.
///
/// It is stalled when it was aborted, when what is asked for cannot be done or understood, and when it is complete but
/// for sites that it was not given; what waits for a version to appear goes on by itself.
pub fn set_of_rollout(conditions: &mut Conditions) {
    let is = |type_: &str, status: &str| {
        let found = conditions.get(type_);
        found.filter(|condition| condition.status == status)
    };
    let Some(progressing) = conditions.get(PROGRESSING) else {
        return;
    };
    let is_over = progressing.status == "False";
    let cannot = [reasons::INVALID_STRATEGY, reasons::NUMBERS_EXHAUSTED];
    let cannot = is_over && cannot.contains(&&*progressing.reason);
    let is_complete = is_over && progressing.reason == reasons::COMPLETE;
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

/// Brings the three conditions of a deployment in step with its others and with its current revision: `stalled` is
/// that revision's condition of this type, if it is true, and `available` how it stands now.
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
    let has_failed = [
        reasons::OBJECT_SET_CREATE_ERROR,
        reasons::PROGRESS_DEADLINE_EXCEEDED,
        reasons::NUMBERS_EXHAUSTED,
        reasons::REVISION_REPEATED,
    ]
    .contains(&&*progressing.reason);
    let (verdict, phase) = match (stalled, available) {
        _ if has_failed => (Verdict::of(Readiness::Stalled, progressing), Phase::Failed),
        (Some(stalled), _) => (Verdict::of(Readiness::Stalled, stalled), Phase::Failed),
        _ if progressing.status != "False" => {
            let readiness = Readiness::Reconciling { ready: "False" };
            (Verdict::of(readiness, progressing), Phase::Progressing)
        }
        // It had succeeded.
        (None, Some(available)) if available.status != "True" => {
            let readiness = match &*available.status {
                "Unknown" => Readiness::Reconciling { ready: "Unknown" },
                _ => Readiness::NotReady,
            };
            (Verdict::of(readiness, available), Phase::NotReady)
        }
        // Nothing is left to do, also where the template asks for nothing.
        (None, _) => (Verdict::of(Readiness::Ready, progressing), Phase::Ready),
    };
    verdict.write(conditions);
    phase
}
