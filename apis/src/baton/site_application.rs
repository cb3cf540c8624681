use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ObjectSetTemplateSpec, Raw, limits, schema};

/// An application for sites, versioned as one unit.
///
/// The four newest versions are kept unchanged, and every other version that a `SiteDeployment`
/// runs or names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "baton.run",
    version = "v1alpha1",
    kind = "SiteApplication",
    doc = "An application for sites, versioned as one unit. A SiteDeployment rolls its versions out to sites.",
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
    /// Version of `template`, such as `1.2.3`. A SiteDeployment brings a new version to its sites
    /// in waves. A change of the template or of the upgrade methods without a new version is an
    /// edit: it reaches all sites that run this version at once.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub version: String,
    /// Objects of the application, in phases, with the probes that decide when they are available.
    pub template: SiteTemplate,
    /// The way in which a site goes from one version to the next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upgrade: SiteUpgrade,
    /// Times at which upgrades may begin, set by the owner of the application. If the Cluster of a
    /// site has windows as well, one window of each list has to be open at the same time. Empty: the
    /// application sets no limit. The first installation in a site needs no window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::WINDOWS))]
    pub upgrade_windows: Vec<UpgradeWindow>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Template for the revisions of sites.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SiteTemplate {
    /// Content of the revisions. Phases have no `class`, because all of them are delivered into the
    /// site.
    pub spec: Raw<ObjectSetTemplateSpec>,
}

/// The way in which a site goes from one version to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::services_for_per_service())]
pub struct SiteUpgrade {
    /// `PerService` (the default): each service is upgraded with its method in `services`.
    /// `StopAndRestart`: all workloads of the old version are stopped and their pods are gone
    /// before the first object of the new version is written.
    #[serde(default)]
    pub method: UpgradeMethod,
    /// Services with an upgrade method of their own. Only with the method `PerService`; services
    /// that are not listed are upgraded with `Rolling`. A service is the set of objects with the
    /// same value of the label `baton.run/service`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::SERVICES),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub services: Vec<ServiceUpgrade>,
    /// If true, a version that waits in the queue of a site is skipped when a later version in the
    /// queue has the same major and minor number. Versions that are not semantic versions are never
    /// skipped. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_patch_versions: bool,
    /// If true, an edit (a change without a new version) waits for upgrade windows as well.
    /// Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub windows_apply_to_edits: bool,
}

/// The way in which the workloads of a site are exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpgradeMethod {
    /// All old workloads are stopped before the new version is written.
    StopAndRestart,
    /// Each service is upgraded with its own method.
    #[default]
    PerService,
}

/// The upgrade method of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ServiceUpgrade {
    /// Value of the label `baton.run/service` on the objects of the service.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub name: String,
    /// `Rolling` (the default): the controllers of the workloads exchange the pods.
    /// `StopAndRestart`: the workloads of the service are stopped before the new version is
    /// written.
    #[serde(default)]
    pub method: ServiceUpgradeMethod,
}

/// The way in which the workloads of a service are exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ServiceUpgradeMethod {
    /// The controllers of the workloads exchange the pods.
    #[default]
    Rolling,
    /// The workloads are stopped before the new version is written.
    StopAndRestart,
}

/// A recurring time in which upgrades may begin. An upgrade that has begun runs to its end, also
/// after the window closes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeWindow {
    /// Times at which the window opens, in cron format with five fields: minute, hour, day of the
    /// month, month, and day of the week.
    #[schemars(length(min = 1, max = limits::CRON))]
    pub cron: String,
    /// Time for which the window stays open, such as `4h` or `90m`.
    #[schemars(length(max = limits::DURATION), regex(pattern = schema::DURATION))]
    pub duration: String,
    /// Time zone of `cron`, such as `Europe/Berlin`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::TIME_ZONE))]
    pub time_zone: Option<String>,
}

/// The observed versions of an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteApplicationStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Versions that are kept, the newest first; at most 20 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<KeptVersion>,
    /// Conditions of the application. `Kept`: the version of the spec is kept and can be deployed;
    /// if false, the reason and message say why not. `Ready`, `Reconciling`, `Stalled`: the state
    /// for general tools (kstatus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A version that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptVersion {
    /// Name of the version.
    pub version: String,
    /// Identifier of the content; each edit of a version (a change without a new version) has
    /// another one.
    pub edit: String,
    /// Name of the `ControllerRevision` that stores the version.
    pub record: String,
}
