//! Slices of a deployment's revisions: the objects of large phases.
//!
//! The cost of a write of a revision grows with its length, and a revision is written about ten
//! times. A slice is written twice, and revisions with the same phase share it.

use std::time::Duration;

use baton_apis::{ObjectSetSpec, ObjectSetTemplateSpec};
use jiff::Timestamp;
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

/// Age at which a slice that nothing uses is deleted. It leaves a client time to create the object
/// that names the slice.
pub const UNUSED_AGE: Duration = Duration::from_hours(1);

/// The time after which a slice without a revision is checked again; `None` if it is to be deleted
/// now.
///
/// `is_named` is true if a revision or a template names the slice. Such a slice is never deleted,
/// nor is one without a time of creation.
pub fn until_unused(
    created: Option<Timestamp>,
    is_named: bool,
    now: Timestamp,
) -> Option<Duration> {
    let Some(created) = created.filter(|_| !is_named) else {
        return Some(UNUSED_AGE);
    };
    // A time of creation in the future is that of a server whose clock is ahead.
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    let left = UNUSED_AGE.checked_sub(age);
    left.filter(|left| !left.is_zero())
}

/// True if a deployment uses a slice with this name: its template names the slice, or its next
/// revision would have the objects of a phase in it.
pub fn uses(deployment: &str, template: &Value, slice: &str) -> bool {
    let phases = template.pointer("/spec/phases").and_then(Value::as_array);
    let phases = phases.into_iter().flatten();
    let mut named = phases.flat_map(|phase| phase["slices"].as_array().into_iter().flatten());
    named.any(|name| name == slice)
        || large_phases(template).any(|(_, objects)| name(deployment, objects, 0) == slice)
}

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

    #[test]
    fn a_slice_is_unused_an_hour_after_its_creation_unless_it_is_named() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let left = |minutes| Some(Duration::from_mins(minutes));
        for (created, is_named, expected) in [
            (Some("2026-01-01T11:50:00Z"), false, left(50)),
            (
                Some("2026-01-01T11:00:01Z"),
                false,
                Some(Duration::from_secs(1)),
            ),
            (Some("2026-01-01T11:00:00Z"), false, None),
            (Some("2025-01-01T00:00:00Z"), false, None),
            (Some("2025-01-01T00:00:00Z"), true, left(60)),
            (Some("2026-01-01T13:00:00Z"), false, left(60)),
            (None, false, left(60)),
        ] {
            let created = created.map(|time| time.parse().unwrap());
            assert_eq!(
                until_unused(created, is_named, now),
                expected,
                "{created:?}"
            );
        }
    }

    #[test]
    fn a_deployment_uses_the_slices_of_its_template_and_of_its_next_revision() {
        let objects = json!([{"object": {"k": "x".repeat(MIN_BYTES)}}]);
        let phases =
            json!([{"name": "a", "slices": ["s", "t"]}, {"name": "b", "objects": objects}]);
        let template = json!({"spec": {"phases": phases}});
        for (slice, expected) in [
            ("t", true),
            (&*name("web", &objects, 0), true),
            ("u", false),
        ] {
            assert_eq!(uses("web", &template, slice), expected, "{slice}");
        }
        assert!(!uses("web", &json!({}), "s"));
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
