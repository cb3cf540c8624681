//! Decisions about the number of pods.
#![expect(
    clippy::needless_pass_by_value,
    reason = "fixtures are easier to read without references"
)]

use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use super::{workload::Scaling, *};

/// The plan for one workload at a percentage of a total.
fn plan_one((percent, total): (i32, i32), workload: &Workload, pods: &[Pod]) -> Plan {
    plan(
        percent,
        &[ReleaseWorkload {
            workload,
            total,
            others: 0,
            scaled_to: 0,
            pods,
        }],
    )
}

/// The number to which the one workload is scaled.
fn scaled(plan: &Plan) -> Option<i32> {
    plan.scale.first().map(|scale| scale.replicas)
}

fn workload(replicas: i32, available: i32, conditions: Value) -> Workload {
    let deployment = json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 3, "availableReplicas": available, "conditions": conditions},
    });
    Workload::of(&deployment, Scaling::Steps)
}

/// A pod with its conditions as `Type=Status/Reason`, and the state of its containers.
fn pod(name: &str, conditions: &[&str], containers: Value, init: Value) -> Pod {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|text| {
            let (type_, rest) = text.split_once('=').unwrap();
            let (status, reason) = rest.split_once('/').unwrap_or((rest, ""));
            json!({"type": type_, "status": status, "reason": reason})
        })
        .collect();
    from_value(json!({
        "metadata": {"name": name},
        "status": {"conditions": conditions, "containerStatuses": containers, "initContainerStatuses": init},
    }))
    .unwrap()
}

/// The status of a container with this state.
fn container(name: &str, ready: bool, state: Value) -> Value {
    json!({"name": name, "ready": ready, "restartCount": 0, "image": "", "imageID": "", "state": state})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

fn sad(name: &str) -> Pod {
    let containers = json!([container("app", false, waiting("ErrImagePull"))]);
    pod(
        name,
        &["PodScheduled=True", "Ready=False/ContainersNotReady"],
        containers,
        json!([]),
    )
}

/// The workload is scaled first, then ready.
#[test]
fn a_workload_is_scaled_to_its_share_and_then_ready() {
    let before = plan_one((50, 10), &workload(0, 5, json!([])), &[]);
    assert_eq!(
        (scaled(&before), before.verdict),
        (Some(5), Verdict::InProgress)
    );
    let after = plan_one((50, 10), &workload(5, 5, json!([])), &[]);
    assert_eq!((scaled(&after), after.verdict), (None, Verdict::Ready));
    assert_eq!((after.available, after.achieved_percent), (5, 50));
}

#[test]
fn a_workload_without_sad_pods_is_in_progress() {
    let plan = plan_one((100, 10), &workload(10, 5, json!([])), &[]);
    assert_eq!((scaled(&plan), plan.achieved_percent), (None, 50));
    assert_eq!(
        plan.verdict.condition(),
        (false, Some(Reason::InProgress), "")
    );
}

#[test]
fn containers_of_sad_pods_are_summed_up_by_name() {
    let pods = [
        pod(
            "one",
            &["Ready=False"],
            json!([
                container("app", false, waiting("ImagePullBackOff")),
                container("fine", true, json!({"running": {}})),
                container(
                    "side",
                    false,
                    json!({"terminated": {"exitCode": 1, "reason": "Error"}})
                ),
            ]),
            json!([container("prepare", false, waiting("PodInitializing"))]),
        ),
        pod(
            "two",
            &["Ready=False"],
            json!([
                container("app", false, waiting("ErrImagePull")),
                container("side", false, Value::Null)
            ]),
            json!([container(
                "prepare",
                true,
                json!({"terminated": {"exitCode": 0, "reason": "Completed"}})
            )]),
        ),
    ];
    let plan = plan_one((100, 3), &workload(3, 1, json!([])), &pods);
    let expected = "2/3: 2x\"app\" containers with [ErrImagePull ImagePullBackOff]; 1x\"prepare\" containers with \
                    [PodInitializing]; 2x\"side\" containers with [Error]";
    assert_eq!(plan.verdict, Verdict::PodsNotReady(expected.into()));
}

#[test]
fn a_share_above_zero_is_at_least_one_pod() {
    for (total, percent, expected) in [
        (3, 0, 0),
        (3, 1, 1),
        (3, 33, 1),
        (3, 34, 2),
        (3, 66, 2),
        (3, 67, 3),
        (3, 100, 3),
        (1, 1, 1),
        (0, 100, 0),
        (10, 50, 5),
        (i32::MAX, 100, i32::MAX),
        (i32::MAX, 50, 1_073_741_824),
        // Unusual input.
        (3, 250, 3),
        (3, -1, 0),
        (-3, 50, 0),
    ] {
        assert_eq!(
            desired_replicas(total, percent),
            expected,
            "{percent} of {total}"
        );
    }
    for (available, total, expected) in [
        (0, 3, 0),
        (1, 3, 34),
        (2, 3, 67),
        (3, 3, 100),
        (4, 3, 134),
        (5, 0, 0),
        (5, -1, 0),
        (-5, 1, 0),
        (i32::MAX, 1, i32::MAX),
    ] {
        assert_eq!(
            achieved_percent(available, total),
            expected,
            "{available} of {total}"
        );
    }
}

/// The first reason that applies is reported, in the order of Shipper.
#[test]
fn the_first_applicable_reason_of_an_unready_workload_is_reported() {
    let conditions = json!([
        {"type": "Progressing", "status": "False", "message": "deadline exceeded"},
        {"type": "ReplicaFailure", "status": "True", "message": "quota"},
        {"type": "Available", "status": "False", "message": "no"},
    ]);
    let stuck = |message: &str| Verdict::DeploymentStuck(message.into());
    let message = "1/4: 1x\"app\" containers with [ErrImagePull]";
    for (conditions, pods, expected) in [
        (conditions.clone(), vec![sad("a")], stuck("quota")),
        (
            json!([conditions[0]]),
            vec![sad("a")],
            stuck("deadline exceeded"),
        ),
        (
            json!([conditions[2]]),
            vec![sad("a")],
            Verdict::PodsNotReady(message.into()),
        ),
        (
            json!([{"type": "Progressing", "status": "True"}]),
            vec![],
            Verdict::InProgress,
        ),
        (
            json!([{"type": "Progressing", "status": "Unknown"}]),
            vec![],
            Verdict::InProgress,
        ),
    ] {
        let plan = plan_one((100, 4), &workload(4, 3, conditions), &pods);
        assert_eq!(plan.verdict, expected);
    }
}

#[test]
fn more_pods_than_wanted_are_not_ready() {
    let plan = plan_one((50, 10), &workload(5, 6, json!([])), &[]);
    assert_eq!(
        (plan.verdict, plan.achieved_percent),
        (Verdict::InProgress, 60)
    );
}

#[test]
fn a_status_of_an_older_generation_does_not_count() {
    let mut workload = workload(5, 5, json!([]));
    workload.generation = 4;
    assert_eq!(
        plan_one((50, 10), &workload, &[]).verdict,
        Verdict::InProgress
    );
    workload.observed_generation = None;
    assert_eq!(
        plan_one((50, 10), &workload, &[]).verdict,
        Verdict::Ready,
        "a kind that does not tell"
    );
}

/// The planner needs no other facts about a kind.
#[test]
fn the_readable_fields_of_a_malformed_workload_are_used() {
    let empty = Workload::of(&json!({}), Scaling::Steps);
    assert_eq!(
        empty,
        Workload {
            observed_generation: Some(0),
            ..Default::default()
        }
    );
    assert_eq!(
        scaled(&plan_one((0, 3), &empty, &[])),
        Some(0),
        "no number is not the same as none"
    );
    let odd = json!({
        "metadata": {"name": 3}, "spec": {"replicas": "3"},
        "status": {"conditions": [1, {"type": "ReplicaFailure", "status": "True"}]},
    });
    let odd = Workload::of(&odd, Scaling::Steps);
    assert_eq!(
        (odd.name.as_str(), odd.replicas, odd.failure.as_deref()),
        ("", None, Some(""))
    );
}

/// Each step with an autoscaler makes sure once that the workload has its share of the pods of the
/// chart, or of those of the other Release. Then the number is the autoscaler's.
#[test]
fn an_autoscaler_takes_over_after_each_step() {
    for (percent, scaled_to, others, replicas, expected) in [
        (0, 100, 0, 7, Some(0)),
        (0, 0, 0, 0, None),
        (50, 0, 0, 0, Some(5)),
        (50, 0, 40, 0, Some(20)),
        (50, 1, 40, 1, Some(20)),
        (50, 1, 40, 30, None),
        (50, 50, 40, 3, None),
        (10, 50, 40, 30, None),
        (100, 50, 40, 20, Some(40)),
        (100, 100, 0, 3, None),
        (100, 100, 0, 0, Some(10)),
    ] {
        let mut workload = workload(replicas, replicas, json!([]));
        workload.scaling = Scaling::Autoscaler;
        let part = ReleaseWorkload {
            workload: &workload,
            total: 10,
            others,
            scaled_to,
            pods: &[],
        };
        let found = plan(percent, &[part]);
        let text = format!("{replicas} pods, scaled to {scaled_to}%, at {percent}%");
        assert_eq!(scaled(&found), expected, "{text}");
        assert_eq!(
            found.verdict == Verdict::Ready,
            expected.is_none(),
            "{text}"
        );
        let next = if expected.is_none() {
            percent
        } else {
            scaled_to.min(percent)
        };
        assert_eq!(found.scaled_to, next, "{text}");
    }
    let steps = workload(7, 7, json!([]));
    assert_eq!(plan_one((70, 10), &steps, &[]).scaled_to, 0);
}

#[test]
fn at_most_five_sad_pods_are_reported_with_their_first_condition() {
    let mut pods: Vec<_> = ["f", "c", "e", "a", "d", "b"].map(sad).into();
    pods.push(pod("0", &["Ready=True"], json!([]), json!([])));
    pods.push(Pod::default());
    let found = plan_one((100, 10), &workload(10, 1, json!([])), &pods);
    let names: Vec<_> = found.sad_pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let condition = &found.sad_pods[0].condition;
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref()),
        ("Ready", Some("ContainersNotReady"))
    );
    let Verdict::PodsNotReady(message) = found.verdict else {
        panic!("not ready");
    };
    assert_eq!(message, "5/10: 5x\"app\" containers with [ErrImagePull]");
    let ready = plan_one((10, 10), &workload(1, 1, json!([])), &pods);
    assert_eq!(
        ready.sad_pods,
        [],
        "they are not reported once the workload is ready"
    );
}

#[test]
fn reports_count_pods_by_condition_and_containers_by_state() {
    let crashed = |name: &str, restarts: i32, last: Value, state: Value| {
        let mut container = container(name, false, state);
        container["restartCount"] = json!(restarts);
        container["lastState"] = last;
        container
    };
    let exit = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
    let pods = [
        pod(
            "b",
            &["Ready=False/Why"],
            json!([crashed("app", 3, exit, waiting("CrashLoopBackOff"))]),
            json!([]),
        ),
        pod(
            "a",
            &["Ready=False/Why", "PodScheduled=True"],
            json!([
                crashed("app", 0, json!({}), waiting("CrashLoopBackOff")),
                container(
                    "job",
                    false,
                    json!({"terminated": {"exitCode": 1, "signal": 9, "reason": "Error"}})
                ),
            ]),
            json!([]),
        ),
        pod(
            "c",
            &["Ready=True"],
            json!([
                container(
                    "job",
                    false,
                    json!({"terminated": {"exitCode": 1, "message": "said so"}})
                ),
                container("app", true, json!({"running": {}})),
                container("odd", true, Value::Null),
            ]),
            json!([]),
        ),
        pod(
            "d",
            &[],
            json!([container("app", true, json!({"running": {}}))]),
            json!([]),
        ),
    ];
    let state = |type_: &str, reason: &str, count: i32, pod: &str, message: &str| {
        let mut state = json!({"type": type_, "count": count, "example": {"pod": pod}});
        if !reason.is_empty() {
            state["reason"] = json!(reason);
        }
        if !message.is_empty() {
            state["example"]["message"] = json!(message);
        }
        state
    };
    let container = |name: &str, states: Value| json!({"name": name, "states": states});
    let crash = |count| state("Waiting", "CrashLoopBackOff", count, "a", "");
    let killed = state("Terminated", "Error", 1, "a", "Terminated with signal 9");
    let expected = json!({"owner": {"name": "web"}, "breakdown": [
        {"type": "PodScheduled", "status": "True", "count": 1, "containers": [
            container("app", json!([crash(1)])),
            container("job", json!([killed])),
        ]},
        {"type": "Ready", "status": "False", "reason": "Why", "count": 2, "containers": [
            container("app", json!([crash(2)])),
            container("job", json!([killed])),
        ]},
        {"type": "Ready", "status": "True", "count": 1, "containers": [
            container("app", json!([state("Running", "", 1, "c", "")])),
            container("job", json!([state("Terminated", "", 1, "c", "said so")])),
            container("odd", json!([state("Waiting", "", 1, "c", "")])),
        ]},
    ]});
    assert_eq!(json!(report::of("web", &pods)), expected);

    let report = report::of("web", &pods[..1]);
    let example = &report.breakdown[0].containers[0].states[0].example;
    assert_eq!(
        example.message, "Terminated with exit code 2",
        "what it said before it was started again"
    );
    let nothing = json!({"owner": {"name": "web"}, "breakdown": []});
    assert_eq!(json!(report::of("web", &pods[3..])), nothing);
}

/// Each workload has a share of its own total, and the cluster is ready when all workloads are.
#[test]
fn several_workloads_are_scaled_side_by_side() {
    let ready = || workload(2, 2, json!([]));
    let check = |other: Workload, pods: &[Pod], scale: &[Scale], verdict: Verdict| {
        let part = |workload, total, pods| ReleaseWorkload {
            workload,
            total,
            others: 0,
            scaled_to: 0,
            pods,
        };
        let found = plan(
            50,
            &[part(&ready(), 4, &[sad("fine")]), part(&other, 7, pods)],
        );
        assert_eq!((found.scale.as_slice(), &found.verdict), (scale, &verdict));
        assert_eq!(found.desired, 6);
        assert_eq!(found.reports.len(), 2);
        found
    };
    let scale = Scale {
        index: 1,
        replicas: 4,
    };
    check(
        workload(0, 0, json!([])),
        &[],
        &[scale],
        Verdict::InProgress,
    );
    let half = check(workload(4, 1, json!([])), &[], &[], Verdict::InProgress);
    assert_eq!((half.available, half.achieved_percent), (3, 28));
    let message = "1/6: 1x\"app\" containers with [ErrImagePull]";
    check(
        workload(4, 1, json!([])),
        &[sad("b")],
        &[],
        Verdict::PodsNotReady(message.into()),
    );
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]);
    check(
        workload(4, 1, failure),
        &[],
        &[],
        Verdict::DeploymentStuck("quota".into()),
    );
    let done = check(workload(4, 4, json!([])), &[sad("b")], &[], Verdict::Ready);
    assert_eq!(done.sad_pods, []);
    assert_eq!(
        plan(50, &[]).verdict,
        Verdict::InProgress,
        "nothing is not ready"
    );
}

proptest! {
    #[test]
    fn percentages_of_pods_are_rounded_up(total in 0..100_000, percent in 0..=100) {
        let desired = desired_replicas(total, percent);
        prop_assert!(desired * 100 >= total * percent);
        prop_assert!(desired == 0 || (desired - 1) * 100 < total * percent);
        if total > 0 {
            prop_assert!(achieved_percent(desired, total) >= percent);
        }
    }
}
