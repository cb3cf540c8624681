//! Slices, in which revisions store the objects of large phases.
//!
//! A slice is created before the revision that needs it, with the deployment as its owner; the
//! first pass of the revision makes the revision the owner. So a pass finds the slices of an
//! earlier pass that was interrupted, and unused ones are deleted at the latest with the
//! deployment.

use std::collections::BTreeMap;

use baton_apis::{
    ObjectDeploymentSpec, ObjectSetObject, ObjectSetSpec,
    constants::{API_VERSION, LABEL_OBJECT_DEPLOYMENT},
};
use baton_engine::deployment::slices;
use baton_records::{
    api::ApiError,
    deployment::DeploymentRecord,
    key::OwnKind as _,
    revision::RevisionRecord,
    slice::{SliceKey, SliceRecord},
};
use baton_runtime::controller::Controller as _;
use serde_json::{Value, json};

use super::ObjectDeployments;
use crate::delivery::{
    observed::Room,
    shared::{AtStep as _, Error, Refusal},
    slices::has_objects,
};

impl ObjectDeployments {
    /// The spec of the next revision. Creates its slices.
    ///
    /// # Errors
    /// When a request fails, or the server refuses a slice.
    pub(super) async fn sliced(
        &self,
        deployment: &DeploymentRecord,
        template: &Value,
    ) -> Result<Value, Error> {
        let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        for (phase, objects) in slices::large_phases(template) {
            let key = self.slice_for(deployment, objects).await?;
            if self.observed.slices.get(&key).is_none()
                && let Err(error) = self.make(deployment, &key, objects).await
            {
                return match error.refusal() {
                    Some(message) => Err(Error::from(Refusal::Slice {
                        kind: key.kind.kind(),
                        name: key.name.to_string(),
                        message,
                    })),
                    None => Err(error).at_step("creating a slice"),
                };
            }
            slices::replace_objects(&mut spec, phase, &key.name);
        }
        Ok(spec)
    }

    /// The key of the slice for these objects: an existing slice with this content, or a free name.
    async fn slice_for(
        &self,
        deployment: &DeploymentRecord,
        objects: &Value,
    ) -> Result<SliceKey, Error> {
        let mut taken = 0;
        loop {
            let name = slices::name(&deployment.key.name, objects, taken);
            let key = deployment.key.revision(&name).slice(&name);
            let Some(cached) = self.observed.slices.get(&key) else {
                return Ok(key);
            };
            if self.is_lasting(deployment, &cached)
                && has_objects(&self.shared, &self.observed, &cached, objects).await?
            {
                return Ok(key);
            }
            taken += 1;
        }
    }

    /// True if a slice of the deployment is not about to be deleted, so that another revision can
    /// use it.
    fn is_lasting(&self, deployment: &DeploymentRecord, slice: &SliceRecord) -> bool {
        let is_own = slice.deployment.as_deref() == Some(&*deployment.key.name);
        let mut users = self.observed.revisions.slice_users(&slice.key).into_iter();
        is_own
            && !slice.deleting
            && (slice.is_owned_by(&deployment.uid)
                || users.any(|user| !user.deleting && slice.is_owned_by(&user.uid)))
    }

    async fn make(
        &self,
        deployment: &DeploymentRecord,
        key: &SliceKey,
        objects: &Value,
    ) -> Result<(), ApiError> {
        let mut metadata = json!({
            "name": &*key.name,
            "labels": { LABEL_OBJECT_DEPLOYMENT: &*deployment.key.name },
            "ownerReferences": [deployment.owner_reference(false)],
        });
        if !key.namespace.is_empty() {
            metadata["namespace"] = (*key.namespace).into();
        }
        let manifest = json!({
            "apiVersion": API_VERSION,
            "kind": key.kind.kind(),
            "metadata": metadata,
            "objects": objects,
        });
        let slice = self.shared.api.create(key, &manifest).await?;
        // The store drops the content of a slice that no revision uses yet, and the watch may
        // already have reported this slice.
        self.observed.slices.created(slice.clone(), Self::NAME);
        self.observed.slices.fill(slice);
        Ok(())
    }

    /// Creates deleted slices of the current revision again. The name of a slice is derived from
    /// its content, so an equal name shows that the template has this content.
    ///
    /// # Errors
    /// When a request fails.
    pub(super) async fn recreate_deleted(
        &self,
        deployment: &DeploymentRecord,
        template: &Value,
        current: &RevisionRecord,
    ) -> Result<(), Error> {
        let is_lost = |name: &String| self.observed.slices.get(&current.key.slice(name)).is_none();
        if current.is_closed() || !current.slices.iter().any(is_lost) {
            return Ok(());
        }
        for (_, objects) in slices::large_phases(template) {
            let name = slices::name(&deployment.key.name, objects, 0);
            if current.slices.contains(&name) && is_lost(&name) {
                let key = current.key.slice(&name);
                let made = self.make(deployment, &key, objects).await;
                made.at_step("creating a slice again")?;
            }
        }
        Ok(())
    }

    /// The content of the slices that stand for inline objects of a template.
    ///
    /// # Errors
    /// When a request fails.
    pub(super) async fn in_slices(
        &self,
        record: &RevisionRecord,
        revision: &ObjectSetSpec,
        spec: &ObjectDeploymentSpec,
    ) -> Result<BTreeMap<String, Vec<ObjectSetObject>>, Error> {
        let (mut contents, mut room) = (BTreeMap::new(), Room::beside(record));
        for name in slices::instead_of_objects(revision, &spec.template.spec) {
            let key = record.key.slice(name);
            let slice = self.observed.slice(&self.shared.api, &key).await?;
            if let Some(slice) = slice.filter(|slice| room.take(slice)) {
                contents.insert(name.to_owned(), slice.spec()?);
            }
        }
        Ok(contents)
    }
}
