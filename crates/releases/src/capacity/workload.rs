//! What has to be known of a workload, whatever its kind is (W1).

use serde_json::Value;

use super::desired_replicas;

/// A workload, as far as its capacity is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The number of pods that it is scaled to.
    pub replicas: Option<i32>,
    /// How many of them are available.
    pub available: i32,
    /// Its generation.
    pub generation: i64,
    /// The generation that its status speaks about; absent for kinds that do not tell.
    pub observed_generation: Option<i64>,
    /// Why its controller gets no further, if it says so.
    pub failure: Option<String>,
    /// Who decides about the number of its pods.
    pub scaling: Scaling,
}

/// Who decides about the number of a workload's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// The steps of the strategy.
    #[default]
    Steps,
    /// An autoscaler, while there are to be any pods at all (W29).
    Autoscaler,
}

impl Workload {
    /// Reads a Deployment, or an object of a kind with the same fields: a `StatefulSet`, a `ReplicaSet`. What is
    /// missing or odd counts as not there.
    #[must_use]
    pub fn of(object: &Value, scaling: Scaling) -> Self {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
        let replicas = |path: &str| number(path).and_then(|number| i32::try_from(number).ok());
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        Self {
            name: name.unwrap_or_default().to_owned(),
            replicas: replicas("/spec/replicas"),
            available: replicas("/status/availableReplicas").unwrap_or(0),
            generation: number("/metadata/generation").unwrap_or(0),
            // All three kinds tell, so a status that does not has not been written yet.
            observed_generation: Some(number("/status/observedGeneration").unwrap_or(0)),
            failure: failure(object),
            scaling,
        }
    }

    /// The number of pods to be scaled to.
    ///
    /// An autoscaler leaves a workload alone that is scaled to nothing, and takes over from any other number. So it is
    /// given the number of the step to start from, and nothing is taken from it but everything.
    pub(super) fn desired(&self, total: i32, percent: i32) -> i32 {
        let desired = desired_replicas(total, percent);
        match (self.scaling, self.replicas) {
            (Scaling::Autoscaler, Some(replicas)) if desired > 0 && replicas > 0 => replicas,
            _ => desired,
        }
    }

    /// Whether the status speaks of the workload as it is.
    pub fn is_observed(&self) -> bool {
        self.observed_generation
            .is_none_or(|observed| observed >= self.generation)
    }
}

/// The first condition that tells of a failure, in the order of the contract.
fn failure(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let text = |condition: &Value, field: &str| {
        condition
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    [("ReplicaFailure", "True"), ("Progressing", "False")]
        .into_iter()
        .find_map(|(type_, status)| {
            let mut conditions = conditions.iter();
            let found = conditions.find(|condition| {
                text(condition, "type") == type_ && text(condition, "status") == status
            });
            found.map(|condition| text(condition, "message"))
        })
}
