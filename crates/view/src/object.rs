//! Texts in objects as servers return them.

use serde_json::Value;

/// The text at a JSON pointer; empty where there is none.
#[must_use]
pub fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The namespace, empty for cluster-scoped objects, and the name of an object.
#[must_use]
pub fn place(object: &Value) -> (String, String) {
    let text = |pointer| text_at(object, pointer).to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}
