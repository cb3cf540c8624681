//! The note that a manager leaves on its lease.

use serde::{Deserialize, Serialize};

/// The leading manager, as the annotation [`crate::constants::ANNOTATION_MANAGER`] of its lease has
/// it. A manager writes the note when it takes the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagerNote {
    /// Identity of the manager. If the lease has another holder, the note is of an earlier one.
    pub holder: String,
    /// Version of the manager.
    pub version: String,
    /// Namespace of the Secrets with the credentials of clusters; `None` if the manager does not
    /// report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters_namespace: Option<String>,
    /// Reason that the manager cannot render charts; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_missing: Option<String>,
}
