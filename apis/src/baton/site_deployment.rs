use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, LabelSelector, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::site_application::is_default;
use crate::{limits, schema};

/// Brings the versions of a `SiteApplication` to sites.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "baton.run",
    version = "v1alpha1",
    kind = "SiteDeployment",
    doc = "Brings the versions of a SiteApplication to sites, in waves. Each site has a chain of ObjectSets.",
    namespaced,
    status = "SiteDeploymentStatus",
    shortname = "sitedeploy",
    category = "baton",
    derive = "Default",
    derive = "PartialEq",
    validation = schema::name_is_a_label_value()
)]
#[serde(rename_all = "camelCase")]
pub struct SiteDeploymentSpec {
    /// Name of the `SiteApplication`, in the same namespace.
    #[schemars(length(min = 1, max = 63))]
    pub application: String,
    /// The version to bring, or `*` for each one that appears. An older one that is kept is a rollback.
    #[serde(default = "every_version")]
    #[schemars(length(min = 1, max = 63))]
    pub application_version: String,
    /// The sites.
    pub placement: SitePlacement,
    /// Any new value evaluates the placement anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub redeploy: Option<String>,
    /// In which waves a version reaches the sites, and what counts as healthy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: SiteStrategy,
    /// While it is true no further site gets a version. What was given to a site goes on there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The rollout to be aborted, as `status.rollout` counts them. Others are not affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_rollout: Option<i64>,
    /// How many archived revisions are kept of each site.
    #[serde(default = "history")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
}

impl Default for SiteDeploymentSpec {
    fn default() -> Self {
        Self {
            application: String::new(),
            application_version: every_version(),
            placement: SitePlacement::default(),
            redeploy: None,
            strategy: SiteStrategy::default(),
            paused: false,
            abort_rollout: None,
            revision_history_limit: history(),
        }
    }
}

/// Stands for each version that appears.
pub const EVERY_VERSION: &str = "*";

fn every_version() -> String {
    EVERY_VERSION.to_owned()
}

fn history() -> i32 {
    2
}

/// Chooses sites by their labels.
///
/// Evaluated when the deployment is changed, and not when labels change or sites join, unless `follow` is set. Of those
/// that match, the ones count that `SiteAssignments` allow to the namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::one_placement(), validation = schema::decidable_selector())]
pub struct SitePlacement {
    /// An expression over the labels of sites, such as `system/type = edge and region in (eu, us)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::EXPRESSION))]
    pub match_site_labels: Option<String>,
    /// Selects sites by their labels. An empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bounded_label_selector")]
    pub selector: Option<LabelSelector>,
    /// Evaluates whenever labels change, or sites join or leave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// In which waves a version reaches the sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = schema::canary_of_canary(),
    validation = schema::rolling_of_rolling(),
    validation = schema::failures_of_continue()
)]
pub struct SiteStrategy {
    /// `AllAtOnce`: all sites together. `Canary`: some first. `Rolling`: so many side by side.
    #[serde(default, rename = "type")]
    pub type_: StrategyType,
    /// The sites that come first, for `Canary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStrategy>,
    /// For `Rolling`, and for `Canary` with `then: Rolling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling: Option<RollingStrategy>,
    /// How long the sites of a wave have to stay available after the last of them became so, such as `10m`. When left
    /// out, or shorter, the `successDelaySeconds` of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub healthy_time: Option<String>,
    /// How long a site may take from the beginning of its upgrade until it is available, such as `30m`. Ten minutes
    /// when left out. Counted anew when the site was offline, or the manager starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub progress_deadline: Option<String>,
    /// What an error in a site does to the rollout. `Abort`: no further site gets the version. `Rollback`: besides, the
    /// sites that have it get the version before it. `Continue`: it goes on, until more than `maxFailures` have failed.
    #[serde(default)]
    pub on_error: OnError,
    /// How many sites may fail with `Continue`; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_failures: Option<i32>,
}

/// In which waves a version reaches the sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StrategyType {
    /// All together.
    #[default]
    AllAtOnce,
    /// Some first.
    Canary,
    /// So many side by side.
    Rolling,
}

/// The sites that get a version first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::one_canary())]
pub struct CanaryStrategy {
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sites: Option<i32>,
    /// Which, by an expression over their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::EXPRESSION))]
    pub match_site_labels: Option<String>,
    /// What comes after them.
    #[serde(default)]
    pub then: AfterCanary,
}

/// What comes after the sites that were first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AfterCanary {
    /// All others together.
    #[default]
    AllAtOnce,
    /// As `rolling` says.
    Rolling,
}

/// So many sites side by side.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingStrategy {
    /// How many, as a number or as percent of all sites, rounded up.
    #[schemars(schema_with = "schema::count_or_percent")]
    pub sites_in_parallel: IntOrString,
}

impl Default for RollingStrategy {
    fn default() -> Self {
        Self {
            sites_in_parallel: IntOrString::Int(1),
        }
    }
}

/// What an error in a site does to a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OnError {
    /// No further site gets the version.
    #[default]
    Abort,
    /// Besides, the sites that have it get the version before it.
    Rollback,
    /// It goes on.
    Continue,
}

/// What is known of a rollout over sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteDeploymentStatus {
    /// The generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Counts the rollouts: one more whenever another version is brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<i64>,
    /// The application whose version is brought: that of the spec, once its rollout has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The version that is brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The application that was brought before, where it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_application: Option<String>,
    /// The version that was brought before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// The last rollout that is over: all sites that could be reached had had their turn, and no more than half of all
    /// sites were missing. What comes to a site after that belongs to no wave, and aborts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_rollout: Option<i64>,
    /// How many sites are in which state.
    #[serde(default)]
    pub counts: SiteCounts,
    /// The wave under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<SiteBatch>,
    /// Sites that failed, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailingSite>,
    /// The state in detail. `Progressing`: a version is being brought, or why not. `Available`: all sites that can be
    /// reached are available. `Aborted`: no further site gets the version, and why. `Placed`: the sites were chosen.
    /// `Waiting`: the version does not exist. `Ready`, `Reconciling`, `Stalled`: as general tools expect them
    /// (kstatus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// How many sites are in which state. Those of `sites` that are in none of the others are still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteCounts {
    /// All that are placed.
    pub sites: i32,
    /// Run the version.
    pub updated: i32,
    /// Of those that run it: available.
    pub healthy: i32,
    /// Of those that run it: in a wave whose healthy time is not over.
    pub soaking: i32,
    /// Have it in their queue, and wait for a version ahead or for an upgrade window.
    pub queued: i32,
    /// Cannot be reached.
    pub offline: i32,
    /// Failed.
    pub failed: i32,
}

/// A wave of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteBatch {
    /// Its number, from 1.
    pub number: i32,
    /// How many waves there are in all, as far as known.
    pub of: i32,
    /// Sites in it, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// Since when all that can be reached are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Time>,
}

/// A site that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailingSite {
    /// Name of the site.
    pub name: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
