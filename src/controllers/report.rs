//! Telling what a pass came to: status, events, metrics, and what to remember for the next one.

use std::time::Instant;

use baton_apis::{
    ObjectSetStatus,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, SUCCEEDED, reasons},
};

use super::{Context, Reconciled, hold, object_set::Error};
use crate::{
    cluster::{
        events::EventKind,
        record::{Record, RevisionKey},
    },
    engine::{
        conditions::Report,
        pass::{Outcome, Verdict},
    },
    telemetry::{object_sets::ObjectSetFigures, outcomes::ReconcileOutcome},
};

/// Writes the status if it says anything new, and the events that go with the change. One that the next
/// pass is likely to make outdated is held back for a moment: then another pass is due after that.
///
/// # Errors
/// When the status cannot be written.
pub async fn write(
    context: &Context,
    record: &Record,
    old: &ObjectSetStatus,
    report: Report,
    kind: ReconcileOutcome,
) -> Result<Reconciled, Error> {
    let Report {
        status,
        again,
        is_interim,
    } = report;
    figures(context, record, &status);
    // The stored status is compared, not `old`: the caller may have added to that.
    if record.status().ok().as_ref() != Some(&status) {
        if is_interim && let Some(left) = context.hold(record, &status, Instant::now()) {
            return Ok((kind, hold::at_the_latest(again, left)));
        }
        let updated = context
            .api
            .set_status(record, &status)
            .await
            .map_err(Error::Status)?;
        context.revisions_changed(context.revisions.update(updated), Some(&record.key));
        transitions(context, &record.key, &record.uid, old, &status);
        if kind == ReconcileOutcome::Unchanged {
            context.held.forget(&record.key);
            return Ok((ReconcileOutcome::Changed, again));
        }
    }
    context.held.forget(&record.key);
    Ok((kind, again))
}

/// Events for what a person wants to see in `kubectl describe`.
fn transitions(
    context: &Context,
    key: &RevisionKey,
    uid: &str,
    old: &ObjectSetStatus,
    new: &ObjectSetStatus,
) {
    let find = |status: &ObjectSetStatus, type_: &str| {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .cloned()
    };
    if let Some(available) = find(new, AVAILABLE) {
        let before = find(old, AVAILABLE);
        let was_available = before
            .as_ref()
            .is_some_and(|before| before.status == "True");
        let news = before.as_ref().is_none_or(|before| {
            before.status != available.status || before.reason != available.reason
        });
        // A rollout that goes well says so once, as `Succeeded` does.
        let reason = reasons::OF_AVAILABLE
            .into_iter()
            .find(|reason| *reason == available.reason);
        if let Some(reason) = reason.filter(|_| news) {
            // Probes that do not pass yet are no alarm: neither those of a first rollout nor those
            // of a revision whose objects a newer one is changing.
            let expected = reason == reasons::PROBE_FAILURE
                && (!was_available || find(new, IN_TRANSITION).is_some());
            if available.status != "True" {
                let kind = if expected {
                    EventKind::Normal
                } else {
                    EventKind::Warning
                };
                context.event(key, uid, kind, reason, available.message);
            } else if before.is_some() {
                context.event(key, uid, EventKind::Normal, reason, available.message);
            }
        }
    }
    if find(new, ARCHIVED).is_some_and(|condition| condition.status == "True") {
        let text = "All objects that no other revision owns are gone.".to_owned();
        context.event(key, uid, EventKind::Normal, reasons::ARCHIVED, text);
    }
}

/// The bounded word for metrics.
#[must_use]
pub fn outcome_kind(outcome: &Outcome) -> ReconcileOutcome {
    match outcome.verdict {
        Verdict::Passed if outcome.deeds.is_empty() => ReconcileOutcome::Unchanged,
        Verdict::Passed => ReconcileOutcome::Changed,
        Verdict::ProbeFailure { .. } | Verdict::Delegated { .. } => ReconcileOutcome::Waiting,
        Verdict::Preflight(_) | Verdict::Collision(_) | Verdict::WriteError(_) => {
            ReconcileOutcome::Blocked
        }
        Verdict::Failed(_) => ReconcileOutcome::Failed,
    }
}

/// The metric series of a revision (contract section 7).
pub fn figures(context: &Context, record: &Record, status: &ObjectSetStatus) {
    let find = |type_: &str| {
        status
            .conditions
            .iter()
            .find(|c| c.type_ == type_ && c.status == "True")
    };
    let succeeded = find(SUCCEEDED)
        .filter(|_| find(ARCHIVED).is_none())
        .map(|condition| condition.last_transition_time.0.as_second());
    context.metrics.report_object_set(&ObjectSetFigures {
        namespace: record.key.namespace.to_string(),
        name: record.key.name.to_string(),
        instance: record.instance.clone().unwrap_or_default(),
        image: record.image.clone().unwrap_or_default(),
        created: record.created.map_or(0, jiff::Timestamp::as_second),
        succeeded,
    });
}
