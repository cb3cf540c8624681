//! Delegated phases whose objects in another cluster were all deleted. An object that has one of
//! them as its owner later is a stray.
//!
//! This is only certain in the process that has deleted the objects. A phase that does not exist may
//! also have been orphaned, or belong to another hub: its objects stay. In the cluster of the hub
//! this state is not needed, because garbage collection deletes objects without an owner.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_fleet::inventory::ClusterLink;
use baton_kubernetes::{account::Account, target::Target};
use baton_records::phase::{PhaseKey, PhaseRecord, Phases};
use parking_lot::Mutex;

use super::{owners::Targets, strays::StrayCluster};

/// The time in which a stray may appear: TCP repeats a request in a broken network for a quarter of
/// an hour. The limit also bounds the memory, and the time for which two hubs that were restored
/// from one backup could delete each other's objects.
const KEPT_FOR: Duration = Duration::from_mins(20);

/// The phases that have ended a short time ago, by uid.
#[derive(Default)]
pub(crate) struct EndedPhases(Mutex<Ended>);

#[derive(Default)]
struct Ended {
    phases: HashMap<Arc<str>, EndedPhase>,
    /// Time of the last removal of expired phases. They are not removed at each end of a phase, as
    /// thousands may end together.
    swept: Option<Instant>,
}

/// The period in which expired phases are removed.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// A phase that has ended.
#[derive(Clone)]
pub(crate) struct EndedPhase {
    pub key: PhaseKey,
    /// The cluster of the phase, if its class names one.
    pub cluster: Option<Box<str>>,
    /// The account that deleted its objects.
    pub account: Option<Account>,
    at: Instant,
}

impl EndedPhases {
    /// Adds a phase whose objects were all deleted.
    pub(crate) fn add(&self, phase: &PhaseRecord, account: Option<&Account>, now: Instant) {
        let ended = EndedPhase {
            key: phase.key.clone(),
            cluster: phase.cluster().map(Into::into),
            account: account.cloned(),
            at: now,
        };
        let Ended { phases, swept } = &mut *self.0.lock();
        let is_due = |swept: Instant| now.saturating_duration_since(swept) >= SWEEP_EVERY;
        if swept.is_none_or(is_due) {
            phases.retain(|_, ended| ended.is_remembered(now));
            *swept = Some(now);
        }
        phases.insert(phase.uid.clone(), ended);
    }

    /// True if the phase with a uid has ended.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.0.lock().phases.contains_key(uid)
    }

    /// The phase with a uid, if it has ended. A phase that is in `phases` and is not being deleted
    /// has not ended: the hub was restored from a backup.
    pub(crate) fn get(&self, uid: &str, phases: &Phases, now: Instant) -> Option<EndedPhase> {
        let ended = self.0.lock().phases.get(uid).cloned();
        ended.filter(|ended| {
            ended.is_remembered(now) && phases.by_uid(uid).is_none_or(|phase| phase.deleting)
        })
    }
}

impl EndedPhase {
    /// The cluster of the phase's strays, and the account that deletes them.
    pub(crate) fn stray_cluster(self, targets: &Targets) -> StrayCluster {
        StrayCluster {
            target: self.target(targets),
            account: self.account,
        }
    }

    fn is_remembered(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < KEPT_FOR
    }

    /// The cluster of the phase's objects, if it can be reached.
    fn target(&self, targets: &Targets) -> Option<Target> {
        let Some(inventory) = &targets.inventory else {
            return Some(targets.home.clone());
        };
        match inventory.link(self.cluster.as_deref()?) {
            ClusterLink::Up(target) => Some(target),
            ClusterLink::Unknown | ClusterLink::Pull(_) | ClusterLink::Down { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_records::{phase::PhaseKind, record::Record, revision::RevisionKind::ObjectSet};
    use serde_json::{Value, json};

    use super::*;

    fn phase(uid: &str, deletion: &Value) -> PhaseRecord {
        let object = json!({"metadata": {
            "name": "web-a", "namespace": "shop", "uid": uid, "resourceVersion": "5", "deletionTimestamp": deletion,
            "labels": {"package-operator.run/phase-class": "cluster.edge"},
        }});
        Record::read(PhaseKind(ObjectSet), &object.to_string()).unwrap()
    }

    #[test]
    fn an_ended_phase_is_remembered_for_a_while_unless_it_stays() {
        let start = Instant::now();
        let deletion = json!("2026-01-01T00:00:00Z");
        let (going, staying) = (phase("u", &deletion), phase("u", &Value::Null));
        let other = phase("v", &Value::Null);
        for (there, uid, minutes, expected) in [
            (None, "u", 0, true),
            (None, "u", 19, true),
            (None, "u", 20, false),
            (None, "v", 0, false),
            (Some(&going), "u", 0, true),
            (Some(&staying), "u", 0, false),
            (Some(&other), "u", 0, true),
            (Some(&other), "v", 0, false),
        ] {
            let (ended, phases) = (EndedPhases::default(), Phases::default());
            ended.add(&going, None, start);
            if let Some(there) = there {
                phases.observe(there.clone());
            }
            let found = ended.get(uid, &phases, start + Duration::from_mins(minutes));
            assert_eq!(found.is_some(), expected, "{uid} after {minutes} minutes");
            if let Some(found) = found {
                assert_eq!(
                    (&found.key, found.cluster.as_deref()),
                    (&going.key, Some("edge"))
                );
            }
        }
    }

    #[test]
    fn phases_that_ended_long_ago_are_forgotten_when_another_ends() {
        let (ended, start) = (EndedPhases::default(), Instant::now());
        ended.add(&phase("u", &Value::Null), None, start);
        ended.add(&phase("v", &Value::Null), None, start + KEPT_FOR);
        assert!(!ended.contains("u"));
        assert!(ended.contains("v"));
    }
}
