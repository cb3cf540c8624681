//! The effect of another spec of an application for sites.

use baton_apis::{EVERY_VERSION, SiteApplicationSpec, SiteDeployment};

use super::{observed::status, record::Records};

/// The effect of a spec on the versions of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The newest version gets another content, and so do the sites that run it, at once or in
    /// their upgrade windows.
    Edited {
        /// True if upgrade windows are respected.
        in_windows: bool,
    },
    /// The version is the newest one already.
    Unchanged,
    /// An older version that is kept becomes the newest.
    Restored,
    /// There is no record of the version.
    New,
}

impl Effect {
    /// The effect of a spec; `differs` is true if its content differs from the newest record.
    #[must_use]
    pub fn of(spec: &SiteApplicationSpec, records: &Records, differs: bool) -> Self {
        let version = spec.version.as_str();
        if records
            .newest()
            .is_some_and(|newest| newest.version == version)
        {
            return if differs {
                Self::Edited {
                    in_windows: spec.upgrade.windows_apply_to_edits,
                }
            } else {
                Self::Unchanged
            };
        }
        match records.version(version) {
            Some(_) => Self::Restored,
            None => Self::New,
        }
    }
}

/// The deployments that bring a version to sites once the application has it, each with the number of its sites.
pub fn rollouts_of(deployments: &[SiteDeployment], version: &str) -> Vec<(String, i32)> {
    let follows =
        |it: &&SiteDeployment| [version, EVERY_VERSION].contains(&&*it.spec.application_version);
    let name = |it: &SiteDeployment| it.metadata.name.clone().unwrap_or_default();
    let deployments = deployments.iter().filter(follows);
    deployments
        .map(|it| (name(it), status(it).counts.sites))
        .collect()
}
