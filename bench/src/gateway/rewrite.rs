//! Renames the namespace of a site, in both directions of a gateway.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::Gateway;

/// Paths of collections of all namespaces. A site gets the collection of its own namespace.
const COLLECTIONS: [&str; 5] = [
    "/api/v1/configmaps",
    "/api/v1/pods",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/discovery.k8s.io/v1/endpointslices",
];

/// The name of a site, which is also its namespace in the control plane.
#[derive(Debug, Clone)]
pub(super) struct Names(Arc<str>);

impl Names {
    pub(super) fn of(site: &str) -> Self {
        Self(site.into())
    }

    /// Path and query of a request to the control plane.
    pub(super) fn path(&self, method: &Method, target: &str) -> String {
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        let site = &self.0;
        if method == Method::GET && COLLECTIONS.contains(&path) {
            let (api, plural) = path.rsplit_once('/').unwrap_or_default();
            return format!("{api}/namespaces/{site}/{plural}{query}");
        }
        let (from, to) = (
            format!("/namespaces/{}/", Gateway::NAMESPACE),
            format!("/namespaces/{site}/"),
        );
        format!("{}{query}", path.replacen(&from, &to, 1))
    }

    /// The body of a request to the control plane.
    pub(super) fn to_plane(&self, body: &[u8]) -> Bytes {
        replace(body, Gateway::NAMESPACE, &self.0)
    }

    /// Lines of an answer to the client of the site.
    pub(super) fn to_site(&self, lines: &[u8]) -> Bytes {
        replace(lines, &self.0, Gateway::NAMESPACE)
    }
}

/// Replaces a value in JSON. Both sides write JSON without spaces.
fn replace(json: &[u8], from: &str, to: &str) -> Bytes {
    let Ok(text) = std::str::from_utf8(json) else {
        return Bytes::copy_from_slice(json);
    };
    let field = |namespace: &str| format!("\"namespace\":\"{namespace}\"");
    text.replace(&field(from), &field(to)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_the_namespace_of_the_site() {
        let names = Names::of("site-0007");
        for (method, target, expected) in [
            (
                Method::GET,
                "/api/v1/configmaps?watch=true&x=/api/v1/configmaps",
                "/api/v1/namespaces/site-0007/configmaps?watch=true&x=/api/v1/configmaps",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/bench/configmaps/a?dryRun=All",
                "/api/v1/namespaces/site-0007/configmaps/a?dryRun=All",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/bench-2/pods",
                "/api/v1/namespaces/bench-2/pods",
            ),
            (Method::GET, "/version", "/version"),
        ] {
            assert_eq!(names.path(&method, target), expected);
        }
    }

    #[test]
    fn bodies_name_the_namespace_of_the_receiving_side() {
        let names = Names::of("site-0007");
        let site = br#"{"metadata":{"name":"bench","namespace":"bench"}}"#;
        let plane = br#"{"metadata":{"name":"bench","namespace":"site-0007"}}"#;
        assert_eq!(&*names.to_plane(site), plane);
        assert_eq!(&*names.to_site(plane), site);
        assert_eq!(&*names.to_site(b"\xff"), b"\xff");
    }
}
