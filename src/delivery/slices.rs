//! Slices that the revisions of several clusters share. Their names are derived from their content.

use std::sync::Arc;

use baton_apis::{ObjectSetObject, constants::API_VERSION};
use baton_records::{
    api::ApiError,
    key::Key,
    revision::RevisionKind,
    slice::{SliceKey, SliceKind, SliceRecord},
};
use serde::Deserialize as _;
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

    /// Creates the slice, with `writer` as the name of the controller, unless its name is taken.
    ///
    /// # Errors
    /// When the request failed.
    pub(crate) async fn make(
        &self,
        shared: &Shared,
        observed: &Observed,
        writer: &'static str,
    ) -> Result<Made, Error> {
        let (api, key) = (&shared.api, self.key());
        if let Some(slice) = observed.slices.get(&key) {
            return Ok(Made::Found(slice));
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
                let uid = Arc::clone(&record.uid);
                observed.slices.created(record, writer);
                Ok(Made::Created { uid })
            }
            Err(error @ ApiError::Changed { .. }) => match api.get(&key).await {
                Ok(Some(slice)) => Ok(Made::Found(Arc::new(slice))),
                _ => Err(error).at_step("creating a slice"),
            },
            Err(error) => Err(error).at_step("creating a slice"),
        }
    }

    /// True if an existing slice of this name stays and has the same content. The name alone shows
    /// nothing, as another client may have created the slice.
    ///
    /// # Errors
    /// When its content is not cached and the request fails.
    pub(crate) async fn is_same(
        &self,
        shared: &Shared,
        observed: &Observed,
        slice: &SliceRecord,
    ) -> Result<bool, Error> {
        Ok(!slice.deleting && has_objects(shared, observed, slice, self.objects).await?)
    }
}

/// True if a slice that exists has these objects.
///
/// # Errors
/// When its content is not cached and the request fails.
pub(crate) async fn has_objects(
    shared: &Shared,
    observed: &Observed,
    slice: &SliceRecord,
    objects: &Value,
) -> Result<bool, Error> {
    let read = observed.slice(&shared.api, &slice.key).await?;
    let read = read.and_then(|slice| slice.spec().ok());
    let wanted = Vec::<ObjectSetObject>::deserialize(objects);
    Ok(read.is_some() && read == wanted.ok())
}

/// The slice of a name.
pub(crate) enum Made {
    /// It was created now, with this uid.
    Created { uid: Arc<str> },
    /// A slice of this name exists, with any content.
    Found(Arc<SliceRecord>),
}
