//! The definitions have the properties that clients of the API rely on.

use std::sync::LazyLock;

use baton_apis::{crds, release_crds};
use serde_json::{Value, json};

mod naming;
mod releases;
mod shapes;

/// The definition of a kind as JSON.
fn crd(kind: &str) -> Value {
    static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let all = crds().into_iter().chain(release_crds());
        all.map(|crd| json!(crd)).collect()
    });
    let mut all = ALL.iter();
    let found = all.find(|crd| crd["spec"]["names"]["kind"] == kind);
    found.expect("the kind has a definition").clone()
}

/// The schema of a kind.
fn schema(kind: &str) -> Value {
    crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

/// The schema of a field; `[]` stands for the items of a list.
fn field<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, step| match step {
        "" => schema,
        "[]" => &schema["items"],
        name => &schema["properties"][name],
    })
}

/// Calls `visit` for a schema and every schema below it, with the path.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for nested in ["items", "additionalProperties"] {
        if schema[nested].is_object() {
            walk(&schema[nested], &format!("{path}.[]"), visit);
        }
    }
}

/// Messages of the rules on a schema itself.
fn messages(schema: &Value) -> Vec<&str> {
    schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str())
        .collect()
}

/// The namespaced kinds with their cluster-scoped twins.
const TWINS: [(&str, &str); 4] = [
    ("ObjectSet", "ClusterObjectSet"),
    ("ObjectSetPhase", "ClusterObjectSetPhase"),
    ("ObjectSlice", "ClusterObjectSlice"),
    ("ObjectDeployment", "ClusterObjectDeployment"),
];

/// All kinds, in the order of the definitions.
fn kinds() -> impl Iterator<Item = &'static str> {
    TWINS
        .into_iter()
        .flat_map(|(namespaced, cluster)| [namespaced, cluster])
        .chain([
            "Cluster",
            "SiteAssignment",
            "SiteApplication",
            "SiteDeployment",
        ])
}
