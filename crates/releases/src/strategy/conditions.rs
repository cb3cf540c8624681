//! The conditions of a Release at a step, and the state that it waits for.

use baton_apis::{
    ConditionStatus, StrategyCondition, StrategyState,
    conditions::{MAX_MESSAGE_LENGTH, Reason},
};
use baton_engine::{stored_time::not_in_future, texts::truncate};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::order::{Position, Side, Stage};

/// The condition for a stage of a step. The contender is the Release with the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The contender has its pods.
    ContenderAchievedCapacity,
    /// The contender is installed.
    ContenderAchievedInstallation,
    /// The contender has its traffic.
    ContenderAchievedTraffic,
    /// The incumbent has at most the pods of the step.
    IncumbentAchievedCapacity,
    /// The incumbent has at most the traffic of the step.
    IncumbentAchievedTraffic,
}

impl ConditionType {
    /// The condition for a stage; `None` for the last stage.
    pub fn of(stage: Stage) -> Option<Self> {
        Some(match stage {
            Stage::Installation => Self::ContenderAchievedInstallation,
            Stage::Capacity(Side::Own) => Self::ContenderAchievedCapacity,
            Stage::Traffic(Side::Own) => Self::ContenderAchievedTraffic,
            Stage::Capacity(Side::Previous) => Self::IncumbentAchievedCapacity,
            Stage::Traffic(Side::Previous) => Self::IncumbentAchievedTraffic,
            Stage::State => return None,
        })
    }

    /// The text of the type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContenderAchievedCapacity => "ContenderAchievedCapacity",
            Self::ContenderAchievedInstallation => "ContenderAchievedInstallation",
            Self::ContenderAchievedTraffic => "ContenderAchievedTraffic",
            Self::IncumbentAchievedCapacity => "IncumbentAchievedCapacity",
            Self::IncumbentAchievedTraffic => "IncumbentAchievedTraffic",
        }
    }

    fn is_of_incumbent(type_: &str) -> bool {
        type_.starts_with("Incumbent")
    }
}

/// The conditions of a step during an update.
#[derive(Clone, Debug)]
pub(super) struct StrategyConditions {
    list: Vec<StrategyCondition>,
    step: i32,
    now: Timestamp,
}

impl StrategyConditions {
    /// Starts from the conditions of the last pass. Without an incumbent, the conditions of the
    /// incumbent are removed.
    pub(super) fn new(
        mut list: Vec<StrategyCondition>,
        position: Position,
        step: i32,
        now: Timestamp,
    ) -> Self {
        list.sort_by(|a, b| a.type_.cmp(&b.type_));
        list.dedup_by(|next, first| next.type_ == first.type_);
        if !position.has_incumbent() {
            list.retain(|condition| !ConditionType::is_of_incumbent(&condition.type_));
        }
        Self { list, step, now }
    }

    /// Sets the condition of a stage: `None` if the stage is satisfied, or a message that explains
    /// why not.
    pub(super) fn set(&mut self, type_: ConditionType, unsatisfied: Option<&str>) {
        let mut condition = StrategyCondition {
            type_: type_.as_str().to_owned(),
            status: unsatisfied.is_none().into(),
            last_transition_time: Some(Time(self.now)),
            reason: unsatisfied
                .map_or("", |_| Reason::ClustersNotReady.as_str())
                .to_owned(),
            message: truncate(unsatisfied.unwrap_or_default(), MAX_MESSAGE_LENGTH).into_owned(),
            step: self.step,
        };
        let index = self
            .list
            .binary_search_by(|other| other.type_.cmp(&condition.type_));
        match index {
            Ok(index) => {
                let old = &mut self.list[index];
                if let Some(time) = &old.last_transition_time
                    && old.status == condition.status
                {
                    let time = not_in_future(time.0, self.now);
                    condition.last_transition_time = Some(Time(time));
                }
                *old = condition;
            }
            Err(index) => self.list.insert(index, condition),
        }
    }

    pub(super) fn into_list(self) -> Vec<StrategyCondition> {
        self.list
    }
}

/// The state that a Release waits for. Only conditions of this step count.
pub fn state(
    conditions: &[StrategyCondition],
    position: Position,
    step: i32,
    is_last: bool,
) -> StrategyState {
    let holds = |type_: ConditionType| {
        conditions.iter().any(|condition| {
            condition.type_ == type_.as_str()
                && condition.status == ConditionStatus::True
                && condition.step == step
        })
    };
    let installed = holds(ConditionType::ContenderAchievedInstallation);
    let capacity = holds(ConditionType::ContenderAchievedCapacity);
    let traffic = holds(ConditionType::ContenderAchievedTraffic);
    let incumbent_capacity = holds(ConditionType::IncumbentAchievedCapacity);
    let incumbent_traffic = holds(ConditionType::IncumbentAchievedTraffic);

    let contender = installed && capacity && traffic;
    let waits_for_incumbent = position.has_incumbent() && contender && !incumbent_capacity;
    let for_capacity = installed && !capacity || waits_for_incumbent && incumbent_traffic;
    let for_traffic =
        installed && capacity && !traffic || waits_for_incumbent && !incumbent_traffic;
    let for_command = position.is_head() && !is_last && installed && !for_capacity && !for_traffic;
    StrategyState {
        waiting_for_installation: (!installed).into(),
        waiting_for_capacity: for_capacity.into(),
        waiting_for_traffic: for_traffic.into(),
        waiting_for_command: for_command.into(),
    }
}
