//! Hashes of JSON values and of the owned parts of values: deterministic, and independent of the
//! order of map keys.

use serde_json::{Number, Value};

use super::fields::{Marker, is_leaf};

/// The hash of an owned value that is absent.
pub(super) const ABSENT: u64 = 0;

/// Hashes owned markers with the live value below each marker.
pub(super) fn of_owned<'a>(
    owned: impl Iterator<Item = (&'a String, &'a Value)>,
    live: Option<&Value>,
) -> u64 {
    let mut positions = Vec::new();
    let markers = of_map(owned.map(|(text, node)| {
        let marker = Marker::parse(text);
        let below = match marker {
            Marker::Field(_) => of_node(node, live.and_then(|live| marker.find(live))),
            Marker::Item(_) => {
                let position = live.and_then(|live| marker.position(live));
                positions.extend(position.map(|position| (position, text)));
                of_node(node, position.and_then(|position| live?.get(position)))
            }
            Marker::Element(_) => live.and_then(|live| marker.position(live)).is_some().into(),
            Marker::This | Marker::Unknown => live.is_some().into(),
        };
        (text, below)
    }));
    positions.sort_unstable();
    positions
        .into_iter()
        .fold(markers, |hash, (_, text)| mix(hash, of_text(text)))
}

pub(super) fn of_node(node: &Value, live: Option<&Value>) -> u64 {
    match node.as_object() {
        Some(markers) if !is_leaf(markers) => of_owned(markers.iter(), live),
        _ => live.map_or(ABSENT, of_value),
    }
}

pub(super) fn of_value(value: &Value) -> u64 {
    match value {
        Value::Null => seed(1),
        Value::Bool(value) => mix(seed(2), u64::from(*value)),
        Value::Number(number) => of_number(number),
        Value::String(text) => mix(seed(4), of_text(text)),
        Value::Array(items) => items
            .iter()
            .fold(seed(5), |hash, item| mix(hash, of_value(item))),
        Value::Object(map) => of_map(map.iter().map(|(name, value)| (name, of_value(value)))),
    }
}

/// Hashes integers by value, as not every integer has its own float.
fn of_number(number: &Number) -> u64 {
    if let Some(number) = number.as_u64() {
        mix(seed(3), number)
    } else if let Some(number) = number.as_i64() {
        mix(seed(7), number.cast_unsigned())
    } else {
        mix(seed(8), number.as_f64().map_or(ABSENT, f64::to_bits))
    }
}

/// Adds up the hashes of the entries, so that their order does not matter.
pub(super) fn of_map<'a>(entries: impl Iterator<Item = (&'a String, u64)>) -> u64 {
    let sum = entries.fold(0_u64, |sum, (name, value)| {
        sum.wrapping_add(mix(of_text(name), value))
    });
    mix(seed(6), sum)
}

/// Hashes eight bytes at a time, as a `ConfigMap` may contain a megabyte.
fn of_text(text: &str) -> u64 {
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let hash = chunks.iter().fold(text.len() as u64, |hash, chunk| {
        mix(hash, u64::from_le_bytes(*chunk))
    });
    rest.iter()
        .fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

/// Mixes a value into a hash. The mapping is one to one for each input, so this step never hides a
/// change of a single value or byte.
pub(super) const fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// An initial hash that differs from those of other kinds of values in many bits.
const fn seed(kind: u64) -> u64 {
    mix(kind, u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn different_values_have_different_hashes() {
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(-1),
            json!(0.5),
            json!(1.5),
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(""),
            json!("0"),
            json!("1"),
            json!("a"),
            json!("b"),
            json!("ab"),
            json!("ba"),
            json!("a\0"),
            json!("12345678"),
            json!("123456789"),
            json!("12345678\0"),
            json!("1234567812345678"),
            json!("8765432112345678"),
            json!([]),
            json!([null]),
            json!([[]]),
            json!([1]),
            json!([1, 2]),
            json!([2, 1]),
            json!([[1], 2]),
            json!([[1, 2]]),
            json!(["a", "b"]),
            json!(["ab"]),
            json!({}),
            json!({"": null}),
            json!({"a": null}),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"b": 1}),
            json!({"a": 1, "b": 2}),
            json!({"a": 2, "b": 1}),
            json!({"a": {"b": 1}}),
            json!({"a": {}, "b": 1}),
            json!([{"a": 1}, {"b": 2}]),
            json!([{"a": 1, "b": 2}]),
            json!([{}]),
        ];
        let mut by_fingerprint = BTreeMap::new();
        for value in &values {
            if let Some(other) = by_fingerprint.insert(of_value(value), value) {
                assert_eq!(value, other);
            }
        }
        assert_eq!(by_fingerprint.len(), values.len());
        assert!(!by_fingerprint.contains_key(&ABSENT));
    }

    #[test]
    fn the_order_of_map_keys_does_not_matter() {
        let (a, b, c) = ("a".to_owned(), "b".to_owned(), "c".to_owned());
        let one = of_map([(&a, 1), (&b, 2), (&c, 3)].into_iter());
        assert_eq!(one, of_map([(&c, 3), (&a, 1), (&b, 2)].into_iter()));
        assert_ne!(one, of_map([(&a, 2), (&b, 1), (&c, 3)].into_iter()));
        assert_ne!(one, of_map([(&a, 1), (&b, 2)].into_iter()));
    }

    #[test]
    fn hashes_are_the_same_in_every_process() {
        // Pinned: a program that stores fingerprints beyond a process has to notice a change.
        let value = json!({"text": "some text", "list": [1, 2.5, null, true], "map": {}});
        assert_eq!(of_value(&value), 13_425_893_965_914_561_202);
    }

    fn owned(node: &Value, live: &Value) -> u64 {
        of_node(node, Some(live))
    }

    #[test]
    fn only_owned_fields_are_part_of_the_fingerprint() {
        let map = json!({"f:a": {}, "f:b": {"f:c": {}}});
        let live = json!({"a": 1, "b": {"c": 2}});
        let hash = owned(&map, &live);
        for (live, same) in [
            (json!({"a": 1, "b": {"c": 2}, "x": 3}), true),
            (json!({"a": 1, "b": {"c": 2, "x": 3}}), true),
            (json!({"a": 2, "b": {"c": 2}}), false),
            (json!({"a": 1, "b": {"c": 3}}), false),
            (json!({"a": 2, "b": {"c": 1}}), false),
            (json!({"b": {"c": 2}}), false),
            (json!({"a": 1, "b": {}}), false),
            (json!({"a": 1, "b": null}), false),
            (json!({"a": null, "b": {"c": 2}}), false),
            (json!(null), false),
        ] {
            assert_eq!(owned(&map, &live) == hash, same, "{live}");
        }
        for map in [
            json!({"f:a": {}}),
            json!({"f:a": {}, "f:b": {}}),
            json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}),
            json!({"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}),
            json!({"f:a": {}, "f:b": {"f:c": {}}, "f:x": {}}),
        ] {
            assert_ne!(owned(&map, &live), hash, "{map}");
        }
    }

    #[test]
    fn keyed_items_count_by_key_and_order() {
        let list = json!({r#"k:{"n":"a"}"#: {"f:v": {}}, r#"k:{"n":"b"}"#: {"f:v": {}}});
        let a = || json!({"n": "a", "v": 1});
        let b = || json!({"n": "b", "v": 2});
        let x = || json!({"n": "x", "v": 3});
        let hash = owned(&list, &json!([a(), b()]));
        for (live, same) in [
            (json!([x(), a(), b()]), true),
            (json!([a(), x(), b(), x()]), true),
            (json!([b(), a()]), false),
            (json!([a()]), false),
            (json!([b()]), false),
            (json!([]), false),
            (json!([b(), {"n": "a", "v": 0}]), false),
            (json!([{"n": "a", "v": 1, "w": 5}, b()]), true),
            (json!({}), false),
        ] {
            assert_eq!(owned(&list, &live) == hash, same, "{live}");
        }
    }

    #[test]
    fn elements_of_a_set_count_in_any_order() {
        let set = json!({r#"v:"a""#: {}, r#"v:"b""#: {}});
        let hash = owned(&set, &json!(["a", "b"]));
        for (live, same) in [
            (json!(["b", "a"]), true),
            (json!(["x", "b", "a"]), true),
            (json!(["a"]), false),
            (json!(["x"]), false),
            (json!("a"), false),
        ] {
            assert_eq!(owned(&set, &live) == hash, same, "{live}");
        }
    }

    #[test]
    fn the_presence_of_a_node_that_is_owned_itself_is_fingerprinted() {
        for marker in [".", "i:0"] {
            let node = json!({marker: {}, "f:a": {}});
            assert_eq!(owned(&node, &json!({})), owned(&node, &json!({"b": 1})));
            assert_ne!(owned(&node, &json!({})), of_node(&node, None), "{marker}");
        }
    }
}
