//! The label that enables traffic for a pod.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::{
    ANNOTATION_POD_DELETION_COST, LABEL_TRAFFIC_STATUS, TRAFFIC_DISABLED, TRAFFIC_ENABLED,
};
use baton_engine::operations::{add, remove, replace, test};
use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

/// The deletion cost of pods without traffic: they are deleted before pods with the default cost of
/// 0.
const COST_WITHOUT_TRAFFIC: &str = "-1";

/// Path of the label.
pub const LABEL: [&str; 3] = ["metadata", "labels", LABEL_TRAFFIC_STATUS];

/// True if the labels of a pod enable traffic.
pub fn is_enabled(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(LABEL_TRAFFIC_STATUS)
        .is_some_and(|value| value == TRAFFIC_ENABLED)
}

/// The operation that sets the label of a pod; `None` if the pod has the label already. Other
/// labels stay unchanged.
pub fn patch(labels: &BTreeMap<String, String>, enable: bool) -> Option<PatchOperation> {
    let value = if enable {
        TRAFFIC_ENABLED
    } else {
        TRAFFIC_DISABLED
    };
    match labels.get(LABEL_TRAFFIC_STATUS) {
        Some(found) if found == value => None,
        Some(_) => Some(replace(&LABEL, value)),
        // The pod was selected by labels, so it has some.
        None => Some(add(&LABEL, value)),
    }
}

/// The operations of a JSON patch that make a shrinking Deployment delete pods without traffic
/// first. A cost that another client has set stays unchanged.
///
/// The annotations of `pod` have to contain [`ANNOTATION_POD_DELETION_COST`] if the pod has it, and
/// may be `None` only if the pod has no annotation at all.
pub fn cost_patch(pod: &ObjectMeta, enable: bool) -> Vec<PatchOperation> {
    let path = ["metadata", "annotations", ANNOTATION_POD_DELETION_COST];
    let Some(annotations) = &pod.annotations else {
        if enable {
            return Vec::new();
        }
        let cost = json!({ ANNOTATION_POD_DELETION_COST: COST_WITHOUT_TRAFFIC });
        // Without the test, annotations that the pod got in the meantime would be lost.
        return vec![
            test(
                &["metadata", "resourceVersion"],
                pod.resource_version.clone(),
            ),
            add(&["metadata", "annotations"], cost),
        ];
    };
    match annotations.get(ANNOTATION_POD_DELETION_COST) {
        None if !enable => vec![add(&path, COST_WITHOUT_TRAFFIC)],
        Some(cost) if enable && cost == COST_WITHOUT_TRAFFIC => {
            vec![test(&path, cost.clone()), remove(&path)]
        }
        None | Some(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";

    fn pod(annotations: Option<&[(&str, &str)]>) -> ObjectMeta {
        ObjectMeta {
            resource_version: Some("7".into()),
            annotations: annotations.map(|all| {
                let all = all.iter();
                all.map(|&(key, value)| (key.to_owned(), value.to_owned()))
                    .collect()
            }),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_pod_without_traffic_is_deleted_first() {
        let cost = |value| vec![(ANNOTATION_POD_DELETION_COST, value)];
        let (ours, theirs) = (cost(COST_WITHOUT_TRAFFIC), cost("100"));
        for (annotations, enable, expected) in [
            (
                None,
                false,
                json!([
                    {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                    {"op": "add", "path": "/metadata/annotations", "value": {ANNOTATION_POD_DELETION_COST: "-1"}},
                ]),
            ),
            (None, true, json!([])),
            (
                Some(&[][..]),
                false,
                json!([{"op": "add", "path": PATH, "value": "-1"}]),
            ),
            (Some(&[]), true, json!([])),
            (Some(&ours), false, json!([])),
            (
                Some(&ours),
                true,
                json!([
                    {"op": "test", "path": PATH, "value": "-1"},
                    {"op": "remove", "path": PATH},
                ]),
            ),
            // The cost was set by another client.
            (Some(&theirs), false, json!([])),
            (Some(&theirs), true, json!([])),
        ] {
            let found = cost_patch(&pod(annotations), enable);
            assert_eq!(json!(found), expected, "{annotations:?} {enable}");
        }
    }
}
