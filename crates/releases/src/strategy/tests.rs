//! Sections 10.3 and 3.4 to 3.7 of the contract, row by row.

use baton_apis::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{
    fixtures::*,
    order::{Direction::*, Side::*, Stage::*, *},
    *,
};

const NOW: Timestamp = Timestamp::constant(100, 0);

/// The five conditions as short text: `cap+1` holds and was said of step 1, `cap-1` does not. Upper case is the
/// incumbent's.
fn shown(conditions: &[StrategyCondition]) -> String {
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

/// What a Release waits for.
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

/// X1 to X5.
#[test]
fn stages_by_position() {
    let head = |previous, direction| Position::Head {
        previous,
        direction,
    };
    let (all, usual) = (Present::SETTLED, Present::SETTLED);
    for (position, expected) in [
        (
            head(false, Forward),
            &[Installation, Capacity(Own), Traffic(Own), State][..],
        ),
        (
            head(false, Backwards),
            &[Installation, Traffic(Own), Capacity(Own), State],
        ),
        (
            head(true, Forward),
            &[
                Installation,
                Capacity(Own),
                Traffic(Own),
                Traffic(Previous),
                Capacity(Previous),
                State,
            ],
        ),
        (
            head(true, Backwards),
            &[
                Installation,
                Capacity(Previous),
                Traffic(Previous),
                Traffic(Own),
                Capacity(Own),
                State,
            ],
        ),
        (Position::Waiting, &[]),
        (
            Position::Follower {
                direction: Backwards,
            },
            &[Installation, Capacity(Own), Traffic(Own), State],
        ),
        (
            Position::Follower { direction: Forward },
            &[Installation, Traffic(Own), Capacity(Own), State],
        ),
    ] {
        assert_eq!(position.stages(), expected, "{position:?}");
        assert_eq!(ordered(position, all, usual), expected, "{position:?}");
    }
}

/// The rows of 10.3 with a Release at the head, and the moments of a step in 3.6: target step, achieved step, capacity
/// and weight of contender and incumbent (`?` not observed, `!` observed and not ready), patch, what is said, what is
/// waited for. Before, all five conditions held at the achieved step.
const MOMENTS: &str = "
    R2              | 0 | - | 1/0     | 100/100 |            | cap+0 inst+0 traf+0 CAP+0 TRAF+0 | command
    first pass      | 0 | - | 0/0     | 100/100 | ct new 1   | cap-0 inst+0                     | capacity
    R5              | 1 | 0 | 1/0     | 100/100 | ct new 50  | cap-1 inst+1 traf+0 CAP+0 TRAF+0 | capacity
    R4              | 1 | 0 | 50!/0   | 100/100 |            | cap-1 inst+1 traf+0 CAP+0 TRAF+0 | capacity
    patched         | 1 | 0 | 50?/0   | 100/100 |            | cap-1 inst+1 traf+0 CAP+0 TRAF+0 | capacity
    R8              | 1 | 0 | 50/0    | 100/100 | tt new 50  | cap+1 inst+1 traf-1 CAP+0 TRAF+0 | traffic
    R18, traffic    | 1 | 0 | 50/50!  | 100/100 |            | cap+1 inst+1 traf-1 CAP+0 TRAF+0 | traffic
    R10             | 1 | 0 | 50/50   | 100/100 | tt old 50  | cap+1 inst+1 traf+1 CAP+0 TRAF-1 | traffic
    R13             | 1 | 0 | 50/50   | 100/50  | ct old 50  | cap+1 inst+1 traf+1 CAP-1 TRAF+1 | capacity
    R18, incumbent  | 1 | 0 | 50/50   | 50!/50  |            | cap+1 inst+1 traf+1 CAP-1 TRAF+1 | capacity
    R15             | 1 | 0 | 50/50   | 50/50   |            | cap+1 inst+1 traf+1 CAP+1 TRAF+1 | command
    skips a step    | 2 | 0 | 1/0     | 100/100 | ct new 100 | cap-2 inst+2 traf+0 CAP+0 TRAF+0 | capacity
    R16             | 2 | 1 | 100/100 | 0/0     |            | cap+2 inst+2 traf+2 CAP+2 TRAF+2 |
    back, first     | 0 | 1 | 50/50   | 50/50   | ct old 100 | cap+1 inst+0 traf+1 CAP-0 TRAF+1 | capacity
    back, second    | 0 | 1 | 50/50   | 100/50  | tt old 100 | cap+1 inst+0 traf+1 CAP+0 TRAF-0 | capacity
    back, third     | 0 | 1 | 50/50   | 100/100 | tt new 0   | cap+1 inst+0 traf-0 CAP+0 TRAF+0 | capacity
    back, fourth    | 0 | 1 | 50/0    | 100/100 | ct new 1   | cap-0 inst+0 traf+0 CAP+0 TRAF+0 | capacity
    back, reached   | 0 | 1 | 1/0     | 100/100 |            | cap+0 inst+0 traf+0 CAP+0 TRAF+0 | command
    E20             | 2 | 2 | 100!/100 | 0/0    |            | cap-2 inst+2 traf+2 CAP+2 TRAF+2 | capacity
";

#[test]
fn moments_of_a_step() {
    for row in MOMENTS.lines().filter(|row| !row.trim().is_empty()) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [
            name,
            target,
            achieved,
            own,
            previous,
            patch,
            conditions,
            waiting,
        ] = cells[..]
        else {
            panic!("{row}");
        };
        let target: i32 = target.parse().unwrap();
        let achieved = achieved.parse().ok();
        let previous = party(previous, incumbent);
        let mut own = party(own, contender).at(target, achieved);
        own.status().strategy = achieved.map(|step: i32| StrategyStatus {
            conditions: said(&format!(
                "cap+{step} inst+{step} traf+{step} CAP+{step} TRAF+{step}"
            )),
            ..Default::default()
        });
        let plan = head(&own, Some(&previous)).unwrap();
        assert_eq!(shown(&plan.strategy.conditions), conditions, "{name}");
        assert_eq!(waits(plan.strategy.state.unwrap()), waiting, "{name}");
        assert_eq!(plan.target, target_patch(patch), "{name}");
        let finished = !conditions.contains('-');
        let reached = (finished && achieved != Some(target)).then_some(target);
        let found = plan.achieved.as_ref().map(|achieved| achieved.step);
        assert_eq!(found, reached, "{name}");
        assert_eq!(plan.complete, finished && target == 2, "{name}");
        assert_eq!(plan.events.is_empty(), !finished, "{name}");
    }
}

/// W36: from a step that is nearly reached back to the one before it, which still counts as reached.
#[test]
fn a_retreat_gives_the_incumbent_its_capacity_back_first() {
    for (own, previous, patch, conditions) in [
        (
            "100/100",
            "0/0",
            "ct old 50",
            "cap+2 inst+1 traf+2 CAP-1 TRAF+2",
        ),
        ("100/100", "50!/0", "", "cap+2 inst+1 traf+2 CAP-1 TRAF+2"),
        (
            "100/100",
            "50/0",
            "tt old 50",
            "cap+2 inst+1 traf+2 CAP+1 TRAF-1",
        ),
        (
            "100/100",
            "50/50",
            "tt new 50",
            "cap+2 inst+1 traf-1 CAP+1 TRAF+1",
        ),
        (
            "100/50",
            "50/50",
            "ct new 50",
            "cap-1 inst+1 traf+1 CAP+2 TRAF+1",
        ),
        ("50/50", "50/50", "", "cap+1 inst+1 traf+1 CAP+1 TRAF+1"),
        // Its traffic has not grown yet, so the contender can give up what it does not need.
        (
            "100/50",
            "100/100",
            "ct new 50",
            "cap-1 inst+1 traf+2 CAP+2 TRAF+2",
        ),
    ] {
        let previous = party(previous, incumbent);
        let mut own = party(own, contender).at(1, Some(1));
        own.status().strategy = Some(StrategyStatus {
            conditions: said("cap+2 inst+2 traf+2 CAP+2 TRAF+2"),
            ..Default::default()
        });
        let plan = head(&own, Some(&previous)).unwrap();
        assert_eq!(plan.target, target_patch(patch));
        assert_eq!(shown(&plan.strategy.conditions), conditions);
        let waiting = if conditions.contains('2') || conditions.contains('-') {
            "capacity"
        } else {
            "command"
        };
        assert_eq!(waits(plan.strategy.state.unwrap()), waiting);
    }
}

/// A Release with this capacity and weight.
fn party(text: &str, new: impl Fn(i32, u32) -> Parts) -> Parts {
    let (capacity, weight) = text.split_once('/').unwrap();
    let number = |text: &str| text.trim_end_matches(['?', '!']).to_owned();
    let mut parts = new(
        number(capacity).parse().unwrap(),
        number(weight).parse().unwrap(),
    );
    if capacity.ends_with('?') {
        parts = parts.capacity_unobserved();
    }
    if capacity.ends_with('!') {
        parts = parts.lacks_capacity("a: InProgress");
    }
    if weight.ends_with('!') {
        parts = parts.lacks_traffic("a: InProgress");
    }
    parts
}

/// The patch of all clusters: which target of whom, and the number that it is to have.
fn target_patch(text: &str) -> Option<TargetPatch> {
    let mut words = text.split_whitespace();
    let (target, name) = (words.next()?, words.next()?);
    let number: u32 = words.next()?.parse().unwrap();
    let (kind, cluster): (_, fn(&str, u32) -> Value) = match target {
        "ct" => (
            TargetKind::Capacity,
            |name, number| json!({"name": name, "percent": number, "totalReplicaCount": 10}),
        ),
        _ => (
            TargetKind::Traffic,
            |name, number| json!({"name": name, "weight": number}),
        ),
    };
    let clusters = ["b", "a"].map(|name| cluster(name, number));
    Some(TargetPatch {
        kind,
        name: name.into(),
        body: json!({"spec": {"clusters": clusters}}),
    })
}

#[test]
fn a_first_release_goes_forward_with_capacity_first_and_back_with_traffic_first() {
    for (target, achieved, percent, weight, patch) in [
        (1, Some(0), 1, 0, Some((TargetKind::Capacity, "50"))),
        (1, Some(0), 50, 0, Some((TargetKind::Traffic, "50"))),
        (1, Some(0), 50, 50, None),
        (0, Some(1), 50, 50, Some((TargetKind::Traffic, "0"))),
        (0, Some(1), 50, 0, Some((TargetKind::Capacity, "1"))),
        (0, Some(1), 1, 0, None),
    ] {
        let own = contender(percent, weight).at(target, achieved);
        let plan = head(&own, None).unwrap();
        let found = plan.target.map(|target| {
            let cluster = &target.body["spec"]["clusters"][0];
            let value = cluster
                .get("percent")
                .or(cluster.get("weight"))
                .unwrap()
                .to_string();
            (target.kind, value)
        });
        assert_eq!(found, patch.map(|(kind, value)| (kind, value.to_owned())));
    }
}

/// R3, R4, R8, R10: what the conditions say.
#[test]
fn messages_name_the_release_and_what_it_waits_for() {
    let check = |own: &Parts, previous: &Parts, type_: &str, expected: &str| {
        let plan = head(own, Some(previous)).unwrap();
        let condition = plan
            .strategy
            .conditions
            .iter()
            .find(|found| found.type_ == type_)
            .unwrap();
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(condition.reason, "ClustersNotReady");
        assert_eq!(condition.message, expected);
    };
    let old = incumbent(100, 100);
    let mut missing = contender(1, 0).at(0, None);
    missing.installation.status.as_mut().unwrap().conditions = ready(Some("b: ServerError no"));
    check(
        &missing,
        &old,
        "ContenderAchievedInstallation",
        "clusters pending installation: b: ServerError no. for more details try `kubectl describe it new`",
    );
    check(
        &contender(1, 0).at(1, Some(0)),
        &old,
        "ContenderAchievedCapacity",
        "release \"new\" hasn't achieved capacity in clusters: [a b]. for more details try `kubectl describe ct new`",
    );
    check(
        &contender(50, 0).capacity_unobserved().at(1, Some(0)),
        &old,
        "ContenderAchievedCapacity",
        "release \"new\" hasn't achieved capacity in clusters: [a b]. for more details try `kubectl describe ct new`",
    );
    check(
        &contender(50, 0)
            .lacks_capacity("b: PodsNotReady 1/5: x")
            .at(1, Some(0)),
        &old,
        "ContenderAchievedCapacity",
        "release \"new\" hasn't achieved capacity in clusters: b: PodsNotReady 1/5: x. \
         for more details try `kubectl describe ct new`",
    );
    check(
        &contender(50, 50).at(1, Some(0)),
        &old,
        "IncumbentAchievedTraffic",
        "release \"old\" hasn't achieved traffic in clusters: [a b]. for more details try `kubectl describe tt old`",
    );
    let mut one = contender(50, 0).at(1, Some(0));
    one.capacity.spec.clusters[0].percent = 1;
    check(
        &one,
        &old,
        "ContenderAchievedCapacity",
        "release \"new\" hasn't achieved capacity in clusters: [b]. for more details try `kubectl describe ct new`",
    );
}

/// R3: nothing is changed while one cluster lacks the objects.
#[test]
fn targets_are_left_until_the_release_is_installed() {
    let mut own = contender(1, 0).at(1, Some(0));
    own.installation.status = None;
    let plan = head(&own, Some(&incumbent(100, 100))).unwrap();
    assert_eq!(plan.target, None);
    assert_eq!(shown(&plan.strategy.conditions), "inst-1");
    assert_eq!(waits(plan.strategy.state.unwrap()), "installation");
}

/// R2, R16.
#[test]
fn events_of_a_step_that_is_reached() {
    let own = contender(100, 100).at(2, Some(1));
    let plan = head(&own, Some(&incumbent(0, 0))).unwrap();
    let event = |state: &str| {
        let text =
            format!("Release \"ns/new\" had its state \"{state}\" transitioned to \"False\"");
        Event::normal("ReleaseStateTransitioned", text)
    };
    let expected = [
        Event::normal("StrategyApplied", "step [2] finished"),
        event("WaitingForCapacity"),
        event("WaitingForCommand"),
        event("WaitingForInstallation"),
        event("WaitingForTraffic"),
    ];
    assert_eq!(plan.events, expected);
    let achieved = AchievedStep {
        step: 2,
        name: "full on".into(),
    };
    assert_eq!(plan.achieved, Some(achieved));

    let mut conditions = Conditions::new(&[], NOW);
    report(&mut conditions, Ok(&plan));
    let told = "[] -> [StrategyExecuted True], [] -> [Complete True]";
    assert_eq!(conditions.take_changes().as_deref(), Some(told));
}

#[test]
fn a_second_pass_over_the_same_things_writes_nothing() {
    for (percent, weight, target) in [(50, 50, 1), (50, 0, 1), (1, 0, 0)] {
        let mut own = contender(percent, weight)
            .lacks_traffic("b: InProgress")
            .at(target, Some(0));
        let old = incumbent(100, 100);
        let plan = head(&own, Some(&old)).unwrap();
        assert!(plan.strategy_patch(&own.release).is_some());
        own.status().strategy = Some(plan.strategy.clone());
        let later = Timestamp::constant(200, 0);
        let neighbours = Neighbours::Head {
            previous: Some(old.member()),
        };
        let again = super::plan(own.member(), neighbours, later).unwrap();
        assert_eq!(again.strategy_patch(&own.release), None);
        assert_eq!(again.events, []);
    }
}

#[test]
fn the_patch_of_a_release_has_all_fields_of_the_contract() {
    let own = Parts::new("new", &all_in(), &["a"], 0, 0);
    let plan = head(&own, None).unwrap();
    let time = "1970-01-01T00:01:40Z";
    let expected = json!({"status": {"strategy": {
        "state": {
            "waitingForInstallation": "False",
            "waitingForCapacity": "True",
            "waitingForTraffic": "False",
            "waitingForCommand": "False",
        },
        "conditions": [
            {
                "type": "ContenderAchievedCapacity", "status": "False", "lastTransitionTime": time,
                "reason": "ClustersNotReady", "step": 0,
                "message": "release \"new\" hasn't achieved capacity in clusters: [a]. \
                            for more details try `kubectl describe ct new`",
            },
            {
                "type": "ContenderAchievedInstallation", "status": "True", "lastTransitionTime": time,
                "reason": "", "message": "", "step": 0,
            },
        ],
    }}});
    assert_eq!(plan.strategy_patch(&own.release), Some(expected));
}

/// X4, and a historical Release that is pushed to nothing.
#[test]
fn a_release_that_is_not_the_newest_follows_its_successor() {
    let old = incumbent(100, 100);
    let on_its_way = contender(100, 100).at(2, Some(1));
    let plan = follower(&old, &on_its_way).unwrap();
    assert_eq!((plan.position, &plan.target), (Position::Waiting, &None));
    assert_eq!(plan.strategy_patch(&old.release), None);

    let there = contender(100, 100).at(2, Some(2));
    for (percent, weight, kind) in [
        (100, 100, Some(TargetKind::Traffic)),
        (100, 0, Some(TargetKind::Capacity)),
        (0, 0, None),
    ] {
        let mut old = incumbent(percent, weight);
        old.status().strategy = Some(StrategyStatus {
            conditions: said("CAP+2 TRAF+2"),
            ..Default::default()
        });
        let plan = follower(&old, &there).unwrap();
        assert_eq!(plan.target.as_ref().map(|target| target.kind), kind);
        assert!(
            !shown(&plan.strategy.conditions).contains("CAP"),
            "nothing is said of an incumbent"
        );
        assert_eq!(plan.complete, kind.is_none());
        assert_eq!(plan.achieved, None);
    }
}

#[test]
fn a_release_does_not_follow_a_head_that_left_the_step_it_had_reached() {
    let old = incumbent(100, 100);
    for head in [
        contender(50, 100),
        contender(100, 50),
        contender(100, 100).lacks_traffic(""),
    ] {
        let plan = follower(&old, &head.at(2, Some(2))).unwrap();
        assert_eq!(plan.position, Position::Waiting);
    }
    let successor = contender(0, 0).at(2, Some(2));
    let neighbours = Neighbours::Follower {
        successor: successor.member(),
        successor_is_head: false,
    };
    let plan = plan(old.member(), neighbours, NOW).unwrap();
    assert_eq!(
        plan.target.unwrap().kind,
        TargetKind::Traffic,
        "one that is itself replaced is at nothing"
    );
}

/// R17, R20, and targets that are missing.
#[test]
fn strategies_that_cannot_be_followed() {
    let check = |result: Result<Plan, Error>, expected: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), expected);
        let mut conditions = Conditions::new(&[], NOW);
        report(&mut conditions, Err(&error));
        let condition = conditions.get(STRATEGY_EXECUTED).unwrap();
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(condition.reason, "StrategyExecutionFailed");
        let quoted = Quoted(expected);
        assert_eq!(
            condition.message,
            format!("failed to execute strategy: {quoted}")
        );
    };
    let old = incumbent(100, 100);
    for step in [3, -1, i32::MAX] {
        let expected = format!("no step {step} in strategy for Release \"ns/new\"");
        check(head(&contender(1, 0).at(step, None), Some(&old)), &expected);
        let expected = format!("no step {step} in strategy for Release \"ns/old\"");
        check(follower(&old, &contender(1, 0).at(step, None)), &expected);
    }
    let mut empty = contender(1, 0).at(0, None);
    empty.release.spec.environment.strategy = None;
    check(
        head(&empty, None),
        "no step 0 in strategy for Release \"ns/new\"",
    );

    let stray = Parts::new("old", &vanguard(), &["a"], 100, 100).at(1, Some(2));
    check(
        follower(&stray, &contender(1, 0)),
        "Release ns/old target step is inconsistent: unexpected value 1 (expected: 2)",
    );
    check(
        follower(&empty, &contender(1, 0)),
        "Release ns/new target step is inconsistent: unexpected value 0 (expected: -1)",
    );

    let own = contender(1, 0);
    let previous = Member {
        traffic: None,
        ..old.member()
    };
    let neighbours = Neighbours::Head {
        previous: Some(previous),
    };
    check(
        plan(own.member(), neighbours, NOW),
        "failed to GET TrafficTarget \"ns/old\": traffictarget.shipper.booking.com \"old\" not found",
    );
    let successor = Member {
        installation: None,
        ..own.member()
    };
    let neighbours = Neighbours::Follower {
        successor,
        successor_is_head: true,
    };
    check(
        plan(old.member(), neighbours, NOW),
        "failed to GET InstallationTarget \"ns/new\": installationtarget.shipper.booking.com \"new\" not found",
    );
}

/// G1, G2.
#[test]
fn neighbours_by_generation() {
    for (list, own, expected) in [
        (vec![0, 1, 2], 1, (Some(0), Some(2))),
        (vec![2, 0, 1], 0, (None, Some(1))),
        (vec![1, 2, 0], 2, (Some(1), None)),
        (vec![0, 2], 1, (Some(0), Some(2))),
        (vec![0, 1], 2, (Some(1), None)),
        (vec![0, 3, 7], 5, (Some(3), Some(7))),
        (vec![4], 4, (None, None)),
        (vec![], 4, (None, None)),
    ] {
        assert_eq!(
            neighbours(list.clone(), &own, |&generation| generation),
            expected,
            "{list:?}"
        );
    }
}

/// G3.
#[test]
fn only_a_step_that_is_higher_than_the_wanted_one_is_gone_back_from() {
    for (achieved, backwards) in [
        (None, false),
        (Some(1), false),
        (Some(0), false),
        (Some(2), true),
    ] {
        assert_eq!(is_stepping_backwards(achieved, 1), backwards);
    }
}

/// T1 to T3, and the other rows of the state table.
#[test]
fn state_by_conditions() {
    let direction = Forward;
    let tail = Position::Head {
        previous: true,
        direction,
    };
    let first = Position::Head {
        previous: false,
        direction,
    };
    let follower = Position::Follower { direction };
    for (conditions, position, is_last, expected) in [
        ("inst+1 cap-1 traf+0 CAP+0 TRAF+0", tail, false, "capacity"),
        ("inst+1 cap+1 traf+1 CAP+0 TRAF+0", tail, false, "traffic"),
        ("inst+1 cap+1 traf+1 CAP+1 TRAF+1", tail, false, "command"),
        ("inst+1 cap+1 traf+1 CAP+1 TRAF+1", tail, true, ""),
        ("inst+1 cap+1 traf+1 CAP+0 TRAF+1", tail, false, "capacity"),
        ("inst+1 cap+1 traf-1 CAP+0 TRAF+0", tail, false, "traffic"),
        (
            "inst-1 cap+1 traf+1 CAP+1 TRAF+1",
            tail,
            false,
            "installation",
        ),
        (
            "inst+0 cap+1 traf+1 CAP+1 TRAF+1",
            tail,
            false,
            "installation",
        ),
        ("", tail, false, "installation"),
        ("inst+1 cap+1 traf+1", first, false, "command"),
        ("inst+1 cap+1 traf+1", first, true, ""),
        ("inst+1 cap+1 traf+1", follower, false, ""),
        ("inst+1 cap+1 traf-1", follower, false, "traffic"),
    ] {
        let found = state(&said(conditions), position, 1, is_last);
        assert_eq!(waits(found), expected, "{conditions}");
    }
}

/// T4.
#[test]
fn the_transition_time_of_a_condition_moves_only_with_its_status() {
    let before = Time(Timestamp::constant(1, 0));
    for (previous, expected) in [
        (None, Time(NOW)),
        (Some(ConditionStatus::True), before.clone()),
        (Some(ConditionStatus::False), Time(NOW)),
    ] {
        let mut own = contender(1, 0).at(0, None);
        own.status().strategy = previous.map(|status| StrategyStatus {
            conditions: vec![StrategyCondition {
                type_: "ContenderAchievedInstallation".into(),
                status,
                last_transition_time: Some(before.clone()),
                step: 4,
                ..Default::default()
            }],
            ..Default::default()
        });
        let plan = head(&own, None).unwrap();
        assert_eq!(message(&plan, "ContenderAchievedInstallation"), "");
        let found = &plan.strategy.conditions[1];
        assert_eq!(found.last_transition_time, Some(expected));
        assert_eq!(found.step, 0);
    }
}
