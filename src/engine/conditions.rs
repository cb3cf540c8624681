//! From what a pass or a teardown came to, to the status that people and programs read
//! (contract 2.9 to 2.12, 4.1, 4.2).

use std::time::Duration;

use baton_apis::{
    LifecycleState, ObjectSetPhaseStatus, ObjectSetStatus, ObjectSetStatusPhase,
    RemotePhaseReference, WaitingForObject,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, PAUSED, SUCCEEDED, messages, reasons},
};
use jiff::{SignedDuration, Timestamp};

use super::{
    condition_list::Conditions,
    pass::{Outcome, Verdict},
    revision::{Delivery, Revision},
    teardown::TeardownOutcome,
};

/// How long a refused revision waits when no event tells that anything has changed (2.14).
pub const MISCONFIGURATION_RETRY: Duration = Duration::from_secs(30);

/// How many passes in a row may fail before the status says so. A single refused connection or
/// overload answer is no news; a webhook that is down for good is.
pub const FAILURES_BEFORE_REPORT: u32 = 3;

/// Objects listed in `status.waitingFor` at most.
const MAX_WAITING_FOR: usize = 16;

/// What to write and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole new status.
    pub status: ObjectSetStatus,
    /// When to look again although nothing changes.
    pub again: Again,
    /// Whether the status only tells how far work has come that goes on by itself: the next pass is
    /// likely to make it outdated. Such a status may be held back for a moment, never for good.
    pub is_interim: bool,
}

/// When a revision is looked at again without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Only on events.
    OnEvent,
    /// At the latest after this time.
    After(Duration),
    /// After a growing delay: the requests failed for a reason that may pass.
    Backoff,
}

/// The status after a pass.
///
/// `failures` counts the passes in a row before this one that failed for passing reasons.
///
/// # Guarantees
/// The transition time of a condition moves only when its status changes, so a status that says
/// the same as before equals it and needs no write.
#[must_use]
pub fn report_pass(
    previous: &ObjectSetStatus,
    revision: &Revision,
    outcome: Outcome,
    failures: u32,
    now: Timestamp,
) -> Report {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    let succeeded = conditions.is_true(SUCCEEDED);
    let has_written = !outcome.deeds.is_empty();
    let is_silent = matches!(
        outcome.verdict,
        Verdict::Delegated {
            is_silent: true,
            ..
        }
    );
    let Judged {
        is_error,
        mut again,
    } = judge(&mut conditions, revision, &outcome, failures, succeeded);
    // What was not looked at stays as it was reported last.
    if !is_error {
        conditions.map(outcome.mapped);
        if outcome.controls_all {
            conditions.remove(IN_TRANSITION);
        } else {
            conditions.set(
                IN_TRANSITION,
                "True",
                reasons::IN_TRANSITION,
                messages::IN_TRANSITION,
            );
        }
        again = succeed(&mut conditions, revision, outcome.controls_all, now).unwrap_or(again);
    }
    pause(&mut conditions, revision, outcome.pause_agreed);
    let mut status = into_status(conditions, previous, revision);
    merge_remote_phases(&mut status.remote_phases, outcome.remote_phases);
    status.controller_of = outcome.controller_of;
    status.waiting_for = outcome.waiting_for;
    status.waiting_for.truncate(MAX_WAITING_FOR);
    let is_progress = if is_silent {
        !takes_back(previous, &status)
    } else {
        hands_over(previous, &status)
    };
    Report {
        is_interim: is_progress && !has_written,
        status,
        again,
    }
}

/// Whether a status takes back an `Available` that was told of the same generation: whoever looks at it
/// has no sign that it is old.
fn takes_back(previous: &ObjectSetStatus, status: &ObjectSetStatus) -> bool {
    let available = |status: &ObjectSetStatus| {
        let mut conditions = status.conditions.iter();
        let available = conditions.find(|condition| condition.type_ == AVAILABLE);
        available.map(|condition| (condition.status == "True", condition.observed_generation))
    };
    match (available(previous), available(status)) {
        (Some((true, before)), Some((false, now))) => before == now,
        _ => false,
    }
}

/// Whether all that a status has to tell is that some objects, but not the last ones, are no longer the
/// revision's own: a newer one is taking them over, and goes on doing so.
fn hands_over(previous: &ObjectSetStatus, status: &ObjectSetStatus) -> bool {
    let is_less = !status.controller_of.is_empty()
        && status.controller_of.len() < previous.controller_of.len()
        && status
            .controller_of
            .iter()
            .all(|object| previous.controller_of.contains(object));
    let rest = |status: &ObjectSetStatus| {
        let mut status = status.clone();
        status.controller_of.clear();
        status
            .conditions
            .retain(|condition| condition.type_ != IN_TRANSITION);
        status
    };
    is_less && rest(previous) == rest(status)
}

/// The status of a delegated phase after a pass; as [`report_pass`], with fewer conditions
/// (contract 6.2).
#[must_use]
pub fn report_phase(
    previous: &ObjectSetPhaseStatus,
    revision: &Revision,
    outcome: Outcome,
    failures: u32,
    now: Timestamp,
) -> (ObjectSetPhaseStatus, Again) {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    let Judged { is_error, again } = judge(&mut conditions, revision, &outcome, failures, true);
    if !is_error {
        conditions.map(outcome.mapped);
    }
    pause(&mut conditions, revision, true);
    let status = ObjectSetPhaseStatus {
        conditions: conditions.into_list(),
        controller_of: outcome.controller_of,
    };
    (status, again)
}

/// The status of a delegated phase about whose objects nothing could be found out: `status` is `False`
/// or `Unknown`.
#[must_use]
pub fn report_phase_unknown(
    previous: &ObjectSetPhaseStatus,
    revision: &Revision,
    (status, reason): (&str, &str),
    message: &str,
    now: Timestamp,
) -> ObjectSetPhaseStatus {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.set(AVAILABLE, status, reason, message);
    pause(&mut conditions, revision, true);
    ObjectSetPhaseStatus {
        conditions: conditions.into_list(),
        controller_of: previous.controller_of.clone(),
    }
}

/// What a verdict says about the rest of the status.
struct Judged {
    /// The pass ended early: what it did not look at stays as it was reported last.
    is_error: bool,
    again: Again,
}

/// Sets `Available`. `is_established`: the revision need not control all of its objects to be available.
fn judge(
    conditions: &mut Conditions,
    revision: &Revision,
    outcome: &Outcome,
    failures: u32,
    is_established: bool,
) -> Judged {
    let mut again = Again::OnEvent;
    let mut is_error = true;
    let mut fail = |status, reason, message: &str, retry| {
        conditions.set(AVAILABLE, status, reason, message);
        again = retry;
    };
    let retry = Again::After(MISCONFIGURATION_RETRY);
    match &outcome.verdict {
        Verdict::Passed if !outcome.controls_all && !is_established => {
            is_error = false;
            fail(
                "False",
                reasons::NOT_IN_CONTROL,
                "Not every object is controlled by this revision, and it never was available.",
                Again::OnEvent,
            );
        }
        Verdict::Passed => {
            is_error = false;
            conditions.set(AVAILABLE, "True", reasons::AVAILABLE, messages::AVAILABLE);
        }
        Verdict::ProbeFailure { phase, failures } => {
            is_error = false;
            // The revision that a delegated phase belongs to puts its name before it.
            let message = match revision.delivery {
                Delivery::InProcess => format!("Phase \"{phase}\" failed: {failures}"),
                Delivery::Delegated | Delivery::Remote => failures.clone(),
            };
            fail("False", reasons::PROBE_FAILURE, &message, Again::OnEvent);
        }
        Verdict::Delegated {
            phase,
            status,
            reason,
            message,
            is_silent: _,
        } => {
            is_error = false;
            let message = format!("Phase \"{phase}\" failed: {message}");
            let status = if status == "Unknown" {
                "Unknown"
            } else {
                "False"
            };
            fail(status, reason, &message, Again::OnEvent);
        }
        Verdict::Preflight(texts) => {
            fail("False", reasons::PREFLIGHT_ERROR, &texts.join(", "), retry);
        }
        Verdict::Collision(text) => fail("False", reasons::COLLISION_DETECTED, text, retry),
        Verdict::WriteError(texts) => {
            fail("False", reasons::WRITE_ERROR, &texts.join(", "), retry);
        }
        Verdict::Failed(texts) if failures >= FAILURES_BEFORE_REPORT => {
            fail(
                "False",
                reasons::WRITE_ERROR,
                &texts.join(", "),
                Again::Backoff,
            );
        }
        Verdict::Failed(_) => again = Again::Backoff,
    }
    Judged { is_error, again }
}

/// Brings the list of phase objects up to date, by their names; nothing is ever removed.
fn merge_remote_phases(list: &mut Vec<RemotePhaseReference>, now: Vec<RemotePhaseReference>) {
    for phase in now {
        match list.iter_mut().find(|known| known.name == phase.name) {
            Some(known) => *known = phase,
            None => list.push(phase),
        }
    }
}

/// The status after a refusal that concerns the revision as a whole, before any object was
/// looked at: a missing slice, a bad probe, a duplicate, an unusable `previous`.
#[must_use]
pub fn report_refusal(
    previous: &ObjectSetStatus,
    revision: &Revision,
    reason: &str,
    texts: &[String],
    now: Timestamp,
) -> Report {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.set(AVAILABLE, "False", reason, &texts.join(", "));
    pause(&mut conditions, revision, true);
    let mut status = into_status(conditions, previous, revision);
    status.controller_of.clone_from(&previous.controller_of);
    Report {
        status,
        again: Again::After(MISCONFIGURATION_RETRY),
        is_interim: false,
    }
}

/// The status after a teardown that archives the revision.
#[must_use]
pub fn report_archival(
    previous: &ObjectSetStatus,
    revision: &Revision,
    outcome: TeardownOutcome,
    now: Timestamp,
) -> Report {
    let mut conditions = Conditions::new(&previous.conditions, revision.generation, now);
    conditions.remove(AVAILABLE);
    let mut again = Again::OnEvent;
    let mut waiting_for = Vec::new();
    let mut message = messages::ARCHIVAL_IN_PROGRESS.to_owned();
    let is_interim = matches!(outcome, TeardownOutcome::Waiting(_));
    match outcome {
        TeardownOutcome::Done => conditions.set(ARCHIVED, "True", reasons::ARCHIVED, ""),
        TeardownOutcome::Waiting(objects) => waiting_for = objects,
        TeardownOutcome::Failed(objects) => {
            for object in &objects {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                message = format!(
                    "{message} {} {namespace}/{}: {}",
                    object.kind, object.name, object.message
                );
            }
            waiting_for = objects;
            again = Again::Backoff;
        }
        TeardownOutcome::Blocked(reason) => {
            message = format!("{message} {reason}");
            again = Again::Backoff;
        }
    }
    let done = conditions.is_true(ARCHIVED);
    if !done {
        conditions.set(ARCHIVED, "False", reasons::ARCHIVAL_IN_PROGRESS, &message);
    }
    let mut status = into_status(conditions, previous, revision);
    if !done {
        status.controller_of.clone_from(&previous.controller_of);
    }
    status.waiting_for = waiting_for;
    status.waiting_for.truncate(MAX_WAITING_FOR);
    Report {
        status,
        again,
        is_interim,
    }
}

/// The status after a teardown that precedes the revision's deletion: only what it waits for. Its
/// conditions stay as they were (contract 4.3), and one that is deleted at once is not written to.
#[must_use]
pub fn report_deletion(previous: &ObjectSetStatus, outcome: TeardownOutcome) -> Report {
    let is_interim = matches!(outcome, TeardownOutcome::Waiting(_));
    let (mut waiting_for, again) = match outcome {
        TeardownOutcome::Done => (previous.waiting_for.clone(), Again::OnEvent),
        TeardownOutcome::Waiting(objects) => (objects, Again::OnEvent),
        TeardownOutcome::Failed(objects) => (objects, Again::Backoff),
        TeardownOutcome::Blocked(message) => {
            let reason = reasons::ARCHIVAL_IN_PROGRESS.to_owned();
            let blocked = WaitingForObject {
                reason,
                message,
                ..WaitingForObject::default()
            };
            (vec![blocked], Again::Backoff)
        }
    };
    waiting_for.truncate(MAX_WAITING_FOR);
    Report {
        status: ObjectSetStatus {
            waiting_for,
            ..previous.clone()
        },
        again,
        is_interim,
    }
}

/// Sets `Succeeded` when its time has come, or tells when that will be.
fn succeed(
    conditions: &mut Conditions,
    revision: &Revision,
    controls_all: bool,
    now: Timestamp,
) -> Option<Again> {
    let available = conditions
        .get(AVAILABLE)
        .filter(|condition| condition.status == "True")?;
    if !controls_all {
        return None;
    }
    // The API keeps whole seconds, so the transition may have been up to one second later
    // than it says; a delay is never cut short.
    let delay = match revision.success_delay_seconds {
        ..=0 => SignedDuration::ZERO,
        seconds => SignedDuration::from_secs(i64::from(seconds) + 1),
    };
    let elapsed = now.duration_since(available.last_transition_time.0);
    if !conditions.is_true(SUCCEEDED) && elapsed < delay {
        let left = (delay - elapsed).unsigned_abs();
        return Some(Again::After(left));
    }
    conditions.set(
        SUCCEEDED,
        "True",
        reasons::ROLLOUT_SUCCESS,
        messages::ROLLOUT_SUCCESS,
    );
    None
}

/// Sets or removes `Paused`; `agreed`: whether all delegated phases are where the revision is.
fn pause(conditions: &mut Conditions, revision: &Revision, agreed: bool) {
    match revision.lifecycle {
        LifecycleState::Paused | LifecycleState::Active if !agreed => {
            let reason = reasons::PARTIALLY_PAUSED;
            conditions.set(PAUSED, "Unknown", reason, messages::PARTIALLY_PAUSED);
        }
        LifecycleState::Paused => {
            conditions.set(PAUSED, "True", reasons::PAUSED, messages::PAUSED);
        }
        LifecycleState::Active => conditions.remove(PAUSED),
        LifecycleState::Archived => {}
    }
}

fn into_status(
    conditions: Conditions,
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
    ObjectSetStatus {
        phase,
        conditions: conditions.into_list(),
        revision: (revision.number != 0).then_some(revision.number),
        remote_phases: previous.remote_phases.clone(),
        controller_of: Vec::new(),
        waiting_for: Vec::new(),
        content_hash: previous.content_hash.clone(),
    }
}
