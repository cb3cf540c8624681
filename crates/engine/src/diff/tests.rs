//! Answers of real servers: each file in `fixtures` has a body and an object.
//!
//! The object is the result of the first apply of that body by our manager to a 1.36 server
//! (`kubectl apply --server-side --field-manager=package-operator -o json --show-managed-fields`),
//! or its state after the change that the file's name describes. `status`, times, uids and versions
//! are left out, and in most files the defaults of a pod.

use serde_json::{Value, json};

use super::*;

/// Reads a value from YAML.
pub(super) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A live object with the given content, in which our manager owns the given fields.
pub(super) fn live(mut content: Value, fields: &Value) -> Value {
    if !content["metadata"].is_object() {
        content["metadata"] = json!({});
    }
    content["metadata"]["managedFields"] = json!([
        {"manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:other": {}}},
        {
            "manager": "package-operator",
            "operation": "Update",
            "apiVersion": "v1",
            "subresource": "status",
            "fieldsV1": {"f:other": {}},
        },
        {
            "manager": "package-operator",
            "operation": "Apply",
            "apiVersion": "v1",
            "subresource": "status",
            "fieldsV1": {"f:other": {}},
        },
        {"manager": "package-operator", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields},
    ]);
    content["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .rotate_right(1);
    content
}

/// A difference as one short line.
pub(super) fn show(difference: &Difference) -> String {
    match difference {
        Difference::None => "none".to_owned(),
        Difference::Fields(path) => format!("fields {path}"),
        Difference::NotOwned(path) => format!("not owned {path}"),
        Difference::Surplus(path) => format!("surplus {path}"),
    }
}

/// Compares two values of `.spec`, given the fields that we own there.
pub(super) fn difference(wanted: &str, owned: &str, actual: &str) -> String {
    let object = |spec| {
        yaml(&format!(
            "{{apiVersion: v1, kind: Test, metadata: {{name: n}}, spec: {spec}}}"
        ))
    };
    show(&compare(
        &object(wanted),
        &live(object(actual), &json!({"f:spec": yaml(owned)})),
    ))
}

pub(super) fn check_spec(wanted: &str, owned: &str, actual: &str, expected: &str) {
    assert_eq!(
        difference(wanted, owned, actual),
        expected,
        "{wanted} of {owned} in {actual}"
    );
}

/// A fixture: a body, and the object of the server.
#[derive(Clone)]
struct Recorded {
    name: &'static str,
    wanted: Value,
    live: Value,
}

macro_rules! recorded {
    ($($name:literal),+ $(,)?) => {
        [$(Recorded::read($name, include_str!(concat!("fixtures/", $name, ".json")))),+]
    };
}

impl Recorded {
    fn read(name: &'static str, text: &str) -> Self {
        let mut both: Value = serde_json::from_str(text).unwrap();
        let mut wanted = both["wanted"].take();
        encode_texts(&mut wanted);
        Self {
            name,
            wanted,
            live: both["live"].take(),
        }
    }

    fn compare(&self) -> String {
        show(&compare(&self.wanted, &self.live))
    }

    /// Makes both sides equal in the values that the server rewrites: the server's value, or ours
    /// if the server stores none.
    fn settled(mut self) -> Self {
        for (_, pointer) in normalised(self.name) {
            if let Some(form) = self.live.pointer(pointer) {
                *self.wanted.pointer_mut(pointer).unwrap() = form.clone();
            } else {
                let (above, key) = pointer.rsplit_once('/').unwrap();
                let ours = self.wanted.pointer(pointer).unwrap().clone();
                self.live.pointer_mut(above).unwrap()[key] = ours;
            }
        }
        self
    }
}

/// The fixtures with the object right after the first apply.
fn untouched() -> [Recorded; 17] {
    recorded![
        "clusterrole",
        "configmap",
        "crd",
        "deployment",
        "empty_builtin",
        "empty_custom",
        "hpa",
        "job",
        "networkpolicy",
        "null_builtin",
        "null_custom",
        "pvc",
        "secret",
        "service",
        "serviceaccount",
        "statefulset",
        "thing",
    ]
}

/// The values of a fixture that the server rewrites: our path, and the JSON pointer.
fn normalised(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "deployment" => &[
            (
                r#".spec.template.spec.containers[{"name":"web"}].env[{"name":"POD"}].valueFrom.fieldRef"#,
                "/spec/template/spec/containers/0/env/2/valueFrom/fieldRef",
            ),
            (
                r#".spec.template.spec.containers[{"name":"web"}].resources.limits.cpu"#,
                "/spec/template/spec/containers/0/resources/limits/cpu",
            ),
            (
                r#".spec.template.spec.containers[{"name":"web"}].resources.limits.memory"#,
                "/spec/template/spec/containers/0/resources/limits/memory",
            ),
            (
                r#".spec.template.spec.containers[{"name":"web"}].resources.requests.cpu"#,
                "/spec/template/spec/containers/0/resources/requests/cpu",
            ),
            (
                r#".spec.template.spec.containers[{"name":"web"}].env[{"name":"A"}].value"#,
                "/spec/template/spec/containers/0/env/1/value",
            ),
            (
                ".spec.template.spec.hostNetwork",
                "/spec/template/spec/hostNetwork",
            ),
            (
                ".spec.template.spec.nodeSelector",
                "/spec/template/spec/nodeSelector",
            ),
            (".spec.strategy", "/spec/strategy"),
        ],
        "empty_builtin" => &[
            (".metadata.labels", "/metadata/labels"),
            (".template.spec.hostNetwork", "/template/spec/hostNetwork"),
            (".template.spec.nodeSelector", "/template/spec/nodeSelector"),
            (
                ".template.spec.priorityClassName",
                "/template/spec/priorityClassName",
            ),
            (
                r#".template.spec.containers[{"name":"c"}].stdin"#,
                "/template/spec/containers/0/stdin",
            ),
            (
                r#".template.spec.containers[{"name":"c"}].volumeMounts[{"mountPath":"/v"}].readOnly"#,
                "/template/spec/containers/0/volumeMounts/0/readOnly",
            ),
            (
                r#".template.spec.containers[{"name":"c"}].volumeMounts[{"mountPath":"/v"}].subPath"#,
                "/template/spec/containers/0/volumeMounts/0/subPath",
            ),
        ],
        "empty_custom" => &[(".metadata.labels", "/metadata/labels")],
        "networkpolicy" => &[(".spec.ingress", "/spec/ingress")],
        "null_builtin" => &[(".data.a", "/data/a")],
        "null_custom" => &[(".spec.mode", "/spec/mode")],
        "pvc" => &[(
            ".spec.resources.requests.storage",
            "/spec/resources/requests/storage",
        )],
        "statefulset" => &[(".spec.volumeClaimTemplates", "/spec/volumeClaimTemplates")],
        _ => &[],
    }
}

/// Pointers to all values below the root, except those that identify the object.
fn pointers(of: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, into: &mut Vec<String>) {
        let mut enter = |key: &str, below: &Value| {
            let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            if ![
                "/apiVersion",
                "/kind",
                "/metadata/name",
                "/metadata/namespace",
            ]
            .contains(&pointer.as_str())
            {
                collect(below, &pointer, into);
                into.push(pointer);
            }
        };
        match value {
            Value::Object(map) => map.iter().for_each(|(key, below)| enter(key, below)),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(at, below)| enter(&at.to_string(), below)),
            _ => {}
        }
    }
    let mut pointers = Vec::new();
    collect(of, "", &mut pointers);
    pointers
}

/// Another value of the same type, if there is one.
fn changed(value: &Value) -> Value {
    match value {
        Value::Null => json!("set"),
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_f64().unwrap() + 1.0),
        Value::String(text) => json!(format!("{text}x")),
        Value::Array(items) => items.iter().map(changed).chain([json!("x")]).collect(),
        Value::Object(_) => json!({"x": "y"}),
    }
}

fn take_out(value: &mut Value, pointer: &str) {
    let (above, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(above).unwrap() {
        Value::Object(map) => drop(map.remove(&key)),
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        other => panic!("{other}"),
    }
}

#[test]
fn a_repeated_apply_differs_only_in_normalised_values() {
    for recorded in untouched() {
        let settled = recorded.clone().settled();
        assert_eq!(settled.compare(), "none", "{}", recorded.name);
        for (path, pointer) in normalised(recorded.name) {
            let mut settled = settled.clone();
            let value = recorded.wanted.pointer(pointer).unwrap();
            *settled.wanted.pointer_mut(pointer).unwrap() = value.clone();
            if recorded.live.pointer(pointer).is_none() {
                take_out(&mut settled.live, pointer);
            }
            assert_eq!(
                settled.compare(),
                format!("fields {path}"),
                "{}",
                recorded.name
            );
        }
    }
}

#[test]
fn any_other_wanted_value_is_noticed() {
    for recorded in untouched() {
        let settled = recorded.settled();
        for pointer in pointers(&settled.wanted) {
            let mut changed_one = settled.clone();
            let value = changed_one.wanted.pointer_mut(&pointer).unwrap();
            *value = changed(value);
            assert_ne!(changed_one.compare(), "none", "{} {pointer}", settled.name);
            assert_ne!(
                wanted_fingerprint(&changed_one.wanted),
                wanted_fingerprint(&settled.wanted),
                "{} {pointer}",
                settled.name,
            );
        }
    }
}

#[test]
fn any_wanted_value_that_is_left_out_is_noticed() {
    for recorded in untouched() {
        let settled = recorded.settled();
        for pointer in pointers(&settled.wanted) {
            // An empty list may be keyed, which equals an absent one; the metadata has only such
            // lists and the name. The claim to a null that the server does not store has no effect.
            let value = settled.wanted.pointer(&pointer);
            let nothing =
                [Some(&json!([])), Some(&Value::Null)].contains(&value) || pointer == "/metadata";
            let mut without = settled.clone();
            take_out(&mut without.wanted, &pointer);
            let noticed = without.compare() != "none";
            assert!(noticed || nothing, "{} {pointer}", settled.name);
            assert_ne!(
                wanted_fingerprint(&without.wanted),
                wanted_fingerprint(&settled.wanted)
            );
        }
    }
}

#[test]
fn any_other_live_value_that_we_own_is_noticed() {
    for recorded in untouched() {
        let settled = recorded.settled();
        for pointer in pointers(&settled.wanted) {
            let mut drifted = settled.clone();
            // A longer list or map has additions of other managers, unless it is atomic.
            let Some(value) = drifted
                .live
                .pointer_mut(&pointer)
                .filter(|value| !value.is_object() && !value.is_array())
            else {
                continue;
            };
            *value = changed(value);
            assert_ne!(drifted.compare(), "none", "{} {pointer}", settled.name);
            if pointer.starts_with("/metadata/ownerReferences") {
                // Owner references change with the revisions of a chain, so only `compare` covers
                // them.
                continue;
            }
            assert_ne!(
                live_fingerprint(&drifted.live),
                live_fingerprint(&settled.live),
                "{} {pointer}",
                settled.name,
            );
        }
    }
}

#[test]
fn changes_of_other_managers_are_recognised() {
    for (recorded, expected) in recorded![
        "cleared",
        "item_deleted",
        "reordered",
        "scaled",
        "secret_drifted",
        "shared",
        "taken_atomic",
        "taken_leaf",
    ]
    .into_iter()
    .zip([
        "not owned .",
        r#"not owned .spec.template.spec.containers[{"name":"web"}].env[0]"#,
        r#"fields .spec.template.spec.containers[{"name":"web"}].env[{"name":"A"}]"#,
        "not owned .spec.replicas",
        "fields .data.b",
        "none",
        "not owned .spec.template.spec.tolerations",
        r#"not owned .spec.template.spec.containers[{"name":"web"}].image"#,
    ]) {
        assert_eq!(recorded.compare(), expected, "{}", recorded.name);
    }
}

#[test]
fn a_fingerprint_changes_with_our_fields_alone() {
    let [before, reordered, scaled, shared, leaf, atomic, deleted] = recorded![
        "shared",
        "reordered",
        "scaled",
        "shared",
        "taken_leaf",
        "taken_atomic",
        "item_deleted",
    ];
    let print = live_fingerprint(&before.live);
    assert!(print.is_some());
    assert_eq!(live_fingerprint(&shared.live), print);
    for other in [reordered, scaled, leaf, atomic, deleted] {
        assert_ne!(live_fingerprint(&other.live), print, "{}", other.name);
        assert_eq!(
            wanted_fingerprint(&other.wanted),
            wanted_fingerprint(&before.wanted)
        );
    }
    let [cleared] = recorded!["cleared"];
    assert_eq!(live_fingerprint(&cleared.live), None);
    assert_eq!(owned_fields(&cleared.live), None);
}

#[test]
fn drift_of_string_data_changes_only_the_fingerprint() {
    let [mut drifted] = recorded!["secret_drifted"];
    let print = live_fingerprint(&drifted.live);
    // A key of another manager.
    drifted.live["data"]["c"] = json!("Yw==");
    assert_eq!(live_fingerprint(&drifted.live), print);
    drifted.live["data"]["b"] = json!("dGV4dA==");
    assert_ne!(live_fingerprint(&drifted.live), print);
    assert_eq!(drifted.compare(), "none");
}

#[test]
fn values_set_by_an_autoscaler_are_kept() {
    let paths = [FieldPath::parse(".spec.replicas").unwrap()];
    let [mut scaled, mut ours] = recorded!["scaled", "shared"];
    with_create_only(&mut scaled.wanted, &scaled.live, &paths);
    assert_eq!(scaled.wanted["spec"].get("replicas"), None);
    assert_eq!(scaled.compare(), "none");
    // Nobody has scaled this object, but the template now has another number.
    ours.wanted["spec"]["replicas"] = json!(5);
    assert_eq!(ours.compare(), "fields .spec.replicas");
    with_create_only(&mut ours.wanted, &ours.live, &paths);
    assert_eq!(ours.wanted["spec"]["replicas"], 2);
    assert_eq!(ours.compare(), "none");
}

#[test]
fn metadata_and_status_are_not_part_of_the_fingerprint() {
    for recorded in untouched() {
        let mut later = recorded.clone();
        let metadata = later.live["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".to_owned(), json!("12"));
        metadata.insert("generation".to_owned(), json!(3));
        metadata["managedFields"][0]["time"] = json!("2026-01-01T00:00:00Z");
        later.live["status"] = json!({"ready": true});
        assert_eq!(
            live_fingerprint(&later.live),
            live_fingerprint(&recorded.live),
            "{}",
            recorded.name
        );
        let metadata = later.wanted["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".to_owned(), json!("12"));
        metadata.insert("uid".to_owned(), json!("u"));
        later.wanted["status"] = json!({"ready": true});
        assert_eq!(
            wanted_fingerprint(&later.wanted),
            wanted_fingerprint(&recorded.wanted),
            "{}",
            recorded.name
        );
        assert_eq!(later.compare(), recorded.compare(), "{}", recorded.name);
    }
    for value in [json!(null), json!(1), json!([])] {
        assert_eq!(live_fingerprint(&value), None);
        assert_ne!(wanted_fingerprint(&value), wanted_fingerprint(&json!({})));
    }
}

#[test]
fn the_api_version_of_an_entry_is_part_of_the_fingerprint() {
    let [recorded] = recorded!["configmap"];
    let mut other = recorded.live.clone();
    other["metadata"]["managedFields"][0]["apiVersion"] = json!("v2");
    assert_ne!(live_fingerprint(&other), live_fingerprint(&recorded.live));
}
