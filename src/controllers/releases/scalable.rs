//! The kinds, other than built-in ones, that can be scaled.

use baton_fleet::inventory::{ClusterLink, Inventory};
use baton_releases::chart::workloads::Scalable;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};
use serde_json::Value;

/// The kinds that can be scaled, by the definitions in a rendered chart and those in the first
/// connected cluster. If all objects of the chart are of built-in kinds, the result is empty, and
/// no request is sent.
///
/// # Errors
/// If a cluster is needed, and none is connected or its definitions cannot be listed. The error is
/// a text for people.
pub(crate) async fn scalable(
    inventory: &Inventory,
    clusters: &[String],
    documents: &[Value],
) -> Result<Scalable, String> {
    if documents.iter().all(is_built_in) {
        return Ok(Scalable::default());
    }
    let mut targets = clusters
        .iter()
        .filter_map(|name| match inventory.link(name) {
            ClusterLink::Up(target) => Some(target),
            _ => None,
        });
    let Some(target) = targets.next() else {
        let clusters = clusters.join(", ");
        return Err(format!(
            "cannot read which kinds can be scaled: none of the clusters {clusters} is connected"
        ));
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(target.client());
    let listed = definitions.list(&ListParams::default()).await;
    let listed =
        listed.map_err(|error| format!("cannot list CustomResourceDefinitions: {error}"))?;
    let brought = documents
        .iter()
        .filter(|it| it["kind"] == "CustomResourceDefinition");
    let brought = brought.filter_map(|it| serde_json::from_value(it.clone()).ok());
    Ok(of_definitions(listed.items.into_iter().chain(brought)))
}

/// True if an object is of a group that every API server has. Groups of custom definitions contain
/// a dot, and must not end with `k8s.io`, which is reserved.
fn is_built_in(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn of_definitions(definitions: impl Iterator<Item = CustomResourceDefinition>) -> Scalable {
    let mut scalable = Scalable::default();
    for definition in definitions {
        let spec = definition.spec;
        let scales = spec.versions.into_iter().filter(|version| version.served);
        let mut paths = scales.filter_map(|version| version.subresources?.scale);
        if let Some(scale) = paths.next_back() {
            scalable.insert((spec.group, spec.names.kind), scale.spec_replicas_path);
        }
    }
    scalable
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_kubernetes_groups_are_built_in() {
        for (version, expected) in [
            ("v1", true),
            ("apps/v1", true),
            ("networking.k8s.io/v1", true),
            ("apiextensions.k8s.io/v1", true),
            ("argoproj.io/v1alpha1", false),
            ("k8s.io.example.com/v1", false),
        ] {
            let object = json!({ "apiVersion": version, "kind": "Any" });
            assert_eq!(is_built_in(&object), expected, "{version}");
        }
    }

    #[test]
    fn the_replicas_path_is_read_from_a_served_definition() {
        let definition = |kind: &str, served: bool, subresources: Value| {
            let definition = json!({
                "metadata": { "name": kind },
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": { "kind": kind, "plural": kind },
                    "versions": [
                        { "name": "v1", "served": served, "storage": true, "subresources": subresources },
                    ],
                },
            });
            serde_json::from_value(definition).unwrap()
        };
        let scale = json!({ "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        } });
        let found = of_definitions(
            [
                definition("Fleet", true, scale.clone()),
                definition("Old", false, scale),
                definition("Plain", true, json!({ "status": {} })),
            ]
            .into_iter(),
        );
        let key = ("example.com".to_owned(), "Fleet".to_owned());
        assert_eq!(found, Scalable::from([(key, ".spec.size".to_owned())]));
    }
}
