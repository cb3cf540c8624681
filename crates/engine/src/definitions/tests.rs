//! Tests of the comparison of definitions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::yaml;

/// A definition with the given versions, each with a schema.
fn definition(versions: &[(&str, bool, Value)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, is_stored, schema)| {
            json!({ "name": name, "served": true, "storage": is_stored, "schema": { "openAPIV3Schema": schema } })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "tools.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": { "kind": "Tool", "plural": "tools" } },
        "status": { "storedVersions": ["v1"], "conditions": [{ "type": "Established", "status": "True" }] },
    })
}

fn with_spec(spec: &Value) -> Value {
    definition(&[(
        "v1",
        true,
        json!({ "type": "object", "properties": { "spec": spec } }),
    )])
}

/// The losses by a change of the schema of `spec`, as texts.
fn losses(old: &Value, new: &Value) -> Vec<String> {
    let changes = changes(&with_spec(old), &with_spec(new));
    assert!(changes.losses.iter().all(|loss| loss.version == "v1"));
    changes.losses.iter().map(ToString::to_string).collect()
}

/// The affected objects `a` of a change, with these values of `spec`.
fn is_affected(old: &Value, new: &Value, spec: &Value) -> bool {
    let Review::Ask(questions) = review(&with_spec(old), &with_spec(new)) else {
        panic!("{old} {new}");
    };
    let object = json!({ "metadata": { "name": "a", "namespace": "n" }, "spec": spec });
    let found = questions[0].first_affected(std::slice::from_ref(&object));
    found.is_some_and(|it| matches!(&it, Affected::Object(ns, name, _) if ns == "n" && name == "a"))
}

fn field(name: &str, schema: &Value) -> Value {
    json!({ "type": "object", "properties": { name: schema } })
}

/// Schemas of a field, and the loss.
const NARROWINGS: &[(&str, &str, &str)] = &[
    (
        "{type: string}",
        "{type: string, enum: [a]}",
        "a narrower enum",
    ),
    (
        "{type: string, enum: [a, b]}",
        "{type: string, enum: [a]}",
        "a narrower enum",
    ),
    (
        "{type: string}",
        "{type: string, pattern: a}",
        "a narrower pattern",
    ),
    (
        "{type: string, pattern: b}",
        "{type: string, pattern: a}",
        "a narrower pattern",
    ),
    (
        "{type: string}",
        "{type: string, format: date}",
        "a narrower format",
    ),
    (
        "{type: integer, format: int64}",
        "{type: integer, format: int32}",
        "a narrower format",
    ),
    (
        "{type: integer}",
        "{type: integer, minimum: 1}",
        "a narrower minimum",
    ),
    (
        "{type: integer, minimum: 1}",
        "{type: integer, minimum: 2}",
        "a narrower minimum",
    ),
    (
        "{type: integer, maximum: 3}",
        "{type: integer, maximum: 2}",
        "a narrower maximum",
    ),
    (
        "{type: integer, maximum: 3}",
        "{type: integer, maximum: 3, exclusiveMaximum: true}",
        "a narrower exclusiveMaximum",
    ),
    (
        "{type: string}",
        "{type: string, minLength: 1}",
        "a narrower minLength",
    ),
    (
        "{type: string, maxLength: 9}",
        "{type: string, maxLength: 8}",
        "a narrower maxLength",
    ),
    (
        "{type: array}",
        "{type: array, minItems: 1}",
        "a narrower minItems",
    ),
    (
        "{type: array}",
        "{type: array, maxItems: 1}",
        "a narrower maxItems",
    ),
    (
        "{type: object}",
        "{type: object, maxProperties: 1}",
        "a narrower maxProperties",
    ),
    (
        "{type: integer, multipleOf: 2}",
        "{type: integer, multipleOf: 3}",
        "a narrower multipleOf",
    ),
    (
        "{type: string}",
        "{type: string, not: {pattern: a}}",
        "a narrower not",
    ),
    (
        "{type: string}",
        "{type: string, allOf: [{pattern: a}]}",
        "a narrower allOf",
    ),
    (
        "{type: string, anyOf: [{pattern: a}, {pattern: b}]}",
        "{type: string, anyOf: [{pattern: a}]}",
        "a narrower anyOf",
    ),
    (
        "{type: string}",
        "{type: string, oneOf: [{pattern: a}]}",
        "a narrower oneOf",
    ),
];

#[test]
fn each_narrowing_of_a_field_is_found() {
    for (old, new, expected) in NARROWINGS {
        let (old, new) = (field("x", &yaml(old)), field("x", &yaml(new)));
        assert_eq!(losses(&old, &new), [format!(".spec.x has {expected}")]);
        assert!(is_affected(&old, &new, &json!({ "x": "a" })));
        assert!(!is_affected(&old, &new, &json!({ "y": "a" })));
        assert!(!is_affected(&old, &new, &json!({ "x": null })));
    }
}

#[test]
fn other_losses_are_found_with_the_objects_that_they_affect() {
    for (old, new, expected, affected, unaffected) in [
        (
            "{x: {type: string}}",
            "{}",
            ".spec.x is removed",
            json!({"x": "a"}),
            json!({"y": 1}),
        ),
        (
            "{l: {type: array, items: {type: object, properties: {x: {type: string}}}}}",
            "{l: {type: array, items: {type: object}}}",
            ".spec.l[].x is removed",
            json!({"l": [{}, {"x": "a"}]}),
            json!({"l": [{}]}),
        ),
        (
            "{m: {type: object, additionalProperties: {type: string}}}",
            "{m: {type: object, additionalProperties: {type: integer}}}",
            "the type of .spec.m.* changes from string to integer",
            json!({"m": {"a": "b"}}),
            json!({"m": {}}),
        ),
        (
            "{m: {type: object, additionalProperties: {type: string}}}",
            "{m: {type: object, properties: {a: {type: string}}}}",
            ".spec.m keeps no unknown fields any more",
            json!({"m": {"b": "b"}}),
            json!({"m": {"a": "b"}}),
        ),
        (
            "{m: {type: object, x-kubernetes-preserve-unknown-fields: true}}",
            "{m: {type: object}}",
            ".spec.m keeps no unknown fields any more",
            json!({"m": {"b": "b"}}),
            json!({"m": {}}),
        ),
        (
            "{m: {type: object, x-kubernetes-preserve-unknown-fields: true}}",
            "{m: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}}",
            "the type of .spec.m.a changes from any to string",
            json!({"m": {"a": 1}}),
            json!({"m": {"b": 1}}),
        ),
        (
            "{x: {x-kubernetes-int-or-string: true}}",
            "{x: {type: string}}",
            "the type of .spec.x changes from integer or string to string",
            json!({"x": 1}),
            json!({}),
        ),
        (
            "{x: {type: string, nullable: true}}",
            "{x: {type: string}}",
            ".spec.x may not be null any more",
            json!({"x": null}),
            json!({"x": "a"}),
        ),
        (
            "{x: {type: string, default: a}}",
            "{x: {type: string, default: b}}",
            "the default of .spec.x changes",
            json!({"x": "a"}),
            json!({"x": "c"}),
        ),
    ] {
        let spec = |text| json!({ "type": "object", "properties": yaml::<Value>(text) });
        let (old, new) = (spec(old), spec(new));
        assert_eq!(losses(&old, &new), [expected]);
        assert!(is_affected(&old, &new, &affected), "{affected}");
        assert!(!is_affected(&old, &new, &unaffected), "{unaffected}");
    }
}

#[test]
fn a_new_required_field_affects_objects_that_lack_it() {
    let old = field("x", &json!({ "type": "string" }));
    let mut new = old.clone();
    new["required"] = json!(["x"]);
    let text = ".spec.x becomes required, and has no default";
    assert_eq!(losses(&old, &new), [text]);
    assert!(is_affected(&old, &new, &json!({})));
    assert!(!is_affected(&old, &new, &json!({ "x": "a" })));
    new["properties"]["x"]["default"] = "a".into();
    assert_eq!(losses(&old, &new), [""; 0]);
}

#[test]
fn a_removed_field_with_only_its_default_is_not_used() {
    let old = field("x", &json!({ "type": "string", "default": "a" }));
    let new = json!({ "type": "object" });
    assert!(!is_affected(&old, &new, &json!({ "x": "a" })));
    assert!(is_affected(&old, &new, &json!({ "x": "b" })));
}

#[test]
fn a_change_that_admits_more_is_no_loss() {
    for (old, new) in [
        (
            "{type: string, description: a}",
            "{type: string, description: b}",
        ),
        ("{type: string, enum: [a]}", "{type: string, enum: [a, b]}"),
        ("{type: string, enum: [a]}", "{type: string}"),
        ("{type: string, pattern: a}", "{type: string}"),
        (
            "{type: integer, format: int32}",
            "{type: integer, format: int64}",
        ),
        ("{type: integer}", "{type: number}"),
        ("{type: integer}", "{x-kubernetes-int-or-string: true}"),
        (
            "{x-kubernetes-int-or-string: true}",
            "{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}",
        ),
        (
            "{type: integer, minimum: 2, maximum: 3}",
            "{type: integer, minimum: 1, maximum: 4}",
        ),
        (
            "{type: integer, multipleOf: 4}",
            "{type: integer, multipleOf: 2}",
        ),
        ("{type: string}", "{type: string, minLength: 0}"),
        ("{type: string}", "{type: string, nullable: true}"),
        ("{type: string}", "{type: string, default: a}"),
        (
            "{type: string}",
            "{x-kubernetes-preserve-unknown-fields: true}",
        ),
        (
            "{type: object, properties: {a: {type: string}}}",
            "{type: object, additionalProperties: {type: string}}",
        ),
        (
            "{type: object, properties: {a: {type: string}}}",
            "{type: object, x-kubernetes-preserve-unknown-fields: true}",
        ),
        ("{type: object, required: [a]}", "{type: object}"),
        (
            "{type: object}",
            "{type: object, properties: {a: {type: object, required: [b], properties: {b: {type: string}}}}}",
        ),
        (
            "{type: string, anyOf: [{pattern: a}]}",
            "{type: string, anyOf: [{pattern: a}, {pattern: b}]}",
        ),
        (
            "{type: string, allOf: [{pattern: a}, {pattern: b}]}",
            "{type: string, allOf: [{pattern: b, title: x}]}",
        ),
    ] {
        let (old, new) = (field("x", &yaml(old)), field("x", &yaml(new)));
        assert_eq!(losses(&old, &new), [""; 0], "{old} {new}");
    }
}

#[test]
fn fields_that_the_server_or_a_controller_owns_are_not_compared() {
    let schema = |more: &Value| {
        json!({ "type": "object", "required": ["metadata"], "properties": {
            "metadata": more, "status": { "type": "object", "properties": { "x": more } } } })
    };
    let old = schema(&json!({ "type": "object" }));
    let new = json!({ "type": "object" });
    let mut before = definition(&[("v1", true, old)]);
    let after = definition(&[("v1", true, new)]);
    let texts = |before: &Value| -> Vec<String> {
        let losses = changes(before, &after).losses;
        losses.iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts(&before), [".status is removed"]);
    before["spec"]["versions"][0]["subresources"] = json!({ "status": {} });
    assert_eq!(texts(&before), [""; 0]);
}

#[test]
fn removed_versions_are_losses_only_if_objects_are_stored_in_them() {
    let schema =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    let old = definition(&[("v1", true, schema("a")), ("v2", false, schema("b"))]);
    let only = |name| definition(&[(name, true, schema(if name == "v1" { "a" } else { "b" }))]);
    assert_eq!(
        changes(&old, &only("v1")),
        Changes {
            losses: Vec::new(),
            notes: vec![Note::VersionRemoved("v2".to_owned())]
        }
    );
    let Review::Refused(text) = review(&old, &only("v2")) else {
        panic!("accepted");
    };
    assert_eq!(
        text,
        "the change would lose data of stored objects: version v1: the version is removed, and objects are stored in \
             it; with the annotation baton.run/allow-data-loss=true on the CustomResourceDefinition, it is made \
             nevertheless"
    );
    let mut unserved = old.clone();
    unserved["spec"]["versions"][1]["served"] = false.into();
    let notes = changes(&old, &unserved).notes;
    assert_eq!(notes, [Note::NotServed("v2".to_owned())]);
    assert_eq!(notes[0].to_string(), "version v2 is not served any more");
}

#[test]
fn another_storage_version_is_compared_unless_a_webhook_converts() {
    let schema =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    let versions = |first| definition(&[("v1", first, schema("a")), ("v2", !first, schema("b"))]);
    let (old, mut new) = (versions(true), versions(false));
    let Review::Ask(questions) = review(&old, &new) else {
        panic!("no question");
    };
    assert_eq!(questions[0].version.as_deref(), Some("v1"));
    assert_eq!(questions[0].losses[0].to_string(), ".a is removed");
    new["spec"]["conversion"] = json!({ "strategy": "Webhook" });
    assert_eq!(review(&old, &new), Review::Accepted);
}

#[test]
fn identity_and_scope_must_not_change() {
    let old = with_spec(&json!({}));
    for (pointer, value, expected) in [
        (
            "/spec/scope",
            "Cluster",
            "spec.scope changes from Namespaced to Cluster",
        ),
        (
            "/spec/group",
            "x.org",
            "spec.group changes from example.com to x.org",
        ),
        (
            "/spec/names/kind",
            "Nail",
            "spec.names.kind changes from Tool to Nail",
        ),
    ] {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value.into();
        let Review::Refused(text) = review(&old, &new) else {
            panic!("accepted");
        };
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn refusals_name_the_object_and_the_annotation() {
    let old = field("x", &json!({ "type": "string" }));
    let new = json!({ "type": "object" });
    let Review::Ask(questions) = review(&with_spec(&old), &with_spec(&new)) else {
        panic!("no question");
    };
    let object = json!({ "metadata": { "name": "a", "namespace": "n" }, "spec": { "x": 1 } });
    let found = questions[0].first_affected(&[json!({}), object]).unwrap();
    assert_eq!(
        questions[0].refusal(&found).unwrap(),
        "the change would lose data of stored objects: version v1: .spec.x is removed (it affects Tool n/a); with the \
             annotation baton.run/allow-data-loss=true on the CustomResourceDefinition, it is made nevertheless"
    );
    let unknown = Affected::Unknown("no".to_owned());
    let text = questions[0].refusal(&unknown).unwrap();
    let expected = "(the objects of kind Tool cannot be listed, so they count as affected: no)";
    assert!(text.contains(expected), "{text}");
    assert_eq!(questions[0].refusal(&Affected::Nothing), None);
}

#[test]
fn an_annotation_on_the_new_object_allows_a_loss() {
    let old = with_spec(&field("x", &json!({ "type": "string" })));
    let mut new = with_spec(&json!({ "type": "object" }));
    for (value, expected) in [("true", true), ("false", false), ("", false)] {
        new["metadata"]["annotations"] = json!({ "baton.run/allow-data-loss": value });
        assert_eq!(review(&old, &new) == Review::Accepted, expected, "{value}");
    }
}

#[test]
fn a_kind_that_was_never_served_has_no_objects() {
    let mut old = with_spec(&field("x", &json!({ "type": "string" })));
    old["status"] = json!({});
    assert_eq!(
        review(&old, &with_spec(&json!({ "type": "object" }))),
        Review::Accepted
    );
}

#[test]
fn odd_definitions_have_no_losses_of_their_own() {
    let fine = with_spec(&field("x", &json!({ "type": "string" })));
    let odd = [
        json!(null),
        json!({}),
        json!({ "spec": 1 }),
        json!({ "spec": { "versions": 1, "scope": [] } }),
        with_spec(&json!([1])),
        with_spec(
            &json!({ "properties": 1, "required": {}, "items": [], "enum": 1, "allOf": {}, "minimum": "x" }),
        ),
    ];
    for value in &odd {
        assert_eq!(changes(value, value).losses, []);
        changes(value, &fine);
        changes(&fine, value);
    }
    let nested = |leaf: Value| (0..150).fold(leaf, |it, _| field("x", &it));
    let (old, new) = (
        nested(json!({ "type": "string" })),
        nested(json!({ "type": "integer" })),
    );
    assert_eq!(losses(&old, &old), [""; 0]);
    assert!(losses(&old, &new)[0].ends_with("is nested too deeply to be compared"));
}

#[test]
fn new_rules_are_notes() {
    let old = field("x", &json!({ "type": "string" }));
    let mut new = old.clone();
    new["properties"]["x"]["x-kubernetes-validations"] = json!([{ "rule": "self != ''" }]);
    let notes = changes(&with_spec(&old), &with_spec(&new)).notes;
    assert_eq!(
        notes[0].to_string(),
        "version v1: .spec.x has a new rule: self != ''"
    );
}

/// Structural schemas, three levels deep.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "string", "enum": ["a", "b"], "default": "a" })),
        Just(json!({ "type": "string", "pattern": "^a", "maxLength": 9, "nullable": true })),
        Just(json!({ "type": "integer", "minimum": 1, "multipleOf": 2, "format": "int32" })),
        Just(
            json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] })
        ),
        Just(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let fields = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        prop_oneof![
            (fields, any::<bool>()).prop_map(|(fields, required)| {
                let names: Vec<&String> = fields.keys().filter(|_| required).collect();
                json!({ "type": "object", "properties": fields, "required": names })
            }),
            inner
                .clone()
                .prop_map(|it| json!({ "type": "object", "additionalProperties": it })),
            inner.prop_map(|it| json!({ "type": "array", "items": it })),
        ]
    })
}

proptest! {
    #[test]
    fn an_unchanged_schema_has_no_losses(schema in schemas()) {
        prop_assert_eq!(losses(&schema, &schema), [""; 0]);
    }

    #[test]
    fn a_new_optional_field_is_no_loss(schema in schemas(), more in schemas()) {
        let old = field("x", &schema);
        let mut new = old.clone();
        new["properties"]["y"] = more;
        prop_assert_eq!(losses(&old, &new), [""; 0]);
    }

    #[test]
    fn a_removed_field_is_always_found(schema in schemas(), more in schemas()) {
        let new = field("x", &schema);
        let mut old = new.clone();
        old["properties"]["y"] = more;
        prop_assert_eq!(losses(&old, &new), [".spec.y is removed"]);
    }

    #[test]
    fn two_schemas_are_compared_without_a_panic(old in schemas(), new in schemas()) {
        changes(&with_spec(&old), &with_spec(&new));
    }
}
