//! The report of an agent about a rollout, as the hub reads it.

use baton_engine::texts::shorten;
use serde::{Deserialize, Serialize};

use super::Task;
use crate::{
    capacity,
    strategy::AchievedShares,
    targets::{
        CapacityOutcome, TrafficOutcome,
        reasons::{Cause, Failure},
    },
    traffic::Verdict,
};

/// The report of an agent about an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Number of the report: a later one has a higher number.
    #[serde(default)]
    pub number: u64,
    /// The Releases of the task.
    pub releases: Vec<ReleaseReport>,
}

/// The report about a Release.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    /// Name of the Release.
    pub name: String,
    /// The shares that the agent requests at present.
    pub shares: AchievedShares,
    /// Percentage up to which the workloads were scaled before an autoscaler took over.
    #[serde(default)]
    pub scaled_to: i32,
    /// The outcome of these shares: pods. `None` until the first pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityOutcome>,
    /// The outcome of these shares: traffic. `None` until the first pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficOutcome>,
}

impl Report {
    /// The report about a Release.
    pub fn of(&self, release: &str) -> Option<&ReleaseReport> {
        self.releases.iter().find(|it| it.name == release)
    }
}

/// The reported outcome of the pods of a Release, for the percentage that the hub requests.
///
/// The agent may be ahead of the hub, at the step of the task. While it has neither that share nor
/// the requested one, the Release is not ready.
pub fn capacity_of(report: &ReleaseReport, task: &Task, percent: i32) -> Option<CapacityOutcome> {
    let mut outcome = report.capacity.clone()?;
    let wanted = task.wanted(&report.name).map(|shares| shares.percent);
    let is_there = [Some(percent), wanted].contains(&Some(report.shares.percent));
    if let (Ok(plan), false) = (&mut outcome, is_there) {
        plan.verdict = capacity::Verdict::InProgress;
    }
    Some(outcome)
}

/// As [`capacity_of`], for the weight of a Release.
pub fn traffic_of(report: &ReleaseReport, task: &Task, weight: u32) -> Option<TrafficOutcome> {
    let mut outcome = report.traffic.clone()?;
    let wanted = task.wanted(&report.name).map(|shares| shares.weight);
    let is_there = [Some(weight), wanted].contains(&Some(report.shares.weight));
    if let (Ok(plan), false) = (&mut outcome, is_there) {
        plan.verdict = Verdict::InProgress;
    }
    Some(outcome)
}

/// True if a new report is worth a write at once: a strategy may wait for it.
pub fn is_awaited(before: &Report, new: &Report) -> bool {
    let state = |report: &Report| {
        let of = |it: &ReleaseReport| {
            let pods = it.capacity.as_ref().map(|it| match it {
                Ok(plan) => Ok(plan.verdict == capacity::Verdict::Ready),
                Err(failure) => Err(failure.cause),
            });
            let traffic = it.traffic.as_ref().map(|it| match it {
                Ok(plan) => Ok(plan.verdict == Verdict::Ready),
                Err(failure) => Err(failure.cause),
            });
            (it.name.clone(), it.shares, pods, traffic)
        };
        report.releases.iter().map(of).collect::<Vec<_>>()
    };
    state(before) != state(new)
}

/// Limit of the length of a message, in bytes.
const MAX_MESSAGE: usize = 1_000;

/// The parts of a report within limits: the credentials of the agent may be in other hands.
#[must_use]
pub fn within_limits(report: Report) -> Report {
    let mut report = with_messages(report, MAX_MESSAGE);
    for release in &mut report.releases {
        release.shares.percent = release.shares.percent.clamp(0, 100);
        if let Some(Ok(plan)) = &mut release.capacity {
            plan.available = plan.available.max(0);
            plan.achieved_percent = plan.achieved_percent.max(0);
            plan.scaled_to = plan.scaled_to.clamp(0, 100);
        }
        // These causes are about the connection of the hub.
        for failure in failures(release) {
            if !matches!(
                failure.cause,
                Cause::Missing
                    | Cause::Write
                    | Cause::Discovery
                    | Cause::UnknownKind
                    | Cause::Refused
            ) {
                failure.cause = Cause::Read;
            }
        }
    }
    report
}

fn failures(release: &mut ReleaseReport) -> impl Iterator<Item = &mut Failure> {
    let pods = release.capacity.as_mut().and_then(|it| it.as_mut().err());
    let traffic = release.traffic.as_mut().and_then(|it| it.as_mut().err());
    pods.into_iter().chain(traffic)
}

/// The report with messages of at most this number of bytes.
fn with_messages(mut report: Report, most: usize) -> Report {
    for release in &mut report.releases {
        for failure in failures(release) {
            shorten(&mut failure.message, most);
        }
        if let Some(Ok(plan)) = &mut release.capacity {
            match &mut plan.verdict {
                capacity::Verdict::DeploymentStuck(text)
                | capacity::Verdict::PodsNotReady(text) => {
                    shorten(text, most);
                }
                capacity::Verdict::Ready | capacity::Verdict::InProgress => {}
            }
        }
    }
    report
}

/// The report with at most `most` bytes as JSON: without the states of single pods, and with shorter
/// messages, if necessary.
#[must_use]
pub fn bounded(report: Report, most: usize) -> Report {
    let fits = |report: &Report| serde_json::to_string(report).is_ok_and(|it| it.len() <= most);
    if fits(&report) {
        return report;
    }
    let mut report = report;
    for release in &mut report.releases {
        if let Some(Ok(plan)) = &mut release.capacity {
            plan.reports.clear();
            plan.sad_pods.clear();
        }
    }
    for length in [MAX_MESSAGE, 200, 20] {
        report = with_messages(report, length);
        if fits(&report) {
            break;
        }
    }
    report
}

/// The outcomes of a Release as they are reported: without the changes of single objects.
pub fn set_outcomes(
    report: &mut ReleaseReport,
    capacity: CapacityOutcome,
    traffic: TrafficOutcome,
) {
    let capacity = capacity.map(|plan| capacity::Plan {
        scale: Vec::new(),
        ..plan
    });
    let traffic = traffic.map(|plan| crate::traffic::Plan {
        enable: Vec::new(),
        disable: Vec::new(),
        ..plan
    });
    if let Ok(plan) = &capacity {
        report.scaled_to = plan.scaled_to;
    }
    report.capacity = Some(capacity);
    report.traffic = Some(traffic);
}
