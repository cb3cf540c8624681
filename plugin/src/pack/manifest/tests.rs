use serde_json::json;

use super::*;
use crate::pack::{documents::InputText, hooks::Moment};

fn collected(text: &str) -> Collected {
    let source = InputText {
        name: "a.yaml".into(),
        text: text.to_owned(),
    };
    let mut collected = Collected::default();
    collected.take(crate::pack::documents::read(&source));
    collected
}

fn errors(text: &str) -> Vec<String> {
    collected(text)
        .errors
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn object(text: &str) -> Value {
    let mut collected = collected(text);
    assert_eq!(collected.errors, []);
    collected.manifests.remove(0).object
}

#[test]
fn objects_that_cannot_be_packed_are_reported() {
    for (text, expected) in [
        (
            "a: 1",
            &[
                "apiVersion is missing",
                "kind is missing",
                "the object has no metadata.name",
            ][..],
        ),
        (
            "apiVersion: v1\nkind: 7\nmetadata: {name: a}",
            &["kind is a number, not a string"],
        ),
        (
            "apiVersion: v1\nkind: Secret",
            &["Secret has no metadata.name"],
        ),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: []",
            &["metadata is a list, not a map"],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
            &["Pod has metadata.generateName; objects of a revision need a metadata.name"],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 12, namespace: 5}",
            &[
                "metadata.name is a number, not a string; put it in quotes",
                "metadata.namespace is a number, not a string; put it in quotes",
            ],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {on: yes, ok: fine}, annotations: {b: 1}}",
            &[
                "metadata.labels: true is a boolean, not a string; put it in quotes",
                "metadata.annotations: b is a number, not a string; put it in quotes",
            ],
        ),
        ("- 1", &["is a list, not an object"]),
        ("text", &["is a string, not an object"]),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: a}",
            &["a Kustomization is not an object of a cluster; pack its directory"],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Node, name: n}]}",
            &[
                "Pod/a has metadata.ownerReferences; remove them, because the revision will be its owner",
            ],
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {package-operator.run/phase: ''}}",
            &["Pod/a: the annotation package-operator.run/phase is empty"],
        ),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|message| format!("a.yaml:1: document 1: {message}"))
            .collect();
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn all_errors_of_all_documents_are_reported() {
    let text = "kind: A\n---\nb: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n7\n";
    let errors = errors(text);
    assert_eq!(errors.len(), 4, "{errors:#?}");
    let places = [
        "a.yaml:1: document 1",
        "a.yaml:1: document 1",
        "a.yaml:3: document 2",
        "a.yaml:9: document 4",
    ];
    for (error, location) in errors.iter().zip(places) {
        assert!(error.starts_with(location), "{errors:#?}");
    }
}

#[test]
fn fields_that_the_server_added_are_stripped() {
    let live = "
apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    deployment.kubernetes.io/revision: '3'
    kubectl.kubernetes.io/last-applied-configuration: '{}'
    package-operator.run/revision: '2'
    note: kept
  creationTimestamp: '2024-01-01T00:00:00Z'
  generation: 3
  labels:
    app: web
    package-operator.run/cache: 'True'
  managedFields: [{manager: x}]
  name: web
  namespace: shop
  ownerReferences:
  - {apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, name: web-v1, controller: true}
  resourceVersion: '7'
  selfLink: /x
  uid: u
spec:
  template:
    metadata: {creationTimestamp: null, labels: {app: web}}
status: {replicas: 1}
";
    assert_eq!(
        object(live),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "annotations": {"note": "kept"},
                "labels": {"app": "web"},
            },
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}}},
        })
    );
}

#[test]
fn empty_metadata_is_removed() {
    assert_eq!(
        object(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: '', labels: , annotations: {}}"
        ),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    );
}

#[test]
fn lists_are_split_into_their_items() {
    let text = "
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Secret, metadata: {name: a}}
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: v1, kind: Secret, metadata: {name: b}}
---
kind: ConfigMapList
apiVersion: v1
items:
- metadata: {name: c}
- metadata: {}
---
kind: SecretList
apiVersion: v1
items: []
";
    let collected = collected(text);
    let found: Vec<_> = collected
        .manifests
        .iter()
        .map(|manifest| {
            (
                manifest.title(),
                manifest.location.document,
                manifest.location.line,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("Secret/a".to_owned(), 1, 5),
            ("Secret/b".to_owned(), 1, 6),
            ("ConfigMap/c".to_owned(), 2, 14),
        ]
    );
    let errors: Vec<_> = collected.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["a.yaml:15: document 2: ConfigMap has no metadata.name"]
    );
}

#[test]
fn objects_of_controllers_and_test_hooks_are_left_out() {
    let collected = collected(
        "
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]
---
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
",
    );
    assert_eq!(collected.manifests, []);
    assert_eq!(
        collected.notes,
        [
            "a.yaml:2: document 1: Pod/web-1 is left out, because ReplicaSet/web creates it",
            "a.yaml:8: document 2: Pod/check is left out, because a revision cannot run a Helm hook of test",
        ]
    );
}

#[test]
fn annotations_about_packing_are_read() {
    let collected = collected(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {package-operator.run/phase: before, helm.sh/hook: pre-upgrade}
",
    );
    let manifest = &collected.manifests[0];
    assert_eq!(manifest.phase.as_deref(), Some("before"));
    let moment = Moment::Before;
    assert_eq!(manifest.hook, Some(Hook { moment, weight: 0 }));
    assert_eq!(
        manifest.object["metadata"]["annotations"],
        json!({"helm.sh/hook": "pre-upgrade"})
    );
}

#[test]
fn both_places_of_duplicates_are_named() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v2\nkind: Secret\nmetadata: \
         {name: a}\n";
    let errors: Vec<_> = duplicates(&collected(text).manifests)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        ["a.yaml:5: document 2: Secret/a is in a.yaml:1: document 1 already"]
    );
}
