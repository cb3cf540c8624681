//! Workloads that stop because a newer revision of their site asks for it: whether nothing of them runs any more.

use std::time::Duration;

use baton_apis::conditions::STOPPED;
use baton_engine::{
    handover::Siblings,
    object::is_terminating,
    object_pass::Live,
    pass::{Outcome, PassResult, Snapshot},
    revision::{Desired, Kinds, Phase, Revision},
    stop::{Pods, is_stopped, pods},
};
use baton_probes::Probes;
use baton_records::record::RecordKind;
use baton_sites::gate::Demand;
use jiff::Timestamp;

use super::{
    executor::Executor,
    gate::{Passage, stopped},
};

/// What a phase says of itself that has stopped.
const MAKES_WAY: &str = "Nothing of it runs any more: it makes way for a newer version.";
/// How many workloads with pods are named.
const MOST: usize = 3;
/// The pause between two questions about pods grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The workloads of a phase that are to stop.
pub(super) fn stopping(phases: &[Phase]) -> Vec<Desired> {
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

impl<K: RecordKind> Executor<'_, K> {
    /// Completes the outcome of a pass over a phase of a site: that it has begun, and whether its workloads have
    /// stopped if they are to. When to ask again, if their pods are waited for.
    ///
    /// However the pass ended, what counts is what the phase has: one that was refused may have nothing that could run.
    pub(super) async fn note_site(
        &self,
        site: &Passage,
        (revision, workloads, kinds): (&Revision, &[Desired], &Kinds),
        outcome: &mut Outcome,
        now: Timestamp,
    ) -> Option<Duration> {
        let started = site.started.clone()?;
        outcome
            .mapped
            .retain(|it| it.type_ != started.type_ && it.type_ != STOPPED);
        outcome.mapped.insert(0, started);
        let demand = site.demand.as_ref()?;
        let running = match &site.stopped {
            Some(_) => Vec::new(),
            None => self.running(revision, workloads, kinds).await,
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

    /// Stops the workloads that a phase has and that its pass did not come to, as something else of it is refused: each
    /// by itself, since one may be refused as well.
    pub(super) async fn stop_the_rest(
        &self,
        (revision, workloads, kinds): (&Revision, &[Desired], &Kinds),
        siblings: &dyn Siblings,
        probes: &Probes,
    ) {
        for workload in workloads {
            let is_left = match self.cached(kinds, workload).0 {
                Live::Present(live) => {
                    revision.identity.controls(&live)
                        && !is_stopped(&live)
                        && !is_terminating(&live)
                }
                Live::Gone | Live::Uncached | Live::Unread => false,
            };
            if is_left {
                let phases = &[Phase {
                    objects: vec![workload.clone()],
                    ..Phase::default()
                }];
                let snapshot = Snapshot {
                    revision,
                    phases,
                    probes,
                    kinds,
                    siblings,
                };
                let outcome = self.pass(snapshot).await;
                self.settle(phases, &outcome);
            }
        }
    }

    /// The first workloads that have pods, and why that is not known of others. What belongs to a newer revision is its
    /// own business.
    async fn running(
        &self,
        revision: &Revision,
        workloads: &[Desired],
        kinds: &Kinds,
    ) -> Vec<String> {
        let mut running = Vec::new();
        for workload in workloads {
            if running.len() == MOST {
                break;
            }
            let live = match self.cached(kinds, workload).0 {
                Live::Present(live) => live,
                Live::Gone | Live::Uncached => continue,
                Live::Unread => {
                    running.push(format!("{} (not readable)", workload.key));
                    continue;
                }
            };
            if !revision.identity.controls(&live) {
                continue;
            }
            let asked = match pods(&live) {
                Pods::Some => Ok(true),
                _ if is_terminating(&live) || !is_stopped(&live) => Ok(true),
                Pods::Ask(selector) => {
                    self.target
                        .runs_pods(&workload.key.namespace, &selector)
                        .await
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
