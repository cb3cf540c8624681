use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ShipperCondition, reading::null_as_default, schema};
use crate::limits;

/// How much traffic is to go where.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "TrafficTarget",
    doc = "The share of the traffic that a Release gets in each cluster. Of the same name as the Release, which makes \
           it.",
    namespaced,
    status = "TrafficTargetStatus",
    shortname = "tt",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TrafficTargetSpec {
    /// The clusters.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::CLUSTERS))]
    pub clusters: Vec<ClusterTrafficTarget>,
}

/// How much traffic a release is to get in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTrafficTarget {
    /// Name of the cluster.
    pub name: String,
    /// Its weight: the release gets the share that this has in the sum of the weights of all releases of the
    /// Application in this cluster.
    #[schemars(schema_with = "schema::weight")]
    pub weight: u32,
}

/// What the controller observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TrafficTargetStatus {
    /// The `metadata.generation` that the status speaks about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The state by cluster, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub clusters: Vec<ClusterTrafficStatus>,
    /// The state in detail. `Operational`: the traffic can be divided. `Ready`: the wanted number of pods gets traffic
    /// in all clusters.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
}

/// The traffic in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTrafficStatus {
    /// Name of the cluster.
    pub name: String,
    /// The share of the traffic that arrives, on the scale of the weights of all releases.
    #[schemars(schema_with = "schema::weight")]
    pub achieved_traffic: u32,
    /// `Synced` or `Failed`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub status: String,
    /// What failed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
    /// The state in detail, always written. `Operational`: the cluster can be worked in. `Ready`: the wanted number of
    /// pods gets traffic there.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ShipperCondition>,
}
