//! Telling what a pass came to: status, events, metrics, and what to remember for the next one.

use baton_apis::{
    ObjectSetStatus,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, SUCCEEDED, reasons},
};

use super::{Context, Reconciled, object_set::Error};
use crate::{
    cluster::{
        blockers::Blocker,
        events::EventKind,
        record::{Record, RevisionKey},
    },
    engine::{
        conditions::Report,
        pass::{Outcome, Verdict},
        revision::{Kinds, Phase},
        slot::Deed,
    },
    telemetry::{object_sets::ObjectSetFigures, outcomes::ReconcileOutcome},
};

/// Writes the status if it says anything new, and the events that go with the change.
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
    let Report { status, again } = report;
    figures(context, record, &status);
    // The stored status is compared, not `old`: the caller may have added to that.
    if record.status().ok().as_ref() != Some(&status) {
        let updated = context
            .api
            .set_status(record, &status)
            .await
            .map_err(Error::Status)?;
        context.revisions_changed(context.revisions.update(updated), Some(&record.key));
        transitions(context, &record.key, &record.uid, old, &status);
        if kind == ReconcileOutcome::Unchanged {
            return Ok((ReconcileOutcome::Changed, again));
        }
    }
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
            if available.status == "False" {
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

/// Notes what the next pass and the watches have to know; the revisions that objects were taken from.
#[must_use]
pub fn remember(
    context: &Context,
    record: &Record,
    phases: &[Phase],
    kinds: &Kinds,
    outcome: &Outcome,
) -> Vec<String> {
    for (at, settled) in &outcome.learned {
        let desired = &phases[at.phase].objects[at.object];
        context.target.settle(&desired.gvk, &desired.key, *settled);
    }
    let blockers = outcome.blockers.iter().map(|(at, version)| {
        let desired = &phases[at.phase].objects[at.object];
        let blocker = Blocker {
            gvk: desired.gvk.clone(),
            key: desired.key.clone(),
        };
        (blocker, version.parse().ok())
    });
    context
        .target
        .watch_blockers(&record.key.to_string(), blockers);
    let unserved = phases
        .iter()
        .flat_map(|phase| &phase.objects)
        .any(|object| !kinds.contains_key(&object.gvk));
    context.note_unserved(&record.key, unserved);
    takeovers(context, record, phases, outcome)
}

/// One event for all objects that were taken over in a pass; whom they were taken from.
fn takeovers(
    context: &Context,
    record: &Record,
    phases: &[Phase],
    outcome: &Outcome,
) -> Vec<String> {
    let mut names = Vec::new();
    let mut from = Vec::new();
    for (at, deed) in &outcome.deeds {
        if let Deed::TookOver(owner) = deed {
            names.push(phases[at.phase].objects[at.object].key.to_string());
            from.extend(owner.clone());
        }
    }
    from.sort_unstable();
    from.dedup();
    if names.is_empty() {
        return from;
    }
    let count = names.len();
    let whose = if from.is_empty() {
        "that nobody controlled".to_owned()
    } else {
        format!("from {}", from.join(", "))
    };
    let text = format!("Took over {count} object(s) {whose}: {}", names.join(", "));
    context.event(
        &record.key,
        &record.uid,
        EventKind::Normal,
        "TookOver",
        text,
    );
    from
}

/// The bounded word for metrics.
#[must_use]
pub fn outcome_kind(outcome: &Outcome) -> ReconcileOutcome {
    match outcome.verdict {
        Verdict::Passed if outcome.deeds.is_empty() => ReconcileOutcome::Unchanged,
        Verdict::Passed => ReconcileOutcome::Changed,
        Verdict::ProbeFailure { .. } => ReconcileOutcome::Waiting,
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
