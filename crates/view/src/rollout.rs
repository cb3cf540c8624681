//! The progress of a chain, and the reason if it is not rolled out.

pub mod refusals;

use baton_apis::{
    WaitingForObject,
    conditions::{self, Reason::ProgressDeadlineExceeded},
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

/// The outcome of a rollout: done, underway, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// The wanted content is rolled out and available.
    Done,
    /// The content is not rolled out or not available yet.
    Underway,
    /// The rollout has failed, and waiting is of no use: the deadline has passed, or the revision
    /// is archived or being deleted.
    Failed,
}

/// The progress of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rollout {
    /// The outcome of the rollout.
    pub outcome: Outcome,
    /// The reason of the outcome.
    pub reason: Reason,
    /// True if the deployment is paused before the rollout is done.
    pub paused: bool,
    /// Number of objects that are written and not waited for. Objects that have ended count, also
    /// after their deletion.
    pub ready: u64,
    /// Number of objects that are wanted; zero if it is unknown.
    pub of: u64,
}

/// The state of a chain, or the reason that it waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Reason {
    /// The deployment is being deleted.
    DeploymentDeleting(Target),
    /// The status of the deployment was not reported for the present spec.
    DeploymentUnobserved,
    /// A message of the manager.
    Reported(String),
    /// There is no revision yet.
    NoRevision,
    /// The first object that the revision waits for, and the number of further ones.
    WaitingFor(WaitingForObject, usize),
    /// The state of the revision.
    Revision(Title, RevisionReason),
}

/// The state of a revision, or the reason that it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RevisionReason {
    /// The revision is being deleted.
    Deleting,
    /// The revision is archived.
    Archived,
    /// The objects of the revision are being torn down.
    Archiving,
    /// The status of the revision was not reported for the present spec.
    Unobserved,
    /// The revision is available, and has to stay available for its success delay.
    SuccessDelay,
    /// The revision is available, and the deployment has not reported it yet.
    DeploymentBehind,
    /// The revision is rolled out and available.
    Available,
}

/// Name and number of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Title {
    /// Number of the revision; `None` if none is assigned yet.
    pub number: Option<i64>,
    /// Name of the revision.
    pub name: String,
}

impl Title {
    /// The title of a revision.
    #[must_use]
    pub fn of(revision: &Revision) -> Self {
        Self {
            number: revision.number(),
            name: revision.name().to_owned(),
        }
    }
}

/// Judges a chain: the current revision of a deployment, or the revision that the user named.
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
            && condition.reason == ProgressDeadlineExceeded
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
            // The deployment reports after its revision.
            let deployment = chain.asked_deployment();
            if deployment.is_some_and(|it| !it.is_true(conditions::AVAILABLE)) {
                return is(Underway, RevisionReason::DeploymentBehind);
            }
            is(Done, RevisionReason::Available)
        }
    }
}

/// The first object that the revision waits for, or else the message of the condition.
fn waits(revision: &Revision, condition: &str) -> Reason {
    match &revision.status.waiting_for[..] {
        [] => Reason::Reported(condition.to_owned()),
        [first, more @ ..] => Reason::WaitingFor(first.clone(), more.len()),
    }
}

/// Number of ready objects, and number of wanted objects.
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
    let ready = written(revision).saturating_sub(waiting.count() as u64);
    (ready, of as u64)
}

/// Number of objects that the revision has written: those that it controls, and those that have
/// ended and were deleted.
pub fn written(revision: &Revision) -> u64 {
    let controlled = &revision.status.controller_of;
    let mut ended = revision.status.ended.clone();
    ended.retain(|ended| !controlled.iter().any(|own| ended.is(own)));
    (controlled.len() + ended.len()) as u64
}
