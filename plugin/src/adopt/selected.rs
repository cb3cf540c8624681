//! Finds objects by name or by labels.

use std::collections::BTreeMap;

use baton_apis::constants::GROUP;
use baton_cluster::{
    Cluster,
    lists::list_all,
    served::{Served, resource},
};
use baton_engine::object::controller;
use baton_view::{lists::ListQuery, object::text_at};
use serde_json::Value;

use super::{FoundObjects, ObjectToAdopt, managers::is_of_kubernetes, whole};
use crate::error::Error;

/// Kinds that follow from other objects or are short-lived, as group and kind.
const FOLLOWING: [(&str, &str); 7] = [
    ("", "Endpoints"),
    ("", "Event"),
    ("apps", "ControllerRevision"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("storage.k8s.io", "CSIStorageCapacity"),
];

/// Types of Secrets that are records of a tool or of the server, and no settings.
const RECORD_TYPES: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// The selection of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Label selector, in the syntax of the API.
    pub(crate) labels: String,
    /// Kinds to search, in the words of the user; empty for all kinds.
    pub(crate) kinds: Vec<String>,
}

/// Labels to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'a> {
    /// Label selector, in the syntax of the API.
    pub(crate) selector: &'a str,
    /// Source of the labels, for messages.
    pub(crate) source: &'a str,
    /// True if the user or a record names the kinds. A kind that cannot be listed is an error then,
    /// as only a part would be adopted. Otherwise it is a remark, as the kind need not have any of
    /// the objects.
    pub(crate) are_kinds_named: bool,
}

/// Finds objects by names such as `deployment/web`.
pub(crate) fn named(
    served: &[Served],
    namespace: &str,
    names: &[String],
) -> Result<FoundObjects, Error> {
    let mut found = FoundObjects {
        title: names.join(", "),
        namespace: namespace.to_owned(),
        ..FoundObjects::default()
    };
    for text in names {
        let (word, name) = text
            .split_once('/')
            .filter(|(word, name)| !word.is_empty() && !name.is_empty() && !name.contains('/'))
            .ok_or_else(|| {
                let text =
                    format!("\"{text}\" is not of the form KIND/NAME, such as deployment/web");
                Error::Usage(text)
            })?;
        let kind = kind(served, word)?;
        let manifest = serde_json::json!({
            "apiVersion": kind.gvk.api_version(), "kind": kind.gvk.kind, "metadata": {"name": name},
        });
        let member = ObjectToAdopt::named(whole("the command line"), &manifest);
        found.members.push(member);
    }
    Ok(found)
}

/// The kind that a word names; if several groups have it, that of the first, as for kubectl.
pub(crate) fn kind<'s>(served: &'s [Served], word: &str) -> Result<&'s Served, Error> {
    let mut called = served.iter().filter(|kind| kind.is_called(word));
    let text = || Error::NotFound(format!("the API server does not serve the kind {word}"));
    called.next().ok_or_else(text)
}

/// Finds the objects of a namespace with these labels.
pub(crate) async fn selected(
    cluster: &Cluster,
    served: &[Served],
    selection: &Selection,
) -> Result<FoundObjects, Error> {
    let Selection { labels, kinds } = selection;
    let mut wanted = Vec::new();
    if kinds.is_empty() {
        let all = served.iter().filter(|kind| kind.is_namespaced());
        wanted.extend(all.filter(|kind| kind.is_real && !is_following(kind)));
    } else {
        for word in kinds {
            wanted.push(kind(served, word)?);
        }
    }
    let mut found = FoundObjects {
        title: format!("objects with the labels {labels}"),
        namespace: cluster.namespace.clone(),
        ..FoundObjects::default()
    };
    let source = format!("-l {labels}");
    let labels_of = Labels {
        selector: labels,
        source: &source,
        are_kinds_named: !kinds.is_empty(),
    };
    gather(cluster, &wanted, labels_of, &mut found).await?;
    if found.members.is_empty() && found.errors.is_empty() {
        let mut text = format!(
            "no objects with {labels} in the namespace {}",
            cluster.namespace
        );
        if let [first, ..] = found.notes.as_slice() {
            text = format!("{text}; {first}");
        }
        return Err(Error::NotFound(text));
    }
    Ok(found)
}

/// Lists objects with these labels: of namespaced kinds in the namespace in use, and of
/// cluster-scoped kinds.
pub(crate) async fn gather(
    cluster: &Cluster,
    kinds: &[&Served],
    labels: Labels<'_>,
    found: &mut FoundObjects,
) -> Result<(), Error> {
    let query = ListQuery::labelled(labels.selector.to_owned());
    let namespace = Some(cluster.namespace.as_str());
    let kinds = kinds.iter().copied();
    let unlisted = if labels.are_kinds_named {
        &mut found.errors
    } else {
        &mut found.notes
    };
    let lists = list_all(cluster, kinds, namespace, &query, unlisted).await?;
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, objects) in lists {
        for live in objects {
            if is_made_by_others(&live) {
                *left.entry(resource(kind)).or_default() += 1;
                continue;
            }
            found
                .members
                .push(ObjectToAdopt::of_live(whole(labels.source), live));
        }
    }
    if !left.is_empty() {
        let counts = left.iter().map(|(kind, count)| format!("{count} {kind}"));
        let counts: Vec<_> = counts.collect();
        found.notes.push(format!(
            "left out, because controllers and tools create them: {}",
            counts.join(", ")
        ));
    }
    Ok(())
}

pub(crate) fn is_following(kind: &Served) -> bool {
    let id = (kind.gvk.group.as_str(), kind.gvk.kind.as_str());
    // Views of other objects are created and deleted with them.
    FOLLOWING.contains(&id) || id.0 == GROUP || id.0 == "metrics.k8s.io"
}

/// True if an object is made for another object, or is a tool's record.
fn is_made_by_others(live: &Value) -> bool {
    let label = |name: &str| live.pointer(&format!("/metadata/labels/{name}"));
    controller(live).is_some()
        || is_of_kubernetes(live)
        || RECORD_TYPES.contains(&text_at(live, "/type"))
        || label("owner").is_some_and(|owner| owner == "helm")
            && text_at(live, "/kind") == "ConfigMap"
        || label("kapp.k14s.io~1is-app").is_some()
        || label("kapp.k14s.io~1is-app-change").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_controllers_create_are_not_selected() {
        let object = |metadata: Value| json!({"kind": "ConfigMap", "metadata": metadata});
        let managers = |names: &[&str]| {
            let entries = names.iter().map(|name| json!({"manager": name}));
            object(json!({"managedFields": entries.collect::<Vec<_>>()}))
        };
        for (live, expected) in [
            (object(json!({})), false),
            (managers(&["helm", "kube-controller-manager"]), false),
            (managers(&["kube-controller-manager"]), true),
            (
                object(json!({"ownerReferences": [{"kind": "ReplicaSet", "controller": true}]})),
                true,
            ),
            (
                object(json!({"ownerReferences": [{"kind": "Node", "controller": false}]})),
                false,
            ),
            (object(json!({"labels": {"owner": "helm"}})), true),
            (object(json!({"labels": {"kapp.k14s.io/is-app": ""}})), true),
            (
                json!({"kind": "Secret", "type": "helm.sh/release.v1"}),
                true,
            ),
            (json!({"kind": "Secret", "type": "Opaque"}), false),
        ] {
            assert_eq!(is_made_by_others(&live), expected, "{live}");
        }
    }

    #[test]
    fn names_are_kind_and_name() {
        for text in ["web", "deployment/", "/web", "a/b/c"] {
            let error = named(&[], "shop", &[text.to_owned()]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("\"{text}\" is not of the form KIND/NAME, such as deployment/web")
            );
        }
        let error = named(&[], "shop", &["cart/a".to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server does not serve the kind cart"
        );
    }
}
