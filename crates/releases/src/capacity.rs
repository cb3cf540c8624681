//! The number of pods of a Release in a cluster.
//!
//! Workloads are described by a few facts, so no kind of workload is a special case.

pub mod choice;
pub mod report;
pub mod sad;
#[cfg(test)]
mod tests;
pub mod workload;

use baton_apis::{CapacityReport, SadPod, conditions::Reason};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use workload::{Scaling, Workload};

/// A workload of a Release in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseWorkload<'a> {
    /// The observed workload.
    pub workload: &'a Workload,
    /// Number of pods that the chart requests.
    pub total: i32,
    /// Greatest number of pods that the same workload of another Release is scaled to.
    pub others: i32,
    /// Percentage up to which the workload was scaled before an autoscaler took over.
    pub scaled_to: i32,
    /// The pods that the workload selects.
    pub pods: &'a [Pod],
}

impl ReleaseWorkload<'_> {
    /// The number of pods to scale to.
    ///
    /// An autoscaler does not touch a workload that is scaled to zero, and takes over from any
    /// other number. So each step that asks for more only makes sure that the workload has its
    /// share: of the pods of the chart, or of those that another Release needs at present. Steps
    /// remove no pods, except all.
    fn desired(&self, percent: i32) -> i32 {
        let desired = desired_replicas(self.total, percent);
        if self.workload.scaling == Scaling::Steps || desired == 0 {
            return desired;
        }
        let least = desired_replicas(self.total.max(self.others), percent);
        match self.workload.replicas {
            Some(replicas) if replicas > 0 && percent <= self.scaled_to => replicas,
            replicas => least.max(replicas.unwrap_or(0)),
        }
    }
}

/// The decision about the workloads of a Release in a cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The workloads to scale. Not part of a report.
    #[serde(skip)]
    pub scale: Vec<Scale>,
    /// Wanted number of pods.
    pub desired: i32,
    /// Number of available pods.
    pub available: i32,
    /// Percentage of the total that is available, rounded up.
    pub achieved_percent: i32,
    /// Percentage up to which the workloads with an autoscaler were scaled; 0 without one.
    #[serde(default)]
    pub scaled_to: i32,
    /// Comparison of the available pods with the wanted number.
    pub verdict: Verdict,
    /// Some of the pods that are not ready; empty when all workloads are ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sad_pods: Vec<SadPod>,
    /// All pods, counted by their state: a report on each workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<CapacityReport>,
}

/// A workload to scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Index of the workload in the parts.
    pub index: usize,
    /// Wanted number of pods.
    pub replicas: i32,
}

/// The comparison of the available pods with the wanted number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Verdict {
    /// The number is as wanted.
    Ready,
    /// The number is not as wanted yet, and nothing prevents it.
    InProgress,
    /// The controller of a workload reports a failure, with this message.
    DeploymentStuck(String),
    /// Pods are not ready: a summary of them.
    PodsNotReady(String),
}

impl Verdict {
    /// Status, reason and message of the condition `Ready` of the cluster.
    pub fn condition(&self) -> (bool, Option<Reason>, &str) {
        match self {
            Self::Ready => (true, None, ""),
            Self::InProgress => (false, Some(Reason::InProgress), ""),
            Self::DeploymentStuck(message) => (false, Some(Reason::DeploymentStuck), message),
            Self::PodsNotReady(message) => (false, Some(Reason::PodsNotReady), message),
        }
    }
}

/// A percentage of a number of pods, rounded up: any share above zero is at least one pod.
pub fn desired_replicas(total: i32, percent: i32) -> i32 {
    let (total, percent) = (i64::from(total.max(0)), i64::from(percent.clamp(0, 100)));
    let desired = total * percent;
    // The result is at most `total`, so it fits.
    i32::try_from((desired + 99) / 100).unwrap_or(i32::MAX)
}

/// The percentage of a number of pods that are available, rounded up. It is above 100 while there
/// are too many pods, and 0 if the number is 0.
pub fn achieved_percent(available: i32, total: i32) -> i32 {
    let (available, total) = (i64::from(available.max(0)), i64::from(total));
    if total <= 0 {
        return 0;
    }
    i32::try_from((available * 100 + total - 1) / total).unwrap_or(i32::MAX)
}

/// Decides about the workloads of a Release in a cluster. Each workload gets the percentage of its
/// own total. A chart has one workload, unless its annotations name several.
pub fn plan(percent: i32, parts: &[ReleaseWorkload]) -> Plan {
    let states: Vec<_> = parts.iter().map(|part| State::of(percent, part)).collect();
    let scale = states.iter().enumerate().filter_map(|(index, state)| {
        let replicas = state.desired;
        state.is_scaled.then_some(Scale { index, replicas })
    });
    let sum = |numbers: &mut dyn Iterator<Item = i32>| numbers.fold(0, i32::saturating_add);
    let desired = sum(&mut states.iter().map(|state| state.desired));
    let available = sum(&mut parts.iter().map(|part| part.workload.available));
    let total = sum(&mut parts.iter().map(|part| part.total));
    let unready = || {
        parts
            .iter()
            .zip(&states)
            .filter(|(_, state)| !state.is_ready)
    };
    let sad_pods = sad::pods(unready().flat_map(|(part, _)| part.pods));

    let failure = unready()
        .filter(|(_, state)| state.is_settled)
        .find_map(|(part, _)| part.workload.failure.clone());
    let verdict = if let Some(failure) = failure {
        Verdict::DeploymentStuck(failure)
    } else if parts.is_empty() || states.iter().any(|state| !state.is_settled) {
        Verdict::InProgress
    } else if states.iter().all(|state| state.is_ready) {
        Verdict::Ready
    } else if sad_pods.is_empty() {
        Verdict::InProgress
    } else {
        let summary = sad::summary(&sad_pods);
        Verdict::PodsNotReady(format!("{}/{desired}: {summary}", sad_pods.len()))
    };
    Plan {
        scale: scale.collect(),
        desired,
        available,
        achieved_percent: achieved_percent(available, total),
        scaled_to: scaled_to(percent, parts, &verdict),
        verdict,
        sad_pods,
        reports: parts
            .iter()
            .map(|part| report::of(&part.workload.name, part.pods))
            .collect(),
    }
}

/// The percentage up to which the workloads with an autoscaler were scaled: that of the step, once
/// the pods are available. Then the autoscaler takes over, until a step asks for more.
fn scaled_to(percent: i32, parts: &[ReleaseWorkload], verdict: &Verdict) -> i32 {
    let mut scaled = parts
        .iter()
        .filter(|part| part.workload.scaling == Scaling::Autoscaler);
    let Some(part) = scaled.next() else {
        return 0;
    };
    if *verdict == Verdict::Ready {
        percent
    } else {
        part.scaled_to.min(percent)
    }
}

/// The progress of a workload.
struct State {
    desired: i32,
    /// True if the workload has to be scaled.
    is_scaled: bool,
    /// True if the status of the workload refers to the wanted number of pods.
    is_settled: bool,
    is_ready: bool,
}

impl State {
    fn of(percent: i32, part: &ReleaseWorkload) -> Self {
        let desired = part.desired(percent);
        let is_scaled = part.workload.replicas != Some(desired);
        let is_settled = !is_scaled && part.workload.is_observed();
        Self {
            desired,
            is_scaled,
            is_settled,
            is_ready: is_settled && part.workload.available == desired,
        }
    }
}
