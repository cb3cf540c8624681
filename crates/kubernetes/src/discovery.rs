//! The resources that serve kinds, fetched once per group and version.
//!
//! # Guarantees
//!
//! - Callers that need the same group and version at the same time share one request and its
//!   result, failures included.
//! - "Not served" is cached for `NEGATIVE` only: a kind may appear at any time.
//! - After [`Discovery::invalidate`] no result of an earlier request is used, not even of one that
//!   is still under way.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::{
    path::{self, NameError},
    wire::{self, WireError},
};
use baton_engine::{Gvk, ObjectKey, redact::parse_error, revision::KindScope};

/// Lifetime of a cached answer that a kind is not served.
const NEGATIVE: Duration = Duration::from_secs(3);
/// Lifetime of a failed request, whose error all callers get.
const FAILED: Duration = Duration::from_secs(1);
/// Limit of the length of an answer. A kind takes about 400 bytes, and a group with hundreds of kinds
/// is large.
const LONGEST_ANSWER: usize = 2 << 20;
/// Bound of the cache, because manifests can name any number of groups that do not exist.
const MOST_GROUP_VERSIONS: usize = 1024;

/// A discovery request failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("asking the API server for the kinds of {group_version}: {cause}")]
pub struct DiscoveryError {
    /// Group and version as in `apiVersion`.
    pub group_version: String,
    /// The cause of the failure.
    pub cause: Arc<str>,
}

/// The resource that serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Path of its group and version.
    pub prefix: String,
    /// Plural name, as in URLs.
    pub plural: String,
    /// Scope of the objects: namespaced or cluster-scoped.
    pub scope: KindScope,
    /// True if the resource can be listed and watched.
    pub watchable: bool,
}

impl Resource {
    /// Path of all objects, in all namespaces.
    pub fn path(&self) -> String {
        path::everywhere(&self.prefix, &self.plural)
    }

    /// Path of the objects in a namespace, or of all objects of a cluster-scoped kind.
    ///
    /// # Errors
    /// If the namespace is no valid name.
    pub fn path_in(&self, namespace: &str) -> Result<String, NameError> {
        match self.scope {
            KindScope::Cluster => Ok(self.path()),
            KindScope::Namespaced => path::within(&self.prefix, namespace, &self.plural),
        }
    }

    /// Path of an object.
    ///
    /// # Errors
    /// If its name or namespace is not valid: both are from manifests of users.
    pub fn path_of(&self, key: &ObjectKey) -> Result<String, NameError> {
        path::object(&self.path_in(&key.namespace)?, &key.name)
    }
}

/// The version in which a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the requested version.
    Here(Arc<Resource>),
    /// In this version of the group instead.
    Elsewhere(Gvk, Arc<Resource>),
    /// In no version.
    Nowhere,
}

/// A cache of the resources that a server serves.
pub struct Discovery {
    client: Client,
    /// The versions of groups that were searched for a kind, in the order of the server's
    /// preference.
    versions: Mutex<HashMap<String, Versions>>,
    /// Requests by group and version. An invalidated request is removed: callers that wait for it
    /// get an answer as of before, later callers send a new request.
    lookups: Mutex<HashMap<(String, String), Arc<Lookup>>>,
}

/// The resources of a group and version by kind.
type Kinds = HashMap<String, Arc<Resource>>;

/// The versions of a group, and when they were read.
type Versions = (Instant, Arc<[String]>);

/// Locked while a request is under way, so that others wait for its result.
type Lookup = tokio::sync::Mutex<Option<Fetched>>;

struct Fetched {
    at: Instant,
    result: Result<Arc<Kinds>, DiscoveryError>,
}

impl Discovery {
    /// An empty cache.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            versions: Mutex::default(),
            lookups: Mutex::default(),
        }
    }

    /// The resource that serves a kind; `None` if the kind is not served.
    ///
    /// # Errors
    /// If the server fails, for instance because the group is served by an extension server that is
    /// down.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, DiscoveryError> {
        let Ok(prefix) = path::group_version(&gvk.group, &gvk.version) else {
            return Ok(None);
        };
        let lookup = self.lookup(gvk);
        let mut fetched = lookup.lock().await;
        if let Some(Fetched { at, result }) = fetched.as_ref() {
            match result {
                Ok(kinds) => match kinds.get(&gvk.kind) {
                    Some(resource) => return Ok(Some(Arc::clone(resource))),
                    None if at.elapsed() < NEGATIVE => return Ok(None),
                    None => {}
                },
                Err(error) if at.elapsed() < FAILED => return Err(error.clone()),
                Err(_) => {}
            }
        }
        let result = self.fetch(gvk, &prefix).await;
        let answer = match &result {
            Ok(kinds) => Ok(kinds.get(&gvk.kind).cloned()),
            Err(error) => Err(error.clone()),
        };
        *fetched = Some(Fetched {
            at: Instant::now(),
            result,
        });
        answer
    }

    /// Returns the version in which a kind is served. A version that is not served says nothing
    /// about the objects of the kind: they are the same in every version.
    ///
    /// # Errors
    /// As [`Discovery::resolve`], for any version of the group: a version that cannot be read may
    /// serve the kind.
    pub async fn locate(&self, gvk: &Gvk) -> Result<Location, DiscoveryError> {
        if let Some(resource) = self.resolve(gvk).await? {
            return Ok(Location::Here(resource));
        }
        for version in self.versions(gvk).await?.iter() {
            let other = Gvk {
                version: version.clone(),
                ..gvk.clone()
            };
            if other != *gvk
                && let Some(resource) = self.resolve(&other).await?
            {
                return Ok(Location::Elsewhere(other, resource));
            }
        }
        Ok(Location::Nowhere)
    }

    /// Removes all versions of a group from the cache.
    pub fn invalidate(&self, group: &str) {
        self.versions.lock().remove(group);
        self.lookups.lock().retain(|(cached, _), _| cached != group);
    }

    /// The versions of the group of a kind.
    async fn versions(&self, gvk: &Gvk) -> Result<Arc<[String]>, DiscoveryError> {
        let group = gvk.group.as_str();
        let cached = self.versions.lock().get(group).cloned();
        if let Some((_, versions)) = cached.filter(|(at, _)| at.elapsed() < NEGATIVE) {
            return Ok(versions);
        }
        let Ok(path) = path::group(group) else {
            return Ok(Arc::default());
        };
        let versions: Arc<[String]> = match self.read(gvk, &path).await? {
            None => Arc::default(),
            Some(body) => read_versions(&body)
                .map_err(|error| unreadable(gvk, &error))?
                .into(),
        };
        let mut cache = self.versions.lock();
        if cache.len() >= MOST_GROUP_VERSIONS {
            cache.clear();
        }
        cache.insert(group.to_owned(), (Instant::now(), Arc::clone(&versions)));
        Ok(versions)
    }

    fn lookup(&self, gvk: &Gvk) -> Arc<Lookup> {
        let mut lookups = self.lookups.lock();
        let key = (gvk.group.clone(), gvk.version.clone());
        if lookups.len() >= MOST_GROUP_VERSIONS && !lookups.contains_key(&key) {
            lookups.clear();
        }
        Arc::clone(lookups.entry(key).or_default())
    }

    async fn fetch(&self, gvk: &Gvk, prefix: &str) -> Result<Arc<Kinds>, DiscoveryError> {
        match self.read(gvk, prefix).await? {
            None => Ok(Arc::default()),
            Some(body) => read(prefix, &body)
                .map(Arc::new)
                .map_err(|error| unreadable(gvk, &error)),
        }
    }

    /// Reads the response at a path; `None` if the path does not exist.
    async fn read(&self, gvk: &Gvk, path: &str) -> Result<Option<Bytes>, DiscoveryError> {
        let wire_failed = |error: WireError| failed(gvk, error.to_string());
        let request = wire::get(path, "application/json").map_err(wire_failed)?;
        let reply = wire::call_within(&self.client, request, LONGEST_ANSWER)
            .await
            .map_err(wire_failed)?;
        match reply.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(reply.body)),
            status => Err(failed(gvk, wire::failure(status, &reply.body).message)),
        }
    }
}

fn failed(gvk: &Gvk, cause: String) -> DiscoveryError {
    DiscoveryError {
        group_version: gvk.api_version(),
        cause: cause.into(),
    }
}

fn unreadable(gvk: &Gvk, error: &serde_json::Error) -> DiscoveryError {
    failed(gvk, format!("unreadable answer: {}", parse_error(error)))
}

/// Reads the versions of an `APIGroup`, or of the `APIVersions` of the core group.
fn read_versions(body: &[u8]) -> Result<Vec<String>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Version {
        Core(String),
        Group { version: String },
    }
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    let Group { versions } = serde_json::from_slice(body)?;
    let names = versions.into_iter().map(|version| match version {
        Version::Core(version) | Version::Group { version } => version,
    });
    Ok(names.collect())
}

/// Reads an `APIResourceList`.
fn read(prefix: &str, body: &[u8]) -> Result<Kinds, serde_json::Error> {
    #[derive(Deserialize)]
    struct List {
        // Null if a group has no resources left.
        resources: Option<Vec<Item>>,
    }
    #[derive(Deserialize)]
    struct Item {
        name: String,
        kind: String,
        namespaced: bool,
        #[serde(default)]
        verbs: Vec<String>,
    }
    let mut kinds = HashMap::new();
    for item in serde_json::from_slice::<List>(body)?
        .resources
        .unwrap_or_default()
    {
        // Subresources have a slash in their name, and some of them the kind of another resource.
        if item.name.contains('/') {
            continue;
        }
        let can = |verb| item.verbs.iter().any(|served| served == verb);
        let resource = Resource {
            prefix: prefix.to_owned(),
            watchable: can("list") && can("watch"),
            scope: if item.namespaced {
                KindScope::Namespaced
            } else {
                KindScope::Cluster
            },
            plural: item.name,
        };
        kinds.entry(item.kind).or_insert_with(|| Arc::new(resource));
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(prefix: &str, scope: KindScope) -> Resource {
        Resource {
            prefix: prefix.to_owned(),
            plural: "gizmos".to_owned(),
            scope,
            watchable: true,
        }
    }

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ObjectKey::default()
        }
    }

    #[test]
    fn builds_paths() {
        let inside = resource("/apis/x.y/v1", KindScope::Namespaced);
        assert_eq!(inside.path(), "/apis/x.y/v1/gizmos");
        assert_eq!(
            inside.path_of(&key("n", "a")).unwrap(),
            "/apis/x.y/v1/namespaces/n/gizmos/a"
        );
        let outside = resource("/api/v1", KindScope::Cluster);
        assert_eq!(
            outside.path_of(&key("", "a:b")).unwrap(),
            "/api/v1/gizmos/a%3Ab"
        );
        // The server ignores the namespace of such an object.
        assert_eq!(
            outside.path_of(&key("..", "a")).unwrap(),
            "/api/v1/gizmos/a"
        );
    }

    #[test]
    fn names_cannot_change_the_path_of_a_request() {
        let inside = resource("/api/v1", KindScope::Namespaced);
        for (namespace, name) in [
            ("n", ".."),
            ("..", "a"),
            ("", "a"),
            ("n", ""),
            ("n", "a/b"),
            ("n/x", "a"),
        ] {
            assert!(
                inside.path_of(&key(namespace, name)).is_err(),
                "{namespace:?} {name:?}"
            );
        }
    }

    #[test]
    fn reads_the_versions_of_groups() {
        let group = br#"{"kind":"APIGroup","name":"x.y","versions":[
            {"groupVersion":"x.y/v1","version":"v1"},{"groupVersion":"x.y/v1alpha1","version":"v1alpha1"}],
            "preferredVersion":{"groupVersion":"x.y/v1","version":"v1"}}"#;
        assert_eq!(read_versions(group).unwrap(), ["v1", "v1alpha1"]);
        let core = br#"{"kind":"APIVersions","versions":["v1"]}"#;
        assert_eq!(read_versions(core).unwrap(), ["v1"]);
        assert!(read_versions(b"404 page not found").is_err());
    }

    #[test]
    fn reads_resources_without_their_subresources() {
        let body = br#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
            {"name":"deployments/scale","namespaced":true,"kind":"Scale","group":"autoscaling","verbs":["get"]},
            {"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["create","list","watch","patch"]},
            {"name":"reviews","namespaced":false,"kind":"Review","verbs":["create"]}]}"#;
        let kinds = read("/apis/apps/v1", body).unwrap();
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds["Deployment"].plural, "deployments");
        assert!(kinds["Deployment"].watchable);
        assert_eq!(kinds["Deployment"].scope, KindScope::Namespaced);
        assert!(!kinds["Review"].watchable);
        assert_eq!(kinds["Review"].scope, KindScope::Cluster);
        assert!(
            read("/api/v1", br#"{"resources":null}"#)
                .unwrap()
                .is_empty()
        );
        assert!(read("/api/v1", b"404 page not found").is_err());
    }
}
