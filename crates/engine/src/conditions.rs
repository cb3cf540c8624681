//! Turns the outcome of a pass or a teardown into a status.
//!
//! Observable behaviour: `docs/contract/status.md`.

mod handover;
mod requeue;
#[cfg(test)]
mod tests;

use baton_apis::{
    ControlledObjectReference, LifecycleState, ObjectSetPhaseStatus, ObjectSetStatus,
    ObjectSetStatusPhase, RemotePhaseReference,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, PAUSED, Reason, SUCCEEDED, messages},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    condition_list::{Conditions, find},
    pass::{Outcome, PassResult},
    readiness,
    revision::{Delivery, Revision},
    stored_time::end_of,
    teardown::TeardownOutcome,
    texts,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use handover::{only_loses_objects, withdraws_available};

pub use handover::phase_only_loses_objects;
pub use requeue::{
    FIRST_POLL, MISCONFIGURATION_RETRY, Requeue, failing_since, next_look, requeue_refused,
};

/// Number of failed passes in a row before the status reports the failure. A single refused
/// connection or overload answer is not worth a report; a webhook that stays down is.
pub const FAILURES_BEFORE_REPORT: u32 = 3;

/// The status to write, and the requeue.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The complete new status.
    pub status: ObjectSetStatus,
    /// Time of the next reconcile if no event triggers one before.
    pub requeue: Requeue,
    /// True if the status only reports progress of work that continues by itself, so that the next
    /// pass is likely to replace it. The write of an interim status may be debounced, but is never
    /// dropped.
    pub is_interim: bool,
}

/// True if the reported reason of the last pass would stop the next pass as well.
pub fn was_refused(previous: &[Condition]) -> bool {
    find(previous, AVAILABLE).is_some_and(|condition| {
        condition.status == "False"
            && Reason::is_in(
                &condition.reason,
                &[
                    Reason::PreflightError,
                    Reason::WriteError,
                    Reason::CollisionDetected,
                ],
            )
    })
}

/// The status after a pass.
///
/// `failures` is the number of consecutive earlier passes that failed for transient reasons.
///
/// # Guarantees
/// The transition time of a condition changes only if its status changes, so a status that reports
/// the same as before is equal to the previous one and needs no write.
pub fn report_pass(
    previous: &ObjectSetStatus,
    revision: &Revision,
    mut outcome: Outcome,
    failures: u32,
    now: Timestamp,
) -> Report {
    keep_report_of_away(&mut outcome, &previous.controller_of);
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    let succeeded = conditions.is_true(SUCCEEDED);
    let has_written = !outcome.writes.is_empty();
    let is_silent = matches!(
        outcome.result,
        PassResult::Delegated {
            is_silent: true,
            ..
        }
    );
    let Availability {
        is_error,
        mut requeue,
    } = set_available(&mut conditions, revision, &outcome, failures, succeeded);
    // Conditions from objects that the pass did not reach stay as they were reported last.
    if !is_error {
        conditions.map(outcome.mapped);
        if outcome.controls_all {
            conditions.remove(IN_TRANSITION);
        } else {
            conditions.set(
                IN_TRANSITION,
                "True",
                Reason::InTransition,
                messages::IN_TRANSITION,
            );
        }
        requeue =
            set_succeeded(&mut conditions, revision, outcome.controls_all, now).unwrap_or(requeue);
    }
    set_paused(&mut conditions, revision, outcome.pause_agreed);
    let requeue = requeue.within(outcome.delayed_for);
    let mut status = into_status(conditions, previous, revision);
    merge_remote_phases(&mut status.remote_phases, outcome.remote_phases);
    status.controller_of = outcome.controller_of;
    status.ended = outcome.ended;
    status.waiting_for = texts::waiting_for(outcome.waiting_for);
    let is_progress = if is_silent {
        !withdraws_available(previous, &status)
    } else {
        only_loses_objects(previous, &status)
    };
    // An end that is not stored is lost with the process, and the object runs again.
    let has_ended = status.ended != previous.ended;
    Report {
        is_interim: is_progress && !has_written && !has_ended,
        status,
        requeue,
    }
}

/// Keeps the last report about objects whose state is unknown.
fn keep_report_of_away(outcome: &mut Outcome, previous: &[ControlledObjectReference]) {
    for object in std::mem::take(&mut outcome.away) {
        if previous.contains(&object) {
            outcome.controller_of.push(object);
        } else {
            outcome.controls_all = false;
        }
    }
}

/// The status of a delegated phase after a pass; like [`report_pass`], with fewer conditions.
pub fn report_phase(
    previous: &ObjectSetPhaseStatus,
    revision: &Revision,
    mut outcome: Outcome,
    failures: u32,
    now: Timestamp,
) -> (ObjectSetPhaseStatus, Requeue) {
    keep_report_of_away(&mut outcome, &previous.controller_of);
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    let Availability { is_error, requeue } =
        set_available(&mut conditions, revision, &outcome, failures, true);
    let requeue = requeue.within(outcome.delayed_for);
    if is_error {
        conditions.set_place(&outcome.mapped);
    } else {
        conditions.map(outcome.mapped);
    }
    set_paused(&mut conditions, revision, true);
    let status = ObjectSetPhaseStatus {
        stopped_for: outcome.stopped_for,
        ended: outcome.ended,
        ..into_phase_status(conditions, previous, outcome.controller_of)
    };
    (status, requeue)
}

/// The status of a delegated phase whose objects are in an unknown state: `status` is `False`
/// or `Unknown`.
pub fn report_phase_unknown(
    previous: &ObjectSetPhaseStatus,
    revision: &Revision,
    (status, reason): (&str, Reason),
    message: &str,
    now: Timestamp,
) -> ObjectSetPhaseStatus {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.set(AVAILABLE, status, reason, message);
    set_paused(&mut conditions, revision, true);
    into_phase_status(conditions, previous, previous.controller_of.clone())
}

fn into_phase_status(
    mut conditions: Conditions,
    previous: &ObjectSetPhaseStatus,
    controller_of: Vec<ControlledObjectReference>,
) -> ObjectSetPhaseStatus {
    let observed = previous.observed_generation;
    ObjectSetPhaseStatus {
        observed_generation: readiness::set_of_revision(&mut conditions, observed, false),
        conditions: conditions.into_list(),
        controller_of,
        content_hash: previous.content_hash.clone(),
        ended: previous.ended.clone(),
        stopped_for: previous.stopped_for.clone(),
    }
}

struct Availability {
    /// The pass ended early: conditions of objects that it did not reach stay as they were reported
    /// last.
    is_error: bool,
    requeue: Requeue,
}

/// Sets `Available`. If `is_established`, the revision need not control all of its objects to be
/// available.
fn set_available(
    conditions: &mut Conditions,
    revision: &Revision,
    outcome: &Outcome,
    failures: u32,
    is_established: bool,
) -> Availability {
    let mut requeue = Requeue::OnEvent;
    let mut is_error = true;
    let [invalid, unwritable] = [Reason::PreflightError, Reason::WriteError]
        .map(|reason| requeue_refused(conditions.list(), reason, revision.generation));
    let mut fail = |status, reason, message: &str, retry| {
        conditions.set(AVAILABLE, status, reason, message);
        requeue = retry;
    };
    match &outcome.result {
        PassResult::Passed if !outcome.controls_all && !is_established => {
            is_error = false;
            fail(
                "False",
                Reason::NotInControl,
                "Not every object is controlled by this revision, and it never was available.",
                Requeue::OnEvent,
            );
        }
        PassResult::Passed => {
            is_error = false;
            conditions.set(AVAILABLE, "True", Reason::Available, messages::AVAILABLE);
        }
        PassResult::ProbeFailure { phase, failures } => {
            is_error = false;
            // A delegated phase leaves its name out; its revision adds it.
            let message = match revision.delivery {
                Delivery::InProcess => format!("Phase \"{phase}\" failed: {failures}"),
                Delivery::Delegated | Delivery::Remote => failures.clone(),
            };
            fail("False", Reason::ProbeFailure, &message, Requeue::OnEvent);
            if !outcome.failing_unseen().is_empty() {
                requeue = Requeue::After(next_look(outcome.failing_for));
            } else if !outcome.blockers.is_empty() {
                // Not all of them can be watched.
                requeue = Requeue::After(MISCONFIGURATION_RETRY);
            }
        }
        PassResult::Delegated {
            phase,
            status,
            reason,
            message,
            is_silent: _,
        } => {
            is_error = false;
            // A phase that waits in the queue of its site, or for old workloads to stop, has not
            // failed.
            let message = match reason {
                Reason::Queued | Reason::Skipped | Reason::Stopping => message.clone(),
                _ => format!("Phase \"{phase}\" failed: {message}"),
            };
            let status = if status == "Unknown" {
                "Unknown"
            } else {
                "False"
            };
            fail(status, *reason, &message, Requeue::OnEvent);
        }
        PassResult::Stopping(message) => {
            is_error = false;
            fail("False", Reason::Stopping, message, Requeue::OnEvent);
        }
        PassResult::Preflight(texts) => {
            fail("False", Reason::PreflightError, &texts.join(", "), invalid);
        }
        PassResult::Away(texts) => {
            let text = texts.join(", ");
            fail("Unknown", Reason::ListFailed, &text, Requeue::Backoff);
        }
        PassResult::Collision(text) => {
            let retry = Requeue::After(MISCONFIGURATION_RETRY);
            fail("False", Reason::CollisionDetected, text, retry);
        }
        PassResult::WriteError(texts) => {
            fail("False", Reason::WriteError, &texts.join(", "), unwritable);
        }
        PassResult::Failed(texts) if failures >= FAILURES_BEFORE_REPORT => {
            fail(
                "False",
                Reason::WriteError,
                &texts.join(", "),
                Requeue::Backoff,
            );
        }
        PassResult::Failed(_) => requeue = Requeue::Backoff,
    }
    Availability { is_error, requeue }
}

/// Updates the list of phase objects by their names; no entry is ever removed.
fn merge_remote_phases(list: &mut Vec<RemotePhaseReference>, now: Vec<RemotePhaseReference>) {
    for phase in now {
        match list.iter_mut().find(|listed| listed.name == phase.name) {
            Some(listed) => *listed = phase,
            None => list.push(phase),
        }
    }
}

/// The status after a refusal that concerns the revision as a whole, before any object is read: a
/// missing slice, an invalid probe, a duplicate, an unusable `previous`.
pub fn report_refusal(
    previous: &ObjectSetStatus,
    revision: &Revision,
    reason: Reason,
    texts: &[String],
    now: Timestamp,
) -> Report {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.set(AVAILABLE, "False", reason, &texts.join(", "));
    set_paused(&mut conditions, revision, true);
    let mut status = into_status(conditions, previous, revision);
    status.controller_of.clone_from(&previous.controller_of);
    Report {
        status,
        requeue: requeue_refused(&previous.conditions, reason, revision.generation),
        is_interim: false,
    }
}

/// The status after a teardown that archives the revision.
pub fn report_archival(
    previous: &ObjectSetStatus,
    revision: &Revision,
    outcome: TeardownOutcome,
    now: Timestamp,
) -> Report {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.remove(AVAILABLE);
    let mut requeue = Requeue::OnEvent;
    let mut waiting_for = Vec::new();
    let mut message = messages::ARCHIVAL_IN_PROGRESS.to_owned();
    let is_interim = matches!(outcome, TeardownOutcome::Waiting(_));
    match outcome {
        TeardownOutcome::Done => conditions.set(ARCHIVED, "True", Reason::Archived, ""),
        TeardownOutcome::Waiting(objects) => waiting_for = objects,
        TeardownOutcome::Failed(objects) => {
            for object in &objects {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let (kind, name, text) = (&object.kind, &object.name, &object.message);
                message.extend([" ", kind, " ", namespace, "/", name, ": ", text]);
            }
            waiting_for = objects;
            requeue = Requeue::Backoff;
        }
    }
    let done = conditions.is_true(ARCHIVED);
    if !done {
        conditions.set(ARCHIVED, "False", Reason::ArchivalInProgress, &message);
    }
    let mut status = into_status(conditions, previous, revision);
    if !done {
        status.controller_of.clone_from(&previous.controller_of);
    }
    status.waiting_for = texts::waiting_for(waiting_for);
    Report {
        status,
        requeue,
        is_interim,
    }
}

/// The status after a teardown that precedes the revision's deletion: only the objects that it
/// waits for. Conditions do not change, and a revision that is deleted at once gets no status
/// write.
pub fn report_deletion(previous: &ObjectSetStatus, outcome: TeardownOutcome) -> Report {
    let is_interim = matches!(outcome, TeardownOutcome::Waiting(_));
    let (waiting_for, requeue) = match outcome {
        TeardownOutcome::Done => (previous.waiting_for.clone(), Requeue::OnEvent),
        TeardownOutcome::Waiting(objects) => (objects, Requeue::OnEvent),
        TeardownOutcome::Failed(objects) => (objects, Requeue::Backoff),
    };
    Report {
        status: ObjectSetStatus {
            waiting_for: texts::waiting_for(waiting_for),
            ..previous.clone()
        },
        requeue,
        is_interim,
    }
}

/// Sets `Succeeded` after the success delay; before its end, returns the requeue for the end.
fn set_succeeded(
    conditions: &mut Conditions,
    revision: &Revision,
    controls_all: bool,
    now: Timestamp,
) -> Option<Requeue> {
    let available = conditions
        .get(AVAILABLE)
        .filter(|condition| condition.status == "True")?;
    if !controls_all {
        return None;
    }
    let delay = SignedDuration::from_secs(revision.success_delay_seconds.max(0).into());
    let end = end_of(available.last_transition_time.0, delay);
    if !conditions.is_true(SUCCEEDED) && now < end {
        return Some(Requeue::After(end.duration_since(now).unsigned_abs()));
    }
    conditions.set(
        SUCCEEDED,
        "True",
        Reason::RolloutSuccess,
        messages::ROLLOUT_SUCCESS,
    );
    None
}

/// Sets or removes `Paused`. `agreed` is true if all delegated phases have the state of the
/// revision.
fn set_paused(conditions: &mut Conditions, revision: &Revision, agreed: bool) {
    match revision.lifecycle {
        LifecycleState::Paused | LifecycleState::Active if !agreed => {
            let reason = Reason::PartiallyPaused;
            conditions.set(PAUSED, "Unknown", reason, messages::PARTIALLY_PAUSED);
        }
        LifecycleState::Paused => {
            conditions.set(PAUSED, "True", Reason::Paused, messages::PAUSED);
        }
        LifecycleState::Active => conditions.remove(PAUSED),
        LifecycleState::Archived => {}
    }
}

fn into_status(
    mut conditions: Conditions,
    previous: &ObjectSetStatus,
    revision: &Revision,
) -> ObjectSetStatus {
    let phase = if conditions.is_true(ARCHIVED) {
        ObjectSetStatusPhase::Archived
    } else if conditions.is_true(AVAILABLE) {
        ObjectSetStatusPhase::Available
    } else {
        ObjectSetStatusPhase::NotReady
    };
    let observed = previous.observed_generation;
    ObjectSetStatus {
        observed_generation: readiness::set_of_revision(&mut conditions, observed, true),
        phase,
        conditions: conditions.into_list(),
        revision: (revision.number != 0).then_some(revision.number),
        remote_phases: previous.remote_phases.clone(),
        controller_of: Vec::new(),
        waiting_for: Vec::new(),
        ended: previous.ended.clone(),
        content_hash: previous.content_hash.clone(),
    }
}
