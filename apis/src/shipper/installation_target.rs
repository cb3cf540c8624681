use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Chart, ShipperCondition, reading::null_as_default, schema};
use crate::{Raw, limits};

/// The content to install, and the clusters to install it in.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "InstallationTarget",
    doc = "The clusters that the objects of a Release are installed in. It has the name of its Release, which creates \
           it.",
    namespaced,
    status = "InstallationTargetStatus",
    shortname = "it",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InstallationTargetSpec {
    /// Names of the clusters, sorted.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(max = limits::CLUSTERS))]
    pub clusters: Vec<String>,
    /// If true, objects may be taken over from other releases of the Application. It is true until
    /// the objects are installed in all clusters.
    pub can_override: bool,
    /// The chart to install.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    /// Values for the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::values")]
    pub values: Option<Raw<Value>>,
}

/// The observed state of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InstallationTargetStatus {
    /// State of each cluster, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub clusters: Vec<ClusterInstallationStatus>,
    /// Conditions of the target. `Operational`: the chart can be rendered. `Ready`: the objects are
    /// installed in all clusters.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
}

/// The state of the installation in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterInstallationStatus {
    /// Name of the cluster.
    pub name: String,
    /// `Installed` or `Failed`.
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
    /// Conditions of the cluster. `Operational`: the controller can work in the cluster. `Ready`:
    /// the objects are installed in the cluster.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
}
