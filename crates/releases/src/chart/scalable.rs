//! The kinds of a chart, other than built-in ones, that can be scaled.

use serde::Deserialize;
use serde_json::Value;

use super::workloads::Scalable;

/// The parts of a `CustomResourceDefinition` that are needed. The schemas take most of its size.
#[derive(Clone, Debug, Deserialize)]
pub struct Definition {
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Names {
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    served: bool,
    subresources: Option<Subresources>,
}

#[derive(Clone, Debug, Deserialize)]
struct Subresources {
    scale: Option<Scale>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scale {
    spec_replicas_path: String,
}

/// True if the rendered documents have objects of kinds that are not built in: the definitions of a
/// cluster say which of these can be scaled.
pub fn needs_definitions(documents: &[Value]) -> bool {
    !documents.iter().all(is_built_in)
}

/// The kinds that can be scaled, by the definitions in a cluster and those in the rendered documents,
/// which take precedence.
pub fn of_definitions(
    listed: impl IntoIterator<Item = Definition>,
    documents: &[Value],
) -> Scalable {
    let brought = documents
        .iter()
        .filter(|it| it["kind"] == "CustomResourceDefinition");
    let brought = brought.filter_map(|it| Definition::deserialize(it).ok());
    let mut scalable = Scalable::default();
    for definition in listed.into_iter().chain(brought) {
        let spec = definition.spec;
        let scales = spec.versions.into_iter().filter(|version| version.served);
        let mut paths = scales.filter_map(|version| version.subresources?.scale);
        if let Some(scale) = paths.next_back() {
            scalable.insert((spec.group, spec.names.kind), scale.spec_replicas_path);
        }
    }
    scalable
}

/// True if an object is of a group that every API server has. Groups of custom definitions contain
/// a dot, and must not end with `k8s.io`, which is reserved.
fn is_built_in(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
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
            assert_eq!(needs_definitions(&[object]), !expected, "{version}");
        }
    }

    #[test]
    fn the_replicas_path_is_read_from_a_served_definition() {
        let definition = |kind: &str, served: bool, subresources: Value| {
            json!({
                "kind": "CustomResourceDefinition",
                "metadata": { "name": kind },
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": { "kind": kind, "plural": kind },
                    "versions": [
                        { "name": "v1", "served": served, "storage": true, "subresources": subresources },
                    ],
                },
            })
        };
        let scale = json!({ "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        } });
        let listed = [
            definition("Old", false, scale.clone()),
            definition("Plain", true, json!({ "status": {} })),
        ];
        let listed = listed.map(|it| serde_json::from_value(it).unwrap());
        let found = of_definitions(listed, &[definition("Fleet", true, scale)]);
        let key = ("example.com".to_owned(), "Fleet".to_owned());
        assert_eq!(found, Scalable::from([(key, ".spec.size".to_owned())]));
    }
}
