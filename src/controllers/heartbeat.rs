//! Maintains the heartbeat object of each cluster that is served by an agent. The agent writes its
//! reports into the status of this object.

use std::sync::Arc;

use baton_apis::{
    conditions::CONNECTED,
    constants::{ANNOTATION_HEARTBEAT_SECONDS, HEARTBEAT},
};
use baton_engine::{condition_list::find, conditions::Requeue};
use baton_fleet::{
    inventory::{AgentReport, ClusterLink, Inventory},
    mirror,
};
use baton_records::{phase::PhaseKind, store::Change};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use tracing::{Span, info_span};

use crate::delivery::{
    observed::Observed,
    shared::{AtStep as _, BURST, Error, Shared},
};

/// The controller of heartbeat objects, by the name of the cluster.
pub(crate) struct Heartbeats {
    pub shared: Shared,
    pub observed: Arc<Observed>,
    pub inventory: Inventory,
}

/// A cluster by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterKey(String);

impl baton_runtime::controller::ReconcileKey for ClusterKey {
    fn span(&self) -> Span {
        info_span!("reconcile", kind = "Cluster", name = self.0)
    }

    fn namespace(&self) -> Arc<str> {
        Arc::default()
    }
}

impl Controller for Heartbeats {
    const NAME: &'static str = "heartbeat";

    type Key = ClusterKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<ClusterKey>>) {
        let on = &self.observed;
        queue.wake_on(&on.links, self, |_, cluster| {
            [Wake::after(BURST, ClusterKey(cluster.clone()))]
        });
        queue.wake_on(on.phases.changes(), self, |_, change| on_phase(change));
        // Every report of an agent shows that the agent runs.
        let inventory = self.inventory.clone();
        on.phases.changes().subscribe(move |change| {
            if let Some((cluster, report)) = agent_report(change) {
                inventory.agent_reported(cluster, report);
            }
        });
    }

    /// Creates the heartbeat object of a cluster, or updates its period.
    async fn reconcile(&self, key: &ClusterKey, _failures: u32) -> Result<Reconciled, Error> {
        let ClusterKey(cluster) = key;
        let key = mirror::heartbeat(cluster);
        let cached = self.observed.phases.get(&key);
        let seconds = self.inventory.heartbeat().as_secs().to_string();
        let is_due = cached.as_ref().is_none_or(|cached| {
            !cached.deleting
                && cached.annotations.get(ANNOTATION_HEARTBEAT_SECONDS) != Some(&seconds)
        });
        if !is_due || !matches!(self.inventory.link(cluster), ClusterLink::Pull(_)) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let api = &self.shared.api;
        let made = if let Some(cached) = cached {
            let annotation = (ANNOTATION_HEARTBEAT_SECONDS, &*seconds);
            api.annotate_phase(&cached, annotation, false).await
        } else {
            let manifest = mirror::heartbeat_manifest(&key, &seconds);
            api.create(&key, &manifest).await
        };
        let made = made.at_step("writing the heartbeat object of an agent")?;
        self.observed.phases.created(made, Self::NAME);
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }
}

/// Trigger: a heartbeat object that another client changes wakes its cluster.
fn on_phase(change: &Change<PhaseKind>) -> Option<Wake<ClusterKey>> {
    let phase = change.record()?;
    let cluster = phase.agent()?;
    let is_concerned = *phase.key.name == *HEARTBEAT
        && change.writer != Some(Heartbeats::NAME)
        && change.may_change_results();
    is_concerned.then(|| Wake::now(ClusterKey(cluster.to_owned())))
}

/// The report that a change in an agent's namespace contains.
///
/// Only the agent writes statuses there, so that a new status shows that the agent runs; a
/// heartbeat also shows if its cluster answers. The first list is not a report, as it may be old.
fn agent_report(change: &Change<PhaseKind>) -> Option<(&str, Option<AgentReport>)> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return None;
    };
    let cluster = new.agent()?;
    if !old.status_differs(new) {
        return None;
    }
    let status = new.status().unwrap_or_default();
    let report = find(&status.conditions, CONNECTED).map(|connected| {
        let message = connected.message.clone();
        if connected.status == "True" {
            Ok(message)
        } else {
            Err(message)
        }
    });
    Some((cluster, report))
}

#[cfg(test)]
mod tests {
    use baton_records::{phase::PhaseRecord, record::Record, revision::RevisionKind};
    use serde_json::json;

    use super::*;

    fn heartbeat(namespace: &str, version: u64, connected: &str) -> Arc<PhaseRecord> {
        let object = json!({
            "metadata": {
                "name": HEARTBEAT, "namespace": namespace, "uid": "h", "resourceVersion": version.to_string(),
                "labels": {"package-operator.run/phase-class": baton_apis::constants::CLASS_AGENT},
            },
            "status": {"conditions": [{
                "type": "Connected", "status": connected, "reason": "x", "message": "v1.36",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        let kind = PhaseKind(RevisionKind::ObjectSet);
        Arc::new(Record::read(kind, &object.to_string()).unwrap())
    }

    #[test]
    fn a_changed_heartbeat_is_reported_and_wakes_its_cluster() {
        let up = heartbeat("baton-cluster-edge", 5, "True");
        let same = heartbeat("baton-cluster-edge", 6, "True");
        let down = heartbeat("baton-cluster-edge", 6, "False");
        let other = heartbeat("shop", 6, "False");
        let unreachable = Some(("edge", Some(Err("v1.36".to_owned()))));
        for (old, new, report, is_woken) in [
            (None, &up, None, true),
            (Some(&up), &same, None, false),
            (Some(&up), &down, unreachable, true),
            (Some(&up), &other, None, false),
        ] {
            let change = Change {
                old: old.cloned(),
                new: Some(Arc::clone(new)),
                writer: None,
            };
            assert_eq!(agent_report(&change), report);
            assert_eq!(on_phase(&change).is_some(), is_woken);
        }
    }
}
