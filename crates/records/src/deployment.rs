//! The stored form of deployments.

use std::sync::Arc;

use baton_apis::{
    ObjectDeploymentSpec, ObjectDeploymentStatus,
    kinds::{self, Kind},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    belongs_to_revision::BelongsToRevision,
    key::{Key, OwnKind},
    record::{ReadError, Record},
    revision::{RevisionIndex, RevisionKind, RevisionRecord, Revisions},
    store::Store,
};

/// The kind of the deployments that create revisions of a kind.
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

impl BelongsToRevision for DeploymentKind {
    type Spec = ObjectDeploymentSpec;
    type Status = ObjectDeploymentStatus;

    fn of_revisions(kind: RevisionKind) -> Self {
        Self(kind)
    }

    fn revision_kind(self) -> RevisionKind {
        self.0
    }
}

/// The identity of a deployment.
pub type DeploymentKey = Key<DeploymentKind>;
/// The record of a deployment.
pub type DeploymentRecord = Record<DeploymentKind>;
/// The store of all deployments.
pub type Deployments = Store<DeploymentKind>;

impl DeploymentRecord {
    /// The template as the API server sent it.
    ///
    /// # Errors
    /// If the spec cannot be parsed, although the API server has accepted it.
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
    /// The revisions whose controller is this deployment.
    pub fn controlled_by(&self, deployment: &DeploymentRecord) -> Vec<Arc<RevisionRecord>> {
        let owner = deployment.key.revision(&deployment.uid);
        self.mentioning(RevisionIndex::Controller, &owner)
    }

    /// The revisions with the label of this deployment's name.
    pub fn named_after(&self, deployment: &DeploymentRecord) -> Vec<Arc<RevisionRecord>> {
        let owner = deployment.key.revision(&deployment.key.name);
        self.mentioning(RevisionIndex::Deployment, &owner)
    }
}
