//! Workloads that stop because a newer revision of their site asks for it: whether nothing of them runs any more.

use std::time::Duration;

use baton_apis::conditions::STOPPED;
use baton_engine::{
    object::is_terminating,
    object_pass::Live,
    pass::{Outcome, PassResult},
    revision::{Desired, Phase, Revision},
    stop::{Pods, is_stopped, pods},
};
use baton_sites::gate::Demand;
use jiff::Timestamp;

use super::{
    gate::{SitePass, stopped},
    objects::Objects,
};

/// What a phase says of itself that has stopped.
const MAKES_WAY: &str = "Nothing of it runs any more: it makes way for a newer version.";
/// How many workloads with pods are named.
const MOST: usize = 3;
/// The pause between two questions about pods grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The workloads of a phase that are to stop.
pub(super) fn workloads(phases: &[Phase]) -> Vec<Desired> {
    let objects = phases.iter().flat_map(Phase::own_objects);
    objects
        .filter(|it| is_stopped(&it.manifest))
        .cloned()
        .collect()
}

/// Whether a pass did not come to the end of its phase: something was refused, or failed.
pub(super) fn ended_early(outcome: &Outcome) -> bool {
    !matches!(
        outcome.result,
        PassResult::Passed | PassResult::ProbeFailure { .. } | PassResult::Stopping(_)
    )
}

/// When pods are asked for again: soon, and the longer it lasts the more seldom.
fn pause(demand: &Demand, now: Timestamp) -> Duration {
    let lasts = now.duration_since(demand.since).unsigned_abs();
    (lasts / 4).clamp(Duration::from_secs(1), LONGEST_PAUSE)
}

/// The workloads of a phase that are to stop, as they are in its cluster.
pub(super) struct Stopping<'a> {
    pub objects: Objects<'a>,
    pub revision: &'a Revision,
    pub workloads: Vec<Desired>,
}

impl Stopping<'_> {
    /// Completes the outcome of a pass over a phase of a site: that it has begun, and whether its workloads have
    /// stopped if they are to. When to ask again, if their pods are waited for.
    ///
    /// However the pass ended, what counts is what the phase has: one that was refused may have nothing that could run.
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
            self.running().await
        };
        let (text, again) = if running.is_empty() {
            outcome.mapped.insert(1, stopped(demand));
            (MAKES_WAY.to_owned(), None)
        } else {
            let text = format!(
                "Waits until nothing of it runs any more: {}.",
                running.join(", ")
            );
            (text, Some(pause(demand, now)))
        };
        if !ended_early(outcome) {
            outcome.result = PassResult::Stopping(text);
        }
        again
    }

    /// The workloads that a pass has not stopped, as something else of the phase was refused. Each is to be stopped by
    /// itself, since one may be refused as well.
    pub(super) fn remaining(&self) -> Vec<Phase> {
        let remaining = self.workloads.iter().filter(|workload| {
            let live = self.objects.cached(workload).0;
            matches!(live, Live::Present(live) if self.revision.identity.controls(&live)
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

    /// The first workloads that have pods, and why that is not known of others. Those of a newer revision are its own
    /// business.
    async fn running(&self) -> Vec<String> {
        let mut running = Vec::new();
        for workload in &self.workloads {
            if running.len() == MOST {
                break;
            }
            let live = match self.objects.cached(workload).0 {
                Live::Present(live) => live,
                Live::Gone | Live::Uncached => continue,
                Live::Unread => {
                    running.push(format!("{} (not readable)", workload.key));
                    continue;
                }
            };
            if !self.revision.identity.controls(&live) {
                continue;
            }
            let asked = match pods(&live) {
                Pods::Some => Ok(true),
                _ if is_terminating(&live) || !is_stopped(&live) => Ok(true),
                Pods::Ask(selector) => {
                    let namespace = &workload.key.namespace;
                    self.objects.target.runs_pods(namespace, &selector).await
                }
                Pods::None => Ok(false),
            };
            match asked {
                Ok(false) => {}
                Ok(true) => running.push(workload.key.to_string()),
                Err(error) => running.push(format!("{} ({error})", workload.key)),
            }
        }
        running
    }
}
