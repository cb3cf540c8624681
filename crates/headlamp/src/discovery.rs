//! Locations of kinds, in what the server reports about itself.

use baton_apis::url::escape;
use baton_engine::{Gvk, revision::KindScope};
use baton_view::served::{Served, Unserved};
use kube::core::discovery::v2::APIGroupDiscoveryList;
use serde::Deserialize;

/// The paths of the aggregated discovery documents.
pub(crate) const PATHS: [&str; 2] = ["/api", "/apis"];

/// The kinds that a server serves, as they were last read, and the reason that they cannot be read
/// now.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Discovery {
    /// The answers for [`PATHS`].
    documents: Vec<APIGroupDiscoveryList>,
    error: Option<String>,
}

impl Discovery {
    /// The location where a kind is served, or the reason that it is unknown.
    pub(crate) fn locate(&self, gvk: &Gvk) -> Result<Served, Unserved> {
        let groups = self.documents.iter().flat_map(|it| &it.items);
        let groups = groups.filter(|group| {
            let name = group.metadata.as_ref().and_then(|it| it.name.as_deref());
            name.unwrap_or_default() == gvk.group
        });
        let mut elsewhere = None;
        let mut unreadable = self.error.clone();
        for version in groups.flat_map(|group| &group.versions) {
            let name = version.version.as_deref().unwrap_or_default();
            if version.freshness.as_deref() == Some("Stale") {
                let why = || "the API server cannot reach the server of this group".to_owned();
                unreadable.get_or_insert_with(why);
            }
            let mut resources = version.resources.iter();
            let found = resources.find(|resource| {
                let kind = resource.response_kind.as_ref();
                kind.and_then(|it| it.kind.as_deref()) == Some(&gvk.kind)
                    && resource.verbs.iter().any(|verb| verb == "list")
            });
            let Some(plural) = found.and_then(|it| it.resource.as_deref()) else {
                continue;
            };
            if name != gvk.version {
                elsewhere.get_or_insert_with(|| name.to_owned());
                continue;
            }
            let prefix = if gvk.group.is_empty() {
                "/api".to_owned()
            } else {
                format!("/apis/{}", escape(&gvk.group))
            };
            let is_namespaced = found.and_then(|it| it.scope.as_deref()) == Some("Namespaced");
            return Ok(Served {
                path: format!("{prefix}/{}/{}", escape(name), escape(plural)),
                scope: if is_namespaced {
                    KindScope::Namespaced
                } else {
                    KindScope::Cluster
                },
            });
        }
        Err(match (unreadable, elsewhere) {
            (Some(why), _) => Unserved::Unreadable(why),
            (None, Some(version)) => Unserved::OtherVersion(version),
            (None, None) => Unserved::Absent,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_found_by_group_version_and_kind() {
        let resource = |plural: &str, kind: &str, scope: &str, verbs: &[&str]| {
            json!({"resource": plural, "scope": scope, "verbs": verbs,
                "responseKind": {"group": "", "version": "", "kind": kind}})
        };
        let discovery: Discovery = serde_json::from_value(json!({"documents": [
            {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
                resource("configmaps", "ConfigMap", "Namespaced", &["list"]),
                resource("namespaces", "Namespace", "Cluster", &["list"]),
                resource("bindings", "Binding", "Namespaced", &["create"]),
            ]}]}]},
            {"items": [{"metadata": {"name": "shop.example"}, "versions": [
                {"version": "v2", "resources": [resource("carts", "Cart", "Namespaced", &["list"])]},
                {"version": "v1", "resources": []},
            ]}, {"metadata": {"name": "away.example"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": []},
            ]}]},
        ]}))
        .unwrap();
        let path = |version: &str, kind: &str| {
            let served = discovery.locate(&Gvk::new(version, kind));
            served.map(|served| (served.path, served.scope))
        };
        let core = |plural: &str| format!("/api/v1/{plural}");
        assert_eq!(
            path("v1", "ConfigMap"),
            Ok((core("configmaps"), KindScope::Namespaced))
        );
        assert_eq!(
            path("v1", "Namespace"),
            Ok((core("namespaces"), KindScope::Cluster))
        );
        assert_eq!(
            path("shop.example/v2", "Cart"),
            Ok((
                "/apis/shop.example/v2/carts".to_owned(),
                KindScope::Namespaced
            ))
        );
        let other = Unserved::OtherVersion("v2".to_owned());
        assert_eq!(path("shop.example/v1", "Cart"), Err(other));
        for absent in ["Binding", "Cart"] {
            assert_eq!(path("v1", absent), Err(Unserved::Absent));
        }
        let away = path("away.example/v1", "Cart");
        assert!(matches!(away, Err(Unserved::Unreadable(_))), "{away:?}");
        // Locations stay when a later read fails.
        let later = Discovery {
            error: Some("why".to_owned()),
            ..discovery
        };
        assert!(later.locate(&Gvk::new("v1", "ConfigMap")).is_ok());
        let why = Unserved::Unreadable("why".to_owned());
        assert_eq!(later.locate(&Gvk::new("v1", "Pod")), Err(why));
    }
}
