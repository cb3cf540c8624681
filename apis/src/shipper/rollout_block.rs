use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reading::null_as_default;

/// The cause of the block, for people.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "shipper.booking.com",
    version = "v1alpha1",
    kind = "RolloutBlock",
    doc = "Forbids the rollouts in its namespace, or in all namespaces if it is in `rollout-blocks-global`. \
           ObjectDeployments and SiteDeployments obey it if they have the label `baton.run/obey-rollout-blocks`. \
           The annotation `shipper.booking.com/rollout-block.override` overrides it.",
    namespaced,
    status = "RolloutBlockStatus",
    shortname = "rb",
    category = "all",
    category = "shipper",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutBlockSpec {
    /// The reason of the block.
    pub message: String,
    /// The author of the block.
    pub author: RolloutBlockAuthor,
}

/// The author of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutBlockAuthor {
    /// Kind of the author, such as `user` or `application`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Name of the author.
    pub name: String,
}

/// The observed state of the block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutBlockStatus {
    /// The objects that override the block.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(with = "Option<RolloutBlockOverrides>")]
    pub overrides: RolloutBlockOverrides,
}

// No field is required: a manifest that was written by Shipper has other fields than one by Baton.
/// The objects that override a block. Each list is sorted and separated by commas; an object is
/// `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutBlockOverrides {
    /// The Applications.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(with = "Option<String>")]
    pub application: String,
    /// The Applications, under the name in Shipper's documentation.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(with = "Option<String>")]
    pub applications: String,
    /// The Releases.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(with = "Option<String>")]
    pub release: String,
    /// The `ObjectDeployments`, and by their name only, the `ClusterObjectDeployments`.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(with = "Option<String>")]
    pub object_deployment: String,
    /// The `SiteDeployments`.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(with = "Option<String>")]
    pub site_deployment: String,
}
