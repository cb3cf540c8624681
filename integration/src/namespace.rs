//! A namespace per test, and waiting in it.

use std::ops::AsyncFn;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::{Cluster, Refused};
use crate::dump;
use crate::manager::Manager;
use crate::manifest::{BLOCKING_FINALIZER, Entry, object};
use crate::program::Log;
use crate::revision::{Revision, Want};
use crate::work;

/// How long anything may take to happen. A machine that others use as well may stand still for many seconds.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How long garbage collection may take to know new kinds.
const GARBAGE: Duration = Duration::from_secs(90);

/// Between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// On the namespace of a test, and on its cluster-scoped revisions.
pub const LABEL_TEST: &str = "baton.run/integration-test";

/// Whether a test works with `ObjectSets` or with `ClusterObjectSets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `ObjectSets`.
    Namespaced,
    /// `ClusterObjectSets`, with their objects in the test's namespace where nothing else is said.
    Cluster,
}

/// A namespace of a test's own.
///
/// Dropped while the test fails, it prints what is in it. What the test has made is deleted then,
/// and the cluster and the manager remove it in their own time.
pub struct TestNamespace {
    name: String,
    scope: Scope,
    cluster: Cluster,
    log: Log,
    elsewhere: Mutex<Vec<Value>>,
}

/// How long to wait for something that takes its time.
#[derive(Clone, Copy)]
pub struct Patient<'a> {
    namespace: &'a TestNamespace,
    patience: Duration,
}

impl TestNamespace {
    /// A new one, on the cluster of the test run, with the shared manager at work.
    pub async fn new(scope: Scope) -> Self {
        let cluster = Cluster::shared().await;
        let log = Manager::shared(cluster.kubeconfig()).log().clone();
        Self::on(cluster, log, scope).await
    }

    /// A new one on a cluster whose manager writes this log.
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
            elsewhere: Mutex::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scope of the test's revisions.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The cluster it is in.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The metrics of the shared manager.
    #[must_use]
    pub fn metrics(&self) -> baton_hack::metrics::Metrics {
        Manager::shared(self.cluster.kubeconfig()).metrics()
    }

    /// The log of its manager.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// A name that nobody else has, for what lives outside of the namespace.
    #[must_use]
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// The real name of a revision, or of a slice.
    #[must_use]
    pub fn set_name(&self, name: &str) -> String {
        match self.scope {
            Scope::Namespaced => name.to_owned(),
            Scope::Cluster => self.unique(name),
        }
    }

    /// The identity of a revision.
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

    /// Reads a revision, which exists.
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

    /// Asks for a life cycle state.
    pub async fn set_lifecycle(&self, name: &str, state: &str) -> Revision {
        let patch = json!({ "spec": { "lifecycleState": state } });
        self.patch_set(name, &patch).await.unwrap()
    }

    /// Deletes a revision and returns when it is gone, even if another one has taken its name since.
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

    /// Waits until all of this holds for a revision at the same time, and returns it.
    pub async fn reaches(&self, name: &str, wanted: &[Want<'_>]) -> Revision {
        self.within(PATIENCE).reaches(name, wanted).await
    }

    /// Waits for longer, or for less long, than usual.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Patient<'_> {
        Patient {
            namespace: self,
            patience,
        }
    }

    /// Creates an object of somebody else's in the namespace.
    pub async fn create(&self, entry: &Entry) -> Value {
        self.cluster.create(&self.reference(entry)).await.unwrap()
    }

    /// Creates an object outside of the namespace, to be deleted with the namespace.
    pub async fn create_elsewhere(&self, entry: &Entry) -> Value {
        let object = self.cluster.create(&entry.manifest).await.unwrap();
        self.elsewhere.lock().unwrap().push(entry.manifest.clone());
        object
    }

    /// Reads an object.
    pub async fn get(&self, entry: &Entry) -> Option<Value> {
        self.cluster.get(&self.reference(entry)).await
    }

    /// Reads an object, which exists.
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

    /// Annotates an object with its own name, as `name_annotation_probe` asks for.
    pub async fn annotate_with_name(&self, entry: &Entry) {
        let patch = json!({ "metadata": { "annotations": { "name": entry.name() } } });
        self.merge(entry, &patch).await;
    }

    /// Takes the blocking finalizer off an object.
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
        let asked = Instant::now();
        loop {
            let object = self.get(entry).await;
            match object {
                Some(object) if predicate(&object) => return object,
                object if asked.elapsed() > PATIENCE => {
                    let yaml = serde_saphyr::to_string(&object).unwrap();
                    panic!(
                        "{} {} was to become {text}, and is\n{yaml}",
                        entry.kind(),
                        entry.name()
                    );
                }
                _ => sleep(INTERVAL).await,
            }
        }
    }

    /// Waits until there is no such object.
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

    /// Waits until something holds.
    pub async fn eventually(&self, text: &str, holds: impl AsyncFn() -> bool) {
        self.within(PATIENCE).eventually(text, holds).await;
    }

    /// Waits for an event of this type about one of the revisions, or what belongs to them.
    pub async fn has_event(&self, type_: &str, text: &str) {
        let place = match self.scope {
            Scope::Namespaced => self.name(),
            Scope::Cluster => "default",
        };
        let like = object("v1", "Event", "").within(place).manifest;
        let wanted = format!("the event {text:?}");
        self.eventually(&wanted, async || {
            let events = self.cluster.list(&like, "").await;
            let mut events = events.iter();
            events.any(|event| event["type"] == type_ && event["message"] == text)
        })
        .await;
    }

    /// Waits until garbage collection knows our kinds. It looks for new kinds twice a minute, and leaves the
    /// dependents of an orphaned object alone if it does not know theirs.
    pub async fn until_garbage_is_collected(&self) {
        let labels = json!({ "package-operator.run/phase-class": "nobody" });
        let spec = json!({ "revision": 1, "objects": [] });
        self.until_collected("ObjectSetPhase", labels, spec).await;
    }

    /// Waits until garbage collection has observed all that has happened to the revisions of this namespace so far: it
    /// observes the changes of a kind in their order.
    pub async fn until_owners_are_observed(&self) {
        let kind = match self.scope {
            Scope::Namespaced => "ObjectSet",
            Scope::Cluster => "ClusterObjectSet",
        };
        let spec = json!({ "lifecycleState": "Archived" });
        self.until_collected(kind, json!({}), spec).await;
    }

    /// Waits until an object of ours whose owner does not exist is collected.
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
        self.within(GARBAGE)
            .eventually("garbage to be collected", async || {
                self.cluster.get(&object).await.is_none()
            })
            .await;
    }

    /// Fails when something ceases to hold within this time: for what is *not* to happen.
    pub async fn stays(&self, time: Duration, text: &str, holds: impl AsyncFn() -> bool) {
        let asked = Instant::now();
        while asked.elapsed() < time {
            assert!(holds().await, "this was to stay, and did not: {text}");
            sleep(INTERVAL).await;
        }
    }

    /// The identity of an entry's object, with the manifest.
    #[must_use]
    pub fn reference(&self, entry: &Entry) -> Value {
        self.here(entry.clone()).manifest
    }

    /// Takes down what the test has made.
    async fn clean_up(&self, cluster: &Cluster) {
        let like = |api_version: &str, kind: &str, metadata: Value| {
            let kind = json!(kind);
            json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
        };
        let group = "package-operator.run/v1alpha1";
        let labels = format!("{LABEL_TEST}={}", self.name);
        // Garbage collection takes a deployment's revisions; to delete one of them before would only
        // have it made again.
        for kind in [
            "ClusterObjectDeployment",
            "ClusterObjectSet",
            "ClusterObjectSetPhase",
        ] {
            for found in cluster.list(&like(group, kind, json!({})), &labels).await {
                let name = json!({ "name": found["metadata"]["name"] });
                cluster.delete(&like(group, kind, name), "Background").await;
            }
        }
        let elsewhere = self.elsewhere.lock().unwrap().clone();
        for object in elsewhere {
            cluster.delete(&object, "Background").await;
        }
        let name = json!({ "name": self.name });
        cluster
            .delete(&like("v1", "Namespace", name), "Background")
            .await;
        self.unblock_all(cluster).await;
    }

    /// Takes the blocking finalizer off all objects. One that is not being deleted yet would be given
    /// it again by its revision.
    async fn unblock_all(&self, cluster: &Cluster) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": self.name },
        });
        let asked = Instant::now();
        loop {
            let mut found = cluster.list(&object, "").await;
            found.retain(|found| found["metadata"]["finalizers"] == json!([BLOCKING_FINALIZER]));
            if found.is_empty() || asked.elapsed() > PATIENCE {
                return;
            }
            found.retain(|found| !found["metadata"]["deletionTimestamp"].is_null());
            for found in found {
                object["metadata"]["name"] = found["metadata"]["name"].clone();
                let free = json!({ "metadata": { "finalizers": null } });
                let _ = cluster.merge(&object, &free).await;
            }
            object["metadata"] = json!({ "namespace": self.name });
            sleep(INTERVAL).await;
        }
    }
}

impl Patient<'_> {
    /// Waits until all of this holds for a revision at the same time, and returns it.
    pub async fn reaches(&self, name: &str, wanted: &[Want<'_>]) -> Revision {
        let asked = Instant::now();
        loop {
            let revision = self.namespace.read_set(name).await;
            if revision.has(wanted) {
                return revision;
            }
            if asked.elapsed() > self.patience {
                revision.assert(wanted);
            }
            sleep(INTERVAL).await;
        }
    }

    /// Waits until something holds.
    pub async fn eventually(&self, text: &str, holds: impl AsyncFn() -> bool) {
        let asked = Instant::now();
        while !holds().await {
            assert!(
                asked.elapsed() <= self.patience,
                "waited in vain for {text}"
            );
            sleep(INTERVAL).await;
        }
    }
}

impl Drop for TestNamespace {
    /// The runtime of the test cannot be waited in any more, so another one does the work.
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.unwrap().block_on(async {
                    let cluster = Cluster::connect(self.cluster.kubeconfig()).await;
                    if failed {
                        eprintln!(
                            "{}",
                            dump::of_namespace(&cluster, &self.name, &self.log).await
                        );
                    }
                    self.clean_up(&cluster).await;
                });
            });
            if work.join().is_err() {
                eprintln!("the namespace {} could not be cleaned up", self.name);
            }
        });
    }
}
