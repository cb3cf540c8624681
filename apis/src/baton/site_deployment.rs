use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, LabelSelector, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::site_application::is_default;
use crate::{limits, schema};

/// Rolls the versions of a `SiteApplication` out to sites.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "baton.run",
    version = "v1alpha1",
    kind = "SiteDeployment",
    doc = "Rolls the versions of a SiteApplication out to sites, in waves. Each site has a chain of ObjectSets.",
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
    /// Version that the sites get. `*` (the default): each new version of the application. To roll
    /// back, name an older version that is kept.
    #[serde(default = "every_version")]
    #[schemars(length(min = 1, max = 63))]
    pub application_version: String,
    /// Selects the sites.
    pub placement: SitePlacement,
    /// Any new value evaluates the placement again, without another change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub redeploy: Option<String>,
    /// The waves in which a version reaches the sites, and the reaction to errors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: SiteStrategy,
    /// If true, no further site gets a version. A site continues with the versions that are already
    /// in its queue. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Number of the rollout to abort, as in `status.rollout`. Other rollouts are not affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::NUMBER))]
    pub abort_rollout: Option<i64>,
    /// Number of archived revisions that are kept for each site. Default: 2.
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

/// The value of `applicationVersion` that stands for each new version.
pub const EVERY_VERSION: &str = "*";

fn every_version() -> String {
    EVERY_VERSION.to_owned()
}

fn history() -> i32 {
    2
}

/// Selects sites by their labels.
///
/// The placement is evaluated when the spec of the deployment changes, and not when labels change
/// or sites join, unless `follow` is set. Only sites count that `SiteAssignments` allow to the
/// namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::one_placement(), validation = schema::decidable_selector())]
pub struct SitePlacement {
    /// Expression over the labels of sites, such as `system/type = edge and region in (eu, us)`.
    /// Exactly one of this field and `selector` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::EXPRESSION))]
    pub match_site_labels: Option<String>,
    /// Selects sites by their labels. An empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bounded_label_selector")]
    pub selector: Option<LabelSelector>,
    /// If true, the placement is also evaluated when labels change, and when sites join or leave.
    /// Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// The waves in which a version reaches the sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = schema::canary_of_canary(),
    validation = schema::rolling_of_rolling(),
    validation = schema::failures_of_continue()
)]
pub struct SiteStrategy {
    /// `AllAtOnce` (the default): all sites get the version together. `Canary`: the sites of
    /// `canary` get it first. `Rolling`: a limited number of sites at a time, see `rolling`.
    #[serde(default, rename = "type")]
    pub type_: StrategyType,
    /// Sites that get the version first. Required with the type `Canary`, and not allowed
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStrategy>,
    /// Number of sites that get the version at a time. Required with the type `Rolling` and with
    /// `canary.then: Rolling`, and not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling: Option<RollingStrategy>,
    /// Time for which all sites of a wave have to stay available before the next wave begins, such
    /// as `10m`. If it is absent, or shorter than the `successDelaySeconds` of the version, the
    /// latter counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub healthy_time: Option<String>,
    /// Time within which a site has to become available after its upgrade began, such as `30m`. The
    /// time starts again when the site reconnects and when the manager starts. Default: ten
    /// minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub progress_deadline: Option<String>,
    /// Reaction to an error in a site. `Abort` (the default): no further site gets the version.
    /// `Rollback`: also, the sites that have the version get their earlier version again.
    /// `Continue`: the rollout continues, until more than `maxFailures` sites have failed.
    #[serde(default)]
    pub on_error: OnError,
    /// Number of sites that may fail with `onError: Continue`. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_failures: Option<i32>,
}

/// The waves in which a version reaches the sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StrategyType {
    /// All sites get the version together.
    #[default]
    AllAtOnce,
    /// Some sites get the version before all others.
    Canary,
    /// A limited number of sites get the version at a time.
    Rolling,
}

/// The sites that get a version first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::one_canary())]
pub struct CanaryStrategy {
    /// Number of sites. Exactly one of this field and `matchSiteLabels` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sites: Option<i32>,
    /// Expression over the labels of sites that selects the first sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::EXPRESSION))]
    pub match_site_labels: Option<String>,
    /// The waves after the first sites. `AllAtOnce` (the default): all others together. `Rolling`:
    /// a limited number of sites at a time, see `rolling`.
    #[serde(default)]
    pub then: AfterCanary,
}

/// The waves after the first sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AfterCanary {
    /// All others get the version together.
    #[default]
    AllAtOnce,
    /// A limited number of sites get the version at a time.
    Rolling,
}

/// The number of sites that get a version at a time.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingStrategy {
    /// Number of sites, or a percentage of all sites, rounded up.
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

/// The reaction of a rollout to an error in a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OnError {
    /// No further site gets the version.
    #[default]
    Abort,
    /// No further site gets the version, and the sites that have it get their earlier version again.
    Rollback,
    /// The rollout continues.
    Continue,
}

/// The observed state of a rollout over sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteDeploymentStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of the rollout. It rises by one with each rollout of another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::NUMBER))]
    pub rollout: Option<i64>,
    /// Application that is rolled out: that of the spec, once its rollout has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Version that is rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Application of the rollout before; absent if it was the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_application: Option<String>,
    /// Version of the rollout before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Number of the last rollout that is over. A rollout is over when all reachable sites have had
    /// their turn, and no more than half of all sites are unreachable. Sites that get the version
    /// later belong to no wave, and their errors abort nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_rollout: Option<i64>,
    /// Number of sites in each state.
    #[serde(default)]
    pub counts: SiteCounts,
    /// The current wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<SiteBatch>,
    /// Sites that failed; at most 20 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailingSite>,
    /// Conditions of the deployment. `Progressing`: a version is being rolled out; if false, the
    /// reason says why not. `Available`: all reachable sites are available. `Aborted`: no further
    /// site gets the version, and why. `Placed`: sites were chosen. `Waiting`: the application or
    /// the version does not exist. `Ready`, `Reconciling`, `Stalled`: the state for general tools
    /// (kstatus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Number of sites in each state. Sites in none of the states still wait for their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteCounts {
    /// All sites of the placement.
    pub sites: i32,
    /// Sites that run the version.
    pub updated: i32,
    /// Sites that run the version and are available.
    pub healthy: i32,
    /// Sites that run the version, in a wave whose healthy time is not over.
    pub soaking: i32,
    /// Sites with the version in their queue, waiting for an earlier version or for an upgrade
    /// window.
    pub queued: i32,
    /// Sites that cannot be reached.
    pub offline: i32,
    /// Sites in which the version failed.
    pub failed: i32,
}

/// A wave of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteBatch {
    /// Number of the wave, from 1.
    pub number: i32,
    /// Expected number of waves in all.
    pub of: i32,
    /// Sites in the wave; at most 20 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// Time since which all reachable sites of the wave are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Time>,
}

/// A site that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailingSite {
    /// Name of the site.
    pub name: String,
    /// Number of the revision that failed, in the chain of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Reason of the failure, in one word for programs.
    pub reason: String,
    /// Reason of the failure, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
