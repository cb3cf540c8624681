//! Removes fields that servers and controllers set in the specs of certain kinds. With them, an
//! object could not be created anywhere else, or again.

use serde_json::{Map, Value};

/// Labels that connect a job with its pods.
const OF_JOB: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// Annotations by which a volume is found or made for a claim.
const OF_CLAIM: [&str; 5] = [
    "pv.kubernetes.io/bind-completed",
    BOUND_BY_CONTROLLER,
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
];

/// Marks a claim that did not name its volume itself.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Removes the fields from an object that was read from a server.
pub(super) fn strip(object: &mut Map<String, Value>) {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let id = (
        text("apiVersion").unwrap_or_default(),
        text("kind").unwrap_or_default(),
    );
    match id {
        ("v1", "Namespace") => {
            remove(object, &["spec"], &["finalizers"]);
            remove(
                object,
                &["metadata", "labels"],
                &["kubernetes.io/metadata.name"],
            );
        }
        ("v1", "PersistentVolumeClaim") => {
            if find(object, &["metadata", "annotations", BOUND_BY_CONTROLLER]).is_some() {
                remove(object, &["spec"], &["volumeName"]);
            }
            remove(object, &["metadata", "annotations"], &OF_CLAIM);
        }
        ("v1", "Pod") => remove(object, &["spec"], &["nodeName"]),
        // A service without an address is one on purpose.
        ("v1", "Service") if find(object, &["spec", "clusterIP"]) != Some(&"None".into()) => {
            remove(object, &["spec"], &["clusterIP", "clusterIPs"]);
        }
        ("batch/v1", "Job") if find(object, &["spec", "manualSelector"]) != Some(&true.into()) => {
            remove(object, &["spec"], &["selector"]);
            remove(object, &["metadata", "labels"], &OF_JOB);
            remove(object, &["spec", "template", "metadata", "labels"], &OF_JOB);
        }
        _ => {}
    }
}

fn find<'o>(object: &'o Map<String, Value>, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    let start = object.get(*first)?;
    rest.iter().try_fold(start, |value, key| value.get(key))
}

/// Removes keys from the map at a path, and then empty maps.
fn remove(object: &mut Map<String, Value>, path: &[&str], keys: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        object.retain(|key, _| !keys.contains(&key.as_str()));
        return;
    };
    if let Some(Value::Object(below)) = object.get_mut(*first) {
        let was_empty = below.is_empty();
        remove(below, rest, keys);
        if below.is_empty() && !was_empty {
            object.remove(*first);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_the_server_allocated_are_removed() {
        for (live, expected) in [
            (
                json!({
                    "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
                    "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a", "team": "b"}},
                }),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "b"}}}),
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "10.0.0.1",
                    "clusterIPs": ["10.0.0.1"], "type": "ClusterIP"}}),
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "ClusterIP"}}),
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            ),
            (
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "pv-1",
                        "storageClassName": "x"},
                    "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes",
                        "pv.kubernetes.io/bind-completed": "yes"}},
                }),
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"storageClassName": "x"}}),
            ),
            (
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "mine"},
                    "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "note": "a"}},
                }),
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "mine"},
                    "metadata": {"annotations": {"note": "a"}},
                }),
            ),
            (
                json!({
                    "apiVersion": "batch/v1", "kind": "Job",
                    "spec": {
                        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                        "template": {"metadata": {"labels": {"controller-uid": "u", "job-name": "a"}}, "spec": {}},
                    },
                }),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}}),
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"manualSelector": true,
                    "selector": {"a": "b"}}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"manualSelector": true,
                    "selector": {"a": "b"}}}),
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n", "volumes": []}}),
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": []}}),
            ),
        ] {
            let mut object = live.as_object().unwrap().clone();
            strip(&mut object);
            assert_eq!(Value::Object(object), expected);
        }
    }
}
