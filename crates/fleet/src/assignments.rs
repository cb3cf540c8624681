//! The namespaces that may deliver into each cluster, by the `SiteAssignments`.
//!
//! ```text
//! watch of SiteAssignments ──────────► Known ──► decide ──► controllers
//! watch of Namespaces (metadata) ───►   └─► AssignmentChange, which wakes them
//! ```
//!
//! # Guarantees
//! - Nothing is allowed before all assignments were listed. If an assignment selects namespaces by
//!   labels, nothing is allowed before the namespaces were listed.
//! - While assignments or namespaces cannot be listed, nothing is allowed or refused: see
//!   [`Decision::Unreadable`].
//! - If the custom resource definition of assignments does not exist there are none. If it exists
//!   but is not served, the assignments are unknown.
//! - Namespaces are watched only once an assignment selects them by labels.
//!
//! # Why not kube's watcher
//! The reasons are those in [`crate::inventory`].

mod cache;
mod decision;

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{SiteAssignment, kinds};
use baton_kubernetes::{
    informers::Task,
    watch::{WatchSpec, run},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::ApiResource,
};
use parking_lot::{Mutex, RwLock};
use serde_json::json;
use tokio::sync::watch;

use self::cache::AssignmentCache;
pub use self::decision::{Assignment, Decision, Subject, may_deliver};

/// The existing assignments; cheap to clone. The tasks end with the last clone.
#[derive(Clone)]
pub struct Assignments {
    shared: Arc<Shared>,
    _watch: Arc<Task>,
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A change on which decisions depend.
#[derive(Clone, Debug)]
pub enum AssignmentChange {
    /// An assignment was added, changed or removed: its states before and after.
    Assignment(Vec<Arc<Assignment>>),
    /// The labels of this namespace have changed.
    Namespace(String),
    /// The extent of the cached assignments or namespaces has changed.
    Everything,
}

impl AssignmentChange {
    /// True if the change may affect the decision about a namespace and a cluster.
    pub fn concerns(&self, namespace: &str, cluster: Subject<'_>) -> bool {
        match self {
            Self::Assignment(versions) => {
                let mut versions = versions.iter();
                versions.any(|assignment| assignment.selects_cluster(cluster))
            }
            Self::Namespace(name) => name == namespace,
            Self::Everything => true,
        }
    }
}

struct Shared {
    client: Client,
    /// True if no namespace may deliver into a cluster that no assignment selects.
    is_required: bool,
    cache: RwLock<AssignmentCache>,
    /// True once the API server has answered the first lists.
    is_listed: watch::Sender<bool>,
    changed: Box<dyn Fn(AssignmentChange) + Send + Sync>,
    /// The watch on Namespaces, once it is needed.
    namespaces: Mutex<Option<Task>>,
}

impl Assignments {
    /// Starts the watch. `changed` is called when decisions may have changed; it must not block.
    /// Must be called within a tokio runtime.
    ///
    /// Without the custom resource definition there are no assignments. Without the right to read
    /// them there are no decisions, and the watch is retried.
    pub fn start(
        client: Client,
        is_required: bool,
        changed: impl Fn(AssignmentChange) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            client: client.clone(),
            is_required,
            cache: RwLock::default(),
            is_listed: watch::Sender::new(false),
            changed: Box::new(changed),
            namespaces: Mutex::new(None),
        });
        let spec = WatchSpec {
            definition: Some(kinds::SITE_ASSIGNMENT.definition()),
            ..WatchSpec::new(kinds::SITE_ASSIGNMENT.path(None))
        };
        // A weak reference, so that the task of the watch does not keep the shared state alive.
        let weak = Arc::downgrade(&shared);
        let watch = run(client, spec, move |event| {
            if let Some(fed) = weak.upgrade() {
                let found = fed.cache.write().assignment_event(&event);
                fed.follow(found);
            }
        });
        Self {
            shared,
            _watch: Arc::new(Task::spawn(watch)),
        }
    }

    /// Decides if revisions of a namespace may deliver into a cluster, and with which reach.
    pub fn decide(&self, namespace: &str, cluster: Subject<'_>) -> Decision {
        let cache = self.shared.cache.read();
        cache.decide(namespace, cluster, self.shared.is_required)
    }

    /// As [`Assignments::decide`] for several clusters, by the objects that the API server has now.
    /// The watches may not have reported all of them yet.
    ///
    /// # Errors
    /// When the assignments, or the labels of the namespace, cannot be read.
    pub async fn decide_now(
        &self,
        namespace: &str,
        clusters: &[Subject<'_>],
    ) -> Result<Vec<Decision>, kube::Error> {
        let client = &self.shared.client;
        // Read untyped, so that one invalid assignment does not hide the others.
        let resource = ApiResource::erase::<SiteAssignment>(&());
        let found = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let found = match found.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            found => found?.items,
        };
        let assignments = found.iter().map(|it| {
            let name = it.metadata.name.as_deref().unwrap_or_default();
            Assignment::read(name, it.data.get("spec").unwrap_or(&json!({})))
        });
        let assignments: Vec<_> = assignments.collect();
        let mut labels = Labels::new();
        if assignments.iter().any(Assignment::needs_namespace_labels) {
            let namespaces = Api::<Namespace>::all(client.clone());
            let metadata = namespaces.get_metadata(namespace).await?.metadata;
            labels.extend(metadata.labels.into_iter().flatten());
        }
        let namespace = Subject {
            name: namespace,
            labels: &labels,
        };
        let is_required = self.shared.is_required;
        let decide =
            |cluster: &Subject<'_>| may_deliver(namespace, *cluster, &assignments, is_required);
        Ok(clusters.iter().map(decide).collect())
    }

    /// The reason that nothing can be decided now: the kind that cannot be listed, and the cause;
    /// `None` if all kinds can be listed.
    pub fn unreadable(&self) -> Option<String> {
        self.shared.cache.read().unreadable()
    }

    /// Resolves when the assignments, and the labels by which they select, were listed once, or
    /// their list has failed.
    pub async fn listed(&self) {
        // The sender exists as long as `self`.
        let mut listed = self.shared.is_listed.subscribe();
        let _ = listed.wait_for(|listed| *listed).await;
    }
}

impl Shared {
    /// Publishes changes, and starts the watch on Namespaces when it is needed.
    fn follow(self: &Arc<Self>, changes: Vec<AssignmentChange>) {
        let (needs_labels, is_settled) = {
            let cache = self.cache.read();
            (cache.needs_namespace_labels(), cache.is_settled())
        };
        if needs_labels {
            let mut watch = self.namespaces.lock();
            watch.get_or_insert_with(|| self.watch_namespaces());
        }
        if is_settled {
            self.is_listed.send_replace(true);
        }
        for change in changes {
            (self.changed)(change);
        }
    }

    fn watch_namespaces(self: &Arc<Self>) -> Task {
        let spec = WatchSpec {
            metadata_only: true,
            ..WatchSpec::new("/api/v1/namespaces".to_owned())
        };
        let weak = Arc::downgrade(self);
        Task::spawn(run(self.client.clone(), spec, move |event| {
            if let Some(fed) = weak.upgrade() {
                let found = fed.cache.write().namespace_event(&event);
                fed.follow(found);
            }
        }))
    }
}
