//! The end of a test's namespace.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{INTERVAL, LABEL_TEST, TIMEOUT, TestNamespace};
use crate::cluster::{Cluster, collection};
use crate::manifest::BLOCKING_FINALIZER;
use crate::{dump, work};

/// The longest time that a namespace is not deleted yet because objects of Baton are left in it.
const EMPTYING: Duration = Duration::from_secs(3);

/// The kinds of revisions and their owners, which have finalizers or make objects that have them.
const OWNERS: [(&str, &str); 5] = [
    ("shipper.booking.com", "Application"),
    ("shipper.booking.com", "Release"),
    ("baton.run", "SiteDeployment"),
    ("package-operator.run", "ObjectDeployment"),
    ("package-operator.run", "ObjectSet"),
];

impl Drop for TestNamespace {
    /// Cleans up on a runtime of its own: the runtime of the test cannot block any more.
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        work::end();
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

impl TestNamespace {
    /// Deletes all objects of the test.
    async fn clean_up(&self, cluster: &Cluster) {
        let labels = format!("{LABEL_TEST}={}", self.name);
        // Garbage collection deletes the revisions of a deployment. A revision that is deleted
        // before its deployment is created again.
        for kind in [
            "ClusterObjectDeployment",
            "ClusterObjectSet",
            "ClusterObjectSetPhase",
        ] {
            let of_kind = |metadata| of_kind("package-operator.run/v1alpha1", kind, metadata);
            for found in cluster.list(&of_kind(json!({})), &labels).await {
                let name = json!({ "name": found["metadata"]["name"] });
                cluster.delete(&of_kind(name), "Background").await;
            }
        }
        let elsewhere = self.elsewhere.lock().unwrap().clone();
        for object in elsewhere {
            cluster.delete(&object, "Background").await;
        }
        self.empty(cluster).await;
        let namespace = of_kind("v1", "Namespace", json!({ "name": self.name }));
        cluster.delete(&namespace, "Background").await;
        self.unblock_all(cluster).await;
    }

    /// Deletes the revisions of the namespace and their owners, and waits a while until none is
    /// left.
    ///
    /// Kubernetes empties a namespace by two requests per kind that it serves, and repeats all of
    /// them while an object with a finalizer is left. These were most requests of a test run.
    async fn empty(&self, cluster: &Cluster) {
        let options = json!({ "propagationPolicy": "Background" });
        let start = Instant::now();
        loop {
            let mut is_empty = true;
            for (group, kind) in OWNERS {
                let namespace = json!({ "namespace": self.name });
                let url = collection(&of_kind(&format!("{group}/v1alpha1"), kind, namespace));
                let deleted = cluster.send(Method::DELETE, &url, "application/json", &options);
                // A control plane that does not serve the kind has none of its objects.
                if let Ok(list) = deleted.await {
                    is_empty &= list["items"].as_array().is_none_or(Vec::is_empty);
                }
            }
            if is_empty || start.elapsed() > EMPTYING {
                return;
            }
            sleep(INTERVAL * 5).await;
        }
    }

    /// Removes the blocking finalizer from all objects. Objects that are not being deleted yet are
    /// skipped, because their revision would add the finalizer again.
    async fn unblock_all(&self, cluster: &Cluster) {
        let mut object = of_kind("v1", "ConfigMap", json!({ "namespace": self.name }));
        let start = Instant::now();
        loop {
            let mut found = cluster.list(&object, "").await;
            found.retain(|found| found["metadata"]["finalizers"] == json!([BLOCKING_FINALIZER]));
            if found.is_empty() || start.elapsed() > TIMEOUT {
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

/// An object with nothing but its kind and metadata, for requests about the kind or the object.
fn of_kind(api_version: &str, kind: &str, metadata: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind });
    object["metadata"] = metadata;
    object
}
