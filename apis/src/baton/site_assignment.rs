use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Lets namespaces deliver phases of their revisions into clusters, by the class `cluster.<name>`.
///
/// A cluster that no assignment selects is open to all namespaces, unless the manager was started with
/// `--require-site-assignments`. One that is selected is closed to all namespaces but those that an assignment of it
/// selects. What several assignments allow adds up. Revisions without a namespace may deliver everywhere.
///
/// What was delivered before an assignment was withdrawn is neither changed nor deleted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "baton.run",
    version = "v1alpha1",
    kind = "SiteAssignment",
    doc = "Lets namespaces deliver phases of their revisions into clusters, by the class cluster.<name>. A cluster \
           that an assignment selects is closed to all other namespaces.",
    shortname = "siteassign",
    category = "baton",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::target_namespaces_for_namespace())]
pub struct SiteAssignmentSpec {
    /// The namespaces that may deliver.
    pub namespaces: SiteSelection,
    /// The clusters that they may deliver into.
    pub clusters: SiteSelection,
    /// How far they reach there. `Namespace`: objects in the namespace of the same name, and in `targetNamespaces`.
    /// `Cluster`: objects in all namespaces, and those that have none.
    #[serde(default)]
    pub scope: DeliveryScope,
    /// Namespaces of the clusters that are reached besides that of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub target_namespaces: Vec<String>,
}

/// Chooses objects by their names, by their labels, or by either.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::selects_something(), validation = schema::decidable_selector())]
pub struct SiteSelection {
    /// Their names. An empty list selects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names")]
    pub names: Option<Vec<String>>,
    /// Selects those with these labels. An empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bounded_label_selector")]
    pub selector: Option<LabelSelector>,
}

/// How far a namespaced revision reaches in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeliveryScope {
    /// Objects in the namespace of the same name, and in further ones that are named.
    #[default]
    Namespace,
    /// Objects in all namespaces, and those that have none.
    Cluster,
}

impl fmt::Display for DeliveryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
