use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CapacityReport, ShipperCondition,
    reading::{is_zero, null_as_default, readable_or_default},
    schema,
};
use crate::limits;

/// How many pods are to run where.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "CapacityTarget",
    doc = "How many pods of a Release run in each cluster. Of the same name as the Release, which makes it.",
    namespaced,
    status = "CapacityTargetStatus",
    shortname = "ct",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CapacityTargetSpec {
    /// The clusters.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::CLUSTERS))]
    pub clusters: Vec<ClusterCapacityTarget>,
}

/// How many pods are to run in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterCapacityTarget {
    /// Name of the cluster.
    pub name: String,
    /// Percentage of `totalReplicaCount`, rounded up.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Number of pods that the chart asks for.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(default, skip_serializing_if = "is_zero")]
    pub total_replica_count: i32,
}

/// What the controller observed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CapacityTargetStatus {
    /// The `metadata.generation` that the status speaks about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The state by cluster, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub clusters: Vec<ClusterCapacityStatus>,
    /// The state in detail. `Ready`: all clusters have the wanted number of pods.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
}

/// The pods in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterCapacityStatus {
    /// Name of the cluster.
    pub name: String,
    /// How many pods are available.
    pub available_replicas: i32,
    /// Percentage of `totalReplicaCount` that is available, rounded up.
    pub achieved_percent: i32,
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
    /// Some of the pods that are not as they should be, sorted by name. Empty when the cluster is ready.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub sad_pods: Vec<SadPod>,
    /// The state in detail. `Operational`: the cluster can be worked in. `Ready`: it has the wanted number of pods.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
    /// All pods, counted by what is known of them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reports: Vec<CapacityReport>,
}

/// A pod that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SadPod {
    /// Name of the pod.
    pub name: String,
    /// State of its containers, as in the pod's own status.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_or_default"
    )]
    #[schemars(schema_with = "schema::container_statuses")]
    pub containers: Vec<ContainerStatus>,
    /// State of its init containers, as in the pod's own status.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_or_default"
    )]
    #[schemars(schema_with = "schema::container_statuses")]
    pub init_containers: Vec<ContainerStatus>,
    /// The first condition of the pod that does not hold.
    #[serde(deserialize_with = "readable_or_default")]
    #[schemars(schema_with = "schema::pod_condition")]
    pub condition: PodCondition,
}
