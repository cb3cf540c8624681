//! Workloads that stop because a newer revision of their site asks for it: whether nothing of them runs any more.

use std::time::Duration;

use baton_apis::conditions::{STOPPED, reasons};
use baton_engine::{
    mapping::MappedCondition,
    object::is_terminating,
    object_pass::Live,
    pass::{Outcome, PassResult},
    revision::{Desired, Kinds, Phase, Revision},
    stop::{Pods, is_stopped, pods},
};
use baton_records::record::RecordKind;
use baton_sites::gate::Demand;
use jiff::Timestamp;

use super::{executor::Executor, site_gate::Passage};

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

/// When pods are asked for again: soon, and the longer it lasts the more seldom.
fn pause(demand: &Demand, now: Timestamp) -> Duration {
    let lasts = now.duration_since(demand.since).unsigned_abs();
    (lasts / 4).clamp(Duration::from_secs(1), LONGEST_PAUSE)
}

impl<K: RecordKind> Executor<'_, K> {
    /// Completes the outcome of a pass over a phase of a site: that it has begun, and whether its workloads have
    /// stopped if they are to. When to ask again, if their pods are waited for.
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
        if !matches!(
            outcome.result,
            PassResult::Passed | PassResult::ProbeFailure { .. }
        ) {
            return None;
        }
        let running = match &site.stopped {
            Some(_) => Vec::new(),
            None => self.running(revision, workloads, kinds).await,
        };
        if running.is_empty() {
            outcome.result = PassResult::Stopping(MAKES_WAY.to_owned());
            let stopped = MappedCondition {
                type_: STOPPED.to_owned(),
                status: "True".to_owned(),
                reason: reasons::STOPPED.to_owned(),
                message: demand.message.clone(),
            };
            outcome.mapped.insert(1, stopped);
            return None;
        }
        let text = format!(
            "Waits until nothing of it runs any more: {}.",
            running.join(", ")
        );
        outcome.result = PassResult::Stopping(text);
        Some(pause(demand, now))
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
