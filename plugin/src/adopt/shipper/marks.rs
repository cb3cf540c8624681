//! The marks of Shipper on an object, in the place of those of Baton.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::constants::{
    FIELD_MANAGER, GROUP, LABEL_CACHE, LABEL_CACHE_VALUE,
    shipper::{self, LABEL_APP, LABEL_LB, LB_PRODUCTION},
};
use baton_engine::{
    diff::legacy::entries,
    object::{owner_references, text},
    operations::{add, remove, replace, test},
};
use baton_releases::{
    chart::workloads::{ANNOTATION_REPLICAS, ANNOTATION_SCALING},
    traffic::selector::Selector,
};
use json_patch::PatchOperation;
use serde_json::{Map, Value, json};

/// The field managers of Baton: for revisions, and for pods and traffic.
const OURS: [&str; 2] = [FIELD_MANAGER, "baton-releases"];
/// Prefixes of the annotations of Baton.
const PREFIXES: [&str; 2] = ["package-operator.run/", "baton.run/"];

/// True if a revision of an Application has written an object, and nobody has taken it since.
pub(super) fn is_ours(live: &Value, application: &str) -> bool {
    let labels = &live["metadata"]["labels"];
    text(labels, LABEL_CACHE) == LABEL_CACHE_VALUE && text(labels, LABEL_APP) == application
}

/// The patch that gives an object to these anchors: it replaces the owners, the marks and the field
/// manager of Baton. Owners of others stay. An object of the cluster scope gets no owner, as a
/// `ConfigMap` cannot own it.
pub(super) fn given_back(live: &Value, anchors: &[Value]) -> Vec<PatchOperation> {
    let metadata = &live["metadata"];
    let version = metadata["resourceVersion"].clone();
    let mut patch = vec![test(&["metadata", "resourceVersion"], version)];
    if metadata["labels"].get(LABEL_CACHE).is_some() {
        patch.push(remove(&["metadata", "labels", LABEL_CACHE]));
    }
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    for (annotation, _) in annotations.filter(|(name, _)| is_mark(name)) {
        patch.push(remove(&["metadata", "annotations", annotation]));
    }
    let is_namespaced = metadata.get("namespace").is_some();
    let anchors = anchors.iter().filter(|_| is_namespaced);
    let others = owner_references(live).iter();
    let others = others.filter(|owner| !text(owner, "apiVersion").starts_with(GROUP));
    let owners: BTreeMap<&str, &Value> = others
        .chain(anchors)
        .map(|owner| (text(owner, "uid"), owner))
        .collect();
    let mut owners: Vec<&Value> = owners.into_values().collect();
    owners.sort_by_key(|owner| text(owner, "name"));
    patch.push(add(&["metadata", "ownerReferences"], json!(owners)));
    let managed = managed_fields(live);
    if !managed.is_empty() {
        patch.push(replace(&["metadata", "managedFields"], managed));
    }
    patch
}

/// True for the annotations that Baton sets on objects, and that charts do not.
fn is_mark(annotation: &str) -> bool {
    PREFIXES.iter().any(|prefix| annotation.starts_with(prefix))
        && ![ANNOTATION_REPLICAS, ANNOTATION_SCALING].contains(&annotation)
}

/// The entries of field managers, with one of Shipper in the place of those of Baton.
fn managed_fields(live: &Value) -> Vec<Value> {
    let is_merged = |entry: &&Value| {
        let manager = text(entry, "manager");
        text(entry, "subresource").is_empty()
            && (OURS.contains(&manager) || manager == shipper::FIELD_MANAGER)
    };
    let (ours, mut rest): (Vec<&Value>, Vec<&Value>) = entries(live).iter().partition(is_merged);
    let Some(last) = ours.last() else {
        return Vec::new();
    };
    let mut fields = Map::new();
    for entry in &ours {
        if let Some(more) = entry["fieldsV1"].as_object() {
            unite(&mut fields, more);
        }
    }
    let mut united = (*last).clone();
    united["manager"] = shipper::FIELD_MANAGER.into();
    united["operation"] = "Update".into();
    united["fieldsV1"] = fields.into();
    rest.push(&united);
    rest.into_iter().cloned().collect()
}

fn unite(fields: &mut Map<String, Value>, others: &Map<String, Value>) {
    for (key, other) in others {
        let field = fields.entry(key).or_insert_with(|| json!({}));
        if let (Some(field), Some(other)) = (field.as_object_mut(), other.as_object()) {
            unite(field, other);
        }
    }
}

/// The Release whose pods a Service selects by its name, if the Service divides the traffic: Shipper
/// selects pods by a label.
pub(super) fn selected_release(live: &Value) -> Option<String> {
    let is_balancer = text(&live["metadata"]["labels"], LABEL_LB) == LB_PRODUCTION;
    if live["kind"] != "Service" || !is_balancer {
        return None;
    }
    match Selector::of(&selector(live)) {
        Selector::Release(release) => Some(release),
        Selector::Label => None,
    }
}

/// The patch that lets a Service select pods by the label of Shipper.
pub(super) fn selected_by_label(live: &Value) -> Vec<PatchOperation> {
    let version = live["metadata"]["resourceVersion"].clone();
    let wanted = Selector::Label.within(&selector(live));
    vec![
        test(&["metadata", "resourceVersion"], version),
        replace(&["spec", "selector"], json!(wanted)),
    ]
}

fn selector(service: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(service["spec"]["selector"].clone()).unwrap_or_default()
}

/// Names of the Releases, for messages.
pub(super) fn listed(releases: &BTreeSet<String>) -> String {
    let names: Vec<&str> = releases.iter().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name })
    }

    fn live() -> Value {
        let entry = |manager: &str, fields: Value| {
            json!({
                "manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            })
        };
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "web", "namespace": "shop", "resourceVersion": "7",
                "labels": {
                    "package-operator.run/cache": "True", "shipper-app": "web", "shipper-lb": "production",
                },
                "annotations": {
                    "package-operator.run/revision": "2", "baton.run/hub": "u", "baton.run/scaling": "steps", "a": "b",
                },
                "ownerReferences": [
                    { "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": "s", "uid": "s",
                      "controller": true },
                    anchor("web-1-anchor"),
                ],
                "managedFields": [
                    entry("package-operator", json!({ "f:spec": { "f:ports": {} } })),
                    entry("kubectl", json!({ "f:metadata": {} })),
                    entry("baton-releases", json!({ "f:spec": { "f:selector": {} } })),
                ],
            },
            "spec": { "selector": { "app": "a", "shipper-release": "web-1" } },
        })
    }

    fn patched(live: &Value, patch: &[PatchOperation]) -> Value {
        let mut patched = live.clone();
        json_patch::patch(&mut patched, patch).unwrap();
        patched
    }

    #[test]
    fn an_object_gets_the_marks_of_shipper() {
        let live = live();
        assert!(is_ours(&live, "web") && !is_ours(&live, "other"));
        let patch = given_back(&live, &[anchor("web-1-anchor"), anchor("web-0-anchor")]);
        let given = patched(&live, &patch);
        let metadata = &given["metadata"];
        assert!(!is_ours(&given, "web"));
        assert_eq!(
            metadata["annotations"],
            json!({ "a": "b", "baton.run/scaling": "steps" })
        );
        assert_eq!(
            metadata["ownerReferences"],
            json!([anchor("web-0-anchor"), anchor("web-1-anchor")])
        );
        let managers: Vec<_> = entries(&given)
            .iter()
            .map(|it| text(it, "manager"))
            .collect();
        assert_eq!(managers, ["kubectl", "shipper"]);
        let united = &entries(&given)[1];
        assert_eq!(united["operation"], "Update");
        assert_eq!(
            united["fieldsV1"],
            json!({ "f:spec": { "f:ports": {}, "f:selector": {} } })
        );
    }

    #[test]
    fn an_object_of_the_cluster_scope_gets_no_owner() {
        let mut live = live();
        live["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        live["metadata"]["ownerReferences"] = json!([]);
        let given = patched(&live, &given_back(&live, &[anchor("web-1-anchor")]));
        assert_eq!(given["metadata"]["ownerReferences"], json!([]));
    }

    #[test]
    fn a_service_selects_pods_by_their_label() {
        let live = live();
        assert_eq!(selected_release(&live).as_deref(), Some("web-1"));
        let given = patched(&live, &selected_by_label(&live));
        assert_eq!(
            given["spec"]["selector"],
            json!({ "app": "a", "shipper-traffic-status": "enabled" })
        );
        assert_eq!(selected_release(&given), None);
    }
}
