//! Comparison of a revision with the template, and the hashes of a template.

use std::collections::BTreeMap;

use baton_apis::{ObjectSetObject, ObjectSetSpec, ObjectSetTemplatePhase, ObjectSetTemplateSpec};
use serde_json::{Value, json};

use crate::diff::content_fingerprint;

/// The characters that stand for the decimal digits: no vowels and none that look like one, so that
/// no name can be read as a word.
const DIGITS: &[u8; 10] = b"456789bcdf";

/// The hash that is the end of a revision's name: of the template, and of the number of names that
/// were already in use. It has one to ten characters of `[4-9bcdf]`.
///
/// # Guarantees
/// The hash is independent of the order of keys, and the same in every version of Baton. It is only
/// used for names. [`same_content`] decides if a revision is outdated.
pub fn hash(template: &Value, collision_count: i32) -> String {
    let fingerprint = content_fingerprint(&json!([template, collision_count]));
    let short = (fingerprint >> 32) ^ (fingerprint & u64::from(u32::MAX));
    let digit = |digit: u8| char::from(DIGITS[usize::from(digit - b'0')]);
    short.to_string().bytes().map(digit).collect()
}

/// A digest of the template's metadata. If the metadata changes, a new revision is created even if
/// the content is unchanged, so that a restart can be forced.
pub fn metadata_digest(template: &Value) -> String {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    format!("{:016x}", content_fingerprint(metadata))
}

/// True if a revision has the content of the template.
///
/// An absent list equals an empty one, and an absent delay equals 0. Inline objects of the template
/// equal the same objects in a slice of the revision: `slices` contains the objects of the slices
/// that [`slices::instead_of_objects`](super::slices::instead_of_objects) returns, by name.
pub fn same_content(
    revision: &ObjectSetSpec,
    template: &ObjectSetTemplateSpec,
    slices: &BTreeMap<String, Vec<ObjectSetObject>>,
) -> bool {
    let ObjectSetSpec {
        phases,
        availability_probes,
        success_delay_seconds,
        service_account_name,
        // The position in the chain and the state are no content.
        lifecycle_state: _,
        previous: _,
        revision: _,
    } = revision;
    let wanted = template.phases.as_deref().unwrap_or_default();
    same_phases(phases.as_deref().unwrap_or_default(), wanted, slices)
        && availability_probes.as_deref().unwrap_or_default()
            == template.availability_probes.as_deref().unwrap_or_default()
        && success_delay_seconds.unwrap_or(0) == template.success_delay_seconds.unwrap_or(0)
        && *service_account_name == template.service_account_name
}

fn same_phases(
    ones: &[ObjectSetTemplatePhase],
    others: &[ObjectSetTemplatePhase],
    contents: &BTreeMap<String, Vec<ObjectSetObject>>,
) -> bool {
    let same = |one: &ObjectSetTemplatePhase, other: &ObjectSetTemplatePhase| {
        let ObjectSetTemplatePhase {
            name,
            class,
            objects,
            slices,
        } = one;
        let in_slice = || {
            let (first, rest) = slices.split_first()?;
            (objects.is_empty() && *rest == *other.slices).then(|| contents.get(first))?
        };
        let same_objects = if *slices == other.slices {
            same_objects(objects, &other.objects)
        } else {
            in_slice().is_some_and(|objects| same_objects(objects, &other.objects))
        };
        *name == other.name && *class == other.class && same_objects
    };
    ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| same(one, other))
}

/// True if two lists of objects have the same content. Empty fields of metadata are ignored.
pub fn same_objects(ones: &[ObjectSetObject], others: &[ObjectSetObject]) -> bool {
    let same = |one: &ObjectSetObject, other: &ObjectSetObject| {
        let ObjectSetObject {
            object,
            collision_protection,
            condition_mappings,
            create_only_fields,
        } = one;
        *collision_protection == other.collision_protection
            && *condition_mappings == other.condition_mappings
            && *create_only_fields == other.create_only_fields
            && (*object == other.object || comparable(object) == comparable(&other.object))
    };
    ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| same(one, other))
}

/// A manifest without the empty fields of its metadata.
///
/// Servers used to drop these from embedded manifests, and still do if the definitions are those of
/// Package Operator, so a revision may lack fields that its template has.
fn comparable(manifest: &Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !is_empty(value));
    }
    manifest
}

/// True if `revision`, the labels of a revision, contains all labels of a template.
///
/// Other implementations store no digest of the metadata. Their revisions can only be compared with
/// the template by labels.
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

    /// The names of existing revisions contain these hashes, so a change of them is a mistake.
    #[test]
    fn hashes_never_change() {
        let hashes: Vec<_> = [0, 1, 2].map(|count| hash(&template(), count)).into();
        assert_eq!(hashes, PINNED);
        assert_eq!(metadata_digest(&template()), PINNED_DIGEST);
    }

    const PINNED: [&str; 3] = ["6b74f8478d", "6f5cbdd4d7", "6c5c57f4cf"];
    const PINNED_DIGEST: &str = "b8123e4d38c9117c";

    #[test]
    fn hashes_are_valid_in_names() {
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
        let same_content = |revision: &ObjectSetSpec, template: &ObjectSetTemplateSpec| {
            same_content(revision, template, &BTreeMap::new())
        };
        assert!(same_content(
            &spec(revision.clone()),
            &wanted(content.clone())
        ));
        revision["phases"][0]["objects"][0]["object"]["data"]["size"] = json!("8");
        assert!(!same_content(&spec(revision), &wanted(content.clone())));
        let mut account = content.clone();
        account["serviceAccountName"] = json!("deployer");
        assert!(!same_content(&spec(content), &wanted(account.clone())));
        assert!(same_content(&spec(account.clone()), &wanted(account)));
        let mut padded = template()["spec"].clone();
        let metadata = &mut padded["phases"][0]["objects"][0]["object"]["metadata"];
        metadata["creationTimestamp"] = Value::Null;
        metadata["labels"] = json!({});
        assert!(same_content(
            &spec(template()["spec"].clone()),
            &wanted(padded.clone())
        ));
        padded["phases"][0]["objects"][0]["object"]["metadata"]["labels"] = json!({"a": "b"});
        assert!(!same_content(
            &spec(template()["spec"].clone()),
            &wanted(padded)
        ));
        assert!(same_content(
            &spec(json!({})),
            &wanted(json!({"successDelaySeconds": 0, "phases": []}))
        ));
    }

    #[test]
    fn objects_in_a_slice_are_the_same_as_inline_ones() {
        let wanted: ObjectSetTemplateSpec =
            serde_json::from_value(template()["spec"].clone()).unwrap();
        let objects = wanted
            .phases
            .iter()
            .flatten()
            .next()
            .unwrap()
            .objects
            .clone();
        let mut other = objects.clone();
        other[0].object["data"]["size"] = json!("8");
        let revision = |slices: Value| {
            let phase = json!({"name": "config", "slices": slices});
            serde_json::from_value::<ObjectSetSpec>(
                json!({"phases": [phase], "successDelaySeconds": 5}),
            )
            .unwrap()
        };
        let slices = BTreeMap::from([("same".to_owned(), objects), ("other".to_owned(), other)]);
        for (names, expected) in [
            (json!(["same"]), true),
            (json!(["other"]), false),
            (json!(["lost"]), false),
            (json!(["same", "other"]), false),
            (json!([]), false),
        ] {
            let revision = revision(names.clone());
            assert_eq!(
                same_content(&revision, &wanted, &slices),
                expected,
                "{names}"
            );
        }
    }
}
