//! The state of an object that a decision is about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The spec of an object at one time, by any author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecVersion {
    /// UID of the object.
    pub uid: String,
    /// Number of the spec.
    pub generation: Option<i64>,
}

impl SpecVersion {
    /// The state of an object.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation,
        }
    }
}
