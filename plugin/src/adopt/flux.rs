//! Kustomizations of Flux: their inventory lists their objects, by ids of `cli-utils`.

use baton_cluster::Cluster;
use baton_engine::Gvk;
use baton_view::object::text_at;
use serde_json::Value;

use super::{FoundObjects, ObjectToAdopt, whole};
use crate::error::Error;

/// The default namespace of Flux.
pub(crate) const NAMESPACE: &str = "flux-system";

/// An entry of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Id {
    namespace: String,
    name: String,
    group: String,
    kind: String,
}

pub(crate) async fn read(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<FoundObjects, Error> {
    let gvk = Gvk::new("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
    let object = super::custom(cluster, &gvk, namespace, name).await?;
    Ok(found(&object, name))
}

fn found(kustomization: &Value, name: &str) -> FoundObjects {
    let source = format!("Flux Kustomization {name}");
    let mut found = FoundObjects {
        title: match text_at(kustomization, "/status/lastAppliedRevision") {
            "" => source.clone(),
            revision => format!("{source}, {revision}"),
        },
        ..FoundObjects::default()
    };
    let entries = kustomization.pointer("/status/inventory/entries");
    let entries = entries.and_then(Value::as_array);
    if entries.is_none_or(Vec::is_empty) {
        found.errors.push(format!(
            "{source} has an empty inventory; reconcile it first"
        ));
    }
    for entry in entries.into_iter().flatten() {
        let id = text_at(entry, "/id");
        let version = text_at(entry, "/v");
        let Some(parsed) = parse(id).filter(|_| !version.is_empty()) else {
            found.errors.push(format!(
                "{source}: the entry {id:?} of its inventory is not of the form NAMESPACE_NAME_GROUP_KIND, with a \
                 version"
            ));
            continue;
        };
        let gvk = Gvk {
            group: parsed.group,
            version: version.to_owned(),
            kind: parsed.kind,
        };
        match ObjectToAdopt::referred(whole(&source), &gvk, &parsed.namespace, &parsed.name) {
            Ok(member) => found.members.push(member),
            Err(error) => found.errors.push(error),
        }
    }
    if kustomization.pointer("/spec/suspend") != Some(&Value::Bool(true)) {
        found.notes.push(format!(
            "{source} is not suspended, and would revert changes of later revisions; first run `flux suspend \
             kustomization {name}`"
        ));
    }
    if kustomization.pointer("/spec/prune") == Some(&Value::Bool(true)) {
        found.notes.push(format!(
            "{source} deletes its objects when it is deleted: first set spec.prune to false"
        ));
    }
    found
}

/// Parses an id such as `shop_web_apps_Deployment`. Names have no underscores, except that a colon
/// in an RBAC name is written as two of them.
fn parse(id: &str) -> Option<Id> {
    let (namespace, rest) = id.split_once('_')?;
    let (rest, kind) = rest.rsplit_once('_')?;
    let (name, group) = rest.rsplit_once('_')?;
    if name.is_empty() || kind.is_empty() {
        return None;
    }
    Some(Id {
        namespace: namespace.to_owned(),
        name: name.replace("__", ":"),
        group: group.to_owned(),
        kind: kind.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inventory_ids_are_parsed() {
        for (id, expected) in [
            (
                "shop_web_apps_Deployment",
                Some(["shop", "web", "apps", "Deployment"]),
            ),
            (
                "shop_settings__ConfigMap",
                Some(["shop", "settings", "", "ConfigMap"]),
            ),
            ("_shop__Namespace", Some(["", "shop", "", "Namespace"])),
            (
                "_system__web__reader_rbac.authorization.k8s.io_ClusterRole",
                Some([
                    "",
                    "system:web:reader",
                    "rbac.authorization.k8s.io",
                    "ClusterRole",
                ]),
            ),
            ("shop_web", None),
            ("", None),
            ("___", None),
            ("shop___", None),
        ] {
            let parsed = parse(id).map(|id| [id.namespace, id.name, id.group, id.kind]);
            assert_eq!(
                parsed,
                expected.map(|parts| parts.map(str::to_owned)),
                "{id}"
            );
        }
    }

    #[test]
    fn an_inventory_yields_objects_and_errors() {
        let text = "
spec: {prune: true}
status:
  lastAppliedRevision: main@sha1:4f2a
  inventory:
    entries:
    - {id: shop_web_apps_Deployment, v: v1}
    - {id: shop_web_apps_Deployment}
    - {id: 'shop', v: v1}
";
        let kustomization: Value = serde_saphyr::from_str(text).unwrap();
        let found = found(&kustomization, "shop");
        assert_eq!(found.title, "Flux Kustomization shop, main@sha1:4f2a");
        assert_eq!(found.members.len(), 1);
        assert_eq!(found.errors.len(), 2, "{:?}", found.errors);
        assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
        let suspended = json!({"spec": {"suspend": true}});
        let empty = super::found(&suspended, "shop");
        assert_eq!(
            empty.errors,
            ["Flux Kustomization shop has an empty inventory; reconcile it first"]
        );
        assert!(empty.notes.is_empty());
    }
}
