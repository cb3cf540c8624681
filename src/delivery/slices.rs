//! Slices that the revisions of several clusters share. Their names tell their content.

use baton_apis::constants::API_VERSION;
use baton_records::{
    api::ApiError,
    key::Key,
    revision::RevisionKind,
    slice::{SliceKey, SliceKind},
};
use serde_json::{Value, json};

use super::{
    observed::Observed,
    shared::{AtStep as _, Error, Shared},
};

/// A slice to be made.
pub(crate) struct NewSlice<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: Value,
    /// The owner reference with which it begins.
    pub owner: Value,
    pub objects: &'a Value,
}

impl NewSlice<'_> {
    /// Its identity.
    pub(crate) fn key(&self) -> SliceKey {
        Key {
            kind: SliceKind(RevisionKind::ObjectSet),
            namespace: self.namespace.into(),
            name: self.name.into(),
        }
    }

    /// Makes it as a controller of the name `writer`, unless it is there; whether it was made now.
    ///
    /// # Errors
    /// When the request failed.
    pub(crate) async fn make(
        &self,
        shared: &Shared,
        observed: &Observed,
        writer: &'static str,
    ) -> Result<bool, Error> {
        let (api, key) = (&shared.api, self.key());
        if observed.slices.get(&key).is_some() {
            return Ok(false);
        }
        let manifest = json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectSlice",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": self.labels,
                "ownerReferences": [self.owner],
            },
            "objects": self.objects,
        });
        match api.create(&key, &manifest).await {
            Ok(record) => {
                observed.slices.created(record, writer);
                Ok(true)
            }
            // Its name tells that its content is the same.
            Err(ApiError::Changed { .. }) if api.get(&key).await.is_ok_and(|it| it.is_some()) => {
                Ok(false)
            }
            Err(error) => Err(error).at_step("making a slice"),
        }
    }
}
