//! The rollouts that the hub has handed to the agent.

use std::sync::Arc;

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{ROLLOUT_REPORT, Reason},
};
use baton_fleet::mirror;
use baton_records::phase::{PhaseKey, PhaseRecord};
use baton_releases::by_agent::{Report, Task};
use baton_runtime::source::Source;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tracing::error;

use super::{Mirrors, SavedMirror};
use crate::controllers::releases::reported::{report_of, task_of};

/// Limit of the length of a report, in bytes: that of the message of a condition, in characters.
pub(crate) const MAX_REPORT: usize = 32_000;

/// A rollout of an application.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    /// The object as the hub last sent it.
    object: Arc<PhaseRecord>,
    /// The task in the object; `None` if it cannot be read.
    task: Option<Task>,
    /// The report that the agent has recorded, or the one that the hub has.
    report: Report,
    /// Time of the report.
    at: Timestamp,
}

impl Rollout {
    /// The status that reports to the hub.
    fn status(&self) -> Option<ObjectSetPhaseStatus> {
        let condition = Condition {
            type_: ROLLOUT_REPORT.to_owned(),
            status: "True".to_owned(),
            reason: Reason::Connected.to_string(),
            message: serde_json::to_string(&self.report).ok()?,
            observed_generation: None,
            last_transition_time: Time(self.at),
        };
        Some(ObjectSetPhaseStatus {
            conditions: vec![condition],
            ..ObjectSetPhaseStatus::default()
        })
    }

    /// True if the hub has the report.
    fn is_reported(&self) -> bool {
        report_of(&self.object).is_some_and(|it| it.number >= self.report.number)
    }

    /// Takes a report if it is newer: a process before this one, or another agent with the lease, has
    /// made it.
    fn take_report(&mut self, report: Option<Report>) {
        let report = report.filter(|report| report.number > self.report.number);
        if let Some(report) = report {
            self.report = report;
        }
    }
}

impl Mirrors {
    /// The rollouts to be reconciled because of changes on the hub or of phases.
    pub(crate) fn rollout_wakes(&self) -> &Source<PhaseKey> {
        &self.rollout_wakes
    }

    /// Wakes the rollouts in a namespace; of all namespaces without one.
    pub(super) fn wake_rollouts(&self, namespace: Option<&str>) {
        let rollouts = self.rollouts.lock();
        let concerned = rollouts.iter().filter(|(_, rollout)| {
            let task = rollout.task.as_ref();
            namespace.is_none_or(|namespace| task.is_some_and(|it| it.namespace == namespace))
        });
        let keys: Vec<_> = concerned.map(|(key, _)| key.clone()).collect();
        drop(rollouts);
        for key in keys {
            self.rollout_wakes.emit(&key);
        }
    }

    /// True if there are no rollouts.
    pub(crate) fn has_no_rollouts(&self) -> bool {
        self.rollouts.lock().is_empty()
    }

    /// The task of a rollout, and the last report; `None` if the rollout does not exist or cannot be
    /// read.
    pub(crate) fn rollout(&self, key: &PhaseKey) -> Option<(Task, Report)> {
        let rollouts = self.rollouts.lock();
        let rollout = rollouts.get(key)?;
        Some((rollout.task.clone()?, rollout.report.clone()))
    }

    /// Records a report. It is stored on disk, and sent to the hub if it `is_complete`: before that,
    /// it has no outcomes of the present shares.
    pub(crate) fn record_report(
        &self,
        key: &PhaseKey,
        (report, is_complete): (&Report, bool),
        now: Timestamp,
    ) {
        let mut rollouts = self.rollouts.lock();
        let Some(rollout) = rollouts.get_mut(key) else {
            return;
        };
        rollout.report = Report {
            number: rollout.report.number.saturating_add(1),
            ..report.clone()
        };
        rollout.at = now;
        drop(rollouts);
        if is_complete {
            self.add_pending(key.clone());
        }
        self.changed();
    }

    /// Stores an object with a rollout, unless it is older than the cached one.
    pub(super) fn take_rollout(&self, object: PhaseRecord, has_gone_back: bool) {
        let key = object.key.clone();
        let task = task_of(&object);
        if task.is_none() {
            error!(object = %key, "a rollout cannot be read, and is not carried out");
        }
        let mut rollouts = self.rollouts.lock();
        let cached = rollouts.get(&key);
        let is_older = cached.is_some_and(|it| {
            it.object.uid == object.uid && it.object.resource_version >= object.resource_version
        });
        if is_older && !has_gone_back {
            return;
        }
        let is_new = cached.is_none_or(|it| it.task != task);
        // An object that was created again continues with the shares of the one before.
        let mut rollout = Rollout {
            report: cached.map(|it| it.report.clone()).unwrap_or_default(),
            at: cached.map_or(Timestamp::UNIX_EPOCH, |it| it.at),
            object: Arc::new(object),
            task,
        };
        rollout.take_report(report_of(&rollout.object));
        rollouts.insert(key.clone(), rollout);
        drop(rollouts);
        self.changed();
        self.add_pending(key.clone());
        if is_new {
            self.rollout_wakes.emit(&key);
        }
    }

    /// Forgets a rollout. True if it existed.
    pub(super) fn remove_rollout(&self, key: &PhaseKey) -> bool {
        let removed = self.rollouts.lock().remove(key).is_some();
        if removed {
            self.changed();
            self.rollout_wakes.emit(key);
        }
        removed
    }

    /// Forgets the rollouts that are not `listed`.
    pub(super) fn keep_rollouts(&self, is_listed: impl Fn(&PhaseKey) -> bool) {
        let keys: Vec<_> = self.rollouts.lock().keys().cloned().collect();
        for key in keys.iter().filter(|key| !is_listed(key)) {
            self.remove_rollout(key);
        }
    }

    /// The object and the status to be written for a rollout; `None` if the hub has the status.
    pub(super) fn unreported_rollout(
        &self,
        key: &PhaseKey,
    ) -> Option<(Arc<PhaseRecord>, ObjectSetPhaseStatus)> {
        let rollouts = self.rollouts.lock();
        let rollout = rollouts.get(key).filter(|it| !it.is_reported())?;
        Some((Arc::clone(&rollout.object), rollout.status()?))
    }

    /// The rollouts as they are stored on disk.
    pub(super) fn saved_rollouts(&self) -> Vec<SavedMirror> {
        let rollouts = self.rollouts.lock();
        let saved = |rollout: &Rollout| SavedMirror {
            mirror: Arc::clone(&rollout.object),
            noted: rollout.status(),
        };
        rollouts.values().map(saved).collect()
    }

    /// Restores a recorded report, unless the hub has a later one.
    pub(super) fn recall_report(&self, saved: &PhaseRecord, noted: &ObjectSetPhaseStatus) {
        let mut report = saved.clone();
        let report = match report.set_status(noted) {
            Ok(()) => report_of(&report),
            Err(_) => None,
        };
        let mut rollouts = self.rollouts.lock();
        let Some(rollout) = rollouts.get_mut(&saved.key) else {
            return;
        };
        rollout.take_report(report);
        drop(rollouts);
        self.add_pending(saved.key.clone());
        self.rollout_wakes.emit(&saved.key);
    }
}

/// True for an object with a rollout.
pub(super) fn is_rollout(object: &PhaseRecord) -> bool {
    mirror::rollout_cluster(object).is_some()
}

#[cfg(test)]
mod tests {
    use baton_fleet::mirror::{KIND, rollout, rollout_manifest};
    use baton_records::record::Record;
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::{agent::mirrors::Change, delivery::observed::Observed};

    fn key() -> PhaseKey {
        rollout("edge", "shop", "web")
    }

    fn numbered(number: u64) -> Report {
        Report {
            number,
            ..Report::default()
        }
    }

    /// The object with the task of a namespace, and the report that the hub has.
    fn object(uid: &str, version: u64, namespace: &str, reported: Option<u64>) -> PhaseRecord {
        let task = Task {
            namespace: namespace.to_owned(),
            ..Task::default()
        };
        let mut object = rollout_manifest(&key(), &json!(task).to_string());
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if let Some(number) = reported {
            object["status"]["conditions"] = json!([{
                "type": ROLLOUT_REPORT, "status": "True", "reason": "Connected",
                "message": json!(numbered(number)).to_string(), "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
        }
        Record::read(KIND, &object.to_string()).unwrap()
    }

    fn mirrors() -> Mirrors {
        Mirrors::new("edge", "", Arc::new(Observed::default()))
    }

    fn number(mirrors: &Mirrors) -> Option<u64> {
        mirrors.rollout(&key()).map(|(_, report)| report.number)
    }

    #[test]
    fn the_latest_report_counts_after_a_restart() {
        for (on_hub, on_disk, expected) in [
            (None, None, 0),
            (Some(3), None, 3),
            (None, Some(4), 4),
            (Some(3), Some(4), 4),
            (Some(5), Some(4), 5),
        ] {
            let mirrors = mirrors();
            let object = object("a", 7, "shop", on_hub);
            mirrors.process([Change::There(object.clone())]);
            if on_disk.is_some() {
                let stored = self::object("a", 7, "shop", on_disk);
                mirrors.recall_report(&object, &stored.status().unwrap());
            }
            assert_eq!(number(&mirrors), Some(expected), "{on_hub:?} {on_disk:?}");
            let is_reported = mirrors.unreported_rollout(&key()).is_none();
            assert_eq!(
                is_reported,
                on_hub == Some(expected),
                "{on_hub:?} {on_disk:?}"
            );
        }
    }

    #[test]
    fn an_incomplete_report_is_stored_and_not_sent() {
        let mirrors = mirrors();
        mirrors.process([Change::There(object("a", 1, "shop", Some(3)))]);
        let _ = mirrors.unreported(&key());
        for (is_complete, pending) in [(false, 0), (true, 1)] {
            mirrors.record_report(
                &key(),
                (&Report::default(), is_complete),
                Timestamp::UNIX_EPOCH,
            );
            assert_eq!(mirrors.pending().len(), pending);
        }
        assert_eq!(number(&mirrors), Some(5));
        let saved = mirrors.saved().remove(0);
        let stored = saved.noted.unwrap().conditions.remove(0).message;
        assert_eq!(
            serde_json::from_str::<Report>(&stored).unwrap(),
            numbered(5)
        );
        let (_, sent) = mirrors.unreported(&key()).unwrap();
        assert_eq!(sent.conditions[0].message, stored);
        // The answer of the hub.
        mirrors.reported(object("a", 2, "shop", Some(5)));
        assert!(mirrors.unreported(&key()).is_none());
    }

    /// The hub was restored, or the object was deleted by another client.
    #[test]
    fn an_object_that_was_created_again_keeps_the_shares() {
        let mirrors = mirrors();
        mirrors.process([Change::There(object("a", 9, "shop", Some(3)))]);
        mirrors.process([Change::There(object("b", 2, "shop", None))]);
        assert_eq!(number(&mirrors), Some(3));
        assert!(mirrors.unreported_rollout(&key()).is_some());
        mirrors.process([Change::Gone(key())]);
        assert_eq!(number(&mirrors), None);
        assert!(mirrors.has_no_rollouts());
    }

    #[tokio::test]
    async fn a_rollout_is_woken_by_its_task_and_not_by_its_report() {
        let mirrors = mirrors();
        let woken = Arc::new(parking_lot::Mutex::new(0));
        let count = Arc::clone(&woken);
        mirrors
            .rollout_wakes()
            .subscribe(move |_| *count.lock() += 1);
        let expect = |change: Change, expected: usize| {
            mirrors.process([change]);
            assert_eq!(std::mem::take(&mut *woken.lock()), expected);
        };
        expect(Change::There(object("a", 1, "shop", None)), 1);
        expect(Change::There(object("a", 2, "shop", Some(1))), 0);
        expect(Change::There(object("a", 2, "other", None)), 0);
        expect(Change::There(object("a", 3, "other", None)), 1);
        mirrors.wake_rollouts(Some("shop"));
        mirrors.wake_rollouts(Some("other"));
        mirrors.wake_rollouts(None);
        assert_eq!(std::mem::take(&mut *woken.lock()), 2);
        assert!(mirrors.became_pending().now_or_never().is_some());
    }
}
