//! The end of a test's namespace.

use std::mem;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{EMPTIED, INTERVAL, LABEL_TEST, TIMEOUT, TestNamespace};
use crate::cluster::{Cluster, Refused, collection};
use crate::manifest::BLOCKING_FINALIZER;
use crate::polls::Polls;
use crate::{dump, work};

/// The longest time to wait for the deletion of the revisions of a namespace. The test waits too, and
/// phases of an agent that has ended are not deleted.
const EMPTYING: Duration = Duration::from_secs(5);

/// The kinds of revisions and their owners, which have finalizers or make objects that have them.
const OWNERS: [(&str, &str); 7] = [
    ("shipper.booking.com/v1alpha1", "Application"),
    ("shipper.booking.com/v1alpha1", "Release"),
    ("baton.run/v1alpha1", "SiteDeployment"),
    ("baton.run/v1alpha1", "SiteApplication"),
    ("package-operator.run/v1alpha1", "ObjectDeployment"),
    ("package-operator.run/v1alpha1", "ObjectSet"),
    ("package-operator.run/v1alpha1", "ObjectSetPhase"),
];

/// Emptied namespaces of the shared control plane that may still contain objects of [`OTHERS`].
static TO_SWEEP: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Number of namespaces that are swept together: by one list of each kind, instead of a request for each
/// kind and namespace. Most tests leave no such object.
const SWEPT_TOGETHER: usize = 16;

/// Other kinds whose objects the manager, or a controller of the control plane, does work for.
const OTHERS: [(&str, &str); 15] = [
    ("package-operator.run/v1alpha1", "ObjectSlice"),
    ("shipper.booking.com/v1alpha1", "InstallationTarget"),
    ("shipper.booking.com/v1alpha1", "CapacityTarget"),
    ("shipper.booking.com/v1alpha1", "TrafficTarget"),
    ("shipper.booking.com/v1alpha1", "RolloutBlock"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "ControllerRevision"),
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
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
        let is_empty = self.empty(cluster).await;
        let namespace = of_kind("v1", "Namespace", json!({ "name": self.name }));
        if is_empty && !self.is_deleted {
            let emptied = json!({ "metadata": { "labels": { LABEL_TEST: EMPTIED } } });
            // The test may have deleted it.
            let _ = cluster.merge(&namespace, &emptied).await;
            let due = {
                let mut namespaces = TO_SWEEP.lock().unwrap();
                namespaces.push(self.name.clone());
                let is_due = namespaces.len() >= SWEPT_TOGETHER;
                is_due.then(|| mem::take(&mut *namespaces))
            };
            sweep(cluster, &due.unwrap_or_default()).await;
        } else {
            cluster.delete(&namespace, "Background").await;
        }
        let polls = Polls::start();
        while !self.unblock_deleted(cluster).await && polls.elapsed() < TIMEOUT {
            polls.pause().await;
        }
    }

    /// Deletes the revisions of the namespace and their owners. Returns true if none is left in the end.
    ///
    /// Kubernetes empties a deleted namespace by two requests per kind that it serves, and repeats all
    /// of them while an object with a finalizer is left. These were more than half of all requests of a
    /// test run.
    async fn empty(&self, cluster: &Cluster) -> bool {
        let start = Instant::now();
        let mut left = OWNERS.to_vec();
        loop {
            let mut remaining = Vec::new();
            for kind in left {
                let is_empty = match self.delete_all(cluster, kind).await {
                    Ok(list) => list["items"].as_array().is_none_or(Vec::is_empty),
                    // A control plane that does not serve the kind has none of its objects.
                    Err(refused) => refused.code == 404,
                };
                remaining.extend((!is_empty).then_some(kind));
            }
            left = remaining;
            if left.is_empty() || start.elapsed() > EMPTYING {
                return left.is_empty();
            }
            self.unblock_deleted(cluster).await;
            sleep(INTERVAL * 3).await;
        }
    }

    /// Deletes the objects of a kind in the namespace. Returns the list of them.
    async fn delete_all(
        &self,
        cluster: &Cluster,
        (api_version, kind): (&str, &str),
    ) -> Result<Value, Refused> {
        let options = json!({ "propagationPolicy": "Background" });
        let namespace = json!({ "namespace": self.name });
        let url = collection(&of_kind(api_version, kind, namespace));
        cluster
            .send(Method::DELETE, &url, "application/json", &options)
            .await
    }

    /// Removes the blocking finalizer from the objects that are being deleted. Others are skipped,
    /// because their revision would add the finalizer again. Returns true if no object had it.
    async fn unblock_deleted(&self, cluster: &Cluster) -> bool {
        let mut object = of_kind("v1", "ConfigMap", json!({ "namespace": self.name }));
        let mut found = cluster.list(&object, "").await;
        found.retain(|found| found["metadata"]["finalizers"] == json!([BLOCKING_FINALIZER]));
        let is_free = found.is_empty();
        found.retain(|found| !found["metadata"]["deletionTimestamp"].is_null());
        for found in found {
            object["metadata"]["name"] = found["metadata"]["name"].clone();
            let free = json!({ "metadata": { "finalizers": null } });
            let _ = cluster.merge(&object, &free).await;
        }
        is_free
    }
}

/// Deletes the objects of [`OTHERS`] in some namespaces.
async fn sweep(cluster: &Cluster, namespaces: &[String]) {
    for (api_version, kind) in OTHERS.into_iter().filter(|_| !namespaces.is_empty()) {
        for found in cluster
            .list(&of_kind(api_version, kind, json!({})), "")
            .await
        {
            let of = |field: &str| found["metadata"][field].as_str().unwrap_or_default();
            // Kubernetes creates this one again.
            let is_left = namespaces.iter().any(|it| it == of("namespace"))
                && of("name") != "kube-root-ca.crt";
            if is_left {
                let metadata = json!({ "name": of("name"), "namespace": of("namespace") });
                cluster
                    .delete(&of_kind(api_version, kind, metadata), "Background")
                    .await;
            }
        }
    }
}

/// An object with nothing but its kind and metadata, for requests about the kind or the object.
fn of_kind(api_version: &str, kind: &str, metadata: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind });
    object["metadata"] = metadata;
    object
}
