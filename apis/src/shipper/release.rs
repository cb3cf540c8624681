use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ConditionStatus, ReleaseEnvironment, ShipperCondition,
    reading::{null_as_default, readable_or_default},
    schema,
};

/// What the release consists of, and how far it is to be rolled out.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "Release",
    doc = "A revision of an Application: what was in its template once. It is rolled out step by step, over all of its \
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
pub struct ReleaseSpec {
    /// Index of the step of the strategy to be at; 0 is the first. This is what is changed to go on with a rollout, or
    /// back. It counts for the newest release only: the others follow it.
    #[schemars(range(min = 0))]
    pub target_step: i32,
    /// What the release consists of: the template of the Application as it was. Immutable.
    pub environment: ReleaseEnvironment,
}

/// What the controller observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReleaseStatus {
    /// The last step that was reached in all clusters. Absent until the first one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_step: Option<AchievedStep>,
    /// How far the step is that the release is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyStatus>,
    /// The state in detail. `Scheduled`: the clusters are chosen. `StrategyExecuted`: the strategy can be followed.
    /// `Complete`: the last step was reached once; it stays. `Blocked`: a rollout block forbids changes.
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
    /// Its index in the strategy.
    pub step: i32,
    /// Its name.
    pub name: String,
}

/// How far a step is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StrategyStatus {
    /// What the release waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StrategyState>,
    /// What this release (the contender) and the one that it replaces (the incumbent) have reached, each with the step
    /// that it was said of.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<StrategyCondition>,
}

/// What a release waits for: at most one of them is True. None is when the last step was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StrategyState {
    /// For its objects to be installed in all clusters.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_installation: ConditionStatus,
    /// For pods, of its own or of the release that it replaces.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_capacity: ConditionStatus,
    /// For traffic, of its own or of the release that it replaces.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_traffic: ConditionStatus,
    /// For somebody to change `spec.targetStep`: the step was reached, and there are others.
    #[schemars(schema_with = "schema::condition_status")]
    pub waiting_for_command: ConditionStatus,
}

/// What a release has reached of a step. All of its fields are always written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StrategyCondition {
    /// Name of the condition. A list of conditions is sorted by it.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition holds: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// When `status` changed last.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "readable_or_default"
    )]
    pub last_transition_time: Option<Time>,
    /// Why the condition does not hold, in one word for programs.
    pub reason: String,
    /// What it waits for, for people.
    pub message: String,
    /// Index of the step that the condition was said of.
    pub step: i32,
}
