//! Which namespaces may deliver into which clusters, as the `SiteAssignments` say.
//!
//! ```text
//! watch of SiteAssignments ──────────► Known ──► decide ──► controllers
//! watch of Namespaces (metadata) ───►   └─► AssignmentChange, what wakes them
//! ```
//!
//! # Guarantees
//! - Nothing is allowed before all assignments are known, and the labels of a namespace where they matter.
//! - While assignments or namespaces cannot be listed nothing is allowed or refused: see [`Decision::Unreadable`].
//! - There are no assignments where their custom resource definition does not exist. One that exists and is not served
//!   says nothing of its objects.
//! - Namespaces are watched only from the moment on when an assignment selects them by labels.
//!
//! # Why not kube's watcher
//! As in [`crate::inventory`].

mod decision;
mod known;

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::kinds;
use baton_kubernetes::{
    informers::Task,
    watch::{WatchSpec, run},
};
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

pub use self::decision::{Assignment, Decision, Subject, may_deliver};
use self::known::Known;

/// The assignments there are; cheap to clone. Its tasks end with the last clone.
#[derive(Clone)]
pub struct Assignments {
    shared: Arc<Shared>,
    _watch: Arc<Task>,
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Something that decisions depend on has changed.
#[derive(Clone, Debug)]
pub enum AssignmentChange {
    /// An assignment appeared, changed or went: as it was, and as it is.
    Assignment(Vec<Arc<Assignment>>),
    /// The labels of this namespace.
    Namespace(String),
    /// More is known than before, or less, of anything.
    Everything,
}

impl AssignmentChange {
    /// Whether the decision about a namespace and a cluster may be another one now.
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
    /// Clusters that no assignment selects are closed, too.
    is_required: bool,
    known: RwLock<Known>,
    /// Whether the first answers are there.
    is_listed: watch::Sender<bool>,
    changed: Box<dyn Fn(AssignmentChange) + Send + Sync>,
    /// The watch on Namespaces.
    namespaces: Mutex<Option<Task>>,
}

impl Assignments {
    /// Starts the watch. `changed` is called when decisions may be other ones; it must not block. Must be called within
    /// a tokio runtime.
    ///
    /// Without the custom resource definition there are no assignments. Without the right to read them nothing is
    /// decided, and the watch goes on trying.
    pub fn start(
        client: Client,
        is_required: bool,
        changed: impl Fn(AssignmentChange) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            client: client.clone(),
            is_required,
            known: RwLock::default(),
            is_listed: watch::Sender::new(false),
            changed: Box::new(changed),
            namespaces: Mutex::new(None),
        });
        let spec = WatchSpec {
            definition: Some(kinds::SITE_ASSIGNMENT.definition()),
            ..WatchSpec::new(kinds::SITE_ASSIGNMENT.path(None))
        };
        // The task of a watch does not keep what it feeds alive.
        let weak = Arc::downgrade(&shared);
        let watch = run(client, spec, move |event| {
            if let Some(fed) = weak.upgrade() {
                let found = fed.known.write().assignment_event(&event);
                fed.follow(found);
            }
        });
        Self {
            shared,
            _watch: Arc::new(Task::spawn(watch)),
        }
    }

    /// Whether revisions of a namespace may deliver into a cluster, and how far.
    pub fn decide(&self, namespace: &str, cluster: Subject<'_>) -> Decision {
        let known = self.shared.known.read();
        known.decide(namespace, cluster, self.shared.is_required)
    }

    /// Why nobody may be given a cluster for now: which kind cannot be listed, and the cause.
    pub fn unreadable(&self) -> Option<String> {
        self.shared.known.read().unreadable()
    }

    /// Resolves when the assignments were listed once, with the labels that they select by, or could not be.
    pub async fn listed(&self) {
        // The sender lives as long as `self`.
        let mut listed = self.shared.is_listed.subscribe();
        let _ = listed.wait_for(|listed| *listed).await;
    }
}

impl Shared {
    /// Publishes changes, and begins the watch on Namespaces when it is needed.
    fn follow(self: &Arc<Self>, changes: Vec<AssignmentChange>) {
        let (needs_labels, is_settled) = {
            let known = self.known.read();
            (known.needs_namespace_labels(), known.is_settled())
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
                let found = fed.known.write().namespace_event(&event);
                fed.follow(found);
            }
        }))
    }
}
