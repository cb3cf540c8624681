//! Maintains the heartbeat object of each cluster that is served by an agent. The agent writes its
//! reports into the status of this object.

use std::sync::Arc;

use baton_apis::{
    conditions::{AGENT, CONNECTED, Reason, STATE_STORED},
    constants::{ANNOTATION_AGENT, ANNOTATION_HEARTBEAT_SECONDS, ANNOTATION_HUB, HEARTBEAT},
};
use baton_engine::{condition_list::find, conditions::Requeue};
use baton_fleet::{
    inventory::{
        Inventory,
        agents::{AgentReport, FileReport},
    },
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
        // Every report of an agent shows that the agent runs. A reconcile after it relies on it.
        let inventory = self.inventory.clone();
        on.phases.changes().subscribe(move |change| {
            if let Some((cluster, noted, report)) = agent_report(change) {
                inventory.agent_reported(cluster, noted, report);
            }
        });
        queue.wake_on(on.phases.changes(), self, |_, change| on_phase(change));
    }

    /// Creates the heartbeat object of a cluster, or updates its period, the UID of the hub and the
    /// identity of the agent that delivers.
    async fn reconcile(&self, key: &ClusterKey, _failures: u32) -> Result<Reconciled, Error> {
        let ClusterKey(cluster) = key;
        let key = mirror::heartbeat(cluster);
        let cached = self.observed.phases.get(&key);
        let seconds = self.inventory.heartbeat().as_secs().to_string();
        let agent = self.inventory.agent(cluster);
        let wanted = [
            (ANNOTATION_HEARTBEAT_SECONDS, &*seconds),
            (ANNOTATION_AGENT, &*agent),
            (ANNOTATION_HUB, self.observed.hub()),
        ];
        let differing = cached.as_ref().and_then(|cached| {
            let has = |name: &str| cached.annotations.get(name).map_or("", String::as_str);
            wanted
                .into_iter()
                .find(|(name, value)| !value.is_empty() && has(name) != *value)
        });
        let is_due = cached
            .as_ref()
            .is_none_or(|cached| !cached.deleting && differing.is_some());
        if !is_due || !self.inventory.has_agent(cluster) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let api = &self.shared.api;
        let made = if let (Some(cached), Some(annotation)) = (cached, differing) {
            api.annotate_phase(&cached, annotation, false).await
        } else {
            let manifest = mirror::heartbeat_manifest(&key, &seconds, self.observed.hub());
            api.create(&key, &manifest).await
        };
        let made = made.at_step("writing the heartbeat object of an agent")?;
        self.observed.phases.created(made, Self::NAME);
        // Another annotation may differ as well.
        Ok((ReconcileOutcome::Changed, Requeue::After(BURST)))
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

/// The report that a change in an agent's namespace contains, with the identity that is noted for the
/// agent.
///
/// Only the agent writes statuses there, so that a new status shows that the agent runs; a
/// heartbeat also shows if its cluster answers. The first list is not a report, as it may be old.
fn agent_report(change: &Change<PhaseKind>) -> Option<(&str, Option<&str>, AgentReport)> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return None;
    };
    let cluster = new.agent()?;
    if !old.status_differs(new) {
        return None;
    }
    if *new.key.name != *HEARTBEAT {
        return Some((cluster, None, AgentReport::default()));
    }
    let conditions = new.status().unwrap_or_default().conditions;
    let server = find(&conditions, CONNECTED).map(|connected| {
        let message = connected.message.clone();
        if connected.status == "True" {
            Ok(message)
        } else {
            Err(message)
        }
    });
    let identity = find(&conditions, AGENT).map(|agent| agent.message.clone());
    let file = find(&conditions, STATE_STORED).and_then(|stored| {
        Some(FileReport {
            is_stored: stored.status == "True",
            reason: stored
                .reason
                .parse()
                .ok()
                .filter(|it| FILE_REASONS.contains(it))?,
            message: stored.message.clone(),
        })
    });
    let report = AgentReport {
        server,
        identity: identity
            .filter(|text| is_identity(text))
            .unwrap_or_default(),
        file,
    };
    let noted = new.annotations.get(ANNOTATION_AGENT);
    Some((cluster, noted.map(String::as_str), report))
}

/// The reasons of `StateStored`.
const FILE_REASONS: [Reason; 5] = [
    Reason::StateWritten,
    Reason::StateWasDamaged,
    Reason::StateNotWritten,
    Reason::StateOfOtherCluster,
    Reason::StateOfOtherHub,
];

/// True for a UID with a namespace: anybody with the token of the agent may have written it.
fn is_identity(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/');
    (1..=200).contains(&text.len()) && text.chars().all(is_part)
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
    fn an_identity_is_a_short_name() {
        for (text, expected) in [
            ("0b7c6a2e-1f7e-4c51-9a83-2f4f0a7d1c11/baton-system", true),
            ("", false),
            ("a b", false),
            ("a\n", false),
            (&"x".repeat(201), false),
        ] {
            assert_eq!(is_identity(text), expected, "{text}");
        }
    }

    #[test]
    fn a_changed_heartbeat_is_reported_and_wakes_its_cluster() {
        let up = heartbeat("baton-cluster-edge", 5, "True");
        let same = heartbeat("baton-cluster-edge", 6, "True");
        let down = heartbeat("baton-cluster-edge", 6, "False");
        let other = heartbeat("shop", 6, "False");
        let lost = AgentReport {
            server: Some(Err("v1.36".to_owned())),
            ..AgentReport::default()
        };
        let unreachable = Some(("edge", None, lost));
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
            assert_eq!(agent_report(&change), report.clone());
            assert_eq!(on_phase(&change).is_some(), is_woken);
        }
    }
}
