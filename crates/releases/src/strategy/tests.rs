//! The strategy, row by row.

mod moments;
mod rules;

use baton_apis::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{
    fixtures::*,
    order::{Direction::*, Side::*, Stage::*, *},
    *,
};

const NOW: Timestamp = Timestamp::constant(100, 0);

/// The five conditions as short text: `cap+1` is true and was reported for step 1, `cap-1` is
/// false. Upper case stands for the incumbent.
fn text_of(conditions: &[StrategyCondition]) -> String {
    let one = |condition: &StrategyCondition| {
        let name = match condition.type_.as_str() {
            "ContenderAchievedInstallation" => "inst",
            "ContenderAchievedCapacity" => "cap",
            "ContenderAchievedTraffic" => "traf",
            "IncumbentAchievedCapacity" => "CAP",
            "IncumbentAchievedTraffic" => "TRAF",
            other => other,
        };
        let holds = if condition.status == ConditionStatus::True {
            '+'
        } else {
            '-'
        };
        format!("{name}{holds}{}", condition.step)
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The reverse of [`shown`].
fn said(text: &str) -> Vec<StrategyCondition> {
    let one = |word: &str| {
        let (name, rest) = word.split_at(word.find(['+', '-']).unwrap());
        let type_ = match name {
            "inst" => "ContenderAchievedInstallation",
            "cap" => "ContenderAchievedCapacity",
            "traf" => "ContenderAchievedTraffic",
            "CAP" => "IncumbentAchievedCapacity",
            _ => "IncumbentAchievedTraffic",
        };
        StrategyCondition {
            type_: type_.into(),
            status: rest.starts_with('+').into(),
            step: rest[1..].parse().unwrap(),
            ..Default::default()
        }
    };
    text.split_whitespace().map(one).collect()
}

/// The state that a Release waits for.
fn waits(state: StrategyState) -> String {
    let StrategyState {
        waiting_for_installation,
        waiting_for_capacity,
        waiting_for_traffic,
        waiting_for_command,
    } = state;
    let all = [
        ("installation", waiting_for_installation),
        ("capacity", waiting_for_capacity),
        ("traffic", waiting_for_traffic),
        ("command", waiting_for_command),
    ];
    let holds = all
        .into_iter()
        .filter(|(_, status)| *status == ConditionStatus::True);
    holds.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

fn message<'a>(plan: &'a Plan, type_: &str) -> &'a str {
    let found = plan
        .strategy
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_);
    &found.unwrap().message
}

fn head(own: &Parts, previous: Option<&Parts>) -> Result<Plan, Error> {
    let previous = previous.map(Parts::member);
    plan(own.member(), Neighbours::Head { previous }, NOW)
}

fn follower(own: &Parts, successor: &Parts) -> Result<Plan, Error> {
    let neighbours = Neighbours::Follower {
        successor: successor.member(),
        successor_is_head: true,
    };
    plan(own.member(), neighbours, NOW)
}

/// A contender in the clusters a and b.
fn contender(percent: i32, weight: u32) -> Parts {
    Parts::new("new", &vanguard(), &["b", "a"], percent, weight)
}

fn incumbent(percent: i32, weight: u32) -> Parts {
    Parts::new("old", &all_in(), &["b", "a"], percent, weight).at(0, Some(0))
}
