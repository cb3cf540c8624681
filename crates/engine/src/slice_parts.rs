//! The distribution of a revision's objects over slices, and the namespaces of these objects.

use baton_apis::ObjectSetObject;
use serde_json::{Value, json};

/// Bytes of manifests in a slice: a fraction of the limit of an object, because the revision of
/// another cluster gets a copy of a phase.
const SLICE_BYTES: usize = 256 * 1024;

/// Splits objects into parts in their order, each part as large as allowed.
pub fn in_parts(objects: Vec<ObjectSetObject>) -> Vec<Vec<ObjectSetObject>> {
    let mut parts: Vec<Vec<ObjectSetObject>> = Vec::new();
    let mut length = 0;
    for object in objects {
        let own = object.object.to_string().len();
        match parts.last_mut() {
            Some(last) if length + own <= SLICE_BYTES => last.push(object),
            _ => {
                length = 0;
                parts.push(vec![object]);
            }
        }
        length += own;
    }
    parts
}

/// Common built-in kinds whose objects have no namespace.
const CLUSTER_SCOPED: [&str; 13] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
];

/// Sets the namespace of an object, unless its built-in kind has none. The kinds of another cluster
/// are not looked up.
pub fn placed(mut object: Value, namespace: &str) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default();
    if CLUSTER_SCOPED.contains(&kind) {
        return object;
    }
    // A value that is no manifest is refused on delivery.
    let metadata = object.as_object_mut().map(|object| {
        let metadata = object.entry("metadata");
        metadata.or_insert_with(|| json!({}))
    });
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    object
}

/// Like [`placed`], for objects that may have their own namespace.
pub fn placed_by_default(object: Value, namespace: &str) -> Value {
    match object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
    {
        None | Some("") => placed(object, namespace),
        Some(_) => object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: usize) -> ObjectSetObject {
        ObjectSetObject {
            object: json!("x".repeat(bytes)),
            ..ObjectSetObject::default()
        }
    }

    #[test]
    fn parts_are_bounded_and_keep_the_order() {
        let kb = 1024;
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![10, 20], vec![2]),
            (vec![100 * kb, 100 * kb, 100 * kb], vec![2, 1]),
            (vec![300 * kb, 10], vec![1, 1]),
            (vec![10, 300 * kb], vec![1, 1]),
        ] {
            let parts = in_parts(sizes.iter().map(|size| object(*size)).collect());
            let lengths: Vec<_> = parts.iter().map(Vec::len).collect();
            assert_eq!(lengths, expected, "{sizes:?}");
            let order: Vec<_> = parts
                .iter()
                .flatten()
                .map(|it| it.object.to_string().len() - 2)
                .collect();
            assert_eq!(order, sizes);
        }
    }

    #[test]
    fn objects_are_in_a_namespace_unless_their_kind_has_none() {
        let object = |kind: &str, namespace: &str| {
            let metadata = json!({"name": "a", "namespace": namespace});
            json!({"kind": kind, "metadata": metadata})
        };
        for (kind, namespace, always, by_default) in [
            ("ConfigMap", "", "shop", "shop"),
            ("ConfigMap", "other", "shop", "other"),
            ("ClusterRole", "", "", ""),
        ] {
            let given = object(kind, namespace);
            assert_eq!(placed(given.clone(), "shop"), object(kind, always));
            assert_eq!(placed_by_default(given, "shop"), object(kind, by_default));
        }
        for odd in [json!("text"), json!({"metadata": "text"})] {
            assert_eq!(placed(odd.clone(), "shop"), odd);
        }
    }
}
