//! Operations of JSON patches, by the keys that lead to a field.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use serde_json::Value;

/// The path to a field. Keys may have any characters.
fn path(keys: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(keys.iter().copied())
}

/// Refuses the patch unless a field has this value.
pub fn test(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Test(TestOperation { path, value })
}

/// Sets a field, or inserts into a list; `-` is its end.
pub fn add(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Add(AddOperation { path, value })
}

/// Replaces the value of a field that exists.
pub fn replace(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Replace(ReplaceOperation { path, value })
}

/// Removes a field that exists.
pub fn remove(keys: &[&str]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: path(keys) })
}
