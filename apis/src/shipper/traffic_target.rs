use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ShipperCondition, reading::null_as_default, schema};
use crate::limits;

/// The share of the traffic of a release in each cluster.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "TrafficTarget",
    doc = "The share of the traffic that a Release gets in each cluster. It has the name of its Release, which creates \
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
    /// Clusters with the wanted share of the traffic in each.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::CLUSTERS))]
    pub clusters: Vec<ClusterTrafficTarget>,
}

/// The share of the traffic of a release in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTrafficTarget {
    /// Name of the cluster.
    pub name: String,
    /// Weight of the release. The release gets the share of the traffic that its weight has in the
    /// sum of the weights of all releases of the Application in this cluster.
    #[schemars(schema_with = "schema::weight")]
    pub weight: u32,
}

/// The observed state of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TrafficTargetStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of each cluster, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub clusters: Vec<ClusterTrafficStatus>,
    /// Conditions of the target. `Operational`: the traffic can be divided. `Ready`: the wanted
    /// number of pods gets traffic in all clusters.
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
    /// Share of the traffic that the release receives, on the scale of the weights of all releases.
    #[schemars(schema_with = "schema::weight")]
    pub achieved_traffic: u32,
    /// `Synced` or `Failed`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub status: String,
    /// Message of the failure.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
    /// Conditions of the cluster, always written. `Operational`: the controller can work in the
    /// cluster. `Ready`: the wanted number of pods gets traffic in the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ShipperCondition>,
}
