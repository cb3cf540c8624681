//! The progress of a Release through its strategy: the next change of its targets and of the
//! targets of the Release that it replaces, and the report.
//!
//! The newest Release, the head, drives its own targets and those of the Release before it through
//! the stages of a step. All older Releases follow their successor. A pass ends at the first stage
//! that is not satisfied, so at most one target changes at a time.

mod achieved;
mod conditions;
pub mod deletion;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod order;
#[cfg(test)]
mod properties;
mod release_in_step;
mod stages;
mod target;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use baton_apis::{
    AchievedStep, CapacityTarget, InstallationTarget, Release, RolloutStep, StrategyStatus,
    TrafficTarget, conditions::Reason,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use crate::{conditions::Conditions, event::Event, texts::Quoted};
use order::Direction;
use release_in_step::ReleaseInStep;
use stages::Pass;

pub use achieved::{AchievedShares, reached};
pub use conditions::{ConditionType, state};
pub use order::Position;

/// Condition of a Release: the strategy can be followed.
pub const STRATEGY_EXECUTED: &str = "StrategyExecuted";
/// Condition of a Release: it reached the last step once.
pub const COMPLETE: &str = "Complete";

/// A Release with the targets that exist.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseWithTargets<'a> {
    /// The Release.
    pub release: &'a Release,
    /// The `InstallationTarget` of the Release.
    pub installation: Option<&'a InstallationTarget>,
    /// The `CapacityTarget` of the Release.
    pub capacity: Option<&'a CapacityTarget>,
    /// The `TrafficTarget` of the Release.
    pub traffic: Option<&'a TrafficTarget>,
}

/// The neighbours of a Release in the strategy.
#[derive(Clone, Copy, Debug)]
pub enum Neighbours<'a> {
    /// The Release is the newest, and replaces the one before it.
    Head {
        /// The Release before, if any.
        previous: Option<ReleaseWithTargets<'a>>,
    },
    /// Newer Releases exist.
    Follower {
        /// The next newer Release.
        successor: ReleaseWithTargets<'a>,
        /// True if the successor is the newest Release.
        successor_is_head: bool,
    },
}

/// The decision about a Release.
///
/// `target` is written first, and then the Release once: its status may report a step only after the
/// target requests it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Position of the Release.
    pub position: Position,
    /// The only change of a target.
    pub target: Option<TargetPatch>,
    /// The new `status.strategy`.
    pub strategy: StrategyStatus,
    /// The new `status.achievedStep`, if it changes.
    pub achieved: Option<AchievedStep>,
    /// True if the step is reached in all clusters, and nothing is to be changed.
    pub is_settled: bool,
    /// True if the last step is reached.
    pub complete: bool,
    /// Events about the Release.
    pub events: Vec<Event>,
}

impl Plan {
    /// The merge patch that updates `status.strategy`; `None` if it is up to date.
    pub fn strategy_patch(&self, release: &Release) -> Option<Value> {
        let stored = release
            .status
            .as_ref()
            .and_then(|status| status.strategy.as_ref());
        (stored.unwrap_or(&StrategyStatus::default()) != &self.strategy)
            .then(|| json!({"status": {"strategy": self.strategy}}))
    }
}

/// A merge patch of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPatch {
    /// Kind of the target.
    pub kind: TargetKind,
    /// Name of the Release, and of the target.
    pub name: String,
    /// Version of the target on which the patch is based.
    pub version: Option<String>,
    /// The patch, with the whole of `spec.clusters`.
    pub body: Value,
}

/// The targets of a Release that its strategy changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// `CapacityTarget`
    Capacity,
    /// `TrafficTarget`
    Traffic,
}

/// The reason that a strategy cannot be followed. A retry helps only after another object has
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The step does not exist.
    #[error("no step {step} in strategy for Release {}", Quoted(.release))]
    NoStep {
        /// Index of the step.
        step: i32,
        /// The Release that should be at the step, as `namespace/name`.
        release: String,
    },
    /// A Release with a successor has a target step other than its last step.
    #[error(
        "Release {release} target step is inconsistent: unexpected value {found} (expected: {expected})"
    )]
    InconsistentStep {
        /// The Release, as `namespace/name`.
        release: String,
        /// Target step of the Release.
        found: i32,
        /// The index of its last step, -1 if it has none.
        expected: i32,
    },
    /// A target does not exist.
    #[error(
        "failed to GET {kind} {}: {}.shipper.booking.com {} not found",
        Quoted(.release), .kind.to_lowercase(), Quoted(.name)
    )]
    MissingTarget {
        /// Kind of the target.
        kind: &'static str,
        /// The Release, as `namespace/name`.
        release: String,
        /// Name of the Release and of the target.
        name: String,
    },
}

/// True if a Release goes back: it has reached a later step than its target step.
pub fn is_stepping_backwards(achieved: Option<i32>, target: i32) -> bool {
    achieved.is_some_and(|achieved| achieved > target)
}

/// The neighbours of a Release in the order of Releases: the last before it and the first after it.
///
/// `own` and the result of `key` consist of generation and name. The Release itself may be missing
/// in `releases`.
pub fn neighbours<T, K: Ord>(
    releases: impl IntoIterator<Item = T>,
    own: &K,
    key: impl Fn(&T) -> K,
) -> (Option<T>, Option<T>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for release in releases {
        let found = key(&release);
        match found.cmp(own) {
            Ordering::Less => before.push((found, release)),
            Ordering::Greater => after.push((found, release)),
            Ordering::Equal => {}
        }
    }
    let before = before.into_iter().max_by(|(a, _), (b, _)| a.cmp(b));
    let after = after.into_iter().min_by(|(a, _), (b, _)| a.cmp(b));
    (
        before.map(|(_, release)| release),
        after.map(|(_, release)| release),
    )
}

/// Decides about a Release.
///
/// # Guarantees
/// - Capacity is added before traffic arrives, and removed after traffic has left, whatever
///   `spec.targetStep` was before.
/// - Without further changes, passes end at the step: each pass changes a target or waits for one.
///
/// # Errors
/// If the strategy cannot be followed. Then only the conditions of the Release may be written.
pub fn plan(
    own: ReleaseWithTargets,
    neighbours: Neighbours,
    now: Timestamp,
) -> Result<Plan, Error> {
    let targets = Targets::of(own)?;
    match neighbours {
        Neighbours::Head { previous } => {
            let previous = previous.map(Targets::of).transpose()?;
            let steps = steps(own.release);
            let target = own.release.spec.target_step;
            let step = step_at(steps, target, own.release)?;
            let position = Position::Head {
                previous: previous.is_some(),
                direction: Direction::of(achieved(own.release), target),
            };
            Ok(
                Pass::head(position, targets, previous, step, now).run(AchievedStep {
                    step: target,
                    name: step.values.name.clone(),
                }),
            )
        }
        Neighbours::Follower {
            successor,
            successor_is_head,
        } => {
            let leader = Targets::of(successor)?;
            let last = last_step(own.release)?;
            let target = successor.release.spec.target_step;
            let step = step_at(steps(successor.release), target, own.release)?;
            let achieved = achieved(successor.release);
            // The target step of the head may have been changed and changed back, so that the head
            // no longer has the pods and traffic of its achieved step. Until it has them again, this
            // Release keeps its own.
            let left =
                successor_is_head && !ReleaseInStep::contender(leader, step.values).is_there();
            if achieved != Some(target) || left {
                return Ok(waiting(own.release));
            }
            let position = Position::Follower {
                direction: Direction::of(achieved, target),
            };
            Ok(Pass::follower(position, targets, step, now).run(last))
        }
    }
}

/// The next change by which the Release before an unscheduled head grows to the step of that head.
/// It does not wait for the contender, which may never get clusters.
pub fn growth(head: &Release, previous: ReleaseWithTargets) -> Option<TargetPatch> {
    let step = step_at(steps(head), head.spec.target_step, head).ok()?;
    let targets = Targets::of(previous).ok()?;
    ReleaseInStep::incumbent(targets, step.values).growth()
}

/// Sets the conditions of the Release that report a pass.
pub fn report(conditions: &mut Conditions, result: Result<&Plan, &Error>) {
    match result {
        Ok(plan) => {
            conditions.set_plain(STRATEGY_EXECUTED, true);
            if plan.complete {
                conditions.set_plain(COMPLETE, true);
            }
        }
        Err(error) => {
            let message = format!("failed to execute strategy: {}", Quoted(&error.to_string()));
            conditions.set(
                STRATEGY_EXECUTED,
                false,
                Reason::StrategyExecutionFailed,
                &message,
            );
        }
    }
}

/// A Release with all of its targets.
#[derive(Clone, Copy, Debug)]
struct Targets<'a> {
    release: &'a Release,
    installation: &'a InstallationTarget,
    capacity: &'a CapacityTarget,
    traffic: &'a TrafficTarget,
}

impl<'a> Targets<'a> {
    fn of(member: ReleaseWithTargets<'a>) -> Result<Self, Error> {
        let ReleaseWithTargets {
            release,
            installation,
            capacity,
            traffic,
        } = member;
        let missing = |kind| Error::MissingTarget {
            kind,
            release: full_name(release),
            name: name(release).to_owned(),
        };
        Ok(Self {
            release,
            installation: installation.ok_or_else(|| missing("InstallationTarget"))?,
            capacity: capacity.ok_or_else(|| missing("CapacityTarget"))?,
            traffic: traffic.ok_or_else(|| missing("TrafficTarget"))?,
        })
    }
}

/// A step of the strategy, with its index.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    index: i32,
    is_last: bool,
    values: &'a RolloutStep,
}

/// The steps of the strategy of a Release.
pub fn steps(release: &Release) -> &[RolloutStep] {
    let strategy = release.spec.environment.strategy.as_ref();
    strategy.map_or(&[], |strategy| &strategy.steps)
}

/// The values of the target step of a Release.
///
/// # Errors
/// If there is no such step.
pub fn target_values(release: &Release) -> Result<&RolloutStep, Error> {
    let step = step_at(steps(release), release.spec.target_step, release);
    step.map(|step| step.values)
}

/// The step of a strategy with this index; `release` is the Release that should be at the step.
fn step_at<'a>(steps: &'a [RolloutStep], index: i32, release: &Release) -> Result<Step<'a>, Error> {
    let position = usize::try_from(index).ok();
    let values = position.and_then(|position| steps.get(position));
    let values = values.ok_or_else(|| Error::NoStep {
        step: index,
        release: full_name(release),
    })?;
    Ok(Step {
        index,
        is_last: position.is_some_and(|position| position + 1 == steps.len()),
        values,
    })
}

/// The last step of a Release that has a successor. The Release has to be at it.
fn last_step(release: &Release) -> Result<AchievedStep, Error> {
    let steps = steps(release);
    let expected = i32::try_from(steps.len()).map_or(i32::MAX, |count| count - 1);
    match steps.last() {
        Some(last) if release.spec.target_step == expected => Ok(AchievedStep {
            step: expected,
            name: last.name.clone(),
        }),
        _ => Err(Error::InconsistentStep {
            release: full_name(release),
            found: release.spec.target_step,
            expected,
        }),
    }
}

/// The index of the step that a Release has reached.
pub fn achieved(release: &Release) -> Option<i32> {
    let achieved = release.status.as_ref()?.achieved_step.as_ref()?;
    Some(achieved.step)
}

/// The stored status of the strategy.
fn stored(release: &Release) -> StrategyStatus {
    let status = release.status.as_ref();
    status
        .and_then(|status| status.strategy.clone())
        .unwrap_or_default()
}

/// The plan until the successor has reached its step: nothing is changed or reported.
fn waiting(release: &Release) -> Plan {
    Plan {
        position: Position::Waiting,
        target: None,
        strategy: stored(release),
        achieved: None,
        is_settled: false,
        complete: false,
        events: Vec::new(),
    }
}

fn name(release: &Release) -> &str {
    release.metadata.name.as_deref().unwrap_or_default()
}

fn full_name(release: &Release) -> String {
    let namespace = release.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", name(release))
}
