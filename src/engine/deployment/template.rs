//! Whether a revision is what the template asks for, and the names that are made from templates.

use std::collections::BTreeMap;

use baton_apis::{ObjectSetSpec, ObjectSetTemplateSpec};
use serde_json::{Value, json};

use crate::engine::diff::content_fingerprint;

/// The letters that stand for the decimal digits. No vowels and nothing that could be mistaken for
/// one, so that no name ever contains a word.
const DIGITS: &[u8; 10] = b"456789bcdf";

/// The hash of a template after so many collisions, as names of revisions end in it: one to ten
/// characters of `[4-9bcdf]` (contract 5.2).
///
/// # Guarantees
/// Blind to the order of keys, and the same in every version of Baton for the same template. It
/// only makes names: whether a revision is outdated is decided by its content.
#[must_use]
pub fn hash(template: &Value, collision_count: i32) -> String {
    let fingerprint = content_fingerprint(&json!([template, collision_count]));
    let short = (fingerprint >> 32) ^ (fingerprint & u64::from(u32::MAX));
    let digit = |digit: u8| char::from(DIGITS[usize::from(digit - b'0')]);
    short.to_string().bytes().map(digit).collect()
}

/// A digest of the template's metadata. A change in it asks for a new revision even when the
/// content stays the same: that is how a restart is forced.
#[must_use]
pub fn metadata_digest(template: &Value) -> String {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    format!("{:016x}", content_fingerprint(metadata))
}

/// Whether a revision's content is what the template asks for. An absent list and an empty one are
/// the same, and so are an absent delay and none.
#[must_use]
pub fn same_content(revision: &ObjectSetSpec, template: &ObjectSetTemplateSpec) -> bool {
    let ObjectSetSpec {
        phases,
        availability_probes,
        success_delay_seconds,
        // Not content but place and state.
        lifecycle_state: _,
        previous: _,
        revision: _,
    } = revision;
    phases.as_deref().unwrap_or_default() == template.phases.as_deref().unwrap_or_default()
        && availability_probes.as_deref().unwrap_or_default()
            == template.availability_probes.as_deref().unwrap_or_default()
        && success_delay_seconds.unwrap_or(0) == template.success_delay_seconds.unwrap_or(0)
}

/// Whether a revision without a digest, one that another implementation made, can have come from
/// a template with these labels.
#[must_use]
pub fn has_labels(
    revision: &BTreeMap<String, String>,
    template: &BTreeMap<String, String>,
) -> bool {
    template
        .iter()
        .all(|(name, value)| revision.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "phases": [{"name": "config", "objects": [{"object": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "settings"}, "data": {"colour": "blue", "size": "7"},
                }}]}],
                "successDelaySeconds": 5,
            },
        })
    }

    /// Names of existing revisions are made from these hashes. Should one change, a rollback to a
    /// template would not notice that its old name is taken and merely choose another one; still,
    /// a change is a mistake.
    #[test]
    fn hashes_never_change() {
        let hashes: Vec<_> = [0, 1, 2].map(|count| hash(&template(), count)).into();
        assert_eq!(hashes, PINNED);
        assert_eq!(metadata_digest(&template()), PINNED_DIGEST);
    }

    const PINNED: [&str; 3] = ["6b74f8478d", "6f5cbdd4d7", "6c5c57f4cf"];
    const PINNED_DIGEST: &str = "b8123e4d38c9117c";

    #[test]
    fn hashes_are_names() {
        for count in 0..2000 {
            let hash = hash(&template(), count);
            assert!((1..=10).contains(&hash.len()), "{hash}");
            assert!(hash.bytes().all(|byte| DIGITS.contains(&byte)), "{hash}");
        }
    }

    #[test]
    fn hashes_differ_with_any_part_of_the_template() {
        let mut other = template();
        other["metadata"]["annotations"] = json!({"baton.run/restartedAt": "now"});
        assert_ne!(hash(&template(), 0), hash(&other, 0));
        assert_ne!(metadata_digest(&template()), metadata_digest(&other));
        let mut other = template();
        other["spec"]["successDelaySeconds"] = json!(6);
        assert_ne!(hash(&template(), 0), hash(&other, 0));
        assert_eq!(metadata_digest(&template()), metadata_digest(&other));
    }

    #[test]
    fn content_is_compared_by_meaning() {
        let spec = |value: Value| serde_json::from_value::<ObjectSetSpec>(value).unwrap();
        let wanted = |value: Value| serde_json::from_value::<ObjectSetTemplateSpec>(value).unwrap();
        let content = template()["spec"].clone();
        let mut revision = content.clone();
        revision["revision"] = json!(3);
        revision["previous"] = json!([{"name": "web-1"}]);
        revision["lifecycleState"] = json!("Paused");
        revision["availabilityProbes"] = json!([]);
        assert!(same_content(
            &spec(revision.clone()),
            &wanted(content.clone())
        ));
        revision["phases"][0]["objects"][0]["object"]["data"]["size"] = json!("8");
        assert!(!same_content(&spec(revision), &wanted(content)));
        assert!(same_content(
            &spec(json!({})),
            &wanted(json!({"successDelaySeconds": 0, "phases": []}))
        ));
    }
}
