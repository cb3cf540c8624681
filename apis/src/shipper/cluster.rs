use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{UpgradeWindow, limits, schema};

/// A cluster that phases of revisions can be delivered into, by the class `cluster.<name>`.
///
/// Its credentials are in the Secret of the same name in the namespace of the clusters' Secrets.
/// The kind is Shipper's; `connection` and the status but for `inService` are additions.
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
    /// Region that the cluster is in, for the choice of clusters by region.
    pub region: String,
    /// URL of the API server, such as `https://10.1.2.3:6443`. Required for `Push`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_master: String,
    /// What the cluster offers, for the choice of clusters by capability.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// How the choice of clusters treats this one.
    #[serde(default)]
    pub scheduler: ClusterScheduler,
    /// Who connects to whom. `Push`: the manager connects to the cluster. `Pull`: an agent in the
    /// cluster connects to the manager's cluster.
    #[serde(default)]
    pub connection: ClusterConnection,
    /// When the applications of sites may be upgraded here, as far as the provider of the site is concerned. Where the
    /// application has windows as well, one of each has to be open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::WINDOWS))]
    pub upgrade_windows: Vec<UpgradeWindow>,
}

/// Who connects to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ClusterConnection {
    /// The manager connects to the cluster, with the credentials in its Secret.
    #[default]
    Push,
    /// An agent in the cluster connects to the manager's cluster.
    Pull,
}

impl fmt::Display for ClusterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How the choice of clusters treats a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScheduler {
    /// Keeps new releases away from the cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Share of the cluster among those of its region; 0 puts it last. 100 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Stands for the name of the cluster where clusters are put into an order, so that one can
    /// replace another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Of Shipper; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_service: Option<bool>,
    /// The state in detail. `Connected`: whether the cluster can be reached, since when, and if not,
    /// why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When the cluster was last heard of. Brought up to date about once in five minutes while the
    /// cluster is connected, and when it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// Version of its API server, such as `v1.36.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
}
