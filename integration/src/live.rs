//! Functions that inspect a managed object.

use serde_json::Value;

use crate::manifest::Entry;
use crate::namespace::TestNamespace;
use crate::revision::Revision;

/// Returns the owner references of an object.
#[must_use]
pub fn owners(live: &Value) -> &[Value] {
    let owners = live["metadata"]["ownerReferences"].as_array();
    owners.map_or(&[], Vec::as_slice)
}

/// Returns the name of an object's controller, or an empty text if it has none.
#[must_use]
pub fn controller(live: &Value) -> &str {
    let controller = owners(live)
        .iter()
        .find(|owner| owner["controller"] == true);
    controller
        .and_then(|owner| owner["name"].as_str())
        .unwrap_or_default()
}

/// Returns the names of all owners.
#[must_use]
pub fn owner_names(live: &Value) -> Vec<&str> {
    owners(live)
        .iter()
        .filter_map(|owner| owner["name"].as_str())
        .collect()
}

/// Returns the number of the revision that wrote an object last, or an empty text if there is none.
#[must_use]
pub fn revision_annotation(live: &Value) -> &str {
    let annotation = &live["metadata"]["annotations"]["package-operator.run/revision"];
    annotation.as_str().unwrap_or_default()
}

/// True if the object has the label that the manager's watches select.
#[must_use]
pub fn is_labelled(live: &Value) -> bool {
    live["metadata"]["labels"]["package-operator.run/cache"] == "True"
}

/// Returns the UID of an object.
#[must_use]
pub fn uid(live: &Value) -> &str {
    live["metadata"]["uid"].as_str().unwrap_or_default()
}

/// True if an object has managed fields of a field manager.
#[must_use]
pub fn has_manager(live: &Value, manager: &str) -> bool {
    let entries = live["metadata"]["managedFields"].as_array();
    entries
        .into_iter()
        .flatten()
        .any(|entry| entry["manager"] == manager)
}

/// Fails unless an object has the metadata that a revision writes: label, annotation and owner
/// reference.
pub fn assert_managed_by(live: &Value, revision: &Revision) {
    let number = revision.number().unwrap_or_default().to_string();
    assert!(is_labelled(live), "{live}");
    assert_eq!(revision_annotation(live), number, "{live}");
    let reference = serde_json::json!({
        "apiVersion": "package-operator.run/v1alpha1",
        "kind": revision.json["kind"],
        "name": revision.name(),
        "uid": revision.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    assert!(owners(live).contains(&reference), "{live}");
}

impl TestNamespace {
    /// Waits until a revision controls an object, and returns the object.
    pub async fn controlled_by(&self, entry: &Entry, set: &str) -> Value {
        let name = self.set_name(set);
        let text = format!("controlled by {name}");
        self.object_becomes(entry, &text, |live| controller(live) == name)
            .await
    }
}
