//! The `stringData` of Secrets.
//!
//! The server encodes these texts in base64 and adds them to `data`, while the ownership stays with
//! `stringData`. So an apply that leaves a text out would not remove its key. Manifests are
//! therefore written with `data`, and texts that an earlier release or another tool has applied are
//! read as the fields of `data` that they became.

use std::borrow::Cow;

use k8s_openapi::ByteString;
use serde_json::{Map, Value};

use super::fields::{fields_of, is_leaf, unite};
use crate::object::{map_mut, text};

/// The write-only field of a Secret.
const STRING_DATA: &str = "stringData";
/// Its marker, and that of the field in which the values are stored.
const STRING_DATA_FIELD: &str = "f:stringData";
pub(super) const DATA_FIELD: &str = "f:data";

/// True if an object is a Secret of the core group.
pub fn is_secret(object: &Value) -> bool {
    text(object, "kind") == "Secret" && text(object, "apiVersion") == "v1"
}

/// Moves the `stringData` of a Secret to its `data`, encoded, as the server does. A text takes
/// precedence over a value of the same key.
///
/// Other objects do not change. A Secret does not change either if a value is no text, so that the
/// server's refusal names the field that the user wrote.
pub fn encode_texts(manifest: &mut Value) {
    if !is_secret(manifest) || manifest.get("data").is_some_and(|data| !data.is_object()) {
        return;
    }
    let texts = manifest.get(STRING_DATA).and_then(Value::as_object);
    let encoded = texts.and_then(|texts| texts.iter().map(encoded).collect::<Option<Map<_, _>>>());
    if let (Some(encoded), Some(fields)) = (encoded, manifest.as_object_mut()) {
        fields.remove(STRING_DATA);
        if !encoded.is_empty() {
            map_mut(manifest, "data").extend(encoded);
        }
    }
}

fn encoded((key, text): (&String, &Value)) -> Option<(String, Value)> {
    let bytes = ByteString(text.as_str()?.into());
    Some((key.clone(), serde_json::to_value(bytes).ok()?))
}

/// The fields that an entry of `managedFields` owns, with texts as fields of `data`.
pub(super) fn stored_fields<'v>(
    entry: &'v Value,
    live: &Value,
) -> Option<Cow<'v, Map<String, Value>>> {
    let fields = fields_of(entry)?;
    Some(if owns_texts(entry, live) {
        Cow::Owned(as_data(fields.clone()))
    } else {
        Cow::Borrowed(fields)
    })
}

/// True if an entry owns texts of a Secret.
pub(super) fn owns_texts(entry: &Value, live: &Value) -> bool {
    is_secret(live) && fields_of(entry).is_some_and(|fields| fields.contains_key(STRING_DATA_FIELD))
}

/// A set of owned fields of a Secret, in which texts are fields of `data`.
pub(super) fn as_data(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(mut texts)) = fields.remove(STRING_DATA_FIELD) {
        // An owner of the map of texts is no owner of the map of all values.
        texts.remove(".");
        if !is_leaf(&texts) {
            unite(
                &mut fields,
                &Map::from_iter([(DATA_FIELD.to_owned(), texts.into())]),
            );
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::tests::{show, yaml};
    use crate::diff::{compare, legacy, owned_fields};

    fn secret(fields: &str) -> Value {
        yaml(&format!("{{apiVersion: v1, kind: Secret, {fields}}}"))
    }

    #[test]
    fn texts_become_data() {
        for (manifest, expected) in [
            ("stringData: {a: x}", "data: {a: eA==}"),
            ("stringData: {a: ''}", "data: {a: ''}"),
            ("stringData: {a: 'ä~?'}", "data: {a: w6R+Pw==}"),
            (
                "data: {a: b, c: d}, stringData: {a: x}",
                "data: {a: eA==, c: d}",
            ),
            ("stringData: {}", "type: null"),
            ("data: {a: b}", "data: {a: b}"),
            ("data: {}, stringData: {}", "data: {}"),
            ("stringData: {a: 7, b: x}", "stringData: {a: 7, b: x}"),
            ("stringData: {a: null}", "stringData: {a: null}"),
            ("stringData: 7", "stringData: 7"),
            ("data: 7, stringData: {a: x}", "data: 7, stringData: {a: x}"),
        ] {
            let mut encoded = secret(manifest);
            encode_texts(&mut encoded);
            let mut expected = secret(expected);
            expected
                .as_object_mut()
                .unwrap()
                .retain(|_, value| !value.is_null());
            assert_eq!(encoded, expected, "{manifest}");
        }
        for other in [
            "kind: ConfigMap, apiVersion: v1",
            "kind: Secret, apiVersion: example.com/v1",
        ] {
            let other = yaml(&format!("{{{other}, stringData: {{a: x}}}}"));
            let mut encoded = other.clone();
            encode_texts(&mut encoded);
            assert_eq!(encoded, other);
        }
    }

    /// Manifest, fields that we own, live data, and the difference.
    const DIFFERENCES: [(&str, &str, &str, &str); 10] = [
        (
            "stringData: {b: text}",
            "{f:data: {f:b: {}}}",
            "{b: dGV4dA==}",
            "none",
        ),
        // Texts that an earlier release applied cause no write.
        (
            "stringData: {b: text}",
            "{f:stringData: {f:b: {}}}",
            "{b: dGV4dA==}",
            "none",
        ),
        (
            "data: {a: YQ==}, stringData: {b: text}",
            "{f:data: {f:a: {}}, f:stringData: {f:b: {}}}",
            "{a: YQ==, b: dGV4dA==}",
            "none",
        ),
        (
            "stringData: {b: text}",
            "{f:stringData: {f:b: {}}}",
            "{b: b3RoZXI=}",
            "fields .data.b",
        ),
        (
            "stringData: {b: text}",
            "{f:data: {f:b: {}}}",
            "{}",
            "fields .data.b",
        ),
        (
            "stringData: {b: text}",
            "{f:stringData: {f:b: {}}}",
            "null",
            "fields .data.b",
        ),
        (
            "stringData: {b: text, c: c}",
            "{f:stringData: {f:b: {}}}",
            "{b: dGV4dA==, c: Yw==}",
            "not owned .data.c",
        ),
        (
            "stringData: {c: c}",
            "{f:stringData: {f:b: {}, f:c: {}}}",
            "{b: dGV4dA==, c: Yw==}",
            "surplus .data.b",
        ),
        (
            "stringData: {}",
            "{f:stringData: {f:b: {}}}",
            "{b: dGV4dA==}",
            "surplus .data",
        ),
        (
            "type: Opaque",
            "{f:type: {}, f:stringData: {}}",
            "{b: dGV4dA==}",
            "none",
        ),
    ];

    fn live(fields: &str, data: &str) -> Value {
        let mut live = secret(&format!("type: Opaque, data: {data}"));
        live["metadata"]["managedFields"] = serde_json::json!([{
            "manager": "package-operator",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsV1": yaml(fields),
        }]);
        live
    }

    #[test]
    fn texts_are_compared_as_data() {
        for (manifest, fields, data, expected) in DIFFERENCES {
            let mut wanted = secret(manifest);
            encode_texts(&mut wanted);
            let difference = show(&compare(&wanted, &live(fields, data)));
            assert_eq!(difference, expected, "{manifest} {fields} {data}");
        }
    }

    /// An apply would not remove the keys of texts, so they become fields of `data` before.
    #[test]
    fn owned_texts_are_migrated() {
        let texts = live(
            "{f:stringData: {.: {}, f:b: {}}, f:data: {f:a: {}}}",
            "{a: eA==, b: eA==}",
        );
        let expected = yaml("{f:data: {f:a: {}, f:b: {}}}");
        assert_eq!(
            owned_fields(&texts).map(Cow::into_owned),
            Some(expected.clone())
        );
        assert!(legacy::needs_migration(&texts, &[]));
        let migrated = legacy::migrated(&texts, &[]).unwrap();
        assert_eq!(migrated[0]["fieldsV1"], expected);
        assert_eq!(migrated.len(), 1);

        let data = live("{f:data: {f:b: {}}}", "{b: eA==}");
        assert!(!legacy::needs_migration(&data, &[]));
        assert_eq!(legacy::migrated(&data, &[]), None);
    }
}
