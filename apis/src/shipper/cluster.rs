use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{UpgradeWindow, limits, schema};

/// A cluster into which phases of revisions can be delivered, by the class `cluster.<name>`.
///
/// Its credentials are in the Secret of the same name, in the namespace for Secrets of clusters.
/// The kind is from Shipper; `connection`, `upgradeWindows` and the status except `inService` are
/// additions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "Cluster",
    doc = "A cluster that phases of revisions can be delivered into, by the class cluster.<name>.",
    status = "ClusterStatus",
    shortname = "cl",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::api_master_for_push())]
pub struct ClusterSpec {
    /// Region of the cluster. Releases select clusters by region.
    pub region: String,
    /// URL of the API server, such as `https://10.1.2.3:6443`. Required for `Push`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_master: String,
    /// Capabilities of the cluster. Releases select clusters by capability.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Rules for the selection of this cluster by releases.
    #[serde(default)]
    pub scheduler: ClusterScheduler,
    /// Direction of the connection. `Push` (the default): the manager connects to the cluster.
    /// `Pull`: an agent in the cluster connects to the cluster of the manager.
    #[serde(default)]
    pub connection: ClusterConnection,
    /// Times at which applications of sites may be upgraded here, set by the provider of the site.
    /// If the application has windows as well, one window of each list has to be open at the same
    /// time. Empty: the cluster sets no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::WINDOWS))]
    pub upgrade_windows: Vec<UpgradeWindow>,
}

/// The direction of the connection between the manager and a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ClusterConnection {
    /// The manager connects to the cluster, with the credentials in its Secret.
    #[default]
    Push,
    /// An agent in the cluster connects to the cluster of the manager.
    Pull,
}

impl fmt::Display for ClusterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The rules for the selection of a cluster by releases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScheduler {
    /// If true, new releases do not select the cluster. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Share of the cluster among the clusters of its region; 0 puts the cluster last. Default:
    /// 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Name that replaces the name of the cluster in the order of selection, so that a cluster can
    /// take the place of another. Default: the name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// The observed state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Not used; for compatibility with Shipper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_service: Option<bool>,
    /// Conditions of the cluster. `Connected`: the cluster can be reached, and since when; if not,
    /// the reason and message say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Time of the last contact with the cluster. Updated about every five minutes while the
    /// cluster is connected, and when the connection is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// Version of the API server of the cluster, such as `v1.36.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
}
