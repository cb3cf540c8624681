use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ReleaseEnvironment, ShipperCondition, reading::null_as_default};

/// The application to roll out, and the number of its releases to keep.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "Application",
    doc = "A chart that is rolled out over clusters: each change of the template becomes a new Release, which replaces \
           the one before it step by step.",
    namespaced,
    status = "ApplicationStatus",
    shortname = "app",
    category = "all",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ApplicationSpec {
    /// Number of completed releases that are kept besides the newest one, from 1 to 1000. Default:
    /// 20. A value out of range is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Template for releases. A change creates a new release. To roll back, set the content of an
    /// older release.
    ///
    /// The controller replaces a range of chart versions by the resolved version. When the newest
    /// release is deleted, the controller replaces the whole template by the content of the release
    /// before it.
    pub template: ReleaseEnvironment,
}

/// The observed state of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ApplicationStatus {
    /// Conditions of the application. `RollingOut`: a release replaces another; false when the
    /// newest release is active. `Aborting`: the newest release was deleted, and the template goes
    /// back to the release before it. `Blocked`: a rollout block forbids changes. `ReleaseSynced`:
    /// the template has its release. `ValidHistory`: the releases can be put in order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ShipperCondition>,
    /// Names of the releases, the oldest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub history: Vec<String>,
}
