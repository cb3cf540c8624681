//! The manifest of a wanted object with all its metadata, and the body of an apply to an existing
//! object.

use baton_apis::constants::{
    ANNOTATION_REVISION, LABEL_CACHE, LABEL_CACHE_VALUE, LABEL_INSTANCE, LABEL_MANAGED_BY,
    LABEL_MANAGED_BY_VALUE, LABEL_PACKAGE,
};
use serde_json::Value;

use super::{Delivery, Desired, Revision};
use crate::{
    diff::{encode_texts, with_create_only, with_expanded, with_nulls_removed},
    object::{map_mut, metadata_mut},
    stop::is_switched_on,
};

/// Fields of an object that only a server sets, and that an apply must not contain.
const SERVER_SET: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Adds the metadata of every managed object, removes fields that only a server may set, and
/// encodes the texts of a Secret.
pub(super) fn complete(revision: &Revision, manifest: &mut Value) {
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("status");
    }
    encode_texts(manifest);
    let fields = metadata_mut(manifest);
    for field in SERVER_SET {
        fields.remove(field);
    }
    fields.remove("ownerReferences");
    if revision.delivery == Delivery::InProcess
        && revision.identity.is_namespaced()
        && fields
            .get("namespace")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
    {
        fields.insert(
            "namespace".to_owned(),
            revision.identity.namespace.clone().into(),
        );
    }
    let mut metadata = Value::Object(std::mem::take(fields));
    let labels = map_mut(&mut metadata, "labels");
    labels.insert(LABEL_CACHE.to_owned(), LABEL_CACHE_VALUE.into());
    if revision.delivery != Delivery::InProcess {
        // A value of the user is not changed.
        labels
            .entry(LABEL_MANAGED_BY)
            .or_insert_with(|| LABEL_MANAGED_BY_VALUE.into());
    }
    for (label, value) in [
        (LABEL_PACKAGE, &revision.package),
        (LABEL_INSTANCE, &revision.instance),
    ] {
        if let Some(value) = value {
            labels.insert(label.to_owned(), value.clone().into());
        }
    }
    map_mut(&mut metadata, "annotations").insert(
        ANNOTATION_REVISION.to_owned(),
        revision.number.to_string().into(),
    );
    manifest["metadata"] = metadata;
}

impl Desired {
    /// The body of an apply to the live object, without owner references. Fields that are left to
    /// others are left out, or have their live values while our manager owns them.
    pub fn body(&self, live: &Value) -> Value {
        let mut body = self.manifest.clone();
        let left = self.create_only.iter();
        let left: Vec<_> = left
            .filter(|path| !is_switched_on(live, path))
            .cloned()
            .collect();
        with_create_only(&mut body, live, &left);
        with_expanded(&mut body, live);
        with_nulls_removed(&mut body, live);
        body
    }
}
