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

/// The number of pods of a release in each cluster.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "CapacityTarget",
    doc = "How many pods of a Release run in each cluster. It has the name of its Release, which creates it.",
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
    /// Clusters with the wanted number of pods in each.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::CLUSTERS))]
    pub clusters: Vec<ClusterCapacityTarget>,
}

/// The number of pods in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterCapacityTarget {
    /// Name of the cluster.
    pub name: String,
    /// Wanted number of pods as a percentage of `totalReplicaCount`, rounded up.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Number of pods that the chart requests.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(default, skip_serializing_if = "is_zero")]
    pub total_replica_count: i32,
}

/// The observed state of the target.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CapacityTargetStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of each cluster, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub clusters: Vec<ClusterCapacityStatus>,
    /// Conditions of the target. `Ready`: all clusters have the wanted number of pods.
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
    /// Number of available pods.
    pub available_replicas: i32,
    /// Percentage of `totalReplicaCount` that is available, rounded up.
    pub achieved_percent: i32,
    /// Percentage up to which the workloads were scaled before an autoscaler took over. Absent
    /// without an autoscaler.
    #[serde(
        default,
        skip_serializing_if = "is_zero",
        deserialize_with = "null_as_default"
    )]
    pub scaled_to: i32,
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
    /// Examples of pods that are not ready, sorted by name. Empty when the cluster is ready.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub sad_pods: Vec<SadPod>,
    /// Conditions of the cluster. `Operational`: the controller can work in the cluster. `Ready`:
    /// the cluster has the wanted number of pods.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
    /// All pods, counted by their state.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reports: Vec<CapacityReport>,
}

/// A pod that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SadPod {
    /// Name of the pod.
    pub name: String,
    /// State of the containers, as in the status of the pod.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_or_default"
    )]
    #[schemars(schema_with = "schema::container_statuses")]
    pub containers: Vec<ContainerStatus>,
    /// State of the init containers, as in the status of the pod.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_or_default"
    )]
    #[schemars(schema_with = "schema::container_statuses")]
    pub init_containers: Vec<ContainerStatus>,
    /// First condition of the pod that is not true.
    #[serde(deserialize_with = "readable_or_default")]
    #[schemars(schema_with = "schema::pod_condition")]
    pub condition: PodCondition,
}
