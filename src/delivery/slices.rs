//! Slices that the revisions of several clusters share. Their names are derived from their content.

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

/// A slice to be created.
pub(crate) struct NewSlice<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: Value,
    /// The first owner reference.
    pub owner: Value,
    pub objects: &'a Value,
}

impl NewSlice<'_> {
    /// The key of the slice.
    pub(crate) fn key(&self) -> SliceKey {
        Key {
            kind: SliceKind(RevisionKind::ObjectSet),
            namespace: self.namespace.into(),
            name: self.name.into(),
        }
    }

    /// Creates the slice, with `writer` as the name of the controller, unless it exists. Returns
    /// true if it was created now.
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
            // The same name shows that the slice has the same content.
            Err(ApiError::Changed { .. }) if api.get(&key).await.is_ok_and(|it| it.is_some()) => {
                Ok(false)
            }
            Err(error) => Err(error).at_step("creating a slice"),
        }
    }
}
