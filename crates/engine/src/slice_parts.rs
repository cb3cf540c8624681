//! Which objects share a slice, where a revision keeps all of its objects in slices.

use baton_apis::ObjectSetObject;

/// Bytes of manifests in a slice: a few times less than an object may have, as the revision of another cluster gets a
/// copy of a phase.
const SLICE_BYTES: usize = 256 * 1024;

/// Objects in their order, in as few parts as may be.
#[must_use]
pub fn in_parts(objects: Vec<ObjectSetObject>) -> Vec<Vec<ObjectSetObject>> {
    let mut parts: Vec<Vec<ObjectSetObject>> = Vec::new();
    let mut length = 0;
    for object in objects {
        let own = object.object.to_string().len();
        match parts.last_mut() {
            Some(last) if length + own <= SLICE_BYTES => last.push(object),
            _ => {
                length = 0;
                parts.push(vec![object]);
            }
        }
        length += own;
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(bytes: usize) -> ObjectSetObject {
        ObjectSetObject {
            object: json!("x".repeat(bytes)),
            ..ObjectSetObject::default()
        }
    }

    #[test]
    fn parts_are_bounded_and_keep_the_order() {
        let kb = 1024;
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![10, 20], vec![2]),
            (vec![100 * kb, 100 * kb, 100 * kb], vec![2, 1]),
            (vec![300 * kb, 10], vec![1, 1]),
            (vec![10, 300 * kb], vec![1, 1]),
        ] {
            let parts = in_parts(sizes.iter().map(|size| object(*size)).collect());
            let lengths: Vec<_> = parts.iter().map(Vec::len).collect();
            assert_eq!(lengths, expected, "{sizes:?}");
            let order: Vec<_> = parts
                .iter()
                .flatten()
                .map(|it| it.object.to_string().len() - 2)
                .collect();
            assert_eq!(order, sizes);
        }
    }
}
