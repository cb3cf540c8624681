//! The facts about a workload that are independent of its kind.

use serde_json::Value;

/// A workload, as far as its capacity is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Name of the workload.
    pub name: String,
    /// Number of pods that the workload is scaled to.
    pub replicas: Option<i32>,
    /// Number of available pods.
    pub available: i32,
    /// Generation of the workload.
    pub generation: i64,
    /// Generation that the status refers to; absent for kinds that do not report it.
    pub observed_generation: Option<i64>,
    /// Message of the controller about a failure.
    pub failure: Option<String>,
    /// The authority over the number of pods.
    pub scaling: Scaling,
}

/// The part of the system that sets the number of pods of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// The steps of the strategy.
    #[default]
    Steps,
    /// An autoscaler, as long as any pods are wanted.
    Autoscaler,
}

impl Workload {
    /// Reads a Deployment, or an object of a kind with the same fields: a `StatefulSet`, a
    /// `ReplicaSet`. Fields with invalid values count as missing.
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
            // All three kinds report it, so a status without it has not been written yet.
            observed_generation: Some(number("/status/observedGeneration").unwrap_or(0)),
            failure: failure(object),
            scaling,
        }
    }

    /// True if the status refers to the current generation.
    pub fn is_observed(&self) -> bool {
        self.observed_generation
            .is_none_or(|observed| observed >= self.generation)
    }
}

/// The message of the first condition that reports a failure, in the order of Shipper.
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
