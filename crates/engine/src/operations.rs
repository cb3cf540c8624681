//! Operations of JSON patches on a field, given by its keys.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use serde_json::Value;

/// The path to a field. Keys may contain any characters.
fn path(keys: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(keys.iter().copied())
}

/// Refuses the patch unless the field has this value.
pub fn test(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Test(TestOperation { path, value })
}

/// Sets a field, or inserts into a list; the key `-` is the end of a list.
pub fn add(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Add(AddOperation { path, value })
}

/// Replaces the value of an existing field.
pub fn replace(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Replace(ReplaceOperation { path, value })
}

/// Removes an existing field.
pub fn remove(keys: &[&str]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: path(keys) })
}
