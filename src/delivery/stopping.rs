//! Workloads that stop because a newer revision of their site requests it: checks if any of their
//! pods still runs.

use std::time::Duration;

use baton_apis::conditions::STOPPED;
use baton_engine::{
    Answer,
    object::is_terminating,
    object_pass::Live,
    pass::{Outcome, PassResult},
    revision::{Desired, Phase, Revision},
    stop::{Pods, end, is_bare_pod, is_stopped, pods},
};
use baton_sites::gate::StopRequest;
use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::{
    gate::{SitePass, stopped},
    objects::Objects,
};

/// The message of a phase that has stopped.
const MAKES_WAY: &str = "Its workloads have stopped for a newer version.";
/// Maximum number of workloads with pods that are named.
const MAX_NAMED: usize = 3;
/// The longest pause between two checks of pods.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The workloads of a phase that are to stop.
pub(super) fn workloads(phases: &[Phase]) -> Vec<Desired> {
    let objects = phases.iter().flat_map(Phase::own_objects);
    objects
        .filter(|it| is_stopped(&it.manifest))
        .cloned()
        .collect()
}

/// Leaves out the Pods that are to stop, so that they are not created again.
pub(super) fn without_pods(phases: &mut [Phase]) {
    for phase in phases {
        let is_ended = |it: &Desired| is_bare_pod(&it.manifest) && is_stopped(&it.manifest);
        phase.objects.retain(|it| !is_ended(it));
    }
}

/// True if a pass did not reach the end of its phase, since an object was refused or a request
/// failed.
pub(super) fn ended_early(outcome: &Outcome) -> bool {
    !matches!(
        outcome.result,
        PassResult::Passed | PassResult::ProbeFailure { .. } | PassResult::Stopping(_)
    )
}

/// The time until pods are checked again: the longer the stop lasts, the longer the pause.
fn pause(demand: &StopRequest, now: Timestamp) -> Duration {
    let lasts = now.duration_since(demand.since);
    let lasts = lasts.max(SignedDuration::ZERO).unsigned_abs();
    (lasts / 4).clamp(Duration::from_secs(1), LONGEST_PAUSE)
}

/// The workloads of a phase that are to stop, with their cluster.
pub(super) struct Stopping<'a> {
    pub objects: Objects<'a>,
    pub revision: &'a Revision,
    pub workloads: Vec<Desired>,
}

impl Stopping<'_> {
    /// Completes the outcome of a pass over a phase of a site: adds the condition that the phase
    /// has begun and, if its workloads are to stop, the condition that they have.
    ///
    /// Returns the time until the next check if pods still run.
    ///
    /// The live objects count, not the result of the pass: a refused phase may have no workload
    /// that runs.
    pub(super) async fn note_site(
        &self,
        site: &SitePass,
        outcome: &mut Outcome,
        now: Timestamp,
    ) -> Option<Duration> {
        let SitePass::Begun {
            started,
            demand,
            has_stopped,
        } = site
        else {
            return None;
        };
        outcome
            .mapped
            .retain(|it| it.type_ != started.type_ && it.type_ != STOPPED);
        outcome.mapped.insert(0, started.clone());
        let demand = demand.as_ref()?;
        let running = if *has_stopped {
            Vec::new()
        } else {
            self.end_pods().await;
            self.running().await
        };
        let (text, again) = if running.is_empty() {
            outcome.mapped.insert(1, stopped(demand));
            outcome.stopped_for = Some(demand.uid.to_string());
            (MAKES_WAY.to_owned(), None)
        } else {
            let text = format!(
                "Waits until its workloads have stopped: {}.",
                running.join(", ")
            );
            (text, Some(pause(demand, now)))
        };
        if !ended_early(outcome) {
            outcome.result = PassResult::Stopping(text);
        }
        again
    }

    /// The workloads that a pass has not stopped because another object of the phase was refused.
    /// Each gets a phase of its own, since one of them may be refused as well.
    pub(super) fn remaining(&self) -> Vec<Phase> {
        let remaining = self.workloads.iter().filter(|workload| {
            let live = self.objects.cached(workload).0;
            matches!(live, Live::Present(live) if self.revision.identity.controls(&live)
                && !is_bare_pod(&live)
                && !is_stopped(&live)
                && !is_terminating(&live))
        });
        remaining
            .map(|workload| Phase {
                objects: vec![workload.clone()],
                ..Phase::default()
            })
            .collect()
    }

    /// Deletes the Pods that have no workload as their controller: they cannot stop otherwise.
    /// Failed requests are repeated with the next check.
    pub(super) async fn end_pods(&self) {
        for pod in self.workloads.iter().filter(|it| is_bare_pod(&it.manifest)) {
            let Live::Present(live) = self.objects.cached(pod).0 else {
                continue;
            };
            let request = end(&live).filter(|_| self.revision.identity.controls(&live));
            if let Some(request) = request {
                let Objects {
                    target, account, ..
                } = self.objects;
                let answer = target.send(account, &pod.gvk, &pod.key, &request).await;
                let answer = answer.without_values(&[Some(&live)]);
                if let Answer::Refused(cause) | Answer::Failed(cause) = answer {
                    warn!(pod = %pod.key, cause, "a Pod is not stopped, trying again");
                }
            }
        }
    }

    /// The first workloads with pods, and those whose pods cannot be read, with the cause.
    /// Workloads that a newer revision controls are left out.
    async fn running(&self) -> Vec<String> {
        let mut running = Vec::new();
        for workload in &self.workloads {
            if running.len() == MAX_NAMED {
                break;
            }
            let live = match self.objects.cached(workload).0 {
                Live::Present(live) => live,
                Live::Gone | Live::Uncached | Live::Ended(_) => continue,
                Live::Unread => {
                    running.push(format!("{} (cannot be read)", workload.key));
                    continue;
                }
            };
            if !self.revision.identity.controls(&live) {
                continue;
            }
            let has_pods = match pods(&live) {
                Pods::Some => Ok(true),
                Pods::None if is_bare_pod(&live) => Ok(false),
                _ if is_terminating(&live) || !is_stopped(&live) => Ok(true),
                Pods::Ask(selector) => {
                    let namespace = &workload.key.namespace;
                    self.objects.target.runs_pods(namespace, &selector).await
                }
                Pods::None => Ok(false),
            };
            match has_pods {
                Ok(false) => {}
                Ok(true) => running.push(workload.key.to_string()),
                Err(error) => running.push(format!("{} ({error})", workload.key)),
            }
        }
        running
    }
}
