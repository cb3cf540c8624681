//! Pieces of schema that the derive macros cannot express.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::constants::shipper::ENVIRONMENT_IS_CONSTANT;

/// Values of a chart: a map that the server neither validates nor prunes.
pub(super) fn values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The chart of a Release may not change. Values are no part of the schema, so the admission policy
/// `baton-release-environment` protects the rest of the environment.
pub(super) fn constant_chart() -> Rule {
    Rule::new("self.environment.chart == oldSelf.environment.chart")
        .message(ENVIRONMENT_IS_CONSTANT)
        .field_path(".environment")
}

/// A share of the traffic, relative to the shares of the other releases. Schemas have no unsigned
/// formats.
pub(super) fn weight(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "maximum": u32::MAX,
    })
}

/// True, False or Unknown; Shipper sometimes writes an empty text for Unknown.
pub(super) fn condition_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["True", "False", "Unknown", ""],
    })
}

/// Makes reason and message optional, without defaults that the server would fill in.
pub(super) fn without_texts(schema: &mut Schema) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "reason" && name != "message");
    }
}

/// Statuses of containers, as in the status of a pod. They are not validated, because the API
/// server of the pod has validated them.
pub(super) fn container_statuses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// A condition, as in the status of a pod.
pub(super) fn pod_condition(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
