//! The terms of the owner of an application and of the provider of a site for upgrades.

use baton_apis::UpgradeWindow;
use serde::{Deserialize, Serialize};

/// The present terms for the upgrades of an application in a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// Terms of the owner of the application.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: OwnerTerms,
    /// Upgrade windows of the Cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub site_windows: Vec<UpgradeWindow>,
}

/// The terms of the owner of an application. The default has no restrictions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerTerms {
    /// Reason that nothing begins for now, not even a first installation or a rollback.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: Option<StartObstacle>,
    /// True if the `SiteApplication` does not exist, so that the terms of its owner are unknown.
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
    /// `spec.strategy.progressDeadline` of the `SiteDeployment`, in seconds. A version that is not
    /// available after this time does not hold the next one any more. `None`: it holds the next one
    /// forever.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress_deadline: Option<u32>,
}

/// The reason that nothing begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum StartObstacle {
    /// The terms of the owner are not known yet.
    Unknown,
    /// The `SiteDeployment` of the revision is gone or being deleted, and its revisions are deleted
    /// one by one.
    Leaving,
}

impl StartObstacle {
    /// The message of a waiting version of a deployment.
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
