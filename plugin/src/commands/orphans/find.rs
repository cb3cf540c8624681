//! Searches all kinds for orphans.

use std::collections::BTreeSet;

use baton_apis::constants::{ANNOTATION_OWNERS, ANNOTATION_REVISION};
use baton_cluster::{Cluster, lists::list_all, served::Served};
use baton_engine::{
    Gvk,
    object::{controller, owner_references, text},
};
use baton_view::{lists::ListQuery, object::text_at};
use serde_json::Value;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Orphan {
    /// Metadata of the object, with the `apiVersion` and `kind` of the object itself.
    pub(crate) object: Value,
    /// The named controller, else an owner, as `Kind/name`.
    pub(crate) last_owner: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// The orphans by namespace, kind and name.
    pub(crate) orphans: Vec<Orphan>,
    /// Warnings about kinds that could not be read.
    pub(crate) warnings: Vec<String>,
}

/// Finds the orphans of a namespace, or of the whole cluster.
pub(crate) async fn find(cluster: &Cluster, namespace: Option<&str>) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    let served = cluster.discover(&mut findings.warnings).await?;
    let places = served
        .iter()
        .filter(|kind| kind.is_real && (kind.is_namespaced() || namespace.is_none()));
    let managed = ListQuery {
        metadata_only: true,
        ..ListQuery::managed()
    };
    let lists = list_all(cluster, places, namespace, &managed, &mut findings.warnings).await?;
    let mut candidates: Vec<Value> = Vec::new();
    for (kind, objects) in lists {
        let objects = objects.into_iter().map(|mut object| {
            object["apiVersion"] = kind.gvk.api_version().into();
            object["kind"] = kind.gvk.kind.clone().into();
            object
        });
        candidates.extend(objects.filter(|object| !is_copied(object)));
    }
    let controllers = wanted_controllers(&candidates);
    let kinds = served
        .iter()
        .filter(|kind| controllers.contains(&kind.id()));
    let all = ListQuery {
        metadata_only: true,
        ..ListQuery::default()
    };
    let mut unknown = Vec::new();
    let lists = list_all(cluster, kinds.clone(), namespace, &all, &mut unknown).await?;
    let read: BTreeSet<(String, String)> = lists.iter().map(|(kind, _)| kind.id()).collect();
    let unread: BTreeSet<(String, String)> = kinds
        .map(Served::id)
        .filter(|kind| !read.contains(kind))
        .collect();
    findings.warnings.extend(
        unknown.into_iter().map(|warning| {
            format!("{warning}; objects that these control are not listed as orphans")
        }),
    );
    let existing: BTreeSet<String> = lists
        .iter()
        .flat_map(|(_, objects)| objects)
        .filter_map(|object| object.pointer("/metadata/uid")?.as_str())
        .map(str::to_owned)
        .collect();
    findings.orphans = judge(candidates, &existing, &unread);
    Ok(findings)
}

/// Group and kind of the controllers in the owner references of objects.
fn wanted_controllers(objects: &[Value]) -> BTreeSet<(String, String)> {
    let references = objects.iter().filter_map(controller);
    references.map(kind_of).collect()
}

fn kind_of(reference: &Value) -> (String, String) {
    let gvk = Gvk::new(text(reference, "apiVersion"), text(reference, "kind"));
    (gvk.group, gvk.kind)
}

/// True if an object has the label only as a copy.
///
/// Kubernetes copies the labels of a Service to its Endpoints, which have no controller. Objects of
/// a revision also have the annotation with its number.
fn is_copied(object: &Value) -> bool {
    let annotated = object
        .pointer("/metadata/annotations")
        .is_some_and(|annotations| annotations.get(ANNOTATION_REVISION).is_some());
    object["apiVersion"] == "v1" && object["kind"] == "Endpoints" && !annotated
}

/// True if the owners of an object are in another cluster, where they cannot be looked up.
fn is_owned_elsewhere(object: &Value) -> bool {
    let owners = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(ANNOTATION_OWNERS)?.as_str())
        .and_then(|list| serde_json::from_str::<Vec<Value>>(list).ok());
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true))
}

/// The objects without a controller, or with one whose UID does not exist. Controllers of the kinds
/// in `unread` are taken to exist.
fn judge(
    objects: Vec<Value>,
    existing: &BTreeSet<String>,
    unread: &BTreeSet<(String, String)>,
) -> Vec<Orphan> {
    let is_orphan = |object: &Value| match controller(object) {
        None => !is_owned_elsewhere(object),
        Some(reference) => {
            !existing.contains(text(reference, "uid")) && !unread.contains(&kind_of(reference))
        }
    };
    let mut orphans: Vec<Orphan> = objects
        .into_iter()
        .filter(is_orphan)
        .map(|object| {
            let reference = controller(&object).or_else(|| owner_references(&object).first());
            let last_owner =
                reference.map(|owner| format!("{}/{}", text(owner, "kind"), text(owner, "name")));
            Orphan { object, last_owner }
        })
        .collect();
    orphans.sort_by_cached_key(|orphan| {
        let pointers = ["/metadata/namespace", "/kind", "/metadata/name"];
        pointers.map(|pointer| text_at(&orphan.object, pointer).to_owned())
    });
    orphans
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, controller: Option<(&str, &str)>) -> Value {
        let owners: Vec<Value> = controller
            .map(|(kind, uid)| {
                json!({
                    "apiVersion": "package-operator.run/v1alpha1", "kind": kind, "name": "web-1",
                    "uid": uid, "controller": true,
                })
            })
            .into_iter()
            .collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": owners},
        })
    }

    #[test]
    fn an_orphan_has_no_controller_that_exists() {
        let mut plain = object("plain", Some(("ObjectSet", "here")));
        plain["metadata"]["ownerReferences"][0]["controller"] = false.into();
        let mut far = object("far", None);
        far["metadata"]["annotations"] = json!({
            ANNOTATION_OWNERS: r#"[{"kind":"ObjectSetPhase","name":"x","uid":"u","controller":true}]"#,
        });
        let orphans = judge(
            vec![
                plain,
                object("gone", Some(("ObjectSet", "gone"))),
                object("free", None),
                object("held", Some(("ObjectSet", "here"))),
                object("unread", Some(("Hidden", "unknown"))),
                far,
            ],
            &BTreeSet::from(["here".to_owned()]),
            &BTreeSet::from([("package-operator.run".to_owned(), "Hidden".to_owned())]),
        );
        let found: Vec<(&str, Option<&str>)> = orphans
            .iter()
            .map(|orphan| {
                let name = orphan.object["metadata"]["name"].as_str().unwrap();
                (name, orphan.last_owner.as_deref())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("free", None),
                ("gone", Some("ObjectSet/web-1")),
                ("plain", Some("ObjectSet/web-1")),
            ]
        );
    }

    #[test]
    fn labels_that_kubernetes_has_copied_do_not_count() {
        let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {}});
        assert!(is_copied(&endpoints));
        endpoints["metadata"]["annotations"] = json!({ANNOTATION_REVISION: "1"});
        assert!(!is_copied(&endpoints));
        assert!(!is_copied(&object("x", None)));
    }
}
