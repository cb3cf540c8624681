use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConditionStatus, reading::null_as_default, schema};

/// The pods of a workload, counted by their state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CapacityReport {
    /// The workload.
    pub owner: ReportOwner,
    /// The pods by condition, sorted by type and status.
    #[serde(deserialize_with = "null_as_default")]
    pub breakdown: Vec<ReportBreakdown>,
}

/// The workload that pods belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportOwner {
    /// Name of the workload.
    pub name: String,
}

/// Pods with the same condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportBreakdown {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// Reason of the status of the condition.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// Number of pods.
    pub count: i32,
    /// Containers of the pods, sorted by name.
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<ReportContainer>,
}

/// The containers with the same name in several pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportContainer {
    /// Name of the container.
    pub name: String,
    /// States of the containers.
    #[serde(deserialize_with = "null_as_default")]
    pub states: Vec<ReportContainerState>,
}

/// The containers in the same state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportContainerState {
    /// `Running`, `Waiting` or `Terminated`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Reason of the state of the containers.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// Number of containers.
    pub count: i32,
    /// An example of these containers.
    pub example: ReportExample,
}

/// An example of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportExample {
    /// Name of the pod of the container.
    pub pod: String,
    /// Message of the container when it terminated.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
}
