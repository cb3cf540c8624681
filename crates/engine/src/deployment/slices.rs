//! Slices of a deployment's revisions: the objects of large phases.
//!
//! The cost of a write of a revision grows with its length, and a revision is written about ten
//! times. A slice is written twice, and revisions with the same phase share it.

use baton_apis::{ObjectSetSpec, ObjectSetTemplateSpec};
use serde_json::{Value, json};

use super::template::hash;

/// Number of JSON values that make a phase worth its own slice.
///
/// Below it, the requests about the slice cost more than it saves. The cost of a write depends on
/// the number of values more than on their length. A small `ConfigMap` has ten values, a
/// `Deployment` fifty.
pub const MIN_VALUES: usize = 128;

/// Number of bytes that make a phase worth its own slice: each write of a revision stores one more
/// copy.
pub const MIN_BYTES: usize = 16 * 1024;

/// The phases of a template whose inline objects belong in a slice: index and objects.
pub fn large_phases(template: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let phases = template.pointer("/spec/phases").and_then(Value::as_array);
    let phases = phases.into_iter().flatten().enumerate();
    phases.filter_map(|(at, phase)| {
        let objects = phase.get("objects")?;
        is_large(objects).then_some((at, objects))
    })
}

fn is_large(objects: &Value) -> bool {
    let (mut values, mut bytes) = (0, 0);
    let mut left = vec![objects];
    while let Some(value) = left.pop() {
        values += 1;
        match value {
            Value::Array(list) => left.extend(list),
            Value::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                left.extend(map.values());
            }
            Value::String(text) => bytes += text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if values >= MIN_VALUES || bytes >= MIN_BYTES {
            return true;
        }
    }
    false
}

/// The name of the slice with these objects, if the first `taken` names are taken.
///
/// # Guarantees
/// Equal objects have equal names, so that revisions find the slices of their predecessors.
pub fn name(deployment: &str, objects: &Value, taken: i32) -> String {
    format!("{deployment}-{}", hash(objects, taken))
}

/// Replaces the inline objects of a phase by a slice. The slice goes first, because objects of
/// slices follow inline objects.
pub fn replace_objects(spec: &mut Value, phase: usize, slice: &str) {
    let Some(phase) = spec.pointer_mut(&format!("/phases/{phase}")) else {
        return;
    };
    let mut slices = vec![json!(slice)];
    slices.extend(phase["slices"].as_array().into_iter().flatten().cloned());
    phase["slices"] = slices.into();
    if let Some(phase) = phase.as_object_mut() {
        phase.remove("objects");
    }
}

/// The names of the slices that may contain the template's inline objects, in the order of their
/// phases.
pub fn instead_of_objects<'a>(
    revision: &'a ObjectSetSpec,
    template: &'a ObjectSetTemplateSpec,
) -> impl Iterator<Item = &'a str> {
    let ones = revision.phases.iter().flatten();
    let others = template.phases.iter().flatten();
    ones.zip(others).filter_map(|(one, other)| {
        let has_one_more = one.slices.get(1..) == Some(other.slices.as_slice());
        let slice = one.slices.first().filter(|_| has_one_more);
        slice.filter(|_| one.objects.is_empty()).map(String::as_str)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_with_many_values_or_bytes_are_moved_into_slices() {
        let object = |length: usize| json!({"object": {"kind": "ConfigMap", "data": {"k": "x".repeat(length)}}});
        // Each object has five values.
        let many = vec![object(1); MIN_VALUES.div_ceil(5)];
        let long = vec![object(MIN_BYTES)];
        let small = vec![object(10)];
        let phases = [&many, &small, &long].map(|objects| json!({"name": "p", "objects": objects}));
        let template = json!({"spec": {"phases": phases}});
        let large: Vec<_> = large_phases(&template).map(|(at, _)| at).collect();
        assert_eq!(large, [0, 2]);
        for template in [
            json!({}),
            json!({"spec": {"phases": [{"name": "p", "slices": ["s"]}]}}),
        ] {
            assert_eq!(large_phases(&template).count(), 0);
        }
    }

    /// Existing slices are found by these names.
    #[test]
    fn names_never_change() {
        let objects = json!([{"object": {"kind": "ConfigMap", "data": {"k": "v"}}}]);
        let names = [0, 1].map(|taken| name("web", &objects, taken));
        assert_eq!(names, PINNED);
        assert_ne!(name("web", &json!([]), 0), PINNED[0]);
    }

    const PINNED: [&str; 2] = ["web-59b4d6bbbc", "web-5ddf6d7dd"];

    #[test]
    fn objects_keep_their_order() {
        let mut spec = json!({"phases": [
            {"name": "a", "objects": [1], "slices": ["own"]},
            {"name": "b", "class": "default", "objects": [2]},
        ]});
        replace_objects(&mut spec, 0, "web-1");
        replace_objects(&mut spec, 1, "web-2");
        let expected = json!({"phases": [
            {"name": "a", "slices": ["web-1", "own"]},
            {"name": "b", "class": "default", "slices": ["web-2"]},
        ]});
        assert_eq!(spec, expected);
    }

    #[test]
    fn slices_before_those_of_the_template_replace_inline_objects() {
        let revision: ObjectSetSpec = serde_json::from_value(json!({"phases": [
            {"name": "a", "slices": ["web-1", "own"]},
            {"name": "b", "slices": ["own"]},
            {"name": "c", "slices": ["other"], "objects": [{"object": {}}]},
            {"name": "d", "slices": ["web-2"]},
        ]}))
        .unwrap();
        let template: ObjectSetTemplateSpec = serde_json::from_value(json!({"phases": [
            {"name": "a", "slices": ["own"], "objects": [{"object": {}}]},
            {"name": "b", "slices": ["own"]},
            {"name": "c"},
            {"name": "d", "objects": [{"object": {}}]},
        ]}))
        .unwrap();
        let found: Vec<_> = instead_of_objects(&revision, &template).collect();
        assert_eq!(found, ["web-1", "web-2"]);
    }
}
