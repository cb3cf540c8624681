//! The events of a rollout, from changes of the status.

use baton_apis::{
    SiteDeploymentStatus,
    conditions::{ABORTED, EventReason, PLACED, PROGRESSING, Reason, WAITING},
};
use baton_engine::condition_list::find;
use baton_kubernetes::events::EventKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Name of the controller in events.
pub(super) const REPORTER: &str = "site-deployment-controller";

/// Conditions that an event reports.
const REPORTED: [(&str, &str, Reason, EventKind); 9] = [
    (ABORTED, "True", Reason::SiteFailed, EventKind::Warning),
    (ABORTED, "True", Reason::AbortedByUser, EventKind::Warning),
    (ABORTED, "True", Reason::RolledBack, EventKind::Warning),
    (PROGRESSING, "False", Reason::Complete, EventKind::Normal),
    (
        PROGRESSING,
        "False",
        Reason::InvalidStrategy,
        EventKind::Warning,
    ),
    (
        PROGRESSING,
        "False",
        Reason::NumbersExhausted,
        EventKind::Warning,
    ),
    (WAITING, "True", Reason::VersionNotFound, EventKind::Normal),
    (
        PLACED,
        "False",
        Reason::InvalidExpression,
        EventKind::Warning,
    ),
    (PLACED, "False", Reason::Overlapping, EventKind::Warning),
];

/// An event to publish.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub kind: EventKind,
    pub reason: EventReason,
    pub note: String,
}

impl Event {
    fn new(kind: EventKind, reason: impl Into<EventReason>, note: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            note: note.into(),
        }
    }
}

/// The events for a status change.
pub(super) fn between(old: &SiteDeploymentStatus, new: &SiteDeploymentStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let version = new.version.as_deref().unwrap_or_default();
    if let Some(batch) = &new.batch
        && (old.rollout, old.batch.as_ref().map(|it| it.number))
            != (new.rollout, Some(batch.number))
    {
        let (number, of) = (batch.number, batch.of);
        let note = format!("Version {version} goes to wave {number} of {of}");
        events.push(Event::new(
            EventKind::Normal,
            EventReason::WaveStarted,
            note,
        ));
    }
    for (type_, status, reason, kind) in REPORTED {
        let is_it = |it: &Condition| it.status == status && it.reason == reason;
        let before = find(&old.conditions, type_).is_some_and(is_it) && old.rollout == new.rollout;
        if let Some(now) = find(&new.conditions, type_).filter(|it| is_it(it) && !before) {
            let reason = match reason {
                Reason::SiteFailed | Reason::AbortedByUser => Reason::Aborted,
                reason => reason,
            };
            events.push(Event::new(kind, reason, now.message.clone()));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(rollout: i64, batch: i32, conditions: &[(&str, &str, &str)]) -> SiteDeploymentStatus {
        let condition = |(type_, status, reason): &(&str, &str, &str)| -> Value {
            json!({
                "type": type_, "status": status, "reason": reason, "message": reason,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let mut status = json!({
            "rollout": rollout, "version": "1.2.3",
            "conditions": conditions.iter().map(condition).collect::<Vec<_>>(),
        });
        if batch > 0 {
            status["batch"] = json!({"number": batch, "of": 3});
        }
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn each_step_of_a_rollout_causes_one_event() {
        let complete = ("Progressing", "False", "Complete");
        let failed = ("Aborted", "True", "SiteFailed");
        let back = ("Aborted", "True", "RolledBack");
        for (old, new, expected) in [
            (status(1, 1, &[]), status(1, 1, &[]), vec![]),
            (
                status(1, 1, &[]),
                status(1, 2, &[]),
                vec![EventReason::WaveStarted],
            ),
            (
                status(1, 1, &[complete]),
                status(2, 1, &[]),
                vec![EventReason::WaveStarted],
            ),
            (
                status(1, 3, &[]),
                status(1, 0, &[complete]),
                vec![Reason::Complete.into()],
            ),
            (status(1, 0, &[complete]), status(1, 0, &[complete]), vec![]),
            (
                status(1, 0, &[complete]),
                status(2, 0, &[complete]),
                vec![Reason::Complete.into()],
            ),
            (
                status(1, 2, &[]),
                status(1, 2, &[failed]),
                vec![Reason::Aborted.into()],
            ),
            (
                status(1, 2, &[failed]),
                status(1, 2, &[back]),
                vec![Reason::RolledBack.into()],
            ),
        ] {
            let events = between(&old, &new);
            let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
            assert_eq!(reasons, expected);
        }
    }
}
