//! The content of a live object.

use baton_apis::constants::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_REVISION, LABEL_CACHE, LABEL_MANAGED_BY,
    LABEL_MANAGED_BY_VALUE,
};
use serde_json::Value;

/// Metadata that the server or the chain writes: it changes often, and no manifest sets it.
const METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes the status, and the metadata that a revision adds to all of its objects.
pub fn clean(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in METADATA {
            metadata.remove(field);
        }
    }
    remove(&mut object, "annotations", ANNOTATION_REVISION);
    remove(&mut object, "labels", LABEL_CACHE);
    // Objects of delegated phases get this label, unless they have their own value.
    let managed_by = object.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
    if managed_by.is_some_and(|value| value == LABEL_MANAGED_BY_VALUE) {
        remove(&mut object, "labels", LABEL_MANAGED_BY);
    }
    object
}

/// Cleans an object as [`clean`] does, and removes the manifest that `kubectl apply` stores in it.
pub fn clean_live(object: Value) -> Value {
    let mut object = clean(object);
    remove(&mut object, "annotations", ANNOTATION_LAST_APPLIED);
    object
}

/// Removes a label or an annotation. An empty map is removed as well.
fn remove(object: &mut Value, field: &str, name: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(values) = metadata.get_mut(field).and_then(Value::as_object_mut) {
        values.remove(name);
        if values.is_empty() {
            metadata.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_is_left() {
        let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        for (object, expected) in [
            (
                "{kind: K, status: {a: 1}, spec: {status: kept}, metadata: {name: n, uid: u, generation: 3,
                  resourceVersion: '4', creationTimestamp: t, managedFields: [], ownerReferences: [],
                  deletionTimestamp: shown, labels: {a: b},
                  annotations: {package-operator.run/revision: '2', mine: x}}}",
                "{kind: K, spec: {status: kept}, metadata: {name: n, deletionTimestamp: shown, labels: {a: b},
                  annotations: {mine: x}}}",
            ),
            (
                "{metadata: {name: n, annotations: {package-operator.run/revision: '2'}, labels: \
                     {package-operator.run/cache: 'True'}}}",
                "{metadata: {name: n}}",
            ),
            ("{metadata: x}", "{metadata: x}"),
            ("x", "x"),
        ] {
            assert_eq!(clean(yaml(object)), yaml(expected));
        }
        let applied = "{metadata: {name: n, annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}}";
        assert_eq!(clean(yaml(applied)), yaml(applied));
        assert_eq!(clean_live(yaml(applied)), yaml("{metadata: {name: n}}"));
    }
}
