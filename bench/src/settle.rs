//! Detects when chains of revisions have settled.

use std::collections::BTreeMap;

use baton_apis::conditions::{ARCHIVED, AVAILABLE, PROGRESSING, reasons};
use tokio::time::Instant;

use super::watch::{Object, ObjectEvent};

/// The state that a chain has to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpectedChain {
    /// The minimum generation in which its deployment has to be idle.
    pub(crate) generation: i64,
    /// The number of its newest revision.
    pub(crate) newest: u32,
}

/// The observed state of all chains.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    deployments: BTreeMap<String, Object>,
    revisions: BTreeMap<String, Object>,
    /// The time of the last event of each chain, by deployment.
    last: BTreeMap<String, Instant>,
}

impl Chains {
    /// Records an event of a deployment, and returns its name.
    pub(crate) fn deployment(&mut self, sight: ObjectEvent) -> String {
        let ObjectEvent { name, at, object } = sight;
        self.observed(&name, at);
        replace(&mut self.deployments, &name, object);
        name
    }

    /// Records an event of a revision, and returns the name of its deployment.
    pub(crate) fn revision(&mut self, sight: ObjectEvent) -> String {
        let ObjectEvent { name, at, object } = sight;
        // The rest of the name is the hash of the template.
        let deployment = name.rsplit_once('-').map_or("", |(name, _)| name);
        self.observed(deployment, at);
        replace(&mut self.revisions, &name, object);
        deployment.to_owned()
    }

    /// The time when a chain reached the wanted state; `None` if it has not. The state is reached
    /// when its deployment is idle, its newest revision available, and every older one archived.
    pub(crate) fn settled(&self, deployment: &str, wanted: ExpectedChain) -> Option<Instant> {
        let object = self.deployments.get(deployment)?;
        let revisions = || self.revisions(deployment).map(|(_, revision)| revision);
        let newest = revisions().max_by_key(|revision| revision.spec.revision)?;
        let number = newest.spec.revision;
        let mut older = revisions().filter(|revision| revision.spec.revision != number);
        let is_settled = is_idle(object)
            && object.metadata.generation >= wanted.generation
            && number == wanted.newest
            && newest.is_true(AVAILABLE)
            && !newest.is_true(ARCHIVED)
            && older.all(|revision| revision.is_true(ARCHIVED));
        self.last.get(deployment).copied().filter(|_| is_settled)
    }

    /// Number of archived revisions.
    pub(crate) fn archived(&self) -> usize {
        let revisions = self.revisions.values();
        revisions
            .filter(|revision| revision.is_true(ARCHIVED))
            .count()
    }

    /// The observed state of a chain, for an error message.
    pub(crate) fn describe(&self, deployment: &str) -> String {
        let deployed = match self.deployments.get(deployment) {
            None => "not seen".to_owned(),
            Some(object) => {
                let idle = if is_idle(object) { "idle" } else { "not idle" };
                format!("{idle} in generation {}", object.metadata.generation)
            }
        };
        let live = self
            .revisions(deployment)
            .filter(|(_, revision)| !revision.is_true(ARCHIVED));
        let live: Vec<String> = live
            .map(|(name, revision)| {
                let available = if revision.is_true(AVAILABLE) {
                    ""
                } else {
                    "not "
                };
                format!("{name} {available}available")
            })
            .collect();
        format!("{deployment} {deployed} with {}", live.join(" and "))
    }

    fn revisions(&self, deployment: &str) -> impl Iterator<Item = (&String, &Object)> {
        let prefix = format!("{deployment}-");
        let from = self.revisions.range(prefix.clone()..);
        from.take_while(move |(name, _)| name.starts_with(&prefix))
    }

    /// Records the time of an event. Events of the watches on deployments and on revisions arrive
    /// in any order.
    fn observed(&mut self, deployment: &str, at: Instant) {
        let last = self.last.entry(deployment.to_owned()).or_insert(at);
        *last = at.max(*last);
    }
}

/// True if a deployment reports that its latest generation is rolled out.
fn is_idle(deployment: &Object) -> bool {
    deployment
        .condition(PROGRESSING)
        .is_some_and(|progressing| {
            progressing.status == "False"
                && progressing.reason == reasons::IDLE
                && progressing.observed_generation == deployment.metadata.generation
        })
}

fn replace(objects: &mut BTreeMap<String, Object>, name: &str, object: Option<Object>) {
    match object {
        Some(object) => objects.insert(name.to_owned(), object),
        None => objects.remove(name),
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// An event of that second.
    fn sight(second: u64, start: Instant, object: serde_json::Value) -> ObjectEvent {
        let object: Object = serde_json::from_value(object).unwrap();
        ObjectEvent {
            name: object.metadata.name.clone(),
            at: start + Duration::from_secs(second),
            object: Some(object),
        }
    }

    fn deployment(generation: i64, observed: i64, status: &str, reason: &str) -> serde_json::Value {
        json!({
            "metadata": {"name": "chain-1", "generation": generation},
            "spec": {},
            "status": {"conditions": [
                {"type": "Available", "status": "True", "reason": "Available"},
                {"type": "Progressing", "status": status, "reason": reason, "observedGeneration": observed},
            ]},
        })
    }

    fn revision(hash: &str, number: u32, true_: &[&str]) -> serde_json::Value {
        let conditions = true_
            .iter()
            .map(|type_| json!({"type": type_, "status": "True"}));
        json!({
            "metadata": {"name": format!("chain-1-{hash}")},
            "spec": {"revision": number, "phases": []},
            "status": {"conditions": conditions.collect::<Vec<_>>()},
        })
    }

    #[test]
    fn a_chain_has_settled_once_its_deployment_and_revisions_have() {
        let start = Instant::now();
        let mut chains = Chains::default();
        let wanted = ExpectedChain {
            generation: 2,
            newest: 2,
        };
        let mut look = |second: u64, object: serde_json::Value| {
            let name = if object["spec"]["revision"].is_u64() {
                chains.revision(sight(second, start, object))
            } else {
                chains.deployment(sight(second, start, object))
            };
            assert_eq!(name, "chain-1");
            let settled = chains.settled("chain-1", wanted);
            settled.map(|at| (at - start).as_secs())
        };
        let all = ["Available", "Succeeded"];
        let not_yet = [
            revision("aa", 1, &all),
            deployment(1, 1, "False", "Idle"), // before the edit
            deployment(2, 1, "False", "Idle"), // the edit is not seen yet
            deployment(2, 2, "True", "Progressing"),
            revision("bb", 2, &[]),
            revision("bb", 2, &all),
            deployment(2, 2, "False", "Idle"), // the old revision is not archived
        ];
        for (second, object) in (0..).zip(not_yet) {
            assert_eq!(look(second, object.clone()), None, "{object}");
        }
        assert_eq!(look(10, revision("aa", 1, &["Archived"])), Some(10));
        // An event that the other watch has delivered earlier arrives late.
        assert_eq!(look(9, revision("bb", 2, &all)), Some(10));
        // A further edit.
        assert_eq!(look(11, revision("cc", 3, &all)), None);
        assert_eq!(chains.archived(), 1);
        assert_eq!(
            chains.describe("chain-1"),
            "chain-1 idle in generation 2 with chain-1-bb available and chain-1-cc available"
        );
        assert_eq!(chains.describe("chain-2"), "chain-2 not seen with ");
    }

    #[test]
    fn a_deleted_revision_is_not_counted() {
        let start = Instant::now();
        let mut chains = Chains::default();
        chains.revision(sight(0, start, revision("aa", 1, &["Archived"])));
        assert_eq!(chains.archived(), 1);
        chains.revision(ObjectEvent {
            name: "chain-1-aa".to_owned(),
            at: start,
            object: None,
        });
        assert_eq!(chains.archived(), 0);
    }
}
