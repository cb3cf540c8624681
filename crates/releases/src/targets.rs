//! The status of an `InstallationTarget`, a `CapacityTarget` or a `TrafficTarget`, and of its
//! clusters.
//!
//! Each cluster has two conditions. `Operational`: the controller can work in it. `Ready`: it is as
//! in the spec. The conditions of the target combine those of the clusters.

mod capacity;
mod installation;
pub mod reasons;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{ConditionStatus, ShipperCondition, conditions::Reason};
use jiff::Timestamp;

use crate::{
    conditions::{Conditions, find},
    event::Event,
};
use reasons::{Cause, Failure, FailureCondition, Kind, Vocabulary};

pub use capacity::{CapacityOutcome, capacity};
pub use installation::{InstallationOutcome, Progress, installation};
pub use traffic::{TrafficOutcome, traffic, traffic_unknown};

/// Condition of targets and clusters: the controller can work in them.
pub const OPERATIONAL: &str = "Operational";
/// Condition of targets and clusters: they are as in the spec.
pub const READY: &str = "Ready";

/// The observed generation of a status, and its conditions.
pub type ObservedConditions<'a> = (Option<i64>, &'a [ShipperCondition]);

/// True if a strategy may wait for a new status.
///
/// This is the case if the new status makes the target ready, or changes its condition
/// `Operational`. All other differences are for people.
pub fn is_awaited(
    (generation, present): ObservedConditions,
    (new_generation, new): ObservedConditions,
) -> bool {
    let is_ready = |conditions| {
        find(conditions, READY).is_some_and(|ready| ready.status == ConditionStatus::True)
    };
    let operational = |conditions| find(conditions, OPERATIONAL).map(|found| &found.status);
    let becomes_ready = is_ready(new) && (!is_ready(present) || generation != new_generation);
    let was_operational = operational(present);
    becomes_ready || (was_operational.is_some() && was_operational != operational(new))
}

/// True if one of the clusters was not observed yet. Then the status of the target, if there is one,
/// stays as it is: the observation wakes the target.
pub fn is_incomplete<T>(outcomes: &BTreeMap<String, Result<T, Failure>>) -> bool {
    let mut failures = outcomes.values().filter_map(|it| it.as_ref().err());
    failures.any(|failure| failure.cause == Cause::NotObserved)
}

/// The parameters of a status update.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Vocabulary of the reasons.
    pub vocabulary: Vocabulary,
    /// The present time.
    pub now: Timestamp,
    /// True if the target is ready without clusters whose agents are not connected, unless it has no
    /// other clusters.
    pub ignores_offline: bool,
}

/// A new status of a target, with events about the changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated<S> {
    /// The status to write.
    pub status: S,
    /// The events about the target, clusters first.
    pub events: Vec<Event>,
}

/// Status, reason and message of the condition `Ready` of a cluster in which the controller could
/// work.
type Verdict<'a> = (bool, Option<Reason>, &'a str);

/// The status and the message of a cluster, as in Shipper's documentation.
struct Summary {
    status: &'static str,
    message: String,
}

/// The clusters of a target during an update.
struct Clusters {
    kind: Kind,
    update: Update,
    /// The clusters in which the target wants no pods, or no traffic.
    unwanted: BTreeSet<String>,
    /// Name and condition `Ready` of each cluster that has to be ready; instead the condition
    /// `Operational` if the controller cannot work there.
    ready: Vec<(String, Option<ShipperCondition>)>,
    /// Number of clusters whose agents are not connected.
    offline: usize,
    events: Vec<Event>,
}

impl Clusters {
    fn new(kind: Kind, update: Update) -> Self {
        Self {
            kind,
            update,
            unwanted: BTreeSet::new(),
            ready: Vec::new(),
            offline: 0,
            events: Vec::new(),
        }
    }

    /// The target wants nothing in these clusters. Those of them whose Clusters do not exist need not be
    /// ready: nobody can remove anything there.
    fn with_unwanted<'c>(mut self, clusters: impl Iterator<Item = &'c String>) -> Self {
        self.unwanted = clusters.cloned().collect();
        self
    }

    /// Sets the conditions of the next cluster; returns them with their summary.
    fn set(
        &mut self,
        name: &str,
        previous: &[ShipperCondition],
        result: Result<Verdict, &Failure>,
    ) -> (Vec<ShipperCondition>, Summary) {
        let mut conditions = Conditions::new(previous, self.update.now);
        let vocabulary = self.update.vocabulary;
        let summary = match result {
            Ok((ready, reason, message)) => {
                conditions.set_plain(OPERATIONAL, true);
                let reason = reason.map(|reason| self.kind.reason(vocabulary, reason));
                conditions.set(READY, ready, reason, message);
                let done = self.kind != Kind::Installation || ready;
                Summary {
                    status: if done { self.kind.done() } else { "" },
                    message: String::new(),
                }
            }
            Err(failure) => {
                let message = failure.message.as_str();
                match self.kind.failure(vocabulary, failure.cause) {
                    FailureCondition::Inoperative(reason) => {
                        conditions.set(OPERATIONAL, false, reason, message);
                        conditions.set_plain(READY, ConditionStatus::Unknown);
                    }
                    FailureCondition::Unready(reason) => {
                        conditions.set_plain(OPERATIONAL, true);
                        conditions.set(READY, false, reason, message);
                    }
                }
                Summary {
                    status: "Failed",
                    message: message.to_owned(),
                }
            }
        };
        if let Some(changes) = conditions.take_changes() {
            self.events
                .push(Event::normal(self.kind.cluster_event(), changes));
        }
        let conditions = conditions.into_list();
        match result.err().map(|failure| failure.cause) {
            Some(Cause::AgentLost) => {
                self.offline += 1;
                if self.update.ignores_offline {
                    return (conditions, summary);
                }
            }
            Some(Cause::NoCluster) if self.unwanted.contains(name) => {
                return (conditions, summary);
            }
            _ => {}
        }
        let ready = find(&conditions, READY);
        let reported = match self.kind {
            // In Shipper, the message says nothing about a cluster in which the controller cannot work.
            Kind::Installation => ready,
            Kind::Capacity | Kind::Traffic => ready
                .filter(|it| it.status != ConditionStatus::Unknown)
                .or_else(|| find(&conditions, OPERATIONAL)),
        };
        self.ready.push((name.to_owned(), reported.cloned()));
        (conditions, summary)
    }

    /// The conditions of the target after all clusters are set, with all events.
    fn finish(mut self, previous: &[ShipperCondition]) -> (Vec<ShipperCondition>, Vec<Event>) {
        let mut conditions = Conditions::new(previous, self.update.now);
        conditions.set_plain(OPERATIONAL, true);
        let mut unready = self.unready();
        if self.ready.is_empty() && self.offline > 0 {
            unready.push("no cluster is connected".to_owned());
        }
        if unready.is_empty() {
            conditions.set_plain(READY, true);
        } else {
            conditions.set(READY, false, Reason::ClustersNotReady, &unready.join("; "));
        }
        if let Some(changes) = conditions.take_changes() {
            self.events
                .push(Event::normal(self.kind.target_event(), changes));
        }
        (conditions.into_list(), self.events)
    }

    /// The clusters that are not ready, sorted, with reason and message.
    fn unready(&self) -> Vec<String> {
        let unready = self.ready.iter().filter_map(|(name, ready)| {
            let ready = ready
                .as_ref()
                .filter(|ready| ready.status != ConditionStatus::True)?;
            let said = [ready.reason.as_str(), &ready.message];
            let said: Vec<_> = said.into_iter().filter(|text| !text.is_empty()).collect();
            Some((name, said.join(" ")))
        });
        let mut unready: Vec<_> = unready.collect();
        unready.sort();
        unready
            .into_iter()
            .map(|(name, said)| format!("{name}: {said}"))
            .collect()
    }
}

/// The conditions of a target that cannot be worked on, independent of its clusters. Other
/// conditions stay unchanged.
fn inoperative(
    kind: Kind,
    previous: &[ShipperCondition],
    reason: Reason,
    message: &str,
    now: Timestamp,
) -> (Vec<ShipperCondition>, Vec<Event>) {
    let mut conditions = Conditions::new(previous, now);
    conditions.set(OPERATIONAL, false, reason, message);
    let changes = conditions.take_changes();
    let event = changes.map(|changes| Event::normal(kind.target_event(), changes));
    (conditions.into_list(), event.into_iter().collect())
}
