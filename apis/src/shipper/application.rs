use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ReleaseEnvironment, ShipperCondition, reading::null_as_default};

/// What is rolled out, and how many releases of it are kept.
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
    /// How many completed releases are kept besides the newest one: 20 when left out, at least 1 and at most 1000.
    /// What is out of these bounds is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// What a release looks like. A change makes a new release; a rollback is a change to what an older one has.
    ///
    /// A range of versions is replaced by the version that it stands for, and when the newest release is deleted, the
    /// whole template by what the one before it has.
    pub template: ReleaseEnvironment,
}

/// What the controller observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ApplicationStatus {
    /// The state in detail. `RollingOut`: a release replaces another; false when the newest one is active. `Aborting`:
    /// the newest release was deleted, and the template goes back to the one before it. `Blocked`: a rollout block
    /// forbids changes. `ReleaseSynced`: the template has its release. `ValidHistory`: the releases can be put in
    /// order.
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
