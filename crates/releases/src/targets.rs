//! What an `InstallationTarget`, a `CapacityTarget` or a `TrafficTarget` says of its clusters (sections 4.5, 5 and 6 of
//! the contract).
//!
//! Each cluster has two conditions: `Operational`, it can be worked in, and `Ready`, it is as the spec has it. The
//! target sums them up.

mod capacity;
mod installation;
pub mod reasons;
#[cfg(test)]
mod tests;
mod traffic;

use baton_apis::{ConditionStatus, ShipperCondition};
use jiff::Timestamp;

use crate::{
    conditions::{Conditions, find},
    event::Event,
};
use reasons::{Failure, Kind, Vocabulary, Words};

pub use capacity::{CapacityOutcome, capacity};
pub use installation::{InstallationOutcome, Progress, installation};
pub use traffic::{TrafficOutcome, traffic, traffic_unknown};

/// Condition of targets and clusters: they can be worked in.
pub const OPERATIONAL: &str = "Operational";
/// Condition of targets and clusters: they are as the spec has it.
pub const READY: &str = "Ready";

/// What a status says as a whole: the generation that it speaks about, and the conditions.
pub type ObservedConditions<'a> = (Option<i64>, &'a [ShipperCondition]);

/// Whether a strategy may wait for a new status: it tells that a target is ready, or that it can be worked in, and the
/// present one does not, or the other way round. Anything else that differs is for people.
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

/// How a status is brought up to date.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Which reasons are written.
    pub vocabulary: Vocabulary,
    /// The present time.
    pub now: Timestamp,
}

/// A new status of a target, with the events that tell what changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated<S> {
    /// The status.
    pub status: S,
    /// The events about the target, clusters first.
    pub events: Vec<Event>,
}

/// What is said of a cluster that was worked in: status, reason and message of `Ready`.
type Verdict<'a> = (bool, &'a str, &'a str);

/// The status and the message of a cluster, as Shipper's documentation has them (S5).
struct Summary {
    status: &'static str,
    message: String,
}

/// The clusters of a target, being brought up to date.
struct Clusters {
    kind: Kind,
    update: Update,
    /// Name and `Ready` of each.
    ready: Vec<(String, Option<ShipperCondition>)>,
    events: Vec<Event>,
}

impl Clusters {
    fn new(kind: Kind, update: Update) -> Self {
        Self {
            kind,
            update,
            ready: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The conditions of the next cluster, and what sums it up.
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
                let reason = self.kind.reason(vocabulary, reason);
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
                    Words::Inoperative(reason) => {
                        conditions.set(OPERATIONAL, false, reason, message);
                        conditions.set_plain(READY, ConditionStatus::Unknown);
                    }
                    Words::Unready(reason) => {
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
        self.ready
            .push((name.to_owned(), find(&conditions, READY).cloned()));
        (conditions, summary)
    }

    /// The conditions of the target, when all clusters are set, with all events.
    fn finish(mut self, previous: &[ShipperCondition]) -> (Vec<ShipperCondition>, Vec<Event>) {
        let mut conditions = Conditions::new(previous, self.update.now);
        conditions.set_plain(OPERATIONAL, true);
        let unready = self.unready();
        if unready.is_empty() {
            conditions.set_plain(READY, true);
        } else {
            conditions.set(READY, false, "ClustersNotReady", &unready.join("; "));
        }
        if let Some(changes) = conditions.take_changes() {
            self.events
                .push(Event::normal(self.kind.target_event(), changes));
        }
        (conditions.into_list(), self.events)
    }

    /// The clusters that are not ready, sorted, with what they say. One that cannot be worked in says nothing of it.
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

/// The conditions of a target that nothing can be done for, whatever its clusters are. What was said of them stays.
fn inoperative(
    kind: Kind,
    previous: &[ShipperCondition],
    reason: &str,
    message: &str,
    now: Timestamp,
) -> (Vec<ShipperCondition>, Vec<Event>) {
    let mut conditions = Conditions::new(previous, now);
    conditions.set(OPERATIONAL, false, reason, message);
    let changes = conditions.take_changes();
    let event = changes.map(|changes| Event::normal(kind.target_event(), changes));
    (conditions.into_list(), event.into_iter().collect())
}
