//! The parts of an object that controllers read before its kind is known, borrowed from its text.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

/// True if the metadata that a server returned is that of the object with this UID, and the object
/// is not being deleted. `None` means that the server has no object of that name.
#[must_use]
pub fn is_live(found: Option<&ObjectMeta>, uid: &str) -> bool {
    found.is_some_and(|it| it.uid.as_deref() == Some(uid) && it.deletion_timestamp.is_none())
}

/// An object of any kind.
#[derive(Debug, Deserialize)]
pub struct Object<'a> {
    /// Metadata of the object.
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
    /// Spec, not parsed.
    #[serde(borrow)]
    pub spec: Option<&'a RawValue>,
    /// Status, not parsed.
    #[serde(borrow)]
    pub status: Option<&'a RawValue>,
}

/// The metadata of an object. Lists and maps are stored as text until they are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    /// Name; bookmarks of a watch have none.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(borrow)]
    pub namespace: Cow<'a, str>,
    /// UID.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// Version of the whole object.
    #[serde(borrow)]
    pub resource_version: Cow<'a, str>,
    /// Number of changes of the spec.
    pub generation: i64,
    /// Time of its creation.
    pub creation_timestamp: Option<Timestamp>,
    /// Time at which its deletion began.
    pub deletion_timestamp: Option<Timestamp>,
    /// The text of its finalizers.
    #[serde(borrow)]
    pub finalizers: Option<&'a RawValue>,
    /// The text of its labels.
    #[serde(borrow)]
    pub labels: Option<&'a RawValue>,
    /// The text of its annotations.
    #[serde(borrow)]
    pub annotations: Option<&'a RawValue>,
    /// The text of its owner references.
    #[serde(borrow)]
    pub owner_references: Option<&'a RawValue>,
}

impl<'a> Metadata<'a> {
    /// Reads the metadata of an object.
    ///
    /// # Errors
    /// If the text is no object with metadata.
    pub fn of(object: &'a str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct WithMetadata<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        serde_json::from_str(object).map(|WithMetadata { metadata }| metadata)
    }

    /// The version as a number. The versions of one resource are comparable.
    pub fn version(&self) -> u64 {
        number(&self.resource_version)
    }

    /// The finalizers.
    ///
    /// # Errors
    /// If they are no list of strings.
    pub fn finalizers(&self) -> Result<Vec<String>, serde_json::Error> {
        parsed(self.finalizers)
    }

    /// The labels.
    ///
    /// # Errors
    /// If they are no map of strings.
    pub fn labels(&self) -> Result<BTreeMap<String, String>, serde_json::Error> {
        parsed(self.labels)
    }

    /// The annotations.
    ///
    /// # Errors
    /// If they are no map of strings.
    pub fn annotations(&self) -> Result<BTreeMap<String, String>, serde_json::Error> {
        parsed(self.annotations)
    }

    /// The owners, controllers or not.
    ///
    /// # Errors
    /// If they are no list of references.
    pub fn owners(&self) -> Result<Vec<OwnerReference<'a>>, serde_json::Error> {
        parsed(self.owner_references)
    }
}

/// An entry of `ownerReferences`, or of the annotation that replaces it in another cluster.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    /// Group and version.
    #[serde(borrow, default)]
    pub api_version: Cow<'a, str>,
    /// Kind.
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    /// Name.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// UID.
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    /// True if the owner is the controller of the object.
    pub controller: Option<bool>,
}

/// A `resourceVersion` as a number; 0 if it is none. Versions of one resource are comparable
/// integers; since Kubernetes 1.35 that is part of the API.
pub fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

fn parsed<'a, T: Default + Deserialize<'a>>(
    raw: Option<&'a RawValue>,
) -> Result<T, serde_json::Error> {
    raw.map_or_else(|| Ok(T::default()), |raw| serde_json::from_str(raw.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_metadata_is_empty() {
        let bookmark = r#"{"kind":"X","metadata":{"resourceVersion":"12"}}"#;
        let metadata = Metadata::of(bookmark).unwrap();
        assert_eq!((metadata.name.as_ref(), metadata.version()), ("", 12));
        assert!(metadata.owners().unwrap().is_empty() && metadata.labels().unwrap().is_empty());
        assert!(Metadata::of("{}").is_err());
    }

    #[test]
    fn lists_and_maps_are_read_on_demand() {
        let object = r#"{"metadata":{"name":"a","labels":{"k":"\u00e4"},"finalizers":["f"],"annotations":7,
            "ownerReferences":[{"kind":"K","name":"o","uid":"u","controller":true}]},"spec":{"x":1}}"#;
        let Object { metadata, spec, .. } = serde_json::from_str(object).unwrap();
        assert_eq!(metadata.labels().unwrap()["k"], "ä");
        assert_eq!(metadata.finalizers().unwrap(), ["f"]);
        assert_eq!(metadata.owners().unwrap()[0].controller, Some(true));
        assert!(metadata.annotations().is_err());
        assert_eq!(spec.unwrap().get(), r#"{"x":1}"#);
    }
}
