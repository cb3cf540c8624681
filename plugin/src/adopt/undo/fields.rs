//! Gives fields back to the tool that owned them.

use std::collections::BTreeSet;

use baton_apis::constants::{
    ANNOTATION_FORMER_MANAGERS, ANNOTATION_LAST_APPLIED, ANNOTATION_REVISION, FIELD_MANAGER,
    FORMER_FIELD_MANAGERS, LABEL_CACHE, LABEL_CACHE_VALUE,
};
use baton_cluster::{Cluster, ClusterError, Write};
use baton_engine::{
    Gvk, ObjectKey,
    diff::legacy::{entries, former_managers},
    object::{controller, owner_references, text},
    operations::{remove, replace, test},
};
use baton_kubernetes::wire::MediaType;
use json_patch::PatchOperation;
use serde_json::{Value, json};

use crate::error::Error;

/// The number of attempts for an object that changes in the meantime.
const ROUNDS: usize = 5;

const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

/// The metadata that marks objects of a tool, the field manager of the tool, and its operation.
const MARKS: [(&str, &str, &str); 4] = [
    ("annotations/meta.helm.sh~1release-name", "helm", APPLY),
    (
        "labels/kustomize.toolkit.fluxcd.io~1name",
        "kustomize-controller",
        APPLY,
    ),
    ("labels/kapp.k14s.io~1app", "kapp", UPDATE),
    (
        "annotations/argocd.argoproj.io~1tracking-id",
        "argocd-controller",
        UPDATE,
    ),
];

/// Prefix of the field managers of Argo CD, which may leave no mark: it tracks objects by a label
/// that others use too.
const ARGO_CD: &str = "argocd-";

/// Removes the marks of Baton and the references to `owners` from an object, and gives the fields
/// to its tool. Returns the tool; `None` if the object does not exist.
pub(super) async fn hand_back(
    cluster: &Cluster,
    (gvk, key): &(Gvk, ObjectKey),
    owners: &BTreeSet<&str>,
    is_dry_run: bool,
) -> Result<Option<String>, Error> {
    let path = match cluster.path_of(gvk, key).await {
        // Objects of a kind that is not served any more were deleted with the kind.
        Err(ClusterError::NotFound(_)) => return Ok(None),
        path => path?,
    };
    let mut rounds = ROUNDS;
    loop {
        rounds -= 1;
        let Some(live) = cluster.get_at(&path).await? else {
            return Ok(None);
        };
        let (manager, operation) = tool(&live);
        let change = handed_back(&live, owners, &manager, operation);
        match cluster
            .write(&path, Write::new(MediaType::JsonPatch, is_dry_run), &change)
            .await
        {
            Ok(_) => return Ok(Some(manager)),
            // The object has changed since it was read.
            Err(error) if (error.is_code(409) || error.is_code(422)) && rounds > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// True if an object has an owner with one of these UIDs.
pub(super) fn is_owned(live: &Value, owners: &BTreeSet<&str>) -> bool {
    let mut references = owner_references(live).iter();
    references.any(|reference| owners.contains(text(reference, "uid")))
}

/// True if an object has the marks of Baton and no controller: its revision was deleted, or has
/// released the object.
pub(super) fn is_let_go(live: &Value) -> bool {
    let labels = live.pointer("/metadata/labels");
    controller(live).is_none()
        && labels.is_some_and(|labels| text(labels, LABEL_CACHE) == LABEL_CACHE_VALUE)
        && entries(live)
            .iter()
            .any(|entry| is(entry, FIELD_MANAGER, APPLY))
}

/// The tool that made an object, and its operation. The name recorded at the take-over is used
/// first, then the marks.
fn tool(live: &Value) -> (String, &'static str) {
    let [client_side, server_side, _] = FORMER_FIELD_MANAGERS;
    let has = |mark: &str| live.pointer(&format!("/metadata/{mark}")).is_some();
    let is_recorded = || {
        let annotations = live.pointer("/metadata/annotations");
        annotations.is_some_and(|it| !text(it, ANNOTATION_LAST_APPLIED).is_empty())
    };
    let marked = MARKS.iter().find(|(mark, ..)| has(mark));
    let marked = marked.map(|(_, manager, operation)| (*manager, *operation));
    let recorded = former_managers(live)
        .into_iter()
        // An apply of kubectl owns the fields, and other commands of kubectl work with it.
        .find(|name| !FORMER_FIELD_MANAGERS.contains(&&**name) && !name.starts_with("kubectl"));
    match (recorded, marked) {
        (Some(name), None) if name.starts_with(ARGO_CD) => (name, UPDATE),
        (Some(name), marked) => (name, marked.map_or(APPLY, |(_, operation)| operation)),
        (None, Some((manager, operation))) => (manager.to_owned(), operation),
        (None, None) if is_recorded() => (client_side.to_owned(), UPDATE),
        (None, None) => (server_side.to_owned(), APPLY),
    }
}

fn is(entry: &Value, manager: &str, operation: &str) -> bool {
    text(entry, "manager") == manager
        && text(entry, "operation") == operation
        && text(entry, "subresource").is_empty()
}

/// The patch that gives Baton's fields to another manager, and removes Baton's marks and these
/// owners.
fn handed_back(live: &Value, owners: &BTreeSet<&str>, manager: &str, operation: &str) -> Value {
    let marks = [
        ("labels", LABEL_CACHE),
        ("annotations", ANNOTATION_REVISION),
        ("annotations", ANNOTATION_FORMER_MANAGERS),
    ];
    let metadata = &live["metadata"];
    let version = metadata["resourceVersion"].clone();
    let mut patch = vec![test(&["metadata", "resourceVersion"], version)];
    for (field, mark) in marks {
        if metadata[field].get(mark).is_some() {
            patch.push(remove(&["metadata", field, mark]));
        }
    }
    patch.extend(disowned(live, owners));
    let entries = entries(live).iter();
    let has_one = entries.clone().any(|entry| is(entry, manager, operation));
    let entries = entries.filter_map(|entry| {
        let mut entry = entry.clone();
        if !is(&entry, FIELD_MANAGER, APPLY) {
            return Some(entry);
        }
        // The tool has written an entry of its own in the meantime.
        if has_one {
            return None;
        }
        entry["manager"] = manager.into();
        entry["operation"] = operation.into();
        if let Some(metadata) = entry.pointer_mut("/fieldsV1/f:metadata") {
            for (field, mark) in marks {
                let texts = metadata.get_mut(format!("f:{field}"));
                if let Some(texts) = texts.and_then(Value::as_object_mut) {
                    texts.remove(&format!("f:{mark}"));
                }
            }
            // A tool does not apply owner references.
            metadata
                .as_object_mut()
                .map(|fields| fields.remove("f:ownerReferences"));
        }
        Some(entry)
    });
    let entries: Vec<Value> = entries.collect();
    if !entries.is_empty() {
        patch.push(replace(&["metadata", "managedFields"], entries));
    }
    json!(patch)
}

/// The patch operation that removes these owners, if the object has any of them.
fn disowned(live: &Value, owners: &BTreeSet<&str>) -> Option<PatchOperation> {
    const PATH: [&str; 2] = ["metadata", "ownerReferences"];
    let references = owner_references(live);
    let is_ours = |reference: &&Value| owners.contains(text(reference, "uid"));
    let others: Vec<&Value> = references.iter().filter(|it| !is_ours(it)).collect();
    match others.len() {
        all if all == references.len() => None,
        0 => Some(remove(&PATH)),
        _ => Some(replace(&PATH, json!(others))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn the_tool_of_an_object_follows_from_its_metadata() {
        for (metadata, expected) in [
            (
                "annotations: {meta.helm.sh/release-name: a}",
                ("helm", "Apply"),
            ),
            (
                "labels: {kustomize.toolkit.fluxcd.io/name: a}",
                ("kustomize-controller", "Apply"),
            ),
            ("labels: {kapp.k14s.io/app: '1'}", ("kapp", "Update")),
            (
                "annotations: {argocd.argoproj.io/tracking-id: a}",
                ("argocd-controller", "Update"),
            ),
            (
                "annotations: {baton.run/former-managers: argocd-controller}",
                ("argocd-controller", "Update"),
            ),
            (
                "annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}",
                ("kubectl-client-side-apply", "Update"),
            ),
            ("name: a", ("kubectl", "Apply")),
            (
                "annotations: {baton.run/former-managers: 'kubectl-edit,my-operator'}",
                ("my-operator", "Apply"),
            ),
            (
                "annotations: {baton.run/former-managers: kubectl-create}",
                ("kubectl", "Apply"),
            ),
            (
                "labels: {kustomize.toolkit.fluxcd.io/name: a}, annotations: {baton.run/former-managers: my-flux}",
                ("my-flux", "Apply"),
            ),
            (
                "labels: {kapp.k14s.io/app: '1'}, annotations: {baton.run/former-managers: my-kapp}",
                ("my-kapp", "Update"),
            ),
        ] {
            let live = yaml(&format!("{{metadata: {{{metadata}}}}}"));
            let (manager, operation) = tool(&live);
            assert_eq!((manager.as_str(), operation), expected, "{metadata}");
        }
    }

    #[test]
    fn a_released_object_has_our_marks_and_no_controller() {
        let labels = "labels: {package-operator.run/cache: 'True'}";
        let ours = "managedFields: [{manager: package-operator, operation: Apply}]";
        let owners = "ownerReferences: [{name: a, controller: true}]";
        for (metadata, expected) in [
            (format!("{labels}, {ours}"), true),
            (format!("{labels}, {ours}, {owners}"), false),
            (labels.to_owned(), false),
            (ours.to_owned(), false),
        ] {
            let live = yaml(&format!("{{metadata: {{{metadata}}}}}"));
            assert_eq!(is_let_go(&live), expected, "{metadata}");
        }
    }

    #[test]
    fn fields_are_returned_without_our_marks() {
        let live = yaml(
            r#"
metadata:
  resourceVersion: '7'
  labels: {package-operator.run/cache: 'True', app: web}
  annotations: {package-operator.run/revision: '2'}
  ownerReferences: [{name: shop-1, uid: r1}, {name: other, uid: x}, {name: shop-2, uid: r2, controller: true}]
  managedFields:
  - {manager: kubelet, operation: Update}
  - manager: package-operator
    operation: Apply
    fieldsV1:
      f:metadata:
        f:labels: {'f:package-operator.run/cache': {}, 'f:app': {}}
        f:annotations: {'f:package-operator.run/revision': {}}
        f:ownerReferences: {'k:{"uid":"r2"}': {}, 'k:{"uid":"x"}': {}}
      f:data: {f:a: {}}
"#,
        );
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/labels/package-operator.run~1cache"},
            {"op": "remove", "path": "/metadata/annotations/package-operator.run~1revision"},
            {"op": "replace", "path": "/metadata/ownerReferences", "value": [{"name": "other", "uid": "x"}]},
            {"op": "replace", "path": "/metadata/managedFields", "value": [
                {"manager": "kubelet", "operation": "Update"},
                {"manager": "helm", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {}}, "f:data": {"f:a": {}},
                }},
            ]},
        ]);
        let owners = BTreeSet::from(["r1", "r2"]);
        assert_eq!(handed_back(&live, &owners, "helm", "Apply"), expected);
        let mut upgraded = live.clone();
        upgraded["metadata"]["managedFields"][0] = yaml("{manager: helm, operation: Apply}");
        let patch = handed_back(&upgraded, &owners, "helm", "Apply");
        assert_eq!(
            patch[4]["value"],
            json!([{"manager": "helm", "operation": "Apply"}])
        );
    }

    #[test]
    fn only_owners_of_the_chain_are_removed() {
        let owners = BTreeSet::from(["r1", "r2"]);
        let live = |uids: &[&str]| {
            let references: Vec<Value> = uids.iter().map(|uid| json!({"uid": uid})).collect();
            json!({"metadata": {"ownerReferences": references}})
        };
        let path = "/metadata/ownerReferences";
        for (uids, expected) in [
            (&[][..], None),
            (&["x"], None),
            (&["r2"], Some(json!({"op": "remove", "path": path}))),
            (&["r1", "r2"], Some(json!({"op": "remove", "path": path}))),
            (
                &["x", "r1"],
                Some(json!({"op": "replace", "path": path, "value": [{"uid": "x"}]})),
            ),
        ] {
            let live = live(uids);
            assert_eq!(is_owned(&live, &owners), expected.is_some(), "{uids:?}");
            let change = disowned(&live, &owners).map(|operation| json!(operation));
            assert_eq!(change, expected, "{uids:?}");
        }
    }
}
