//! Which resource serves a kind, asked once per group and version.
//!
//! # Guarantees
//!
//! - Callers that ask for the same group and version at the same time share one request and its
//!   result, failures included.
//! - "Not served" is believed for `NEGATIVE` only: a kind may appear at any time.
//! - After [`Discovery::invalidate`] nothing that was asked before is believed, not even the answer
//!   to a request that is still under way.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;

use super::wire;
use crate::engine::{Gvk, ObjectKey, revision::KindScope};

/// How long a kind is believed not to be served.
const NEGATIVE: Duration = Duration::from_secs(3);
/// How long a failed request stands for all who ask.
const FAILED: Duration = Duration::from_secs(1);
/// Manifests can name any number of groups that do not exist; what is known of them is bounded.
const MOST_GROUP_VERSIONS: usize = 1024;

/// Asking the server what it serves has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("asking the API server for the kinds of {group_version}: {cause}")]
pub struct DiscoveryError {
    /// Group and version as in `apiVersion`.
    pub group_version: String,
    /// What went wrong.
    pub cause: Arc<str>,
}

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The name in URLs.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub scope: KindScope,
    /// Whether it can be listed and watched.
    pub watchable: bool,
}

impl Resource {
    /// Path of all objects, in all namespaces.
    #[must_use]
    pub fn path(&self, gvk: &Gvk) -> String {
        format!("{}/{}", prefix(gvk), wire::escape(&self.plural))
    }

    /// Path of the objects in a namespace, or of all objects of a cluster-scoped kind.
    #[must_use]
    pub fn path_in(&self, gvk: &Gvk, namespace: &str) -> String {
        match self.scope {
            KindScope::Cluster => self.path(gvk),
            KindScope::Namespaced => format!(
                "{}/namespaces/{}/{}",
                prefix(gvk),
                wire::escape(namespace),
                wire::escape(&self.plural)
            ),
        }
    }

    /// Path of an object.
    ///
    /// # Errors
    /// What is wrong with its name or namespace: those come from users' manifests.
    pub fn path_of(&self, gvk: &Gvk, key: &ObjectKey) -> Result<String, String> {
        if let Some(problem) = wire::segment_problem(&key.name) {
            return Err(format!(
                "metadata.name: Invalid value: {:?}: {problem}",
                key.name
            ));
        }
        if self.scope == KindScope::Namespaced
            && let Some(problem) = wire::segment_problem(&key.namespace)
        {
            return Err(format!(
                "metadata.namespace: Invalid value: {:?}: {problem}",
                key.namespace
            ));
        }
        Ok(format!(
            "{}/{}",
            self.path_in(gvk, &key.namespace),
            wire::escape(&key.name)
        ))
    }
}

fn prefix(gvk: &Gvk) -> String {
    if gvk.group.is_empty() {
        format!("/api/{}", wire::escape(&gvk.version))
    } else {
        format!(
            "/apis/{}/{}",
            wire::escape(&gvk.group),
            wire::escape(&gvk.version)
        )
    }
}

/// What a server serves.
pub struct Discovery {
    client: Client,
    /// By group and version. Removed to be forgotten: whoever still waits for a removed one gets
    /// an answer as of before, whoever comes later asks anew.
    known: Mutex<HashMap<(String, String), Arc<Slot>>>,
}

/// Locked while a request is under way, so that others wait for its result.
type Slot = tokio::sync::Mutex<Option<Asked>>;

struct Asked {
    at: Instant,
    result: Result<Arc<HashMap<String, Arc<Resource>>>, DiscoveryError>,
}

impl Discovery {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// How a kind is served; `None` when it is not.
    ///
    /// # Errors
    /// When the server cannot be asked, or fails, for instance because the group is served by an
    /// extension server that is down.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, DiscoveryError> {
        let impossible = |name: &str| wire::segment_problem(name).is_some();
        if (!gvk.group.is_empty() && impossible(&gvk.group)) || impossible(&gvk.version) {
            return Ok(None);
        }
        let slot = self.slot(gvk);
        let mut asked = slot.lock().await;
        if let Some(Asked { at, result }) = asked.as_ref() {
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
        let result = self.ask(gvk).await;
        let answer = match &result {
            Ok(kinds) => Ok(kinds.get(&gvk.kind).cloned()),
            Err(error) => Err(error.clone()),
        };
        *asked = Some(Asked {
            at: Instant::now(),
            result,
        });
        answer
    }

    /// Forgets all versions of a group.
    pub fn invalidate(&self, group: &str) {
        self.known.lock().retain(|(known, _), _| known != group);
    }

    fn slot(&self, gvk: &Gvk) -> Arc<Slot> {
        let mut known = self.known.lock();
        let key = (gvk.group.clone(), gvk.version.clone());
        if known.len() >= MOST_GROUP_VERSIONS && !known.contains_key(&key) {
            known.clear();
        }
        Arc::clone(known.entry(key).or_default())
    }

    async fn ask(&self, gvk: &Gvk) -> Result<Arc<HashMap<String, Arc<Resource>>>, DiscoveryError> {
        let failed = |cause: String| DiscoveryError {
            group_version: gvk.api_version(),
            cause: cause.into(),
        };
        let request = wire::get(&prefix(gvk), "application/json")
            .map_err(|error| failed(error.to_string()))?;
        let reply = wire::call(&self.client, request)
            .await
            .map_err(|error| failed(error.to_string()))?;
        match reply.status {
            StatusCode::NOT_FOUND => Ok(Arc::default()),
            status if status.is_success() => read(&reply.body)
                .map(Arc::new)
                .map_err(|error| failed(format!("unreadable answer: {error}"))),
            status => Err(failed(wire::failure(status, &reply.body).message)),
        }
    }
}

/// Reads an `APIResourceList`.
fn read(body: &[u8]) -> Result<HashMap<String, Arc<Resource>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct List {
        // Null when a group has no resources left.
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
        // Subresources have a slash in their name, and sometimes the kind of something else.
        if item.name.contains('/') {
            continue;
        }
        let can = |verb| item.verbs.iter().any(|known| known == verb);
        let resource = Resource {
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

    fn resource(scope: KindScope) -> Resource {
        Resource {
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
        let gizmo = Gvk::new("x.y/v1", "Gizmo");
        let core = Gvk::new("v1", "Gizmo");
        let (inside, outside) = (
            resource(KindScope::Namespaced),
            resource(KindScope::Cluster),
        );
        assert_eq!(inside.path(&gizmo), "/apis/x.y/v1/gizmos");
        assert_eq!(
            inside.path_of(&gizmo, &key("n", "a")).unwrap(),
            "/apis/x.y/v1/namespaces/n/gizmos/a"
        );
        assert_eq!(
            inside.path_of(&core, &key("n", "a")).unwrap(),
            "/api/v1/namespaces/n/gizmos/a"
        );
        assert_eq!(
            outside.path_of(&core, &key("", "a:b")).unwrap(),
            "/api/v1/gizmos/a%3Ab"
        );
        assert_eq!(
            outside.path_of(&core, &key("n", "a")).unwrap(),
            "/api/v1/gizmos/a"
        );
    }

    #[test]
    fn no_path_leads_elsewhere() {
        let core = Gvk::new("v1", "Gizmo");
        let inside = resource(KindScope::Namespaced);
        for (namespace, name) in [
            ("n", ".."),
            ("..", "a"),
            ("", "a"),
            ("n", ""),
            ("n", "a/b"),
            ("n/x", "a"),
        ] {
            assert!(
                inside.path_of(&core, &key(namespace, name)).is_err(),
                "{namespace:?} {name:?}"
            );
        }
    }

    #[test]
    fn reads_resources_without_their_subresources() {
        let body = br#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
            {"name":"deployments/scale","namespaced":true,"kind":"Scale","group":"autoscaling","verbs":["get"]},
            {"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["create","list","watch","patch"]},
            {"name":"reviews","namespaced":false,"kind":"Review","verbs":["create"]}]}"#;
        let kinds = read(body).unwrap();
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds["Deployment"].plural, "deployments");
        assert!(kinds["Deployment"].watchable);
        assert_eq!(kinds["Deployment"].scope, KindScope::Namespaced);
        assert!(!kinds["Review"].watchable);
        assert_eq!(kinds["Review"].scope, KindScope::Cluster);
        assert!(read(br#"{"resources":null}"#).unwrap().is_empty());
        assert!(read(b"404 page not found").is_err());
    }
}
