//! Reports the outcome of a pass: status, events, metrics.

use std::time::Duration;

use baton_apis::{
    ObjectSetStatus,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, Reason, SUCCEEDED},
};
use baton_engine::{
    condition_list::{find, find_true, is_true},
    conditions::Report,
};
use baton_kubernetes::events::EventKind;
use baton_records::revision::RevisionRecord;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::debounce::{at_most, at_the_latest};

use super::{ObjectSets, series::ObjectSetFigures};
use crate::delivery::shared::{AtStep as _, Error};

impl ObjectSets {
    /// Writes the status if it differs from the stored one, and publishes the events of the change.
    /// A status that the next pass probably replaces is debounced; another pass is due when that
    /// time is over.
    pub(super) async fn report(
        &self,
        record: &RevisionRecord,
        old: &ObjectSetStatus,
        report: Report,
        outcome: ReconcileOutcome,
    ) -> Result<Reconciled, Error> {
        let Report {
            status,
            requeue,
            is_interim,
        } = report;
        self.report_series(record, &status);
        let key = &record.key;
        let mut outcome = outcome;
        // Compared with the stored status, not with `old`: the caller may have added to `old`.
        if record.is_wiped || record.status().ok().as_ref() != Some(&status) {
            if is_interim && let Some(left) = self.debounce(record, &status) {
                return Ok((outcome, at_the_latest(requeue, left)));
            }
            let updated = self.shared.api.set_status(record, &status).await;
            self.updated(updated.at_step("writing the status")?);
            for (kind, reason, note) in transitions(old, &status) {
                if record.has_site() && repeats_conditions(old, kind, reason) {
                    continue;
                }
                let events = &self.shared.events;
                events.publish(key, &record.uid, kind, reason, note);
            }
            if outcome == ReconcileOutcome::Unchanged {
                outcome = ReconcileOutcome::Changed;
            }
        }
        self.debounced.forget(key);
        Ok((outcome, requeue))
    }

    /// The time for which a status may still be debounced; `None` if it has to be written.
    fn debounce(&self, record: &RevisionRecord, status: &ObjectSetStatus) -> Option<Duration> {
        let is_loaded = !self.phases.is_idle();
        let content_hash = status.content_hash.as_ref();
        let now = self.shared.clock.instant();
        self.debounced.remaining(
            &record.key,
            &record.uid,
            content_hash,
            at_most(is_loaded),
            now,
        )
    }

    /// Updates the metric series of a revision.
    pub(super) fn report_series(&self, record: &RevisionRecord, status: &ObjectSetStatus) {
        let succeeded = find_true(&status.conditions, SUCCEEDED)
            .filter(|_| !is_true(&status.conditions, ARCHIVED))
            .map(|condition| condition.last_transition_time.0.as_second());
        self.series.report(&ObjectSetFigures {
            namespace: record.key.namespace.to_string(),
            name: record.key.name.to_string(),
            instance: record.instance.clone().unwrap_or_default(),
            image: record.image.clone().unwrap_or_default(),
            created: record.created.map_or(0, jiff::Timestamp::as_second),
            succeeded,
        });
    }
}

/// True if an event only repeats the conditions of the revision, and is no problem or the end of one.
/// With thousands of sites, such events would be a quarter of all writes.
fn repeats_conditions(old: &ObjectSetStatus, kind: EventKind, reason: Reason) -> bool {
    let is_recovery = reason == Reason::Available && is_true(&old.conditions, SUCCEEDED);
    kind == EventKind::Normal && !is_recovery
}

/// Events for readers of `kubectl describe`.
fn transitions(old: &ObjectSetStatus, new: &ObjectSetStatus) -> Vec<(EventKind, Reason, String)> {
    let mut events = Vec::new();
    let before = find(&old.conditions, AVAILABLE);
    if let Some(available) = find(&new.conditions, AVAILABLE)
        && before.is_none_or(|before| {
            before.status != available.status || before.reason != available.reason
        })
        && let Some(reason) = Reason::of_available(&available.reason)
    {
        let was_available = is_true(&old.conditions, AVAILABLE);
        // Failing probes are expected during the first rollout, and while a newer revision changes
        // the objects.
        let is_expected = reason == Reason::ProbeFailure
            && (!was_available || find(&new.conditions, IN_TRANSITION).is_some());
        let kind = if available.status == "True" || is_expected {
            EventKind::Normal
        } else {
            EventKind::Warning
        };
        // A first rollout that succeeds is reported once, by `Succeeded`.
        if available.status != "True" || before.is_some() {
            events.push((kind, reason, available.message.clone()));
        }
    }
    if is_true(&new.conditions, ARCHIVED) {
        let text = "All objects that no other revision owns are gone.".to_owned();
        events.push((EventKind::Normal, Reason::Archived, text));
    }
    events
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;

    #[test]
    fn events_of_problems_and_of_their_end_are_kept() {
        let condition = |type_: &str, status: &str| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        let status = |succeeded: bool| ObjectSetStatus {
            conditions: vec![
                condition(AVAILABLE, "False"),
                condition(SUCCEEDED, if succeeded { "True" } else { "False" }),
            ],
            ..ObjectSetStatus::default()
        };
        let (normal, warning) = (EventKind::Normal, EventKind::Warning);
        for (has_succeeded, kind, reason, expected) in [
            (false, normal, Reason::ProbeFailure, true),
            (false, normal, Reason::Available, true),
            (true, normal, Reason::Archived, true),
            (true, normal, Reason::Available, false),
            (true, warning, Reason::ProbeFailure, false),
            (false, warning, Reason::PreflightError, false),
        ] {
            let repeats = repeats_conditions(&status(has_succeeded), kind, reason);
            assert_eq!(repeats, expected, "{has_succeeded} {reason}");
        }
    }
}
