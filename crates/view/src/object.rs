//! Texts and times in objects as servers return them.

use jiff::Timestamp;
use serde_json::Value;

/// The text at a JSON pointer; empty if there is none.
pub fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The time at a JSON pointer, if there is one.
pub fn time_at(object: &Value, pointer: &str) -> Option<Timestamp> {
    text_at(object, pointer).parse().ok()
}

/// The namespace, empty for cluster-scoped objects, and the name of an object.
pub fn namespaced_name(object: &Value) -> (String, String) {
    let text = |pointer| text_at(object, pointer).to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}
