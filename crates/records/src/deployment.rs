//! Deployments as they are kept.

use std::sync::Arc;

use baton_apis::{
    ObjectDeploymentSpec, ObjectDeploymentStatus,
    kinds::{self, Kind},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    beside::BesideRevision,
    key::{Key, OwnKind},
    record::{ReadError, Record},
    revision::{RevisionIndex, RevisionKind, RevisionRecord, Revisions},
    store::Store,
};

/// The deployments that make revisions of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentKind(pub RevisionKind);

impl OwnKind for DeploymentKind {
    fn names(self) -> &'static Kind {
        match self.0 {
            RevisionKind::ObjectSet => &kinds::OBJECT_DEPLOYMENT,
            RevisionKind::ClusterObjectSet => &kinds::CLUSTER_OBJECT_DEPLOYMENT,
        }
    }
}

impl BesideRevision for DeploymentKind {
    type Spec = ObjectDeploymentSpec;
    type Status = ObjectDeploymentStatus;

    fn of_revisions(kind: RevisionKind) -> Self {
        Self(kind)
    }

    fn revision_kind(self) -> RevisionKind {
        self.0
    }
}

/// A deployment's identity.
pub type DeploymentKey = Key<DeploymentKind>;
/// What is kept of a deployment.
pub type DeploymentRecord = Record<DeploymentKind>;
/// All deployments.
pub type Deployments = Store<DeploymentKind>;

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
        Ok(self.part_of_spec::<Spec>()?.template)
    }
}

impl Revisions {
    /// The revisions that a deployment controls.
    pub fn controlled_by(&self, deployment: &DeploymentRecord) -> Vec<Arc<RevisionRecord>> {
        let owner = deployment.key.revision(&deployment.uid);
        self.mentioning(RevisionIndex::Controller, &owner)
    }

    /// The revisions that carry a deployment's name.
    pub fn named_after(&self, deployment: &DeploymentRecord) -> Vec<Arc<RevisionRecord>> {
        let owner = deployment.key.revision(&deployment.key.name);
        self.mentioning(RevisionIndex::Deployment, &owner)
    }
}
