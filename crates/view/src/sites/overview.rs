//! An application for sites, with the deployments that follow it and the kept versions.

use baton_apis::{SiteApplication, SiteDeployment, conditions::KEPT};
use baton_engine::condition_list::find;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{observed::status, record::Records, target::SiteTarget};

/// An application with its deployments and versions.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The application.
    pub application: SiteApplication,
    /// The deployments that follow the application.
    pub deployments: Vec<SiteDeployment>,
    /// The kept versions of the application.
    pub records: Records,
}

impl Overview {
    /// Name of the application.
    pub fn name(&self) -> &str {
        let name = self.application.metadata.name.as_deref();
        name.unwrap_or_default()
    }

    /// The reference to the application, as users type it.
    pub fn target(&self) -> SiteTarget {
        SiteTarget::application(self.name())
    }

    /// Conditions of the application.
    pub fn conditions(&self) -> &[Condition] {
        let status = self.application.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    /// The condition with the reason that the version of the spec cannot be brought to sites, if
    /// there is one.
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

    /// Names of the deployments that bring a version to sites now.
    pub fn rollouts_of(&self, version: &str) -> Vec<&str> {
        let deployments = self.deployments.iter();
        deployments
            .filter(|it| status(it).version.as_deref() == Some(version))
            .filter_map(|it| it.metadata.name.as_deref())
            .collect()
    }
}
