use serde_json::json;

use super::*;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A live Deployment of one container, with its entries: manager, operation, fields.
fn live(spec: &str, entries: &[(&str, &str, &str)]) -> Value {
    let entries = entries.iter().map(|(manager, operation, fields)| {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": yaml(fields),
        })
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5", "generation": 3,
            "labels": {"app.kubernetes.io/managed-by": "Helm", "team": "a"},
            "annotations": {"meta.helm.sh/release-name": "shop", "of-others": "1"},
            "managedFields": entries.collect::<Vec<_>>(),
        },
        "spec": yaml(spec),
        "status": {"replicas": 2},
    })
}

fn wanted(spec: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": yaml(spec),
    })
}

const OF_HELM: &str = "{f:metadata: {f:labels: {'f:app.kubernetes.io/managed-by': {}},
    f:annotations: {.: {}, 'f:meta.helm.sh/release-name': {}}},
    f:spec: {f:replicas: {}, f:strategy: {f:type: {}},
    f:items: {'k:{\"name\":\"a\"}': {.: {}, f:name: {}, f:value: {}, f:policy: {}}}}}";
const HELM: (&str, &str, &str) = ("helm", "Update", OF_HELM);
const SPEC: &str = "{replicas: 3, strategy: {type: Rolling}, items: [{name: a, value: 1, policy: Always}, {name: b}]}";

fn helm() -> Vec<String> {
    vec!["helm".to_owned()]
}

#[test]
fn fields_of_a_record_are_adopted_with_their_live_values() {
    let record = Some(wanted(
        "{replicas: 2, items: [{name: a, value: 1}], gone: null}",
    ));
    let content = content(&live(SPEC, &[HELM]), record, &helm());
    assert_eq!(
        content.concise["spec"],
        yaml("{replicas: 3, items: [{name: a, value: 1}]}")
    );
    assert!(content.may_have_drifted());
    // Defaults of the server, which Helm owns as well.
    assert_eq!(
        content.full["spec"],
        yaml(
            "{replicas: 3, strategy: {type: Rolling}, items: [{name: a, value: 1, policy: Always}]}"
        )
    );
    assert_eq!(content.concise["status"], Value::Null);
    let metadata = json!({
        "name": "web", "namespace": "shop", "uid": "u",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
    });
    // The only annotation is a record of the tool, and is left out.
    assert_eq!(content.concise["metadata"], metadata);
    let without = content.without.unwrap();
    assert_eq!(without["metadata"], live(SPEC, &[HELM])["metadata"]);
    // Fields of others stay. Fields that Helm owns and does not record would be removed.
    assert_eq!(
        without["spec"],
        yaml("{replicas: 3, items: [{name: a, value: 1}, {name: b}]}")
    );
    assert_eq!(
        content_as_recorded(),
        yaml("{replicas: 2, items: [{name: a, value: 1}]}")
    );
}

fn content_as_recorded() -> Value {
    let record = Some(wanted("{replicas: 2, items: [{name: a, value: 1}]}"));
    content(&live(SPEC, &[HELM]), record, &helm()).as_recorded()["spec"].clone()
}

#[test]
fn concise_and_full_content_are_equal_if_a_record_has_all_owned_fields() {
    let applied = "{f:spec: {f:replicas: {}}}";
    let entries = [("helm", "Apply", applied)];
    let content = content(
        &live(SPEC, &entries),
        Some(wanted("{replicas: 3}")),
        &helm(),
    );
    assert_eq!(content.without, None);
    assert_eq!(content.concise, content.full);
    assert!(!content.may_have_drifted());
}

#[test]
fn fields_of_the_tool_or_all_fields_are_adopted_without_a_record() {
    let owned = content(&live(SPEC, &[HELM]), None, &helm());
    assert_eq!(
        owned.concise["spec"],
        yaml(
            "{replicas: 3, strategy: {type: Rolling}, items: [{name: a, value: 1, policy: Always}]}"
        )
    );
    assert_eq!(owned.without, None);
    let theirs = ("operator", "Update", OF_HELM);
    let all = content(&live(SPEC, &[theirs]), None, &helm());
    assert_eq!(all.concise["spec"], yaml(SPEC));
    assert_eq!(all.concise["metadata"]["labels"]["team"], "a");
    assert_eq!(all.concise["metadata"]["resourceVersion"], Value::Null);
}

#[test]
fn fields_of_another_api_version_are_not_used() {
    let mut object = live(SPEC, &[HELM]);
    object["metadata"]["managedFields"][0]["apiVersion"] = "apps/v1beta1".into();
    let all = content(&object, None, &helm());
    assert_eq!(all.concise["spec"], yaml(SPEC));
}

#[test]
fn secrets_are_compared_by_their_encoded_data() {
    let object = yaml(
        "{apiVersion: v1, kind: Secret, metadata: {name: s, uid: u}, type: Opaque, data: {a: eA==, b: eQ==}}",
    );
    let record = yaml("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: x}}");
    let content = content(&object, Some(record), &[]);
    assert_eq!(content.concise["data"], json!({"a": "eA=="}));
    assert!(!content.may_have_drifted());
}

#[test]
fn the_last_applied_annotation_is_used_as_a_record() {
    let object = |annotation: &str, text: &str| {
        let annotations = json!({annotation: text});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": annotations}})
    };
    let record = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{}}"#;
    for (annotation, text, expected) in [
        (ANNOTATION_LAST_APPLIED, record, true),
        (ANNOTATION_OF_KAPP, record, true),
        ("mine", record, false),
        (ANNOTATION_LAST_APPLIED, "{", false),
        // The record is of another version, or was copied from another object.
        (ANNOTATION_LAST_APPLIED, &record.replace("v1", "v2"), false),
        (
            ANNOTATION_LAST_APPLIED,
            &record.replace("\"a\"", "\"b\""),
            false,
        ),
    ] {
        assert_eq!(
            recorded(&object(annotation, text)).is_some(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn only_owned_and_unwanted_fields_are_pruned() {
    for (owned, wanted, live, expected) in [
        (
            "{f:a: {}, f:b: {}}",
            "{a: 1}",
            "{a: 1, b: 2, c: 3}",
            "{a: 1, c: 3}",
        ),
        // A map stays if others have added to it.
        ("{f:m: {f:x: {}}}", "{}", "{m: {x: 1, y: 2}}", "{m: {y: 2}}"),
        ("{f:m: {f:x: {}}}", "{}", "{m: {x: 1}}", "{}"),
        ("{f:m: {}}", "{m: {}}", "{m: {x: 1}}", "{m: {x: 1}}"),
        (
            "{f:s: {'v:\"a\"': {}, 'v:\"b\"': {}}}",
            "{s: [a]}",
            "{s: [a, b, c]}",
            "{s: [a, c]}",
        ),
        (
            "{f:l: {'k:{\"n\":1,\"p\":\"TCP\"}': {.: {}, f:n: {}, f:p: {}}}}",
            "{l: [{n: 1}]}",
            "{l: [{n: 1, p: TCP}, {n: 2, p: TCP}]}",
            // The protocol has its default.
            "{l: [{n: 1}, {n: 2, p: TCP}]}",
        ),
        (
            "{f:l: {'k:{\"n\":1}': {.: {}, f:n: {}}}}",
            "{}",
            "{l: [{n: 1}, {n: 2}]}",
            "{l: [{n: 2}]}",
        ),
        ("{f:l: {'k:x': {}}}", "{}", "{l: [{n: 1}]}", "{l: [{n: 1}]}"),
    ] {
        let owned = yaml(owned);
        let found = pruned(&yaml(live), owned.as_object().unwrap(), Some(&yaml(wanted)));
        assert_eq!(found, Some(yaml(expected)), "{owned} in {live}");
    }
}
