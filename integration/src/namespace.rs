//! A namespace per test, and functions that wait for changes in it.

mod clean_up;

use std::ops::AsyncFn;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::{Cluster, Refused};
use crate::manager::Manager;
use crate::manifest::{Entry, object};
use crate::polls::Polls;
use crate::program::Log;
use crate::revision::{Expectation, Revision};
use crate::work;

/// The usual time limit of a wait. Only a test that fails reaches it. A machine that is shared with others
/// may stand still for many seconds, and Kubernetes deletes a namespace in minutes then.
pub const TIMEOUT: Duration = Duration::from_mins(3);

/// Time between two looks at a state that must not change.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// The label of a test's namespace and of its cluster-scoped revisions.
pub const LABEL_TEST: &str = "baton.run/integration-test";

/// Value of the label of a namespace whose test is over, without content.
pub const EMPTIED: &str = "emptied";

/// The scope of the revisions of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `ObjectSets`.
    Namespaced,
    /// `ClusterObjectSets`, whose objects are in the test's namespace unless a test names another
    /// place.
    Cluster,
}

/// The namespace of one test.
///
/// If the value is dropped while the test fails, it prints the content of the namespace. The drop
/// requests the deletion of all objects of the test; the cluster and the manager remove them in the
/// background.
pub struct TestNamespace {
    name: String,
    scope: Scope,
    cluster: Cluster,
    log: Log,
    /// True if the namespace is deleted after the test. The cluster of the test run keeps it without
    /// content.
    is_deleted: bool,
    elsewhere: Mutex<Vec<Value>>,
}

/// A namespace with a time limit other than the usual one.
#[derive(Clone, Copy)]
pub struct Patient<'a> {
    namespace: &'a TestNamespace,
    patience: Duration,
}

impl TestNamespace {
    /// Creates a namespace on the cluster of the test run, where the shared manager runs.
    pub async fn new(scope: Scope) -> Self {
        let cluster = Cluster::shared().await;
        let log = Manager::shared(cluster.kubeconfig()).log().clone();
        let mut namespace = Self::on(cluster, log, scope).await;
        namespace.is_deleted = false;
        namespace
    }

    /// Creates a namespace on a cluster whose manager writes `log`.
    pub async fn on(cluster: Cluster, log: Log, scope: Scope) -> Self {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "generateName": "baton-it-", "labels": { LABEL_TEST: "true" } },
        });
        work::begin().await;
        let namespace = cluster.create(&namespace).await.unwrap();
        let name = namespace["metadata"]["name"].as_str().unwrap().to_owned();
        Self {
            name,
            scope,
            cluster,
            log,
            is_deleted: true,
            elsewhere: Mutex::default(),
        }
    }

    /// Returns the name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the scope of the test's revisions.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the cluster of the namespace.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the metrics of the shared manager.
    #[must_use]
    pub fn metrics(&self) -> baton_hack::metrics::Metrics {
        Manager::shared(self.cluster.kubeconfig()).metrics()
    }

    /// Returns the text of the metrics of the shared manager, in a format with this media type.
    #[must_use]
    pub fn scrape(&self, accept: &str) -> String {
        Manager::shared(self.cluster.kubeconfig()).scrape(accept)
    }

    /// Returns the log of the manager.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns a name that no other test uses, for an object outside of the namespace.
    #[must_use]
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Returns the real name of a revision or of a slice.
    #[must_use]
    pub fn set_name(&self, name: &str) -> String {
        match self.scope {
            Scope::Namespaced => name.to_owned(),
            Scope::Cluster => self.unique(name),
        }
    }

    /// Returns the identity of a revision.
    #[must_use]
    pub fn set_ref(&self, name: &str) -> Value {
        let mut set = json!({
            "apiVersion": "package-operator.run/v1alpha1",
            "metadata": { "name": self.set_name(name) },
        });
        match self.scope {
            Scope::Namespaced => {
                set["kind"] = "ObjectSet".into();
                set["metadata"]["namespace"] = self.name.clone().into();
            }
            Scope::Cluster => {
                set["kind"] = "ClusterObjectSet".into();
                set["metadata"]["labels"] = json!({ LABEL_TEST: self.name });
            }
        }
        set
    }

    /// Reads a revision, which must exist.
    pub async fn read_set(&self, name: &str) -> Revision {
        match self.cluster.get(&self.set_ref(name)).await {
            Some(json) => Revision { json },
            None => panic!("there is no revision {name}"),
        }
    }

    /// Merge-patches a revision.
    pub async fn patch_set(&self, name: &str, patch: &Value) -> Result<Revision, Refused> {
        let json = self.cluster.merge(&self.set_ref(name), patch).await?;
        Ok(Revision { json })
    }

    /// Sets the desired life cycle state of a revision.
    pub async fn set_lifecycle(&self, name: &str, state: &str) -> Revision {
        let patch = json!({ "spec": { "lifecycleState": state } });
        self.patch_set(name, &patch).await.unwrap()
    }

    /// Deletes a revision and returns when it is gone, even if a new object has its name by then.
    pub async fn delete_set(&self, name: &str, propagation: &str) {
        let reference = self.set_ref(name);
        let deleted = self.read_set(name).await;
        assert!(self.cluster.delete(&reference, propagation).await);
        self.eventually(&format!("revision {name} to be gone"), async || {
            let live = self.cluster.get(&reference).await;
            live.is_none_or(|json| Revision { json }.uid() != deleted.uid())
        })
        .await;
    }

    /// Waits until a revision satisfies all conditions at the same time, and returns it.
    pub async fn reaches(&self, name: &str, wanted: &[Expectation<'_>]) -> Revision {
        self.within(TIMEOUT).reaches(name, wanted).await
    }

    /// Sets another time limit for a wait.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Patient<'_> {
        Patient {
            namespace: self,
            patience,
        }
    }

    /// Creates an object in the namespace as another client.
    pub async fn create(&self, entry: &Entry) -> Value {
        self.cluster.create(&self.reference(entry)).await.unwrap()
    }

    /// Creates an object outside of the namespace; it is deleted together with the namespace.
    pub async fn create_elsewhere(&self, entry: &Entry) -> Value {
        let object = self.cluster.create(&entry.manifest).await.unwrap();
        self.elsewhere.lock().unwrap().push(entry.manifest.clone());
        object
    }

    /// Reads an object.
    pub async fn get(&self, entry: &Entry) -> Option<Value> {
        self.cluster.get(&self.reference(entry)).await
    }

    /// Reads an object, which must exist.
    pub async fn live(&self, entry: &Entry) -> Value {
        match self.get(entry).await {
            Some(object) => object,
            None => panic!("there is no {} {}", entry.kind(), entry.name()),
        }
    }

    /// Merge-patches an object as a user.
    pub async fn merge(&self, entry: &Entry, patch: &Value) -> Value {
        self.cluster
            .merge(&self.reference(entry), patch)
            .await
            .unwrap()
    }

    /// Sets the annotation that `name_annotation_probe` requires, whose value is the object's own
    /// name.
    pub async fn annotate_with_name(&self, entry: &Entry) {
        let patch = json!({ "metadata": { "annotations": { "name": entry.name() } } });
        self.merge(entry, &patch).await;
    }

    /// Removes the blocking finalizer from an object.
    pub async fn unblock(&self, entry: &Entry) {
        self.merge(entry, &json!({ "metadata": { "finalizers": null } }))
            .await;
    }

    /// Deletes an object as a user.
    pub async fn delete(&self, entry: &Entry) {
        assert!(
            self.cluster
                .delete(&self.reference(entry), "Background")
                .await
        );
    }

    /// Waits until an object satisfies a predicate, and returns it.
    pub async fn object_becomes(
        &self,
        entry: &Entry,
        text: &str,
        predicate: impl Fn(&Value) -> bool,
    ) -> Value {
        let polls = Polls::start();
        loop {
            let object = self.get(entry).await;
            match object {
                Some(object) if predicate(&object) => return object,
                object if polls.elapsed() > TIMEOUT => {
                    let yaml = serde_saphyr::to_string(&object).unwrap();
                    panic!(
                        "{} {} was to become {text}, and is\n{yaml}",
                        entry.kind(),
                        entry.name()
                    );
                }
                _ => polls.pause().await,
            }
        }
    }

    /// Waits until the object does not exist.
    pub async fn gone(&self, entry: &Entry) {
        self.until_gone(&self.reference(entry)).await;
    }

    pub(crate) async fn until_gone(&self, reference: &Value) {
        let text = format!(
            "{} {} to be gone",
            reference["kind"], reference["metadata"]["name"]
        );
        self.eventually(&text, async || self.cluster.get(reference).await.is_none())
            .await;
    }

    /// Waits until a predicate holds.
    pub async fn eventually(&self, text: &str, holds: impl AsyncFn() -> bool) {
        self.within(TIMEOUT).eventually(text, holds).await;
    }

    /// Waits for an event of this type and message in the namespace of the test, or in `default`
    /// for cluster-scoped revisions.
    pub async fn has_event(&self, type_: &str, text: &str) {
        let namespace = match self.scope {
            Scope::Namespaced => self.name(),
            Scope::Cluster => "default",
        };
        let like = object("v1", "Event", "").within(namespace).manifest;
        let wanted = format!("the event {text:?}");
        self.eventually(&wanted, async || {
            let events = self.cluster.list(&like, "").await;
            let mut events = events.iter();
            events.any(|event| event["type"] == type_ && event["message"] == text)
        })
        .await;
    }

    /// Waits until garbage collection has discovered our kinds.
    ///
    /// It looks for new kinds twice a minute; the dependents of an orphaned object keep their owner
    /// references if it does not know the kind of the dependents.
    pub async fn until_garbage_is_collected(&self) {
        let labels = json!({ "package-operator.run/phase-class": "nobody" });
        let spec = json!({ "revision": 1, "objects": [] });
        self.until_collected("ObjectSetPhase", labels, spec).await;
    }

    /// Waits until garbage collection has observed all changes of this namespace's revisions so
    /// far. It observes the changes of a kind in their order.
    pub async fn until_owners_are_observed(&self) {
        let kind = match self.scope {
            Scope::Namespaced => "ObjectSet",
            Scope::Cluster => "ClusterObjectSet",
        };
        let spec = json!({ "lifecycleState": "Archived" });
        self.until_collected(kind, json!({}), spec).await;
    }

    /// Waits until an object of one of our kinds, whose owner does not exist, is collected.
    async fn until_collected(&self, kind: &str, labels: Value, spec: Value) {
        let owner =
            json!({ "apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone" });
        let mut object = json!({
            "apiVersion": "package-operator.run/v1alpha1",
            "kind": kind,
            "metadata": {
                "name": format!("garbage-{}", self.name),
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": spec,
        });
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = self.name.as_str().into();
        }
        self.cluster.create(&object).await.unwrap();
        self.eventually("garbage to be collected", async || {
            self.cluster.get(&object).await.is_none()
        })
        .await;
    }

    /// Fails if a predicate ceases to hold within this time. For changes that must *not* happen.
    pub async fn stays(&self, time: Duration, text: &str, holds: impl AsyncFn() -> bool) {
        let start = Instant::now();
        while start.elapsed() < time {
            assert!(holds().await, "this was to stay, and did not: {text}");
            sleep(INTERVAL).await;
        }
    }

    /// Returns the manifest of an entry's object, with its full identity.
    #[must_use]
    pub fn reference(&self, entry: &Entry) -> Value {
        self.here(entry.clone()).manifest
    }
}

impl Patient<'_> {
    /// Waits until a revision satisfies all conditions at the same time, and returns it.
    pub async fn reaches(&self, name: &str, wanted: &[Expectation<'_>]) -> Revision {
        let polls = Polls::start();
        loop {
            let revision = self.namespace.read_set(name).await;
            if revision.has(wanted) {
                return revision;
            }
            if polls.elapsed() > self.patience {
                revision.assert(wanted);
            }
            polls.pause().await;
        }
    }

    /// Waits until a predicate holds.
    pub async fn eventually(&self, text: &str, holds: impl AsyncFn() -> bool) {
        let polls = Polls::start();
        while !holds().await {
            assert!(
                polls.elapsed() <= self.patience,
                "waited in vain for {text}"
            );
            polls.pause().await;
        }
    }
}
