//! A pass through the stages of a step.

use std::cmp::Ordering;

use baton_apis::{AchievedStep, StrategyState, StrategyStatus, conditions::EventReason};
use jiff::Timestamp;

use super::{
    Plan, Step, TargetPatch, Targets, achieved,
    conditions::{ConditionType, StrategyConditions, state},
    full_name, name,
    order::{Position, Side, Stage, TargetComparison, ordered},
    release_in_step::ReleaseInStep,
    stored,
    target::{READY, Target},
};
use crate::{
    conditions::{find, is_true},
    event::Event,
    texts::Quoted,
};

/// The judgement on a stage of a step.
enum Verdict {
    Satisfied,
    Unsatisfied {
        /// The condition that reports it, which may belong to another stage.
        type_: ConditionType,
        message: String,
        patch: Option<TargetPatch>,
    },
}

/// A pass over a Release.
pub(super) struct Pass<'a> {
    position: Position,
    own: ReleaseInStep<'a>,
    previous: Option<ReleaseInStep<'a>>,
    step: Step<'a>,
    now: Timestamp,
}

impl<'a> Pass<'a> {
    /// A pass over the newest Release, which follows its own strategy.
    pub(super) fn head(
        position: Position,
        own: Targets<'a>,
        previous: Option<Targets<'a>>,
        step: Step<'a>,
        now: Timestamp,
    ) -> Self {
        Self {
            position,
            own: ReleaseInStep::contender(own, step.values),
            previous: previous.map(|targets| ReleaseInStep::incumbent(targets, step.values)),
            step,
            now,
        }
    }

    /// A pass over another Release, which follows the strategy of its successor.
    pub(super) fn follower(
        position: Position,
        own: Targets<'a>,
        step: Step<'a>,
        now: Timestamp,
    ) -> Self {
        Self {
            position,
            own: ReleaseInStep::incumbent(own, step.values),
            previous: None,
            step,
            now,
        }
    }

    /// Runs the stages up to the first that is not satisfied. `end` is the achieved step if all are
    /// satisfied.
    pub(super) fn run(self, end: AchievedStep) -> Plan {
        let release = self.own.targets.release;
        let before = stored(release);
        let old_state = before.state.unwrap_or_default();
        let mut conditions =
            StrategyConditions::new(before.conditions, self.position, self.step.index, self.now);
        let mut stopped = None;
        for stage in self.order() {
            match self.judge(stage) {
                Verdict::Satisfied => {
                    if let Some(type_) = ConditionType::of(stage) {
                        conditions.set(type_, None);
                    }
                }
                Verdict::Unsatisfied {
                    type_,
                    message,
                    patch,
                } => {
                    conditions.set(type_, Some(&message));
                    stopped = Some(patch);
                    break;
                }
            }
        }
        let conditions = conditions.into_list();
        let state = state(
            &conditions,
            self.position,
            self.step.index,
            self.step.is_last,
        );
        let finished = stopped.is_none();
        let achieved_anew = finished && achieved(release) != Some(end.step);
        let mut events = Vec::new();
        if finished {
            if achieved_anew {
                let text = format!("step [{}] finished", end.step);
                events.push(Event::normal(EventReason::StrategyApplied, text));
            }
            events.extend(transitions(&full_name(release), old_state, state));
        }
        Plan {
            position: self.position,
            target: stopped.flatten(),
            strategy: StrategyStatus {
                state: Some(state),
                conditions,
            },
            achieved: achieved_anew.then_some(end),
            is_settled: finished,
            complete: finished && self.step.is_last,
            events,
        }
    }

    fn order(&self) -> Vec<Stage> {
        let own = self.own.present(self.previous.as_ref());
        let previous = self.previous.as_ref();
        let previous = previous.map(|party| party.present(Some(&self.own)));
        let previous = previous.unwrap_or(TargetComparison::EQUAL);
        let mut stages = ordered(self.position, own, previous);
        if previous.grows() && !self.is_installed() {
            // An incumbent that grows does not wait for the contender. Its stages directly follow
            // the installation.
            let count = 1 + usize::from(previous.weight == Ordering::Less);
            stages[..=count].rotate_left(1);
        }
        stages
    }

    fn is_installed(&self) -> bool {
        let status = self.own.targets.installation.status.as_ref();
        is_true(status.map_or(&[][..], |status| &status.conditions), READY)
    }

    fn party(&self, side: Side) -> Option<&ReleaseInStep<'a>> {
        match side {
            Side::Own => Some(&self.own),
            Side::Previous => self.previous.as_ref(),
        }
    }

    fn judge(&self, stage: Stage) -> Verdict {
        let (Stage::Capacity(side) | Stage::Traffic(side)) = stage else {
            return self.judge_installation(stage);
        };
        match (self.party(side), stage) {
            (Some(party), Stage::Capacity(_)) => self.judge_capacity(side, party),
            (Some(party), _) => judge_traffic(side, party),
            (None, _) => Verdict::Satisfied,
        }
    }

    fn judge_installation(&self, stage: Stage) -> Verdict {
        if stage == Stage::State || self.is_installed() {
            return Verdict::Satisfied;
        }
        let status = self.own.targets.installation.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let message = find(conditions, READY).map_or("", |ready| &ready.message);
        let name = name(self.own.targets.release);
        Verdict::Unsatisfied {
            type_: ConditionType::ContenderAchievedInstallation,
            message: format!(
                "clusters pending installation: {message}. for more details try `kubectl describe it {name}`"
            ),
            patch: None,
        }
    }

    fn judge_capacity(&self, side: Side, party: &ReleaseInStep) -> Verdict {
        let target = party.targets.capacity;
        let other = |percent: i32| percent != party.percent;
        let clusters = &target.spec.clusters;
        let changed: Vec<_> = clusters
            .iter()
            .filter(|cluster| other(cluster.percent))
            .collect();
        if !changed.is_empty() {
            // Traffic that has not arrived at its target may still need the capacity. In the usual
            // order of a position it has always arrived.
            let shrinks = changed
                .iter()
                .any(|cluster| cluster.percent > party.percent);
            if shrinks && let Some(unsettled) = self.unsettled_traffic() {
                return unsettled;
            }
        }
        let changed = changed
            .into_iter()
            .map(|cluster| cluster.name.as_str())
            .collect();
        unless_ready(target, changed, |why| {
            let type_ = match side {
                Side::Own => ConditionType::ContenderAchievedCapacity,
                Side::Previous => ConditionType::IncumbentAchievedCapacity,
            };
            (
                type_,
                pending(party, "capacity", "ct", why),
                party.capacity_patch(),
            )
        })
        .unwrap_or(Verdict::Satisfied)
    }

    /// The first side whose traffic has not arrived at its target.
    fn unsettled_traffic(&self) -> Option<Verdict> {
        [Side::Own, Side::Previous].into_iter().find_map(|side| {
            let party = self.party(side)?;
            unless_ready(party.targets.traffic, Vec::new(), |why| {
                (
                    traffic_type(side),
                    pending(party, "traffic", "tt", why),
                    party.traffic_patch(),
                )
            })
        })
    }
}

fn judge_traffic(side: Side, party: &ReleaseInStep) -> Verdict {
    let target = party.targets.traffic;
    let clusters = &target.spec.clusters;
    let changed = clusters
        .iter()
        .filter(|cluster| cluster.weight != party.weight);
    let changed = changed.map(|cluster| cluster.name.as_str()).collect();
    unless_ready(target, changed, |why| {
        (
            traffic_type(side),
            pending(party, "traffic", "tt", why),
            party.traffic_patch(),
        )
    })
    .unwrap_or(Verdict::Satisfied)
}

fn traffic_type(side: Side) -> ConditionType {
    match side {
        Side::Own => ConditionType::ContenderAchievedTraffic,
        Side::Previous => ConditionType::IncumbentAchievedTraffic,
    }
}

/// The message of the condition while a target is not as wanted.
fn pending(party: &ReleaseInStep, what: &str, short: &str, why: &str) -> String {
    let name = name(party.targets.release);
    format!(
        "release {} hasn't achieved {what} in clusters: {why}. for more details try `kubectl describe {short} {name}`",
        Quoted(name)
    )
}

/// The verdict that a target is not as wanted and ready in all clusters; `None` if it is.
///
/// `changed` are the clusters whose spec has to change. The callback gets the clusters or the
/// message that the target waits for, and returns the condition, its message and the patch.
fn unless_ready<T: Target>(
    target: &T,
    mut changed: Vec<&str>,
    tell: impl Fn(&str) -> (ConditionType, String, TargetPatch),
) -> Option<Verdict> {
    let is_changed = !changed.is_empty();
    let why = if is_changed {
        bracketed(&mut changed)
    } else if !target.is_observed() {
        bracketed(&mut target.cluster_names())
    } else if is_true(target.conditions(), READY) {
        return None;
    } else {
        let ready = find(target.conditions(), READY);
        ready.map_or(String::new(), |ready| ready.message.clone())
    };
    let (type_, message, patch) = tell(&why);
    Some(Verdict::Unsatisfied {
        type_,
        message,
        patch: is_changed.then_some(patch),
    })
}

fn bracketed(names: &mut [&str]) -> String {
    names.sort_unstable();
    format!("[{}]", names.join(" "))
}

/// Events about changes of the state that a Release waits for.
fn transitions(release: &str, old: StrategyState, new: StrategyState) -> Vec<Event> {
    [
        (
            "WaitingForCapacity",
            old.waiting_for_capacity,
            new.waiting_for_capacity,
        ),
        (
            "WaitingForCommand",
            old.waiting_for_command,
            new.waiting_for_command,
        ),
        (
            "WaitingForInstallation",
            old.waiting_for_installation,
            new.waiting_for_installation,
        ),
        (
            "WaitingForTraffic",
            old.waiting_for_traffic,
            new.waiting_for_traffic,
        ),
    ]
    .into_iter()
    .filter(|(_, old, new)| old != new)
    .map(|(what, _, new)| {
        let message = format!(
            "Release {} had its state {} transitioned to {}",
            Quoted(release),
            Quoted(what),
            Quoted(&new.to_string())
        );
        Event::normal(EventReason::ReleaseStateTransitioned, message)
    })
    .collect()
}
