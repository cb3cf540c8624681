use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{reading::null_as_default, schema};
use crate::{Raw, limits};

/// The content of a release: a chart with its values, the clusters that it requires, and the
/// strategy of its rollout.
///
/// The order of the fields, here and below, and the choice of empty fields that are written are
/// those of Shipper, because the hash of an environment is the hash of its JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReleaseEnvironment {
    /// The chart to install.
    pub chart: Chart,
    /// Values for the chart, as in a values file of Helm: they take precedence over the defaults of
    /// the chart. Absent or null: only the defaults.
    #[schemars(
        schema_with = "schema::values",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub values: Option<Raw<Value>>,
    /// Requirements that select the clusters of the release.
    pub cluster_requirements: ClusterRequirements,
    /// Steps in which the release replaces the one before it.
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
    /// Version of the chart. In an Application also a range, such as `~1.2` or `>=1.0.0, <2.0.0`,
    /// which is replaced by the highest version within it. Empty: the highest version of the chart.
    #[schemars(length(max = limits::CHART_VERSION))]
    pub version: String,
    /// URL of the repository, without `/index.yaml`.
    #[schemars(length(max = limits::URL))]
    pub repo_url: String,
}

/// The requirements that select the clusters of a release. Clusters are chosen once, when the
/// release is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterRequirements {
    /// Regions with the number of clusters in each. At least one region is required.
    #[schemars(required, length(max = limits::REGIONS))]
    pub regions: Option<Vec<RegionRequirement>>,
    /// Capabilities that each cluster must have. Each may be listed once.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    #[schemars(length(max = limits::CAPABILITIES))]
    pub capabilities: Vec<String>,
}

/// The number of clusters in a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RegionRequirement {
    /// Name of the region, as in `spec.region` of Clusters.
    pub name: String,
    /// Number of clusters. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The strategy by which a release replaces the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStrategy {
    /// Steps, in order. `spec.targetStep` of a Release is an index of this list. At the last step
    /// the release has replaced the one before it.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::STEPS))]
    pub steps: Vec<RolloutStep>,
    /// The effect of clusters whose agents are not connected on a step. `Wait`, the default: the step
    /// waits for them. `Ignore`: the other clusters continue, and such a cluster follows when its
    /// agent is connected again. Shipper does not have this field.
    #[serde(
        skip_serializing_if = "OfflineClusters::is_default",
        deserialize_with = "null_as_default"
    )]
    #[schemars(with = "Option<OfflineClusters>")]
    pub offline_clusters: OfflineClusters,
}

/// The effect of clusters whose agents are not connected on a step of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OfflineClusters {
    /// The step waits for them.
    #[default]
    Wait,
    /// The other clusters continue.
    Ignore,
}

impl OfflineClusters {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is serde's"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The pods and traffic of the two releases of a rollout at a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStep {
    /// Name of the step, for people.
    pub name: String,
    /// Pods of each release, as a percentage of the number that its chart requests, rounded up.
    pub capacity: StepCapacity,
    /// Weights of the two releases. Each release gets the share of the traffic that its weight has
    /// in the sum of both weights.
    pub traffic: StepTraffic,
}

/// Percentages of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StepCapacity {
    /// Percentage for the release that is replaced.
    #[schemars(range(min = 0, max = 100))]
    pub incumbent: i32,
    /// Percentage for the release that is rolled out.
    #[schemars(range(min = 0, max = 100))]
    pub contender: i32,
}

/// Weights of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StepTraffic {
    /// Weight of the release that is replaced.
    #[schemars(schema_with = "schema::weight")]
    pub incumbent: u32,
    /// Weight of the release that is rolled out.
    #[schemars(schema_with = "schema::weight")]
    pub contender: u32,
}
