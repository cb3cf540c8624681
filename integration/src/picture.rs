//! Objects as text, to compare the results of two runs.

use serde_json::Value;

/// Removes times and resource versions at all depths. Objects also lose their UID, but references
/// keep theirs.
pub fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in [
                "resourceVersion",
                "creationTimestamp",
                "lastTransitionTime",
                "time",
            ] {
                fields.remove(field);
            }
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("uid");
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(forget);
            if items.iter().all(|item| item.get("manager").is_some()) {
                items.sort_by_key(Value::to_string);
            }
        }
        _ => {}
    }
}

/// Fails with the differences only; `text` names the circumstances.
#[track_caller]
pub fn assert_same(found: &[String], expected: &[String], text: &str) {
    let missing: Vec<_> = expected
        .iter()
        .filter(|text| !found.contains(text))
        .collect();
    let surplus: Vec<_> = found
        .iter()
        .filter(|text| !expected.contains(text))
        .collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "under {text} it was to be {missing:#?}\nand is {surplus:#?}"
    );
}
