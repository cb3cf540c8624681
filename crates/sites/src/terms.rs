//! What the owner of an application and the provider of a site ask of upgrades.

use baton_apis::UpgradeWindow;
use serde::{Deserialize, Serialize};

/// What holds for the upgrades of an application in a site, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// What the owner of the application asks for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: OwnerTerms,
    /// Upgrade windows of the Cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub site_windows: Vec<UpgradeWindow>,
}

/// What the owner of an application asks for. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerTerms {
    /// Why nothing begins for now, not even a first installation or what puts something right.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<Hold>,
    /// There is no such `SiteApplication` (any more), so nobody knows what its owner asks for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_gone: bool,
    /// `spec.upgradeWindows` of the `SiteApplication`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<UpgradeWindow>,
    /// `spec.upgrade.skipPatchVersions` of the `SiteApplication`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_patch_versions: bool,
    /// `spec.upgrade.windowsApplyToEdits` of the `SiteApplication`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub windows_apply_to_edits: bool,
    /// `spec.strategy.progressDeadline` of the `SiteDeployment`, in seconds: a version that is not available for longer
    /// after it began does not hold the one behind it any more. `None`: it does for ever.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress_deadline: Option<u32>,
}

/// Why nothing begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Hold {
    /// The owner could not be asked yet.
    Unknown,
    /// The `SiteDeployment` that made the revision is gone, or on its way out, and its revisions follow it one by one.
    Leaving,
}

impl Hold {
    /// What a version of a deployment waits for.
    pub(crate) fn message(self, deployment: &str) -> String {
        match self {
            Self::Unknown => {
                "Waits until SiteApplications and SiteDeployments can be listed.".to_owned()
            }
            Self::Leaving => {
                format!("Does not begin any more: SiteDeployment \"{deployment}\" is deleted.")
            }
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
