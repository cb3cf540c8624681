//! The label that lets a pod have traffic.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::{LABEL_TRAFFIC_STATUS, TRAFFIC_DISABLED, TRAFFIC_ENABLED};
use serde_json::{Value, json};

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
