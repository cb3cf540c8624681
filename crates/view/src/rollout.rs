//! The progress of a chain: whether it is rolled out, and if not, why.

pub mod refusals;

use baton_apis::{
    WaitingForObject,
    conditions::{self, reasons::PROGRESS_DEADLINE_EXCEEDED},
};
use serde::Serialize;

use crate::{
    chain::{
        Chain,
        member::{Revision, State},
        target::Target,
    },
    content::Slices,
};

/// Whether waiting is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// The wanted content is rolled out and available.
    Done,
    /// It is not, or not yet.
    Underway,
    /// It is not, and waiting is of no use: the deadline has passed, or it is archived or being deleted.
    Failed,
}

/// The progress of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rollout {
    /// Whether it is rolled out.
    pub outcome: Outcome,
    /// Why the outcome is what it is.
    pub reason: Reason,
    /// True if the deployment is paused while something is still to be done.
    pub paused: bool,
    /// How many objects are written and not waited for.
    pub ready: u64,
    /// How many objects there are to be; zero where that is unknown.
    pub of: u64,
}

/// The state of a chain, or the cause of its wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Reason {
    /// The deployment is being deleted.
    DeploymentDeleting(Target),
    /// The status of the deployment is not about its present spec.
    DeploymentUnobserved,
    /// A message of the manager.
    Reported(String),
    /// There is no revision yet.
    NoRevision,
    /// The first object that the revision waits for, and how many more there are.
    WaitingFor(WaitingForObject, usize),
    /// The state of the revision.
    Revision(Title, RevisionReason),
}

/// The state of the revision of a chain, or the cause of its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RevisionReason {
    /// It is being deleted.
    Deleting,
    /// It is archived.
    Archived,
    /// Its objects are being torn down.
    Archiving,
    /// Its status is not about its present spec.
    Unobserved,
    /// It is available, and has to stay so for its success delay.
    SuccessDelay,
    /// It is available, and the deployment has not reported that yet.
    DeploymentBehind,
    /// It is rolled out and available.
    Available,
}

/// Name and number of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Title {
    /// Its number, once it has one.
    pub number: Option<i64>,
    /// Its name.
    pub name: String,
}

impl Title {
    /// That of a revision.
    #[must_use]
    pub fn of(revision: &Revision) -> Self {
        Self {
            number: revision.number(),
            name: revision.name().to_owned(),
        }
    }
}

/// Judges a chain: of a deployment its current revision, or the revision that was named.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec.
pub fn judge(chain: &Chain, slices: &Slices) -> Rollout {
    let subject = chain.subject();
    let (ready, of) = subject.map_or((0, 0), |revision| count(revision, slices));
    let (outcome, reason) = outcome(chain);
    let is_held = !matches!(reason, Reason::DeploymentUnobserved | Reason::NoRevision);
    let deployment = chain.deployment.as_ref();
    Rollout {
        paused: outcome == Outcome::Underway
            && is_held
            && deployment.is_some_and(|deployment| deployment.spec.paused),
        outcome,
        reason,
        ready,
        of,
    }
}

fn outcome(chain: &Chain) -> (Outcome, Reason) {
    use Outcome::{Done, Failed, Underway};
    let subject = chain.subject();
    if let Some(deployment) = chain.asked_deployment() {
        if deployment.is_deleting() {
            return (Failed, Reason::DeploymentDeleting(deployment.target()));
        }
        if !deployment.is_observed() {
            return (Underway, Reason::DeploymentUnobserved);
        }
        let progressing = deployment.condition(conditions::PROGRESSING);
        if let Some(condition) = progressing
            && condition.status == "False"
            && condition.reason == PROGRESS_DEADLINE_EXCEEDED
        {
            return (Failed, Reason::Reported(condition.message.clone()));
        }
        if subject.is_none() {
            let message = progressing.map(|condition| condition.message.clone());
            return (Underway, Reason::Reported(message.unwrap_or_default()));
        }
    }
    let Some(revision) = subject else {
        return (Underway, Reason::NoRevision);
    };
    let is = |outcome, reason| (outcome, Reason::Revision(Title::of(revision), reason));
    match revision.state() {
        State::Deleting => return is(Failed, RevisionReason::Deleting),
        State::Archived => return is(Failed, RevisionReason::Archived),
        State::Archiving => return is(Failed, RevisionReason::Archiving),
        _ => {}
    }
    let available = revision
        .condition(conditions::AVAILABLE)
        .filter(|condition| condition.observed_generation == revision.metadata.generation);
    match available {
        None => is(Underway, RevisionReason::Unobserved),
        Some(condition) if condition.status != "True" => {
            (Underway, waits(revision, &condition.message))
        }
        Some(_) if !revision.has_succeeded() => is(Underway, RevisionReason::SuccessDelay),
        Some(_) => {
            // The deployment's report follows that of the revision.
            let deployment = chain.asked_deployment();
            if deployment.is_some_and(|it| !it.is_true(conditions::AVAILABLE)) {
                return is(Underway, RevisionReason::DeploymentBehind);
            }
            is(Done, RevisionReason::Available)
        }
    }
}

/// What the first object that is waited for lacks; else what the condition says.
fn waits(revision: &Revision, condition: &str) -> Reason {
    match &revision.status.waiting_for[..] {
        [] => Reason::Reported(condition.to_owned()),
        [first, more @ ..] => Reason::WaitingFor(first.clone(), more.len()),
    }
}

/// Objects that are fine, and objects that are wanted.
fn count(revision: &Revision, slices: &Slices) -> (u64, u64) {
    let Some(of) = slices.count(revision) else {
        return (0, 0);
    };
    let controlled = &revision.status.controller_of;
    let waiting = revision.status.waiting_for.iter().filter(|waiting| {
        controlled.iter().any(|own| {
            own.group == waiting.group
                && own.kind == waiting.kind
                && own.name == waiting.name
                && own.namespace == waiting.namespace
        })
    });
    let ready = controlled.len().saturating_sub(waiting.count());
    (ready as u64, of as u64)
}
