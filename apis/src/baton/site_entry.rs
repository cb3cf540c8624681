use serde::{Deserialize, Serialize};

/// The position of a revision in the queue of its site: the annotation `baton.run/site`, as JSON. The
/// objects of the phases of the revision have the annotation as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteEntry {
    /// Name of the `SiteDeployment`.
    pub deployment: String,
    /// Name of the site.
    pub site: String,
    /// Name of the `SiteApplication`.
    pub application: String,
    /// Name of the version.
    pub version: String,
    /// Identifier of the content of the version; each edit has another one.
    pub edit: String,
    /// Number of the rollout that brought the version.
    pub rollout: i64,
    /// Wave of the rollout; 0 for a site that got the version after the rollout was over.
    pub batch: i32,
    /// Names of the phases, in their order.
    pub phases: Vec<String>,
    /// Workloads of the earlier version that stop before the first object is written.
    #[serde(default, skip_serializing_if = "SiteStop::is_none")]
    pub stop: SiteStop,
    /// True if the probes of the revision are those in the record of its version. Then the revision
    /// itself has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_probes: bool,
    /// True if the revision changes the content of a version that the site has (an edit).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_edit: bool,
    /// True if the revision restores the version that the site had before a failed rollout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rollback: bool,
}

/// The workloads that stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum SiteStop {
    /// No workloads stop.
    #[default]
    None,
    /// All workloads stop.
    All,
    /// The workloads of these services stop.
    Services(Vec<String>),
}

impl SiteStop {
    /// True if no workload stops.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}
