//! Deployments as they are kept.

use baton_apis::{ObjectDeploymentSpec, ObjectDeploymentStatus};
use serde::Deserialize;
use serde_json::Value;

use super::{
    item::{Item, ItemKind, Items},
    key::{Key, Resource},
    record::{ReadError, RevisionKey, RevisionKind},
};

/// The deployments that make revisions of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentKind(pub RevisionKind);

impl Resource for DeploymentKind {
    fn kind(self) -> &'static str {
        match self.0 {
            RevisionKind::ObjectSet => "ObjectDeployment",
            RevisionKind::ClusterObjectSet => "ClusterObjectDeployment",
        }
    }

    fn plural(self) -> &'static str {
        match self.0 {
            RevisionKind::ObjectSet => "objectdeployments",
            RevisionKind::ClusterObjectSet => "clusterobjectdeployments",
        }
    }
}

impl ItemKind for DeploymentKind {
    type Spec = ObjectDeploymentSpec;
    type Status = ObjectDeploymentStatus;
}

/// A deployment's identity.
pub type DeploymentKey = Key<DeploymentKind>;
/// What is kept of a deployment.
pub type DeploymentRecord = Item<DeploymentKind>;
/// All deployments.
pub type Deployments = Items<DeploymentKind>;

impl DeploymentKey {
    /// The deployment of a name that a revision would belong to.
    #[must_use]
    pub fn of(revision: &RevisionKey, name: &str) -> Self {
        revision.beside(DeploymentKind(revision.kind), name)
    }

    /// A revision beside it.
    #[must_use]
    pub fn revision(&self, name: &str) -> RevisionKey {
        self.beside(self.kind.0, name)
    }
}

impl DeploymentRecord {
    /// The template as the API server has it.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn template(&self) -> Result<Value, ReadError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            template: Value,
        }
        let spec: Spec = serde_json::from_str(self.raw_spec()).map_err(ReadError::of("spec"))?;
        Ok(spec.template)
    }
}
