//! Operations of JSON patches. Each function takes the keys on the path to a field, and returns one
//! operation.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use serde_json::Value;

/// The path to a field. Keys may contain any characters.
fn path(keys: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(keys.iter().copied())
}

/// The server refuses the patch unless the field has this value.
pub fn test(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Test(TestOperation { path, value })
}

/// Sets a field of a map, whether or not the field exists; or inserts an element into a list. The
/// key `-` is the end of the list.
pub fn add(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Add(AddOperation { path, value })
}

/// Replaces the value of a field. The server refuses the patch if the field does not exist.
pub fn replace(keys: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (path(keys), value.into());
    PatchOperation::Replace(ReplaceOperation { path, value })
}

/// Removes a field. The server refuses the patch if the field does not exist.
pub fn remove(keys: &[&str]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: path(keys) })
}
