use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Lets namespaces deliver phases of their revisions into clusters, by the class `cluster.<name>`.
///
/// A cluster that no assignment selects is open to all namespaces, unless the manager was started
/// with `--require-site-assignments`. A cluster that is selected is open only to the namespaces
/// that an assignment of the cluster selects. If several assignments select the same namespace and
/// cluster, the rights add up. Cluster-scoped revisions may deliver everywhere.
///
/// When an assignment is withdrawn, the objects that were delivered before are neither changed nor
/// deleted.
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
    /// Namespaces that may deliver.
    pub namespaces: SiteSelection,
    /// Clusters into which the namespaces may deliver.
    pub clusters: SiteSelection,
    /// Objects that the namespaces may write in the clusters. `Namespace` (the default): objects in
    /// the namespace of the same name and in `targetNamespaces`. `Cluster`: objects in all
    /// namespaces, and cluster-scoped objects.
    #[serde(default)]
    pub scope: DeliveryScope,
    /// Further namespaces of the clusters in which objects may be written, besides the namespace of
    /// the same name. Only with the scope `Namespace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub target_namespaces: Vec<String>,
}

/// Selects objects by their names, by their labels, or by either.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::selects_something(), validation = schema::decidable_selector())]
pub struct SiteSelection {
    /// Names of the selected objects. An empty list selects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names")]
    pub names: Option<Vec<String>>,
    /// Selects the objects with these labels. An empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bounded_label_selector")]
    pub selector: Option<LabelSelector>,
}

/// The objects that a namespaced revision may write in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeliveryScope {
    /// Objects in the namespace of the same name, and in the target namespaces.
    #[default]
    Namespace,
    /// Objects in all namespaces, and cluster-scoped objects.
    Cluster,
}

impl fmt::Display for DeliveryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
