use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ObjectSetTemplateSpec, limits, schema};

/// What runs in a site, versioned as one unit.
///
/// The last four versions are kept as they were, and every other one that a `SiteDeployment` runs or names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "baton.run",
    version = "v1alpha1",
    kind = "SiteApplication",
    doc = "What runs in a site, versioned as one unit. A SiteDeployment brings its versions to sites.",
    namespaced,
    status = "SiteApplicationStatus",
    shortname = "siteapp",
    category = "baton",
    derive = "Default",
    derive = "PartialEq",
    validation = schema::name_is_a_label_value()
)]
#[serde(rename_all = "camelCase")]
pub struct SiteApplicationSpec {
    /// The version that `template` is, such as `1.2.3`. Another one is brought to sites as their deployments say. A
    /// change of anything else without another version reaches all sites that run this version, at once.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub version: String,
    /// The objects, in phases, and what makes them available.
    pub template: SiteTemplate,
    /// How a site goes from one version to the next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upgrade: SiteUpgrade,
    /// When sites may be upgraded, as far as the owner of the application is concerned. Where the site has windows as
    /// well, one of each has to be open. The first installation needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::WINDOWS))]
    pub upgrade_windows: Vec<UpgradeWindow>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What the revisions of sites look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SiteTemplate {
    /// Content of the revisions. Its phases have no class: they are delivered into their site.
    pub spec: ObjectSetTemplateSpec,
}

/// How a site goes from one version to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::services_for_per_service())]
pub struct SiteUpgrade {
    /// `StopAndRestart`: all workloads of the old version have stopped, and their pods are gone, before the first
    /// object of the new one is written. `PerService`: each service as `services` says.
    #[serde(default)]
    pub method: UpgradeMethod,
    /// Services that are not upgraded in the way of their kinds. A service is the objects with the label
    /// `baton.run/service`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::SERVICES),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub services: Vec<ServiceUpgrade>,
    /// Whether a version that waits in a site is left out when one of the same major and minor number waits behind it.
    /// Versions that are not semantic ones are never left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_patch_versions: bool,
    /// Whether a change without another version waits for upgrade windows as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub windows_apply_to_edits: bool,
}

/// How the workloads of a site are exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpgradeMethod {
    /// Everything has stopped before the new version is written.
    StopAndRestart,
    /// Each service as it says.
    #[default]
    PerService,
}

/// How a service is upgraded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ServiceUpgrade {
    /// The value of the label `baton.run/service` on the objects of the service.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub name: String,
    /// `Rolling`: as the controllers of its workloads exchange pods. `StopAndRestart`: its workloads have stopped
    /// before the new version is written.
    #[serde(default)]
    pub method: ServiceUpgradeMethod,
}

/// How the workloads of a service are exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ServiceUpgradeMethod {
    /// As the controllers of its workloads do it.
    #[default]
    Rolling,
    /// Stopped before the new version is written.
    StopAndRestart,
}

/// A time that comes again and again, in which upgrades may begin. One that has begun runs to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeWindow {
    /// When it opens: minute, hour, day of the month, month, and day of the week.
    #[schemars(length(min = 1, max = limits::CRON))]
    pub cron: String,
    /// How long it stays open, such as `4h` or `90m`.
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub duration: String,
    /// The time zone of `cron`, such as `Europe/Berlin`. UTC when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::TIME_ZONE))]
    pub time_zone: Option<String>,
}

/// What is kept of an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteApplicationStatus {
    /// The generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The versions that are kept, the newest first; at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<KeptVersion>,
    /// The state in detail. `Kept`: the version of the spec is kept and can be deployed, or why not. `Ready`,
    /// `Reconciling`, `Stalled`: as general tools expect them (kstatus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A version that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptVersion {
    /// The version.
    pub version: String,
    /// Tells apart what the version was before and after a change without another version.
    pub edit: String,
    /// The `ControllerRevision` that has it.
    pub record: String,
}
