//! Objects that are kept when their revision ends.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`.

use baton_apis::constants::{ANNOTATION_DELETION, DELETION_KEEP};
use serde_json::Value;

use crate::object::annotation;

/// Annotations that keep an object: ours, and those of Helm and kapp.
const KEEP_ANNOTATIONS: [(&str, &str); 3] = [
    (ANNOTATION_DELETION, DELETION_KEEP),
    ("helm.sh/resource-policy", "keep"),
    ("kapp.k14s.io/delete-strategy", "orphan"),
];

/// True if an object is kept on deletion. An annotation in any of the given forms of the object is
/// enough.
pub fn is_kept<'v>(forms: impl IntoIterator<Item = &'v Value>) -> bool {
    forms.into_iter().any(says_keep)
}

fn says_keep(object: &Value) -> bool {
    KEEP_ANNOTATIONS.iter().any(|(name, value)| {
        // Helm compares in lower case and trims spaces.
        let found = annotation(object, name).trim();
        found.eq_ignore_ascii_case(value)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_of_baton_helm_and_kapp_keep_an_object() {
        for (annotation, value, expected) in [
            ("baton.run/deletion", "keep", true),
            ("baton.run/deletion", "delete", false),
            ("baton.run/deletion", "", false),
            ("helm.sh/resource-policy", "keep", true),
            ("helm.sh/resource-policy", " Keep ", true),
            ("helm.sh/resource-policy", "orphan", false),
            ("kapp.k14s.io/delete-strategy", "orphan", true),
            ("kapp.k14s.io/delete-strategy", "keep", false),
            ("other", "keep", false),
        ] {
            let object = json!({"metadata": {"annotations": {annotation: value}}});
            assert_eq!(is_kept([&object]), expected, "{annotation}: {value}");
        }
        for odd in [
            json!({}),
            json!({"metadata": {"annotations": ["baton.run/deletion"]}}),
        ] {
            assert!(!is_kept([&odd]));
        }
    }
}
