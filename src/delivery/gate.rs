//! The queue of a site, and the decision whether a phase of the site may begin (see
//! [`baton_sites::gate`]).
//!
//! The manager and the agents use the same code.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use baton_apis::{
    LifecycleState, ObjectSetPhaseStatus, SiteEntry,
    conditions::{Reason, STARTED, STOPPED},
    constants::ANNOTATION_SITE,
};
use baton_engine::{
    condition_list::{Conditions, find, find_true},
    conditions::{Requeue, report_phase_unknown},
    mapping::MappedCondition,
    revision::Revision,
};
use baton_records::{phase::PhaseRecord, record::ReadError};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_sites::{
    gate::{ActiveRevision, Decision, PhaseStart, Question, StopRequest},
    terms::Terms,
    uptime::Uptime,
};
use jiff::Timestamp;

use super::{
    observed::Observed,
    shared::{BURST, Error},
    site_chain::{chain, has_site, is_named, state},
};

/// The longest time until a phase that waits for a point in time is reconciled again, so that a
/// corrected clock takes effect.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The decision of the gate on a phase.
pub(crate) enum Gate {
    /// The pass continues.
    Open(SitePass),
    /// The phase begins. This status has to be stored, and then the gate decides again.
    Begin(ObjectSetPhaseStatus),
    /// Nothing of the phase is written. The phase gets this status.
    Hold(ObjectSetPhaseStatus, Reconciled),
    /// An object that the decision depends on is not observed yet.
    Unknown,
}

/// The position of a phase in the queue of its site, as input of its pass.
#[derive(Clone, Debug, Default)]
pub(crate) enum SitePass {
    /// The phase belongs to no site, or is being deleted.
    #[default]
    None,
    /// The phase has begun.
    Begun {
        started: MappedCondition,
        /// The workloads that newer revisions ask the phase to stop.
        demand: Option<StopRequest>,
        /// True if the phase has reported that they have stopped.
        has_stopped: bool,
    },
    /// The phase has not begun. Its pass only sends dry runs. If the site accepts all objects, the
    /// phase gets this status, and workloads of older versions stop.
    Trial(Box<ObjectSetPhaseStatus>),
}

/// A phase after the gate.
pub(crate) enum Gated {
    /// The phase may write. The record is the one that is stored now.
    Open(Arc<PhaseRecord>, SitePass),
    /// Nothing of the phase is written. The result of its pass.
    Held(Reconciled),
}

/// Stores the decision of the gate: a manager in the status of the phase, an agent on disk.
pub(crate) trait NoteBegun {
    /// Reports the status of a phase that has to wait. Returns the result of its pass; `held` is
    /// the result if the status does not change.
    async fn report_waiting(
        &self,
        record: &PhaseRecord,
        status: ObjectSetPhaseStatus,
        held: Reconciled,
    ) -> Result<Reconciled, Error>;

    /// Stores the status of a phase that has begun. Returns the updated phase, if it still exists.
    async fn report_begun(
        &self,
        record: Arc<PhaseRecord>,
        status: ObjectSetPhaseStatus,
    ) -> Result<Option<Arc<PhaseRecord>>, Error>;
}

/// Decides if a phase may write now.
///
/// # Guarantees
/// The beginning of a phase is stored before any of its objects is written, and before any workload
/// stops for it.
///
/// # Errors
/// When the status of the phase cannot be read or stored.
pub(crate) async fn pass(
    record: Arc<PhaseRecord>,
    ask: impl Fn(&PhaseRecord) -> Result<Gate, ReadError>,
    store: &impl NoteBegun,
) -> Result<Gated, Error> {
    if record.deleting {
        return Ok(Gated::Open(record, SitePass::None));
    }
    match ask(&record)? {
        Gate::Open(site) => Ok(Gated::Open(record, site)),
        Gate::Unknown => Ok(Gated::Held((ReconcileOutcome::Waiting, Requeue::OnEvent))),
        Gate::Hold(status, held) => Ok(Gated::Held(
            store.report_waiting(&record, status, held).await?,
        )),
        Gate::Begin(status) => {
            if let Some(begun) = store.report_begun(record, status).await?
                && let Gate::Open(site) = ask(&begun)?
            {
                return Ok(Gated::Open(begun, site));
            }
            Ok(Gated::Held((ReconcileOutcome::Changed, Requeue::OnEvent)))
        }
    }
}

/// The times that a decision is based on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub now: Timestamp,
    /// The times since which the caller can reach the site.
    pub uptime: Uptime,
}

/// True if nothing was ever written for a phase of a site.
pub(crate) fn is_untouched(phase: &PhaseRecord) -> Result<bool, ReadError> {
    let status = phase.status()?;
    Ok(has_site(phase)
        && status.controller_of.is_empty()
        && !matches!(state(phase).begun, PhaseStart::Yes(_)))
}

/// Decides if a phase may begin; `terms` returns the terms for its upgrades.
///
/// # Errors
/// When the status of the phase cannot be read.
pub(crate) fn ask(
    observed: &Observed,
    phase: &PhaseRecord,
    terms: impl FnOnce(&SiteEntry) -> Terms,
    Times { now, uptime }: Times,
) -> Result<Gate, ReadError> {
    let Some(text) = phase.annotations.get(ANNOTATION_SITE) else {
        return Ok(Gate::Open(SitePass::None));
    };
    let old = phase.status()?;
    let begun = state(phase).begun;
    let report = Report {
        phase,
        old: &old,
        now,
    };
    let entry: SiteEntry = match serde_json::from_str(text) {
        Ok(entry) => entry,
        Err(_) if matches!(begun, PhaseStart::Yes(_)) => {
            return Ok(Gate::Open(begun_pass(&old, None)));
        }
        Err(error) => return Ok(report.refused(&format!("annotation {ANNOTATION_SITE}: {error}"))),
    };
    let chain = chain(observed, phase);
    let own = chain
        .iter()
        .position(|it| Some(&it.uid) == phase.controller.as_ref());
    let Some(own) = own else {
        // No newer revision that asks the phase to stop is observed.
        return Ok(match begun {
            PhaseStart::Yes(_) => Gate::Open(begun_pass(&old, None)),
            _ => Gate::Unknown,
        });
    };
    let member = &chain[own];
    let phase_index = entry
        .phases
        .iter()
        .position(|name| is_named(phase, member, name));
    let Some(phase_index) = phase_index else {
        return Ok(match begun {
            PhaseStart::Yes(_) => Gate::Open(begun_pass(&old, None)),
            _ => report.refused(&format!(
                "annotation {ANNOTATION_SITE}: phases: this phase is not listed"
            )),
        });
    };
    let question = Question {
        chain: &chain,
        own,
        phase: phase_index,
        uptime,
    };
    if begun == PhaseStart::Not && member.is_leaving {
        return Ok(Gate::Unknown);
    }
    if begun == PhaseStart::Not && phase.is_paused()? {
        return Ok(report.queued("The phase is paused.", Requeue::OnEvent));
    }
    Ok(match question.decide(&terms(&entry), now) {
        Decision::Start if matches!(begun, PhaseStart::Yes(_)) => {
            Gate::Open(begun_pass(&old, question.stop_request()))
        }
        Decision::Start => Gate::Begin(report.begun()),
        Decision::StopFirst { message } if begun == PhaseStart::Not => {
            Gate::Open(SitePass::Trial(Box::new(report.stopping(&message))))
        }
        Decision::StopFirst { message } => {
            let result = (ReconcileOutcome::Waiting, Requeue::OnEvent);
            Gate::Hold(report.stopping(&message), result)
        }
        Decision::Wait { message, until } => {
            let left = until.map(|until| until.duration_since(now).unsigned_abs());
            let requeue = left.map_or(Requeue::OnEvent, |left| {
                Requeue::After(left.clamp(BURST, LONGEST_WAIT))
            });
            report.queued(&message, requeue)
        }
        Decision::Skip { message } => report.skipped(&message),
    })
}

/// The position of a phase that has begun.
fn begun_pass(old: &ObjectSetPhaseStatus, demand: Option<StopRequest>) -> SitePass {
    let find = |type_: &str| {
        let found = find_true(&old.conditions, type_)?;
        Some(MappedCondition {
            type_: type_.to_owned(),
            status: found.status.clone(),
            reason: found.reason.clone(),
            message: found.message.clone(),
        })
    };
    let stopped_for = find_true(&old.conditions, STOPPED).and(old.stopped_for.as_deref());
    let newest = demand.as_ref().map(|demand| &*demand.uid);
    SitePass::Begun {
        // A phase that had begun before it was handed to an agent does not have the condition.
        started: find(STARTED).unwrap_or_else(started),
        has_stopped: newest.is_some_and(|newest| stopped_for == Some(newest)),
        demand,
    }
}

impl SitePass {
    /// The workloads that newer revisions ask the phase to stop.
    pub(crate) fn stop_request(&self) -> Option<&StopRequest> {
        match self {
            Self::Begun { demand, .. } => demand.as_ref(),
            Self::None | Self::Trial(_) => None,
        }
    }

    /// The condition about the queue for a phase that is refused as a whole; `has_objects` is true
    /// if the phase has written objects.
    pub(crate) fn when_refused(&self, has_objects: bool) -> Option<MappedCondition> {
        if matches!(self, Self::Trial(_)) {
            return Some(MappedCondition {
                type_: STARTED.to_owned(),
                status: "False".to_owned(),
                reason: Reason::PreflightError.to_string(),
                message: "The phase is refused, so no workloads were stopped for it.".to_owned(),
            });
        }
        // A phase without objects has no workloads that run.
        self.stop_request().filter(|_| !has_objects).map(stopped)
    }
}

/// The condition that the workloads of a phase have stopped, for the revision that requests it.
pub(crate) fn stopped(demand: &StopRequest) -> MappedCondition {
    MappedCondition {
        type_: STOPPED.to_owned(),
        status: "True".to_owned(),
        reason: Reason::Stopped.to_string(),
        message: demand.message.clone(),
    }
}

fn started() -> MappedCondition {
    MappedCondition {
        type_: STARTED.to_owned(),
        status: "True".to_owned(),
        reason: Reason::Started.to_string(),
        message: BEGUN.to_owned(),
    }
}

const BEGUN: &str = "The phase has begun, and upgrade windows no longer apply to it.";

/// The statuses of a phase that does not write.
struct Report<'a> {
    phase: &'a PhaseRecord,
    old: &'a ObjectSetPhaseStatus,
    now: Timestamp,
}

impl Report<'_> {
    fn status(
        &self,
        started: Option<(&str, Reason, &str)>,
        reason: Reason,
        message: &str,
    ) -> ObjectSetPhaseStatus {
        let generation = self.phase.generation;
        let mut conditions = Conditions::new(&self.old.conditions, generation, self.now);
        if let Some((status, reason, message)) = started {
            conditions.set(STARTED, status, reason, message);
        }
        let old = ObjectSetPhaseStatus {
            conditions: conditions.into_list(),
            ..self.old.clone()
        };
        let is_paused = self.phase.is_paused().unwrap_or_default();
        let revision = Revision {
            generation,
            lifecycle: LifecycleState::of_phase(is_paused),
            ..Revision::default()
        };
        report_phase_unknown(&old, &revision, ("False", reason), message, self.now)
    }

    fn begun(&self) -> ObjectSetPhaseStatus {
        let started = ("True", Reason::Started, BEGUN);
        self.status(
            Some(started),
            Reason::ProbeFailure,
            "The phase has just begun.",
        )
    }

    fn stopping(&self, message: &str) -> ObjectSetPhaseStatus {
        let text = "The phase has begun by stopping the workloads of the previous version.";
        let started = ("True", Reason::Stopping, text);
        self.status(Some(started), Reason::Stopping, message)
    }

    fn queued(&self, message: &str, requeue: Requeue) -> Gate {
        let status = self.status(None, Reason::Queued, message);
        Gate::Hold(status, (ReconcileOutcome::Waiting, requeue))
    }

    fn skipped(&self, message: &str) -> Gate {
        let started = Some(("False", Reason::Skipped, message));
        let previous = find(&self.old.conditions, STARTED);
        // The message keeps naming the version for which the phase was left out.
        let (started, message) = match previous {
            Some(previous) if previous.reason == Reason::Skipped => (None, &*previous.message),
            _ => (started, message),
        };
        let status = self.status(started, Reason::Skipped, message);
        Gate::Hold(status, (ReconcileOutcome::Blocked, Requeue::OnEvent))
    }

    fn refused(&self, text: &str) -> Gate {
        let status = self.status(None, Reason::PreflightError, text);
        Gate::Hold(status, (ReconcileOutcome::Blocked, Requeue::OnEvent))
    }
}

/// The status of a phase that waits to be handed to an agent.
pub(crate) fn not_handed_yet(
    phase: &PhaseRecord,
    before: &ActiveRevision,
    now: Timestamp,
) -> Result<ObjectSetPhaseStatus, ReadError> {
    let old = phase.status()?;
    let report = Report {
        phase,
        old: &old,
        now,
    };
    let message = format!("Waits until {before} is handed to the agent.");
    Ok(report.status(None, Reason::Queued, &message))
}
