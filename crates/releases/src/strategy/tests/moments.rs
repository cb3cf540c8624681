//! The stages of a step, and every moment of them.

use super::*;

#[test]
fn the_order_of_stages_depends_on_the_position() {
    let head = |previous, direction| Position::Head {
        previous,
        direction,
    };
    let (all, usual) = (TargetComparison::EQUAL, TargetComparison::EQUAL);
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

/// The moments of a step with a Release at the head.
///
/// Columns: name; target step; achieved step; capacity and weight of contender and incumbent (`?`
/// not observed, `!` observed and not ready); patch; conditions; the state that is waited for.
/// Before, all five conditions are true for the achieved step.
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
fn each_moment_of_a_step_has_one_patch_and_its_conditions() {
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
        assert_eq!(text_of(&plan.strategy.conditions), conditions, "{name}");
        assert_eq!(waits(plan.strategy.state.unwrap()), waiting, "{name}");
        assert_eq!(plan.target, target_patch(patch), "{name}");
        let finished = !conditions.contains('-');
        let reached = (finished && achieved != Some(target)).then_some(target);
        let found = plan.achieved.as_ref().map(|achieved| achieved.step);
        assert_eq!(found, reached, "{name}");
        assert_eq!(plan.complete, finished && target == 2, "{name}");
        let transitions = usize::from(finished) * 4;
        let expected = transitions + usize::from(reached.is_some());
        assert_eq!(plan.events.len(), expected, "{name}");
        let texts: Vec<_> = plan.events.iter().map(|event| &*event.message).collect();
        let is_reported = reached.is_none_or(|step| texts[0] == format!("step [{step}] finished"));
        assert!(is_reported, "{name}: {texts:?}");
        let waits_for_command = "\"WaitingForCommand\" transitioned to \"True\"";
        let is_command = texts.iter().any(|text| text.ends_with(waits_for_command));
        assert_eq!(is_command, waiting == "command", "{name}: {texts:?}");
    }
}

/// The rollout goes from a step that is nearly reached back to the one before it, which still
/// counts as reached.
#[test]
fn a_step_back_restores_the_capacity_of_the_incumbent_first() {
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
        // The traffic of the incumbent has not grown yet, so the contender can lose the surplus.
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
        assert_eq!(text_of(&plan.strategy.conditions), conditions);
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

/// The patch of all clusters: kind of the target, name of the Release, and the new value.
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
        version: None,
        body: json!({"spec": {"clusters": clusters}}),
    })
}

#[test]
fn a_first_release_adds_capacity_first_and_removes_traffic_first() {
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
