//! The fields that are read of a Release.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::LABEL_APP;
use serde::Deserialize;

use crate::watch::{Condition, Watched};

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Release {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_step: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    achieved_step: Option<AchievedStep>,
    strategy: Option<Strategy>,
}

#[derive(Debug, Clone, Deserialize)]
struct AchievedStep {
    #[serde(default)]
    step: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Strategy {
    state: BTreeMap<String, String>,
}

impl Watched for Release {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Release {
    /// The name of its Application; empty if it has none.
    pub(super) fn application(&self) -> &str {
        let label = self.metadata.labels.get(LABEL_APP);
        label.map_or("", String::as_str)
    }

    pub(super) fn is_complete(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| condition.is("Complete"))
    }

    /// The step that it has reached, if it waits there for a command.
    pub(super) fn waits_at(&self) -> Option<i64> {
        let achieved = self.status.achieved_step.as_ref()?.step;
        let waits = self.state("waitingForCommand") == Some("True");
        (waits && achieved == self.spec.target_step).then_some(achieved)
    }

    /// Its state, for messages.
    pub(super) fn describe(&self) -> String {
        let achieved = self.status.achieved_step.as_ref();
        let achieved = achieved.map_or_else(|| "none".to_owned(), |it| it.step.to_string());
        let state = self.status.strategy.iter();
        let state = state.flat_map(|strategy| &strategy.state);
        let waiting = state.filter(|(_, value)| *value == "True");
        let unmet = self.status.conditions.iter();
        let unmet = unmet.filter_map(Condition::problem);
        let mut parts = vec![format!("step {achieved} of {}", self.spec.target_step)];
        parts.extend(waiting.map(|(key, _)| key.clone()));
        parts.extend(unmet);
        parts.join(", ")
    }

    fn state(&self, key: &str) -> Option<&str> {
        let state = &self.status.strategy.as_ref()?.state;
        state.get(key).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn release(status: &Value) -> Release {
        let release = json!({
            "metadata": {"name": "a-1-0", "labels": {"shipper-app": "a"}},
            "spec": {"targetStep": 1},
            "status": status,
        });
        serde_json::from_value(release).unwrap()
    }

    #[test]
    fn a_release_waits_only_at_its_target_step() {
        let at = |step: i64, waits: &str| {
            let status = json!({
                "achievedStep": {"step": step, "name": "x"},
                "strategy": {"state": {"waitingForCommand": waits, "waitingForCapacity": "False"}},
            });
            release(&status).waits_at()
        };
        assert_eq!(at(1, "True"), Some(1));
        assert_eq!(at(1, "False"), None);
        assert_eq!(at(0, "True"), None, "of the step before");
        assert_eq!(release(&json!({})).waits_at(), None);
    }

    #[test]
    fn a_description_names_the_unmet_conditions_of_a_release() {
        let status = json!({
            "strategy": {"state": {"waitingForCapacity": "True", "waitingForTraffic": "False"}},
            "conditions": [
                {"type": "Blocked", "status": "False"},
                {"type": "Scheduled", "status": "True"},
                {"type": "StrategyExecuted", "status": "False", "reason": "X", "message": "y"},
            ],
        });
        assert_eq!(
            release(&status).describe(),
            "step none of 1, waitingForCapacity, StrategyExecuted: X y"
        );
    }
}
