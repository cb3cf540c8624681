//! When chains of revisions have settled.

use std::collections::BTreeMap;

use baton_apis::conditions::{ARCHIVED, AVAILABLE, PROGRESSING, reasons};
use serde::Deserialize;
use tokio::time::Instant;

use super::watch::{Item, Sight};

/// What is read of an ObjectDeployment.
#[derive(Clone, Deserialize)]
pub struct Deployment {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

/// The state of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeploymentState {
    /// Counts the changes of its spec.
    generation: i64,
    /// Whether it says that the last of them is rolled out.
    is_idle: bool,
}

/// What is read of a revision.
#[derive(Clone, Deserialize)]
pub struct Revision {
    metadata: Meta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The state of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionState {
    number: u32,
    is_available: bool,
    is_archived: bool,
}

/// What a chain has to come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The least generation that its deployment has to be idle in.
    pub generation: i64,
    /// The number of its newest revision.
    pub newest: u32,
}

/// What was seen of all chains.
#[derive(Debug, Default)]
pub struct Chains {
    deployments: BTreeMap<String, DeploymentState>,
    revisions: BTreeMap<String, RevisionState>,
    /// When something was last seen of the chain of a deployment.
    seen: BTreeMap<String, Instant>,
}

impl Chains {
    /// Takes what was seen of a deployment, and returns its name.
    pub fn deployment(&mut self, sight: Sight<DeploymentState>) -> String {
        let Sight { name, at, state } = sight;
        self.seen(&name, at);
        replace(&mut self.deployments, &name, state);
        name
    }

    /// Takes what was seen of a revision, and returns the name of its deployment.
    pub fn revision(&mut self, sight: Sight<RevisionState>) -> String {
        let Sight { name, at, state } = sight;
        // What follows is the hash of its template.
        let deployment = name.rsplit_once('-').map_or("", |(name, _)| name);
        self.seen(deployment, at);
        replace(&mut self.revisions, &name, state);
        deployment.to_owned()
    }

    /// When a chain had come to what is wanted; `None` if it has not. It has when its deployment is
    /// idle, its newest revision available, and every older one archived.
    #[must_use]
    pub fn settled(&self, deployment: &str, wanted: Wanted) -> Option<Instant> {
        let state = self.deployments.get(deployment)?;
        let newest = self.revisions(deployment).max_by_key(|(_, r)| r.number)?.1;
        let older = || self.revisions(deployment).filter(|(_, r)| *r != newest);
        let is_settled = state.is_idle
            && state.generation >= wanted.generation
            && newest.number == wanted.newest
            && newest.is_available
            && !newest.is_archived
            && older().all(|(_, revision)| revision.is_archived);
        self.seen.get(deployment).copied().filter(|_| is_settled)
    }

    /// How many revisions are archived.
    #[must_use]
    pub fn archived(&self) -> usize {
        let revisions = self.revisions.values();
        revisions.filter(|revision| revision.is_archived).count()
    }

    /// What was seen of a chain, for a person who wonders why it has not settled.
    #[must_use]
    pub fn describe(&self, deployment: &str) -> String {
        let deployed = match self.deployments.get(deployment) {
            None => "not seen".to_owned(),
            Some(state) => {
                let idle = if state.is_idle { "idle" } else { "not idle" };
                format!("{idle} in generation {}", state.generation)
            }
        };
        let live = self.revisions(deployment).filter(|(_, r)| !r.is_archived);
        let live: Vec<String> = live
            .map(|(name, revision)| {
                let available = if revision.is_available { "" } else { "not " };
                format!("{name} {available}available")
            })
            .collect();
        format!("{deployment} {deployed} with {}", live.join(" and "))
    }

    fn revisions(&self, deployment: &str) -> impl Iterator<Item = (&str, RevisionState)> {
        let prefix = format!("{deployment}-");
        self.revisions
            .range(prefix.clone()..)
            .map(|(name, state)| (name.as_str(), *state))
            .take_while(move |(name, _)| name.starts_with(&prefix))
    }

    /// The watches on deployments and on revisions do not wait for each other.
    fn seen(&mut self, deployment: &str, at: Instant) {
        let last = self.seen.entry(deployment.to_owned()).or_insert(at);
        *last = at.max(*last);
    }
}

fn replace<S>(states: &mut BTreeMap<String, S>, name: &str, state: Option<S>) {
    match state {
        Some(state) => states.insert(name.to_owned(), state),
        None => states.remove(name),
    };
}

#[derive(Clone, Deserialize)]
struct Meta {
    name: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Clone, Deserialize)]
struct Spec {
    #[serde(default)]
    revision: u32,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    observed_generation: i64,
}

impl Status {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }

    fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|c| c.status == "True")
    }
}

impl Item for Deployment {
    type State = DeploymentState;

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn state(&self) -> DeploymentState {
        let generation = self.metadata.generation;
        let progressing = self.status.condition(PROGRESSING);
        DeploymentState {
            generation,
            is_idle: progressing.is_some_and(|progressing| {
                progressing.status == "False"
                    && progressing.reason == reasons::IDLE
                    && progressing.observed_generation == generation
            }),
        }
    }
}

impl Item for Revision {
    type State = RevisionState;

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn state(&self) -> RevisionState {
        RevisionState {
            number: self.spec.revision,
            is_available: self.status.is_true(AVAILABLE),
            is_archived: self.status.is_true(ARCHIVED),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// What is seen at a second, as events bring it.
    fn sight<I: Item>(second: u64, start: Instant, object: serde_json::Value) -> Sight<I::State> {
        let item: I = serde_json::from_value(object).unwrap();
        Sight {
            name: item.name().to_owned(),
            at: start + Duration::from_secs(second),
            state: Some(item.state()),
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
    fn a_chain_settles_when_deployment_and_all_revisions_have() {
        let start = Instant::now();
        let mut chains = Chains::default();
        let wanted = Wanted {
            generation: 2,
            newest: 2,
        };
        let mut look = |second: u64, object: serde_json::Value| {
            let name = if object["spec"]["revision"].is_u64() {
                chains.revision(sight::<Revision>(second, start, object))
            } else {
                chains.deployment(sight::<Deployment>(second, start, object))
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
        // What the other watch had seen before comes late.
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
    fn what_is_gone_does_not_count() {
        let start = Instant::now();
        let mut chains = Chains::default();
        chains.revision(sight::<Revision>(
            0,
            start,
            revision("aa", 1, &["Archived"]),
        ));
        assert_eq!(chains.archived(), 1);
        chains.revision(Sight {
            name: "chain-1-aa".to_owned(),
            at: start,
            state: None,
        });
        assert_eq!(chains.archived(), 0);
    }
}
