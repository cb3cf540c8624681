//! Looking through all kinds.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::constants::{ANNOTATION_OWNERS, ANNOTATION_REVISION};
use baton_engine::{
    Gvk,
    object::{controller, owner_references, text},
    revision::KindScope,
};
use baton_kubernetes::{
    discovery::Resource,
    path::{self, NameError},
};
use futures::{StreamExt as _, stream};
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};
use serde_json::Value;

use crate::{
    connect::{Cluster, ListQuery},
    error::Error,
    output::format::text_at,
};

/// Lists under way at the same time.
const SIDE_BY_SIDE: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Orphan {
    /// Its metadata, with its own kind.
    pub(crate) object: Value,
    /// Who is named as its controller, else as an owner, as `Kind/name`.
    pub(crate) last_owner: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// By namespace, kind and name.
    pub(crate) orphans: Vec<Orphan>,
    /// What could not be looked at.
    pub(crate) warnings: Vec<String>,
}

/// A kind and where its objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Served {
    gvk: Gvk,
    resource: Resource,
    /// Whether its objects can be deleted: those of the others are views of something else.
    is_real: bool,
}

impl Served {
    fn is_namespaced(&self) -> bool {
        self.resource.scope == KindScope::Namespaced
    }

    fn id(&self) -> (String, String) {
        (self.gvk.group.clone(), self.gvk.kind.clone())
    }

    /// Path of its objects in a namespace; all of them where it is `None`.
    fn path(&self, namespace: Option<&str>) -> Result<String, NameError> {
        match namespace {
            Some(namespace) => self.resource.path_in(namespace),
            None => Ok(self.resource.path()),
        }
    }
}

/// Finds the orphans of a namespace, or of the whole cluster.
pub(crate) async fn find(cluster: &Cluster, namespace: Option<&str>) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    let served = discover(cluster, &mut findings.warnings).await?;
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
        unknown
            .into_iter()
            .map(|warning| format!("{warning}; what these control is taken to be controlled")),
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

/// Lists kinds side by side. What cannot be listed is left out with a warning; no answer is an error.
async fn list_all<'a>(
    cluster: &Cluster,
    kinds: impl Iterator<Item = &'a Served>,
    namespace: Option<&str>,
    query: &ListQuery,
    warnings: &mut Vec<String>,
) -> Result<Vec<(&'a Served, Vec<Value>)>, Error> {
    let lists = kinds.map(|kind| async move {
        let list = match kind.path(namespace) {
            Ok(path) => cluster.list_at(&path, query).await,
            Err(error) => Err(Error::Usage(error.to_string())),
        };
        (kind, list)
    });
    let mut lists = stream::iter(lists).buffered(SIDE_BY_SIDE);
    let mut found = Vec::new();
    let mut forbidden = Vec::new();
    while let Some((kind, list)) = lists.next().await {
        match list {
            Ok(objects) => found.push((kind, objects)),
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            // A kind may go at any time, and some that are served cannot be listed.
            Err(error) if error.is_code(404) || error.is_code(405) => {}
            Err(error) if error.is_code(403) => forbidden.push(resource(kind)),
            Err(error) => warnings.push(format!("cannot list {}: {error}", resource(kind))),
        }
    }
    if !forbidden.is_empty() {
        warnings.push(format!("no right to list {}", forbidden.join(", ")));
    }
    Ok(found)
}

/// As kubectl names it: `deployments.apps`.
fn resource(kind: &Served) -> String {
    if kind.gvk.group.is_empty() {
        kind.resource.plural.clone()
    } else {
        format!("{}.{}", kind.resource.plural, kind.gvk.group)
    }
}

/// Every kind that can be listed, once, in the version that the server prefers.
async fn discover(cluster: &Cluster, warnings: &mut Vec<String>) -> Result<Vec<Served>, Error> {
    let (core, groups) = futures::try_join!(
        cluster.client.list_core_api_versions_aggregated(),
        cluster.client.list_api_groups_aggregated(),
    )
    .map_err(|error| cluster.failure(error))?;
    Ok(kinds(&core, &groups, warnings))
}

fn kinds(
    core: &APIGroupDiscoveryList,
    groups: &APIGroupDiscoveryList,
    warnings: &mut Vec<String>,
) -> Vec<Served> {
    let mut served: BTreeMap<(String, String), Served> = BTreeMap::new();
    for group in core.items.iter().chain(&groups.items) {
        for kind in of_group(group, warnings) {
            let key = (kind.gvk.group.clone(), kind.resource.plural.clone());
            // Versions come in the order of preference.
            served.entry(key).or_insert(kind);
        }
    }
    served.into_values().collect()
}

fn of_group(group: &APIGroupDiscovery, warnings: &mut Vec<String>) -> Vec<Served> {
    let name = group.metadata.as_ref().and_then(|m| m.name.as_deref());
    let name = name.unwrap_or_default();
    let mut served = Vec::new();
    for version in &group.versions {
        let number = version.version.as_deref().unwrap_or_default();
        if version.freshness.as_deref() == Some("Stale") {
            warnings.push(format!(
                "the server behind {name}/{number} does not answer; its kinds are not looked at"
            ));
            continue;
        }
        let Ok(prefix) = path::group_version(name, number) else {
            continue;
        };
        for resource in &version.resources {
            let has = |verb: &str| resource.verbs.iter().any(|own| own == verb);
            let gvk = resource.response_kind.as_ref();
            let kind = gvk.and_then(|gvk| gvk.kind.clone());
            let (Some(kind), Some(plural)) = (kind, &resource.resource) else {
                continue;
            };
            if has("list") {
                served.push(Served {
                    gvk: Gvk {
                        group: name.to_owned(),
                        version: number.to_owned(),
                        kind,
                    },
                    resource: Resource {
                        prefix: prefix.clone(),
                        plural: plural.clone(),
                        scope: match resource.scope.as_deref() {
                            Some("Namespaced") => KindScope::Namespaced,
                            _ => KindScope::Cluster,
                        },
                        watchable: has("watch"),
                    },
                    is_real: has("delete"),
                });
            }
        }
    }
    served
}

/// Group and kind of the controllers that objects name.
fn wanted_controllers(objects: &[Value]) -> BTreeSet<(String, String)> {
    let references = objects.iter().filter_map(controller);
    references.map(kind_of).collect()
}

fn kind_of(reference: &Value) -> (String, String) {
    let gvk = Gvk::new(text(reference, "apiVersion"), text(reference, "kind"));
    (gvk.group, gvk.kind)
}

/// Whether an object got the label from another one that has it: Kubernetes copies the labels of a Service to its
/// Endpoints, which have no controller. Of what a revision writes, each object has the number of it.
fn is_copied(object: &Value) -> bool {
    let annotated = object
        .pointer("/metadata/annotations")
        .is_some_and(|annotations| annotations.get(ANNOTATION_REVISION).is_some());
    object["apiVersion"] == "v1" && object["kind"] == "Endpoints" && !annotated
}

/// Whether the owners of an object are in another cluster, where they cannot be looked up.
fn is_owned_elsewhere(object: &Value) -> bool {
    let owners = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(ANNOTATION_OWNERS)?.as_str())
        .and_then(|list| serde_json::from_str::<Vec<Value>>(list).ok());
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true))
}

/// Those objects that have no controller, or one whose UID does not exist. Kinds of controllers in `unread` are
/// believed to exist.
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

    fn group(name: &str, versions: &Value) -> APIGroupDiscoveryList {
        serde_json::from_value(json!({
            "items": [{"metadata": {"name": name}, "versions": versions}],
        }))
        .unwrap()
    }

    fn resource(plural: &str, kind: &str, verbs: &[&str]) -> Value {
        json!({
            "resource": plural, "scope": "Namespaced", "verbs": verbs,
            "responseKind": {"group": "", "version": "", "kind": kind},
        })
    }

    #[test]
    fn kinds_are_looked_at_once_in_the_preferred_version() {
        let core = group(
            "",
            &json!([{"version": "v1", "resources": [
                resource("configmaps", "ConfigMap", &["list", "delete"]),
                resource("bindings", "Binding", &["create"]),
            ]}]),
        );
        let apps = group(
            "shop.example",
            &json!([
                {"version": "v2", "resources": [resource("carts", "Cart", &["list", "delete"])]},
                {"version": "v1", "freshness": "Current", "resources": [
                    resource("carts", "Cart", &["list", "delete"]),
                    resource("views", "View", &["list"]),
                ]},
                {"version": "v0", "freshness": "Stale", "resources": []},
            ]),
        );
        let mut warnings = Vec::new();
        let found = kinds(&core, &apps, &mut warnings);
        let paths: Vec<(String, bool)> = found
            .iter()
            .map(|kind| (kind.path(Some("n")).unwrap(), kind.is_real))
            .collect();
        assert_eq!(
            paths,
            [
                ("/api/v1/namespaces/n/configmaps".to_owned(), true),
                ("/apis/shop.example/v2/namespaces/n/carts".to_owned(), true),
                ("/apis/shop.example/v1/namespaces/n/views".to_owned(), false),
            ]
        );
        assert_eq!(found[1].path(None).unwrap(), "/apis/shop.example/v2/carts");
        assert_eq!(
            warnings,
            ["the server behind shop.example/v0 does not answer; its kinds are not looked at"]
        );
    }

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
