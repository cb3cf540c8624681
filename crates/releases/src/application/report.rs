//! The report of a sync: conditions, and events about their changes.

use baton_apis::{
    ConditionStatus,
    conditions::{
        EventReason, Reason,
        shipper::{ABORTING, RELEASE_SYNCED, ROLLING_OUT, VALID_HISTORY},
    },
};

use super::{Sync, error::SyncError, history::History};
use crate::{event::Event, texts::Quoted};

impl Sync<'_> {
    /// Sets the conditions of a successful sync. Events about these changes precede those about
    /// earlier changes.
    pub(super) fn wrap_up(&mut self, history: &History<'_>) {
        let before = self.conditions.take_changes();
        self.conditions.set_plain(ABORTING, false);
        self.conditions.set_plain(VALID_HISTORY, true);
        self.conditions.set_plain(RELEASE_SYNCED, true);
        let (status, message) = self.progress(history);
        self.conditions.set(ROLLING_OUT, status, None, &message);
        self.publish_changes();
        self.events.extend(before.map(condition_event));
    }

    /// Status and message of the condition `RollingOut`.
    fn progress(&self, history: &History<'_>) -> (ConditionStatus, String) {
        let Some(newest) = history.newest() else {
            let name = Quoted(self.name());
            let message = format!("no contender release found for application {name}");
            return (ConditionStatus::Unknown, message);
        };
        let name = Quoted(newest.name());
        if newest.is_complete() {
            return (ConditionStatus::False, format!("Release {name} is active"));
        }
        let message = match history.incumbent() {
            Some(old) => format!("Transitioning from {} to {name}", Quoted(old.name())),
            None => format!("Rolling out initial release {name}"),
        };
        (ConditionStatus::True, message)
    }

    /// Sets the conditions of a failed sync.
    pub(super) fn report(&mut self, error: &SyncError) {
        let text = error.to_string();
        let conditions: &[_] = match error {
            SyncError::BrokenReleaseGeneration(_) => {
                &[(VALID_HISTORY, Reason::BrokenReleaseGeneration)]
            }
            SyncError::BrokenObservedGeneration { .. } => {
                &[(VALID_HISTORY, Reason::BrokenApplicationObservedGeneration)]
            }
            SyncError::Resolution(_) => &[(ROLLING_OUT, Reason::ChartVersionResolutionFailed)],
            SyncError::Create { first: true, .. } => {
                &[(RELEASE_SYNCED, Reason::CreateReleaseFailed)]
            }
            SyncError::Create { first: false, .. } => &[
                (RELEASE_SYNCED, Reason::CreateReleaseFailed),
                (ROLLING_OUT, Reason::CreateReleaseFailed),
            ],
        };
        for (type_, reason) in conditions {
            self.conditions.set(type_, false, *reason, &text);
        }
    }

    /// Adds an event about the changes of the conditions.
    pub(super) fn publish_changes(&mut self) {
        let changes = self.conditions.take_changes();
        self.events.extend(changes.map(condition_event));
    }
}

fn condition_event(changes: String) -> Event {
    Event::normal(EventReason::ApplicationConditionChanged, changes)
}
