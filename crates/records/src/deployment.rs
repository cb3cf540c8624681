//! The stored form of deployments.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    ObjectDeploymentSpec, ObjectDeploymentStatus,
    kinds::{self, Kind},
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

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
    /// As [`Record::spec`].
    pub fn template(&self) -> Result<Value, ReadError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            template: Value,
        }
        self.check_weight()?;
        Ok(self.part_of_spec::<Spec>()?.template)
    }
}

impl DeploymentRecord {
    /// The spec, with an empty phase in the place of a template that is too large to be read.
    ///
    /// # Errors
    /// As [`Record::spec`], for all fields but the template.
    pub fn outline(&self) -> Result<ObjectDeploymentSpec, ReadError> {
        if self.check_weight().is_ok() {
            return self.spec();
        }
        let mut fields: BTreeMap<String, Box<RawValue>> = self.part_of_spec()?;
        let mut parse = || {
            let phases = json!([{ "name": "unread" }]);
            let template = json!({ "metadata": {}, "spec": { "phases": phases } });
            fields.insert("template".to_owned(), to_raw_value(&template)?);
            serde_json::from_str(&serde_json::to_string(&fields)?)
        };
        parse().map_err(ReadError::of(self.key.kind, "spec"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_is_too_large_is_not_read() {
        let read = |maps: usize| {
            let object = json!({
                "metadata": { "name": "web", "resourceVersion": "1" },
                "spec": {
                    "selector": { "matchLabels": { "app": "web" } },
                    "revisionHistoryLimit": 3,
                    "template": { "metadata": {}, "spec": { "phases": vec![json!({ "name": "a" }); maps] } },
                },
            });
            DeploymentRecord::read(DeploymentKind(RevisionKind::ObjectSet), &object.to_string())
                .unwrap()
        };
        let small = read(1);
        assert_eq!(small.outline().unwrap(), small.spec().unwrap());
        let large = read(100_000);
        assert!(large.spec().unwrap_err().is_too_large());
        assert!(large.template().unwrap_err().is_too_large());
        let outline = large.outline().unwrap();
        assert_eq!(outline.revision_history_limit, 3);
        assert_eq!(outline.selector, small.spec().unwrap().selector);
        assert_eq!(outline.template.spec.phases.unwrap().len(), 1);
    }
}
