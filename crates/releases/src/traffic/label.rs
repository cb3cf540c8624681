//! The label that lets a pod have traffic.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::{
    ANNOTATION_POD_DELETION_COST, LABEL_TRAFFIC_STATUS, TRAFFIC_DISABLED, TRAFFIC_ENABLED,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Pods without traffic are deleted before pods that cost nothing to delete.
const COST_WITHOUT_TRAFFIC: &str = "-1";

/// Whether the labels of a pod let it have traffic.
#[must_use]
pub fn is_enabled(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get(LABEL_TRAFFIC_STATUS)
        .is_some_and(|value| value == TRAFFIC_ENABLED)
}

/// The JSON patch that sets the label of a pod with these labels, unless it has it already. Other labels stay.
#[must_use]
pub fn patch(labels: &BTreeMap<String, String>, enable: bool) -> Option<Value> {
    let value = if enable {
        TRAFFIC_ENABLED
    } else {
        TRAFFIC_DISABLED
    };
    let op = match labels.get(LABEL_TRAFFIC_STATUS) {
        Some(found) if found == value => return None,
        Some(_) => "replace",
        None => "add",
    };
    // A pod is found by its labels, so it has some.
    let path = format!("/metadata/labels/{LABEL_TRAFFIC_STATUS}");
    Some(json!([{"op": op, "path": path, "value": value}]))
}

/// The operations of a JSON patch by which a Deployment that shrinks gives up pods without traffic first. A cost that
/// somebody else has set stays.
///
/// The annotations of `pod` hold [`ANNOTATION_POD_DELETION_COST`] if the pod has it, and are `None` only if it has no
/// annotation at all.
#[must_use]
pub fn cost_patch(pod: &ObjectMeta, enable: bool) -> Vec<Value> {
    let path = format!(
        "/metadata/annotations/{}",
        ANNOTATION_POD_DELETION_COST.replace('/', "~1")
    );
    let Some(annotations) = &pod.annotations else {
        if enable {
            return Vec::new();
        }
        let cost = json!({ ANNOTATION_POD_DELETION_COST: COST_WITHOUT_TRAFFIC });
        // Annotations that the pod got meanwhile would be lost.
        return vec![
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": pod.resource_version}),
            json!({"op": "add", "path": "/metadata/annotations", "value": cost}),
        ];
    };
    match annotations.get(ANNOTATION_POD_DELETION_COST) {
        None if !enable => vec![json!({"op": "add", "path": path, "value": COST_WITHOUT_TRAFFIC})],
        Some(cost) if enable && cost == COST_WITHOUT_TRAFFIC => vec![
            json!({"op": "test", "path": path, "value": cost}),
            json!({"op": "remove", "path": path}),
        ],
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
            // Somebody else's.
            (Some(&theirs), false, json!([])),
            (Some(&theirs), true, json!([])),
        ] {
            let found = cost_patch(&pod(annotations), enable);
            assert_eq!(json!(found), expected, "{annotations:?} {enable}");
        }
    }
}
