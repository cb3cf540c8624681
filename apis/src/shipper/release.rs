use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ConditionStatus, ReleaseEnvironment, ShipperCondition,
    reading::{null_as_default, readable_or_default},
    schema,
};

/// The content of the release, and the step to which it is rolled out.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, KubeSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "Release",
    doc = "A revision of an Application: a copy of its template. It is rolled out step by step, over all of its \
           clusters at once.",
    namespaced,
    status = "ReleaseStatus",
    shortname = "rel",
    category = "all",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
#[x_kube(validation = schema::constant_chart())]
pub struct ReleaseSpec {
    /// Index of the wanted step of the strategy; 0 is the first. Change it to continue a rollout or
    /// to go back. Only the value of the newest release counts: the others follow it.
    #[schemars(range(min = 0))]
    pub target_step: i32,
    /// Content of the release: a copy of the template of the Application. Immutable.
    pub environment: ReleaseEnvironment,
}

/// The observed state of the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReleaseStatus {
    /// Last step that was reached in all clusters. Absent until a step is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_step: Option<AchievedStep>,
    /// Progress of the release within its current step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyStatus>,
    /// Conditions of the release. `Scheduled`: the clusters are chosen. `StrategyExecuted`: the
    /// strategy can be followed. `Complete`: the last step was reached once; never false again.
    /// `Blocked`: a rollout block forbids changes.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
}

/// A step that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AchievedStep {
    /// Index of the step in the strategy.
    pub step: i32,
    /// Name of the step.
    pub name: String,
}

/// The progress within a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StrategyStatus {
    /// Aspect that the release waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StrategyState>,
    /// Conditions of this release (the contender) and of the release that it replaces (the
    /// incumbent), each with the step that it was reported for.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<StrategyCondition>,
}

/// The aspect that a release waits for: at most one field is True. No field is True when the last
/// step is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StrategyState {
    /// The release waits for its objects to be installed in all clusters.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_installation: ConditionStatus,
    /// The release waits for pods, its own or those of the release that it replaces.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_capacity: ConditionStatus,
    /// The release waits for traffic, its own or that of the release that it replaces.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_traffic: ConditionStatus,
    /// The release waits for a change of `spec.targetStep`: the step is reached, and further steps
    /// follow.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_command: ConditionStatus,
}

/// A condition of a release at a step. All fields are always written; Shipper may leave reason and
/// message out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, transform = schema::without_texts)]
pub struct StrategyCondition {
    /// Type of the condition. Lists of conditions are sorted by type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// Time of the last change of `status`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "readable_or_default"
    )]
    pub last_transition_time: Option<Time>,
    /// Reason that the condition is not true, in one word for programs.
    #[serde(deserialize_with = "null_as_default")]
    pub reason: String,
    /// Message for people: the state that the release waits for.
    #[serde(deserialize_with = "null_as_default")]
    pub message: String,
    /// Index of the step that the condition was reported for.
    pub step: i32,
}
