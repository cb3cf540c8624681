//! The events of a rollout, from changes of the status.

use baton_apis::{
    SiteDeploymentStatus,
    conditions::{ABORTED, PLACED, PROGRESSING, WAITING, reasons},
};
use baton_engine::condition_list::find;
use baton_kubernetes::events::EventKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Name of the controller in events.
pub(super) const REPORTER: &str = "site-deployment-controller";

/// An event to publish.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub kind: EventKind,
    pub reason: &'static str,
    pub note: String,
}

impl Event {
    fn new(kind: EventKind, reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            kind,
            reason,
            note: note.into(),
        }
    }
}

/// The events for a status change.
pub(super) fn between(old: &SiteDeploymentStatus, new: &SiteDeploymentStatus) -> Vec<Event> {
    use EventKind::{Normal, Warning};
    let mut events = Vec::new();
    let version = new.version.as_deref().unwrap_or_default();
    if let Some(batch) = &new.batch
        && (old.rollout, old.batch.as_ref().map(|it| it.number))
            != (new.rollout, Some(batch.number))
    {
        let (number, of) = (batch.number, batch.of);
        let note = format!("Version {version} goes to wave {number} of {of}");
        events.push(Event::new(Normal, "WaveStarted", note));
    }
    let mut changed = |type_: &str, status: &str, reason: &str, kind, reported: &'static str| {
        let is_it = |it: &Condition| it.status == status && it.reason == reason;
        let before = find(&old.conditions, type_).is_some_and(is_it) && old.rollout == new.rollout;
        if let Some(now) = find(&new.conditions, type_).filter(|it| is_it(it) && !before) {
            events.push(Event::new(kind, reported, now.message.clone()));
        }
    };
    for reason in [reasons::SITE_FAILED, reasons::ABORTED_BY_USER] {
        changed(ABORTED, "True", reason, Warning, "Aborted");
    }
    changed(ABORTED, "True", reasons::ROLLED_BACK, Warning, "RolledBack");
    changed(PROGRESSING, "False", reasons::COMPLETE, Normal, "Complete");
    changed(
        PROGRESSING,
        "False",
        reasons::INVALID_STRATEGY,
        Warning,
        "InvalidStrategy",
    );
    changed(
        PROGRESSING,
        "False",
        reasons::NUMBERS_EXHAUSTED,
        Warning,
        "NumbersExhausted",
    );
    changed(
        WAITING,
        "True",
        reasons::VERSION_NOT_FOUND,
        Normal,
        "VersionNotFound",
    );
    changed(
        PLACED,
        "False",
        reasons::INVALID_EXPRESSION,
        Warning,
        "InvalidExpression",
    );
    changed(
        PLACED,
        "False",
        reasons::OVERLAPPING,
        Warning,
        "Overlapping",
    );
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
            (status(1, 1, &[]), status(1, 2, &[]), vec!["WaveStarted"]),
            (
                status(1, 1, &[complete]),
                status(2, 1, &[]),
                vec!["WaveStarted"],
            ),
            (
                status(1, 3, &[]),
                status(1, 0, &[complete]),
                vec!["Complete"],
            ),
            (status(1, 0, &[complete]), status(1, 0, &[complete]), vec![]),
            (
                status(1, 0, &[complete]),
                status(2, 0, &[complete]),
                vec!["Complete"],
            ),
            (status(1, 2, &[]), status(1, 2, &[failed]), vec!["Aborted"]),
            (
                status(1, 2, &[failed]),
                status(1, 2, &[back]),
                vec!["RolledBack"],
            ),
        ] {
            let events = between(&old, &new);
            let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
            assert_eq!(reasons, expected);
        }
    }
}
