use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{reading::null_as_default, schema};
use crate::limits;

/// What a release consists of: a chart with its values, the clusters it wants, and how it is rolled out.
///
/// The order of the fields, here and below, and which of them are written when there is nothing in them, are those of
/// Shipper: the hash of an environment is one of its JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReleaseEnvironment {
    /// The chart to install.
    pub chart: Chart,
    /// Values for the chart, with the meaning of a values file of Helm: they take precedence over the defaults in the
    /// chart. Absent or null: the defaults alone.
    #[schemars(
        schema_with = "schema::values",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub values: Option<Value>,
    /// Which clusters the release goes to.
    pub cluster_requirements: ClusterRequirements,
    /// The steps in which the release replaces the one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub strategy: Option<RolloutStrategy>,
}

/// A chart in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Chart {
    /// Name of the chart.
    #[schemars(length(max = limits::CHART_NAME))]
    pub name: String,
    /// Version of the chart. In an Application also a range, such as `~1.2` or `>=1.0.0, <2.0.0`: the highest version
    /// within it is written in its place. Empty: the highest one there is.
    #[schemars(length(max = limits::CHART_VERSION))]
    pub version: String,
    /// URL of the repository, the part before `/index.yaml`.
    #[schemars(length(max = limits::URL))]
    pub repo_url: String,
}

/// Which clusters a release goes to. They are chosen once, when the release is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterRequirements {
    /// The regions, with the number of clusters in each. At least one is needed.
    #[schemars(required, length(max = limits::REGIONS))]
    pub regions: Option<Vec<RegionRequirement>>,
    /// What each of the clusters must offer. Each may be listed once.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    #[schemars(length(max = limits::CAPABILITIES))]
    pub capabilities: Vec<String>,
}

/// Clusters that are wanted in a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RegionRequirement {
    /// Name of the region, as in `spec.region` of Clusters.
    pub name: String,
    /// Number of clusters. Absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// How a release replaces the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStrategy {
    /// The steps, in order. `spec.targetStep` of a Release is an index of this list. With the last step the release has
    /// replaced the one before it.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::STEPS))]
    pub steps: Vec<RolloutStep>,
}

/// What the two releases of a rollout have at a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStep {
    /// Name of the step, for people.
    pub name: String,
    /// How many pods each of them has, as a percentage of those that its chart asks for, rounded up.
    pub capacity: StepCapacity,
    /// How the traffic is divided: each gets the share that its weight has in the sum of both.
    pub traffic: StepTraffic,
}

/// Percentages of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StepCapacity {
    /// That of the release that is replaced.
    #[schemars(range(min = 0, max = 100))]
    pub incumbent: i32,
    /// That of the release that is rolled out.
    #[schemars(range(min = 0, max = 100))]
    pub contender: i32,
}

/// Weights of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StepTraffic {
    /// That of the release that is replaced.
    #[schemars(schema_with = "schema::weight")]
    pub incumbent: u32,
    /// That of the release that is rolled out.
    #[schemars(schema_with = "schema::weight")]
    pub contender: u32,
}
