use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConditionStatus, reading::null_as_default, schema};

/// The pods of a workload, counted by what is known of them.
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
    /// Whether the condition holds: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// Why the condition has its status.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// How many pods.
    pub count: i32,
    /// Their containers, sorted by name.
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<ReportContainer>,
}

/// The containers of the same name in several pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportContainer {
    /// Name of the container.
    pub name: String,
    /// The states that they are in.
    #[serde(deserialize_with = "null_as_default")]
    pub states: Vec<ReportContainerState>,
}

/// Containers in the same state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportContainerState {
    /// `Running`, `Waiting` or `Terminated`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Why the containers are in this state.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// How many containers.
    pub count: i32,
    /// One of them.
    pub example: ReportExample,
}

/// A container, for an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportExample {
    /// Name of its pod.
    pub pod: String,
    /// What it said when it ended.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
}
