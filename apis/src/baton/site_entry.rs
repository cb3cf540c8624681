use serde::{Deserialize, Serialize};

/// What a revision of a site says about its place in the queue of the site: the annotation `baton.run/site`, as JSON.
/// The objects of its phases have it as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteEntry {
    /// Name of the `SiteDeployment`.
    pub deployment: String,
    /// Name of the site.
    pub site: String,
    /// Name of the `SiteApplication`.
    pub application: String,
    /// The version.
    pub version: String,
    /// Which edit of the version.
    pub edit: String,
    /// The rollout that brought it.
    pub rollout: i64,
    /// The wave of the rollout; 0 for a site that got the version after the rollout was over.
    pub batch: i32,
    /// Names of the phases, in their order.
    pub phases: Vec<String>,
    /// Which workloads of the version before have stopped before the first object is written.
    #[serde(default, skip_serializing_if = "SiteStop::is_none")]
    pub stop: SiteStop,
    /// Whether it changes a version that the site has, without another version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_edit: bool,
    /// Whether it puts back what the site had before a rollout that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rollback: bool,
}

/// Workloads that stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum SiteStop {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of these services.
    Services(Vec<String>),
}

impl SiteStop {
    /// Whether no workload stops.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}
