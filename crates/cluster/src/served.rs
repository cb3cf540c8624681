//! The kinds that a server serves.

use std::collections::BTreeSet;

use baton_engine::{Gvk, revision::KindScope};
use baton_kubernetes::{
    discovery::Resource,
    path::{self, NameError},
};
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};

/// A kind, with the location of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// The location of its objects.
    pub resource: Resource,
    /// Other names of the kind: its singular and its short names.
    names: Vec<String>,
    /// True if objects of the kind can be deleted. Objects of other kinds are views of other
    /// objects.
    pub is_real: bool,
}

impl Served {
    /// True if objects of the kind are in a namespace.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == KindScope::Namespaced
    }

    /// Group and kind.
    #[must_use]
    pub fn id(&self) -> (String, String) {
        (self.gvk.group.clone(), self.gvk.kind.clone())
    }

    /// Path of the objects in a namespace; of all objects if it is `None`.
    ///
    /// # Errors
    /// If the name of the namespace is not valid.
    pub fn path(&self, namespace: Option<&str>) -> Result<String, NameError> {
        match namespace {
            Some(namespace) => self.resource.path_in(namespace),
            None => Ok(self.resource.path()),
        }
    }

    /// True if a user means this kind by a word, as for kubectl: `deploy`, `Deployment`,
    /// `deployments.apps`.
    #[must_use]
    pub fn is_called(&self, word: &str) -> bool {
        let Gvk { group, kind, .. } = &self.gvk;
        let word = word.to_ascii_lowercase();
        let (name, of) = word
            .split_once('.')
            .map_or((word.as_str(), None), |(name, of)| (name, Some(of)));
        let mut names = self.names.iter().map(String::as_str);
        let is_named = name == self.resource.plural
            || name == kind.to_ascii_lowercase()
            || names.any(|own| own == name);
        is_named && of.is_none_or(|of| of == group)
    }
}

/// The name that kubectl prints: `deployments.apps`.
#[must_use]
pub fn resource(kind: &Served) -> String {
    if kind.gvk.group.is_empty() {
        kind.resource.plural.clone()
    } else {
        format!("{}.{}", kind.resource.plural, kind.gvk.group)
    }
}

/// All kinds that can be listed, without duplicates, in the server's preferred version. Groups are
/// in the order of the server, by which kubectl resolves a name that several groups use.
pub(crate) fn kinds(
    core: &APIGroupDiscoveryList,
    groups: &APIGroupDiscoveryList,
    warnings: &mut Vec<String>,
) -> Vec<Served> {
    let mut served = Vec::new();
    for group in core.items.iter().chain(&groups.items) {
        let mut plurals = BTreeSet::new();
        // The versions are in the order of preference.
        let of_group = of_group(group, warnings).into_iter();
        served.extend(of_group.filter(|kind| plurals.insert(kind.resource.plural.clone())));
    }
    served
}

fn of_group(group: &APIGroupDiscovery, warnings: &mut Vec<String>) -> Vec<Served> {
    let name = group.metadata.as_ref().and_then(|m| m.name.as_deref());
    let name = name.unwrap_or_default();
    let mut served = Vec::new();
    for version in &group.versions {
        let number = version.version.as_deref().unwrap_or_default();
        if version.freshness.as_deref() == Some("Stale") {
            warnings.push(format!(
                "the API service for {name}/{number} does not answer; its kinds are left out"
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
                    names: resource
                        .singular_resource
                        .iter()
                        .chain(&resource.short_names)
                        .map(|name| name.to_ascii_lowercase())
                        .collect(),
                    is_real: has("delete"),
                });
            }
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
    fn each_kind_is_listed_once_in_the_preferred_version() {
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
            ["the API service for shop.example/v0 does not answer; its kinds are left out"]
        );
    }

    #[test]
    fn a_word_means_the_kind_of_the_first_group() {
        let list = |groups: &[&str]| {
            let items = groups.iter().map(|name| {
                let kinds = [resource("roles", "Role", &["list", "delete"])];
                json!({"metadata": {"name": name}, "versions": [{"version": "v1", "resources": kinds}]})
            });
            serde_json::from_value(json!({"items": items.collect::<Vec<_>>()})).unwrap()
        };
        let groups = ["rbac.authorization.k8s.io", "authorization.openshift.io"];
        let found = kinds(&list(&[]), &list(&groups), &mut Vec::new());
        let meant = found.iter().filter(|kind| kind.is_called("role"));
        let meant: Vec<&str> = meant.map(|kind| kind.gvk.group.as_str()).collect();
        assert_eq!(meant, groups);
    }

    #[test]
    fn kinds_have_the_names_of_kubectl() {
        let mut deployments = resource("deployments", "Deployment", &["list", "delete"]);
        deployments["singularResource"] = "deployment".into();
        deployments["shortNames"] = json!(["deploy"]);
        let apps = group(
            "apps",
            &json!([{"version": "v1", "resources": [deployments]}]),
        );
        let found = kinds(&group("", &json!([])), &apps, &mut Vec::new());
        for (word, expected) in [
            ("deployment", true),
            ("Deployment", true),
            ("deployments.apps", true),
            ("deploy.apps", true),
            ("deploy", true),
            ("deployment.shop.example", false),
            ("deploymen", false),
            ("", false),
        ] {
            assert_eq!(found[0].is_called(word), expected, "{word}");
        }
    }
}
