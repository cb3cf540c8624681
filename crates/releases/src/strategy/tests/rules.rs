//! Messages and patches, the order of Releases, and the state of a Release.

use baton_apis::conditions::EventReason;

use super::*;

#[test]
fn messages_name_the_release_and_the_cause_of_the_wait() {
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

/// Nothing is changed while a cluster lacks the objects.
#[test]
fn targets_are_not_changed_until_the_release_is_installed() {
    let mut own = contender(1, 0).at(1, Some(0));
    own.installation.status = None;
    let plan = head(&own, Some(&incumbent(100, 100))).unwrap();
    assert_eq!(plan.target, None);
    assert_eq!(text_of(&plan.strategy.conditions), "inst-1");
    assert_eq!(waits(plan.strategy.state.unwrap()), "installation");
}

#[test]
fn events_of_a_step_that_is_reached() {
    let own = contender(100, 100).at(2, Some(1));
    let plan = head(&own, Some(&incumbent(0, 0))).unwrap();
    let event = |state: &str| {
        let text =
            format!("Release \"ns/new\" had its state \"{state}\" transitioned to \"False\"");
        Event::normal(EventReason::ReleaseStateTransitioned, text)
    };
    let expected = [
        Event::normal(EventReason::StrategyApplied, "step [2] finished"),
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
    let reported = "[] -> [StrategyExecuted True], [] -> [Complete True]";
    assert_eq!(conditions.take_changes().as_deref(), Some(reported));
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

/// Includes a Release before the incumbent, which is scaled to zero.
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
            !text_of(&plan.strategy.conditions).contains("CAP"),
            "nothing is said of an incumbent"
        );
        assert_eq!(plan.complete, kind.is_none());
        assert_eq!(plan.achieved, None);
    }
}

#[test]
fn a_release_does_not_follow_a_head_that_is_behind_its_reached_step() {
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

/// Missing targets are invalid as well.
#[test]
fn invalid_strategies_are_refused() {
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
    let previous = ReleaseWithTargets {
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
    let successor = ReleaseWithTargets {
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

#[test]
fn neighbours_have_the_next_lower_and_higher_generation() {
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

#[test]
fn a_rollout_steps_back_only_from_a_step_above_the_target() {
    for (achieved, backwards) in [
        (None, false),
        (Some(1), false),
        (Some(0), false),
        (Some(2), true),
    ] {
        assert_eq!(is_stepping_backwards(achieved, 1), backwards);
    }
}

#[test]
fn the_state_follows_from_the_conditions() {
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
