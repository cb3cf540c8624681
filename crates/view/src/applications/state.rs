//! The progress of a rollout, and the reason that it waits.

use baton_apis::{
    ConditionStatus, Release, RolloutStep, ShipperCondition, StrategyState,
    conditions::{
        self,
        shipper::{
            ABORTING, BLOCKED, RELEASE_SYNCED, REPLACED, ROLLING_OUT, SCHEDULED, STRATEGY_EXECUTED,
            VALID_HISTORY,
        },
    },
};
use baton_engine::texts::collapse_whitespace;
use baton_releases::{
    application::history::HistoryEntry,
    conditions::find,
    hash::environment_hash,
    strategy::{
        achieved,
        order::{Direction, Position},
        state, steps,
    },
};
use serde::Serialize;

use super::{
    clusters::why,
    observed::{Observed, ReleaseTargetKind},
};
use crate::rollout::Outcome;

/// The state of an Application or a Release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The outcome; `Underway` if a command that waits should go on waiting.
    pub outcome: Outcome,
    /// Name of the Release that the reason is about; `None` for the Application.
    pub release: Option<String>,
    /// The reason of the outcome.
    pub reason: Reason,
    /// A condition of the Application that its Releases do not show.
    pub about: Option<String>,
}

impl Verdict {
    /// True if the rollout continues only after a promotion by a user.
    pub fn waits_for_command(&self) -> bool {
        matches!(self.reason, Reason::WaitsForCommand(_))
    }
}

/// The state of an Application or a Release, or the reason that it waits. Steps have the form of
/// `label`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// The named Release does not exist any more.
    ReleaseGone(String),
    /// The Application does not exist any more.
    Gone,
    /// The Application is being deleted.
    ApplicationDeleting,
    /// The order of the Releases is unknown, for this reason. The manager reports the reason as
    /// well.
    NoOrder(String),
    /// The Application has no Release.
    NoRelease,
    /// The newest Release was created from another template than the present one.
    TemplateChanged,
    /// The Release is being deleted, for this reason.
    Deleting(Option<String>),
    /// The Release has no generation.
    NoGeneration,
    /// The Release did not complete before this newer Release replaced it.
    Replaced(String),
    /// The Release was complete before this newer Release followed it.
    Follows(String),
    /// A rollout block stops the Release.
    Blocked(String),
    /// No clusters are selected for the Release.
    NotScheduled(String),
    /// The strategy of the Release cannot be followed.
    StrategyFailed(String),
    /// The strategy of the Release has no steps.
    NoSteps,
    /// The strategy of the Release lacks the wanted step.
    NoStep(i32),
    /// The wanted step was not reported yet.
    Unreported(String),
    /// The part that the wanted step waits for, the step, and the first message about the part.
    WaitsFor(ReleaseTargetKind, String, Option<String>),
    /// The Release has reached its last step.
    Complete(String),
    /// The Release has reached the wanted step, which is not the last one.
    WaitsForCommand(String),
    /// The wanted step is complete, but not recorded as reached.
    Unrecorded(String),
}

/// Reasons of an unscheduled Release that only another Release can avoid: the environment is
/// immutable.
const FINAL: [conditions::Reason; 4] = [
    conditions::Reason::BrokenChartSpec,
    conditions::Reason::DuplicateCapabilityRequirement,
    conditions::Reason::NoRegionsSpecified,
    conditions::Reason::WrongChartDeployments,
];

/// Judges the object that a user named: an Application by its newest Release, or one of its
/// Releases.
///
/// # Guarantees
/// `Done` only if the Release was created from the present template, is at its last step, and
/// everything that this step requests was reported.
pub fn judge(observed: &Observed) -> Verdict {
    match &observed.named {
        None => judge_application(observed),
        Some(name) => match observed.release(name) {
            Some(release) => judge_release(observed, release),
            None => of_application(Outcome::Failed, Reason::ReleaseGone(name.clone())),
        },
    }
}

fn of_application(outcome: Outcome, reason: Reason) -> Verdict {
    Verdict {
        outcome,
        release: None,
        reason,
        about: None,
    }
}

/// Judges an Application by its newest Release. The Release that the user named is ignored.
pub(super) fn judge_application(observed: &Observed) -> Verdict {
    let Some(application) = &observed.application else {
        return of_application(Outcome::Failed, Reason::Gone);
    };
    if application.metadata.deletion_timestamp.is_some() {
        return of_application(Outcome::Failed, Reason::ApplicationDeleting);
    }
    let history = match observed.history() {
        Ok(history) => history,
        Err(error) => {
            return of_application(Outcome::Underway, Reason::NoOrder(error.to_string()));
        }
    };
    let template = environment_hash(&application.spec.template);
    let verdict = match history.newest() {
        None => of_application(Outcome::Underway, Reason::NoRelease),
        Some(newest) if newest.hash() != template => {
            of_application(Outcome::Underway, Reason::TemplateChanged)
        }
        Some(newest) => judge_release(observed, &newest.release),
    };
    // A problem of the Application does not matter once the rollout is done.
    let is_underway = verdict.outcome == Outcome::Underway;
    Verdict {
        about: about(observed).filter(|_| is_underway),
        ..verdict
    }
}

/// The reason and message of a condition of an Application that its Releases do not show, if there
/// is one.
pub(super) fn about(observed: &Observed) -> Option<String> {
    use ConditionStatus::{False, True};
    let status = observed.application.as_ref()?.status.as_ref()?;
    let says = |type_, status_| with_status(&status.conditions, type_, status_);
    let found = says(BLOCKED, True)
        .or_else(|| says(VALID_HISTORY, False))
        .or_else(|| says(ABORTING, True))
        .or_else(|| says(RELEASE_SYNCED, False))
        // The condition has a reason only after a failure; without a reason, no rollout is under
        // way.
        .or_else(|| says(ROLLING_OUT, False).filter(|found| !found.reason.is_empty()));
    found.map(why)
}

fn with_status<'a>(
    conditions: &'a [ShipperCondition],
    type_: &str,
    status: ConditionStatus,
) -> Option<&'a ShipperCondition> {
    find(conditions, type_).filter(|condition| condition.status == status)
}

/// Judges a Release without its Application.
pub(super) fn judge_release(observed: &Observed, release: &Release) -> Verdict {
    let (outcome, reason) = outcome(observed, release);
    Verdict {
        release: release.metadata.name.clone(),
        ..of_application(outcome, reason)
    }
}

fn outcome(observed: &Observed, release: &Release) -> (Outcome, Reason) {
    use Outcome::{Done, Failed, Underway};
    if release.metadata.deletion_timestamp.is_some() {
        let status = release.status.as_ref();
        let replaced = status.and_then(|status| find(&status.conditions, REPLACED));
        let why = replaced.map(|replaced| collapse_whitespace(&replaced.message));
        return (Failed, Reason::Deleting(why));
    }
    let name = release.metadata.name.as_deref().unwrap_or_default();
    let history = observed.known_history();
    let members = history.living();
    let index = members.iter().position(|member| member.name() == name);
    let index = index.unwrap_or(members.len());
    if let Some(newer) = members.get(index + 1) {
        return replaced(release, members[index], newer);
    }
    if let Some(refused) = refused(release) {
        return refused;
    }
    let target = release.spec.target_step;
    let Some(step) = step_at(release, target) else {
        return match steps(release) {
            [] => (Failed, Reason::NoSteps),
            _ => (Failed, Reason::NoStep(target)),
        };
    };
    let label = label(target, step);
    let has_previous = index > 0 && index < members.len();
    let Some(state) = reported(release, has_previous) else {
        return (Underway, Reason::Unreported(label));
    };
    let is_reached = achieved(release) == Some(target);
    match missing(state) {
        Some(part) => {
            let detail = unsatisfied(release).into_iter().next();
            (Underway, Reason::WaitsFor(part, label, detail))
        }
        None if is_reached && is_last(release, target) => (Done, Reason::Complete(label)),
        None if is_reached => (Underway, Reason::WaitsForCommand(label)),
        None => (Underway, Reason::Unrecorded(label)),
    }
}

/// Judges a Release that was replaced, or is being replaced.
fn replaced(
    release: &Release,
    own: &HistoryEntry<'_>,
    newer: &HistoryEntry<'_>,
) -> (Outcome, Reason) {
    let newer = newer.name().to_owned();
    if !own.is_complete() {
        return (Outcome::Failed, Reason::Replaced(newer));
    }
    refused(release).unwrap_or((Outcome::Done, Reason::Follows(newer)))
}

/// The problem that stops a Release on its way through its strategy, if any.
fn refused(release: &Release) -> Option<(Outcome, Reason)> {
    use ConditionStatus::{False, True};
    let status = release.status.as_ref()?;
    let says = |type_, status_| with_status(&status.conditions, type_, status_);
    if let Some(blocked) = says(BLOCKED, True) {
        return Some((Outcome::Underway, Reason::Blocked(why(blocked))));
    }
    if let Some(scheduled) = says(SCHEDULED, False) {
        let outcome = if conditions::Reason::is_in(&scheduled.reason, &FINAL) {
            Outcome::Failed
        } else {
            Outcome::Underway
        };
        return Some((outcome, Reason::NotScheduled(why(scheduled))));
    }
    let failed = says(STRATEGY_EXECUTED, False)?;
    Some((Outcome::Underway, Reason::StrategyFailed(why(failed))))
}

/// The step with this index.
pub(super) fn step_at(release: &Release, step: i32) -> Option<&RolloutStep> {
    steps(release).get(usize::try_from(step).ok()?)
}

/// True if a step is the last one.
pub(super) fn is_last(release: &Release, step: i32) -> bool {
    usize::try_from(step).is_ok_and(|step| step + 1 == steps(release).len())
}

/// The step as people read it: `1 (50/50)`.
fn label(index: i32, step: &RolloutStep) -> String {
    match collapse_whitespace(&step.name) {
        name if name.is_empty() => index.to_string(),
        name => format!("{index} ({name})"),
    }
}

/// The step with this index as people read it, as in `1 (50/50)`; the index alone if the step does
/// not exist.
pub fn label_at(release: &Release, index: i32) -> String {
    step_at(release, index).map_or_else(|| index.to_string(), |step| label(index, step))
}

/// The state of the newest Release at its wanted step; `None` if that step was not reported.
fn reported(release: &Release, has_previous: bool) -> Option<StrategyState> {
    let status = release.status.as_ref()?;
    let conditions = &status.strategy.as_ref()?.conditions;
    let target = release.spec.target_step;
    if !conditions.iter().any(|condition| condition.step == target) {
        return None;
    }
    let position = Position::Head {
        previous: has_previous,
        direction: Direction::of(achieved(release), target),
    };
    Some(state(
        conditions,
        position,
        target,
        is_last(release, target),
    ))
}

/// The part that the step waits for; `None` if it waits for nothing but a user.
fn missing(state: StrategyState) -> Option<ReleaseTargetKind> {
    let parts = [
        (
            state.waiting_for_installation,
            ReleaseTargetKind::Installation,
        ),
        (state.waiting_for_capacity, ReleaseTargetKind::Capacity),
        (state.waiting_for_traffic, ReleaseTargetKind::Traffic),
    ];
    let mut parts = parts.into_iter();
    let found = parts.find(|(status, _)| *status == ConditionStatus::True);
    found.map(|(_, part)| part)
}

/// The messages of the conditions that are not true at the present step of the strategy.
pub fn unsatisfied(release: &Release) -> Vec<String> {
    let strategy = release.status.as_ref().and_then(|it| it.strategy.as_ref());
    let conditions = strategy.map_or(&[][..], |strategy| &strategy.conditions);
    let failing = conditions.iter().filter(|condition| {
        condition.status == ConditionStatus::False && condition.step == release.spec.target_step
    });
    failing
        .map(|condition| match collapse_whitespace(&condition.message) {
            message if message.is_empty() => condition.type_.clone(),
            message => message,
        })
        .collect()
}
