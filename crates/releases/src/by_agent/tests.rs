//! Rollouts in one cluster.

use baton_apis::{StepCapacity, StepTraffic};
use jiff::Timestamp;
use serde_json::json;

use super::{
    local::installed,
    report::{bounded, capacity_of, is_awaited, set_outcomes, traffic_of, within_limits},
    *,
};
use crate::{
    capacity,
    strategy::fixtures,
    targets::{
        Progress,
        reasons::{Cause, Failure},
    },
    traffic::{self, Verdict},
};

const NOW: Timestamp = Timestamp::constant(100, 0);

fn shares(percent: i32, weight: u32) -> AchievedShares {
    AchievedShares { percent, weight }
}

/// Pods and traffic of the same share.
fn both(percent: i32) -> AchievedShares {
    shares(percent, percent.unsigned_abs())
}

/// A step in which each Release has the same share of pods and traffic.
fn step(incumbent: i32, contender: i32) -> RolloutStep {
    RolloutStep {
        capacity: StepCapacity {
            incumbent,
            contender,
        },
        traffic: StepTraffic {
            incumbent: incumbent.unsigned_abs(),
            contender: contender.unsigned_abs(),
        },
        ..RolloutStep::default()
    }
}

fn pods(verdict: capacity::Verdict) -> capacity::Plan {
    capacity::Plan {
        scale: Vec::new(),
        desired: 1,
        available: 1,
        achieved_percent: 100,
        scaled_to: 0,
        verdict,
        sad_pods: Vec::new(),
        reports: Vec::new(),
    }
}

fn endpoints(verdict: Verdict) -> traffic::Plan {
    traffic::Plan {
        enable: vec!["pod".to_owned()],
        disable: Vec::new(),
        achieved: 1,
        verdict,
    }
}

fn release(name: &str, step: Option<RolloutStep>, given: AchievedShares) -> ReleaseTask {
    ReleaseTask {
        name: name.to_owned(),
        step,
        replicas: 10,
        shares: given,
        ..ReleaseTask::default()
    }
}

/// A Release whose shares are in force.
fn local(task: &ReleaseTask, shares: AchievedShares) -> LocalRelease<'_> {
    LocalRelease {
        task,
        shares,
        installation: Progress::Installed,
        capacity: Ok(pods(capacity::Verdict::Ready)),
        traffic: Ok(endpoints(Verdict::Ready)),
    }
}

/// All changes until nothing is left, as `release percent/weight`.
fn changes(tasks: &[ReleaseTask], present: &mut [AchievedShares]) -> Vec<String> {
    let mut changes = Vec::new();
    loop {
        let pairs = tasks.iter().zip(&*present);
        let local: Vec<_> = pairs.map(|(task, shares)| local(task, *shares)).collect();
        let Some((index, shares)) = next(&local, false, NOW).unwrap() else {
            return changes;
        };
        assert_ne!(present[index], shares);
        present[index] = shares;
        let AchievedShares { percent, weight } = shares;
        changes.push(format!("{} {percent}/{weight}", tasks[index].name));
        assert!(changes.len() < 20, "{changes:?}");
    }
}

#[test]
fn pods_come_before_traffic_and_leave_after_it() {
    let tasks = [
        release("old", Some(step(0, 100)), both(100)),
        release("new", Some(step(50, 50)), both(0)),
    ];
    let mut present = [both(100), both(0)];
    assert_eq!(
        changes(&tasks, &mut present),
        ["new 50/0", "new 50/50", "old 100/50", "old 50/50"]
    );
    // Back to an earlier step.
    let mut back = release("new", Some(step(100, 1)), both(0));
    back.is_backwards = true;
    assert_eq!(
        changes(&[tasks[0].clone(), back], &mut present),
        ["old 100/50", "old 100/100", "new 50/1", "new 1/1"]
    );
}

/// From each step to each other one, with a third Release that has some pods left.
#[test]
fn each_step_is_reached_from_each_other_one_and_never_passed() {
    let steps = [(100, 0), (100, 1), (50, 50), (0, 100)];
    for (from, before) in steps.iter().enumerate() {
        for (to, wanted) in steps.iter().enumerate() {
            let mut new = release("new", Some(step(wanted.0, wanted.1)), both(0));
            new.is_backwards = to < from;
            let tasks = [
                release("older", Some(step(0, 100)), both(0)),
                release("old", Some(step(0, 100)), both(0)),
                new,
            ];
            let mut present = [both(10), both(before.0), both(before.1)];
            let made = changes(&tasks, &mut present);
            assert_eq!(
                present,
                [both(0), both(wanted.0), both(wanted.1)],
                "{made:?}"
            );
            let task = Task {
                releases: tasks.to_vec(),
                ..Task::default()
            };
            let ends = ["older", "old", "new"].map(|name| task.wanted(name).unwrap());
            assert_eq!(ends, present);
        }
    }
}

#[test]
fn a_stage_waits_for_the_one_before() {
    type Delay = fn(&mut LocalRelease<'_>);
    let tasks = [
        release("old", Some(step(0, 100)), both(100)),
        release("new", Some(step(50, 50)), both(0)),
    ];
    let uninstalled: Delay = |it| it.installation = Progress::InProgress(String::new());
    let no_pods: Delay = |it| it.capacity = Ok(pods(capacity::Verdict::InProgress));
    let unreadable: Delay = |it| it.capacity = Err(Failure::new(Cause::Read, "no"));
    let no_traffic: Delay = |it| it.traffic = Ok(endpoints(Verdict::InProgress));
    for (present, delay, expected) in [
        (both(0), uninstalled, None),
        (shares(50, 0), no_pods, None),
        (shares(50, 0), unreadable, None),
        (both(50), no_traffic, None),
        (shares(50, 0), no_traffic, Some((1, both(50)))),
    ] {
        let mut local = [local(&tasks[0], both(100)), local(&tasks[1], present)];
        delay(&mut local[1]);
        assert_eq!(next(&local, false, NOW), Ok(expected), "{present:?}");
        assert_eq!(next(&local, true, NOW), Ok(None));
    }
}

/// The newest Release, which the agent has brought to its step, is deleted: the one before it grows
/// first.
#[test]
fn requested_shares_are_added_at_once_and_removed_last() {
    let tasks = [
        release("leaving", None, shares(100, 0)),
        release("growing", None, both(30)),
        release("old", Some(step(0, 100)), both(100)),
    ];
    let mut present = [both(100), both(0), both(0)];
    assert_eq!(
        changes(&tasks, &mut present),
        [
            "growing 30/0",
            "growing 30/30",
            "old 100/0",
            "old 100/100",
            "leaving 100/0"
        ]
    );
    // A Release without traffic loses its pods.
    let gone = [release("leaving", None, both(0))];
    let mut present = [both(100)];
    assert_eq!(
        changes(&gone, &mut present),
        ["leaving 100/0", "leaving 0/0"]
    );
    // Nothing is removed while another Release has to grow, or the rollout is held.
    let mut local = [
        local(&tasks[0], both(100)),
        local(&tasks[1], both(30)),
        local(&tasks[2], both(100)),
    ];
    assert_eq!(next(&local, true, NOW), Ok(Some((0, shares(100, 0)))));
    local[1].traffic = Ok(endpoints(Verdict::InProgress));
    assert_eq!(next(&local, false, NOW), Ok(None));
    local[1].traffic = Ok(endpoints(Verdict::Ready));
    local[2].shares = both(0);
    assert_eq!(next(&local, true, NOW), Ok(None));
}

fn parts(name: &str, clusters: &[&str], target: i32, achieved: Option<i32>) -> fixtures::Parts {
    let steps = [step(50, 50), step(0, 100)];
    fixtures::Parts::new(name, &steps, clusters, 30, 40).at(target, achieved)
}

/// The task as text: `name percent/weight to percent`.
fn text(task: Option<Task>) -> String {
    let releases = task.map(|task| task.releases).unwrap_or_default();
    let releases = releases.iter().map(|it| {
        let AchievedShares { percent, weight } = it.shares;
        let step = it.step.as_ref().map(|step| step.capacity.contender);
        let step = step.map_or_else(String::new, |to| format!(" to {to}"));
        let back = if it.is_backwards { " back" } else { "" };
        format!("{} {percent}/{weight}{step}{back}", it.name)
    });
    releases.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_agent_leads_where_the_newest_release_is() {
    let old = parts("old", &["a", "b"], 1, Some(1));
    let new = parts("new", &["a"], 0, Some(1));
    let gone = parts("gone", &["a", "b"], 1, None);
    let unfinished = parts("unfinished", &["a"], 1, None);
    let of = ("shop", "web");
    let members = Members {
        living: vec![old.member(), new.member()],
        leaving: vec![gone.member()],
        superseded: vec![unfinished.member()],
    };
    let report = Report {
        releases: vec![ReleaseReport {
            name: "unfinished".to_owned(),
            shares: shares(50, 60),
            scaled_to: 0,
            capacity: None,
            traffic: None,
        }],
        ..Report::default()
    };
    let task_of = |cluster: &str, before| task(of, &members, cluster, before).unwrap();
    let first = task_of("a", (None, None));
    assert_eq!(
        text(first.clone()),
        "unfinished 30/40, gone 30/40, old 30/40 to 100, new 30/40 to 50 back"
    );
    // The first shares stay, except requested ones, and a superseded Release stays as it is.
    let mut before = first.clone().unwrap();
    for release in &mut before.releases {
        release.shares = shares(1, 2);
    }
    let before = (Some(&before), Some(&report));
    assert_eq!(
        text(task_of("a", before)),
        "unfinished 50/60, gone 30/40, old 1/2 to 100, new 1/2 to 50 back"
    );
    assert_eq!(text(task_of("b", (None, None))), "gone 30/40, old 30/40");
    assert_eq!(text(task_of("c", (None, None))), "");
    let far = Members {
        living: vec![],
        ..Members::default()
    };
    assert_eq!(task(of, &far, "a", (None, None)), Ok(None));
    let far = parts("new", &["a"], 7, None);
    let far = Members {
        living: vec![far.member()],
        ..Members::default()
    };
    assert!(task(of, &far, "a", (None, None)).is_err());

    // A block keeps the steps.
    let mut next = first.clone().unwrap();
    for release in &mut next.releases {
        release.shares = shares(7, 7);
        if let Some(step) = &mut release.step {
            step.capacity.contender = 9;
        }
    }
    let held = held(&first.unwrap(), next);
    assert!(held.is_held);
    assert_eq!(
        text(Some(held)),
        "unfinished 7/7, gone 7/7, old 30/40 to 100, new 30/40 to 50 back"
    );
}

#[test]
fn an_agent_is_ready_at_the_requested_share_and_at_the_end_of_its_step() {
    let task = Task {
        releases: vec![
            release("old", Some(step(0, 100)), both(100)),
            release("new", Some(step(50, 50)), both(0)),
        ],
        ..Task::default()
    };
    // The Release, the reported share, the one that the hub requests, and the verdict.
    for (name, reported, requested, is_ready) in [
        ("new", 0, 0, true),
        ("new", 0, 50, false),
        ("new", 50, 50, true),
        ("new", 50, 0, true),
        ("old", 50, 100, true),
        ("old", 100, 50, false),
        ("other", 100, 50, false),
    ] {
        let report = ReleaseReport {
            name: name.to_owned(),
            shares: both(reported),
            scaled_to: 0,
            capacity: Some(Ok(pods(capacity::Verdict::Ready))),
            traffic: Some(Ok(endpoints(Verdict::Ready))),
        };
        let text = format!("{name} {reported} {requested}");
        let pods = capacity_of(&report, &task, requested).unwrap().unwrap();
        assert_eq!(pods.verdict == capacity::Verdict::Ready, is_ready, "{text}");
        let traffic = traffic_of(&report, &task, requested.unsigned_abs());
        let verdict = traffic.unwrap().unwrap().verdict;
        assert_eq!(verdict == Verdict::Ready, is_ready, "{text}");
    }
}

#[test]
fn reports_have_no_lists_of_pods_and_are_bounded() {
    let mut release = ReleaseReport {
        name: "new".to_owned(),
        shares: shares(101, 7),
        scaled_to: 0,
        capacity: None,
        traffic: None,
    };
    let stuck = pods(capacity::Verdict::DeploymentStuck("x".repeat(3_000)));
    let not_ready = Verdict::PodsNotReady {
        pods: 1,
        enabled: 2,
    };
    set_outcomes(&mut release, Ok(stuck), Ok(endpoints(not_ready)));
    let report = Report {
        number: 3,
        releases: vec![release],
    };
    let text = json!(report).to_string();
    assert!(!text.contains("enable\""), "{text}");
    let read: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(read, report);
    let limited = within_limits(read);
    assert_eq!(limited.releases[0].shares, shares(100, 7));
    let length = |report: &Report| json!(report).to_string().len();
    assert!(length(&limited) < 1_500);
    assert_eq!(bounded(limited.clone(), 2_000), limited);
    assert!(length(&bounded(report.clone(), 600)) <= 600);
    assert!(!is_awaited(&limited, &limited));
    assert!(is_awaited(&report, &limited));
}

/// An agent cannot say that the hub has not observed something.
#[test]
fn reported_causes_are_those_of_work_in_a_cluster() {
    for (cause, expected) in [
        (Cause::AgentLost, Cause::Read),
        (Cause::NotObserved, Cause::Read),
        (Cause::NoClient, Cause::Read),
        (Cause::Read, Cause::Read),
        (Cause::Missing, Cause::Missing),
        (Cause::Write, Cause::Write),
    ] {
        let failure = || Failure::new(cause, "why");
        let release = ReleaseReport {
            name: "new".to_owned(),
            shares: both(0),
            scaled_to: 0,
            capacity: Some(Err(failure())),
            traffic: Some(Err(failure())),
        };
        let report = within_limits(Report {
            number: 1,
            releases: vec![release],
        });
        let release = &report.releases[0];
        let pods = release.capacity.as_ref().unwrap().as_ref();
        assert_eq!(pods.unwrap_err().cause, expected);
        let traffic = release.traffic.as_ref().unwrap().as_ref();
        assert_eq!(traffic.unwrap_err().cause, expected);
    }
}

#[test]
fn a_release_is_installed_when_all_its_phases_are_available() {
    let state = |available: bool| Some((available, "why".to_owned()));
    let waits = |text: &str| Progress::InProgress(text.to_owned());
    for (phases, expected) in [
        (vec![], waits("")),
        (vec![state(true), None], waits("")),
        (vec![state(false), state(true)], waits("why")),
        (vec![state(true), state(true)], Progress::Installed),
    ] {
        assert_eq!(installed(&phases), expected);
    }
}
