//! The part of a rollout that the agent of a cluster carries out.
//!
//! The hub hands the agent a [`Task`]: the step of each Release of an application. The agent takes
//! the Releases in its cluster to that step by the rules of [`strategy`], also while the hub cannot
//! be reached, and never to another one. It answers with a [`Report`].
//!
//! The decisions are those of the hub for an application with one cluster.

pub mod local;
pub mod report;
#[cfg(test)]
mod tests;

use baton_apis::RolloutStep;
use serde::{Deserialize, Serialize};

use crate::{
    capacity::choice::ANNOTATION_WORKLOADS,
    strategy::{
        self, AchievedShares, Error, ReleaseWithTargets, is_stepping_backwards, target_values,
    },
};

pub use self::{
    local::{LocalRelease, next},
    report::{ReleaseReport, Report},
};

/// The work of an agent for an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Namespace of the Application, and of its objects in the cluster.
    pub namespace: String,
    /// Name of the Application.
    pub application: String,
    /// True while the rollout is blocked or paused: no stage begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held: bool,
    /// The Releases in the cluster. Those with a step are ordered, the oldest first; the last one
    /// leads.
    pub releases: Vec<ReleaseTask>,
}

/// The work for a Release.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseTask {
    /// Name of the Release.
    pub name: String,
    /// The step that the Release is taken to. `None` if the hub requests each change of its shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<RolloutStep>,
    /// True if the Release comes from a later step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backwards: bool,
    /// Number of pods that the chart requests.
    pub replicas: i32,
    /// The annotation with the kinds of the workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<String>,
    /// Without a step, the requested shares. With a step, the shares when the agent got the Release:
    /// they only count for an agent that does not know any others.
    pub shares: AchievedShares,
}

/// The Releases of an application, each group with the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Members<'a> {
    /// The Releases that take part in the rollout. The last one is the newest.
    pub living: Vec<ReleaseWithTargets<'a>>,
    /// The Releases that are being deleted.
    pub leaving: Vec<ReleaseWithTargets<'a>>,
    /// The Releases that a newer one has superseded before they were complete.
    pub superseded: Vec<ReleaseWithTargets<'a>>,
}

/// The task of the agent of a cluster; `None` if no Release is in the cluster.
///
/// `before` is the last task: a Release with a step keeps its first shares. `report` is the last
/// report: superseded Releases keep the shares in it.
///
/// The hub requests the shares of leaving Releases, and of all Releases as long as the newest one is
/// not in the cluster: the others change together with those in other clusters.
///
/// # Errors
/// If a Release has no such step.
pub fn task(
    (namespace, application): (&str, &str),
    members: &Members<'_>,
    cluster: &str,
    (before, report): (Option<&Task>, Option<&Report>),
) -> Result<Option<Task>, Error> {
    let mut tasks = Vec::new();
    for member in &members.superseded {
        if let Some(mut task) = requested(*member, cluster) {
            let reported = report.and_then(|report| report.of(&task.name));
            task.shares = reported.map_or(task.shares, |reported| reported.shares);
            tasks.push(task);
        }
    }
    for member in &members.leaving {
        tasks.extend(requested(*member, cluster));
    }
    let newest = members.living.last();
    let leads = newest.is_some_and(|newest| requested(*newest, cluster).is_some());
    for member in &members.living {
        let Some(mut task) = requested(*member, cluster) else {
            continue;
        };
        if leads {
            let release = member.release;
            task.step = Some(target_values(release)?.clone());
            let achieved = strategy::achieved(release);
            task.is_backwards = is_stepping_backwards(achieved, release.spec.target_step);
            let known = before.and_then(|before| before.of(&task.name));
            let known = known.filter(|known| known.step.is_some());
            task.shares = known.map_or(task.shares, |known| known.shares);
        }
        tasks.push(task);
    }
    Ok((!tasks.is_empty()).then(|| Task {
        namespace: namespace.to_owned(),
        application: application.to_owned(),
        is_held: false,
        releases: tasks,
    }))
}

/// The task while the rollout is blocked or paused: the steps of the last task, and the requested
/// shares of the present one.
#[must_use]
pub fn held(before: &Task, present: Task) -> Task {
    let releases = present.releases.into_iter();
    let releases = releases.filter_map(|release| match release.step {
        None => Some(release),
        Some(_) => before.of(&release.name).cloned(),
    });
    Task {
        is_held: true,
        releases: releases.collect(),
        ..present
    }
}

/// The task for a Release whose shares the hub requests; `None` if it is not in the cluster.
fn requested(member: ReleaseWithTargets<'_>, cluster: &str) -> Option<ReleaseTask> {
    let (capacity, traffic) = (member.capacity?, member.traffic?);
    let mut pods = capacity.spec.clusters.iter();
    let pods = pods.find(|it| it.name == cluster)?;
    let mut weights = traffic.spec.clusters.iter();
    let annotations = capacity.metadata.annotations.as_ref();
    Some(ReleaseTask {
        name: member.release.metadata.name.clone().unwrap_or_default(),
        step: None,
        is_backwards: false,
        replicas: pods.total_replica_count,
        workloads: annotations.and_then(|all| all.get(ANNOTATION_WORKLOADS).cloned()),
        shares: AchievedShares {
            percent: pods.percent,
            weight: weights.find(|it| it.name == cluster)?.weight,
        },
    })
}

impl Task {
    /// The task for a Release.
    pub fn of(&self, release: &str) -> Option<&ReleaseTask> {
        self.releases.iter().find(|it| it.name == release)
    }

    /// The shares that a Release has at the end.
    pub fn wanted(&self, release: &str) -> Option<AchievedShares> {
        let index = self.releases.iter().position(|it| it.name == release)?;
        let own = &self.releases[index];
        let Some(step) = &own.step else {
            return Some(own.shares);
        };
        let mut newer = self.releases[index + 1..].iter();
        Some(match newer.find_map(|it| it.step.as_ref()) {
            Some(step) => AchievedShares {
                percent: step.capacity.incumbent,
                weight: step.traffic.incumbent,
            },
            None => AchievedShares {
                percent: step.capacity.contender,
                weight: step.traffic.contender,
            },
        })
    }
}
