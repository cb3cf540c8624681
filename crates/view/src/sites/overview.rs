//! An application for sites: the deployments that bring it there, and the versions that are kept.

use baton_apis::{SiteApplication, SiteDeployment, conditions::KEPT};
use baton_engine::condition_list::find;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{observed::status, record::Records, target::SiteTarget};

/// An application with what belongs to it.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The application.
    pub application: SiteApplication,
    /// The deployments that bring it to sites.
    pub deployments: Vec<SiteDeployment>,
    /// Its versions.
    pub records: Records,
}

impl Overview {
    /// The name of the application.
    pub fn name(&self) -> &str {
        let name = self.application.metadata.name.as_deref();
        name.unwrap_or_default()
    }

    /// The application as it can be typed.
    pub fn target(&self) -> SiteTarget {
        SiteTarget::application(self.name())
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[Condition] {
        let status = self.application.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    /// The condition that says why the version of the spec cannot be brought to sites, if one does.
    pub fn problem(&self) -> Option<&Condition> {
        find(self.conditions(), KEPT).filter(|kept| kept.status == "False")
    }

    /// True if the version of the spec is kept.
    pub fn is_kept(&self) -> bool {
        find(self.conditions(), KEPT).is_some_and(|kept| {
            kept.status == "True"
                && kept.observed_generation == self.application.metadata.generation
        })
    }

    /// The names of the deployments that bring a version to sites now.
    pub fn bringers(&self, version: &str) -> Vec<&str> {
        let deployments = self.deployments.iter();
        deployments
            .filter(|it| status(it).version.as_deref() == Some(version))
            .filter_map(|it| it.metadata.name.as_deref())
            .collect()
    }
}
