//! The cleanup of joins after their tests.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::Site;
use super::names::{mirrors, reference, secret_reference};
use crate::cluster::Cluster;
use crate::namespace::{EMPTIED, INTERVAL, LABEL_TEST, TIMEOUT};
use crate::network::network;

/// The label of a Cluster that names the process that created it.
pub(super) const LABEL_RUN: &str = "baton.run/integration-run";

/// The objects of a join that are left when its test is over.
pub(super) struct Leftovers {
    /// The site; `None` if it ended with the process that started it.
    pub(super) site: Option<Site>,
    pub(super) hub: PathBuf,
    /// The namespace of the test.
    pub(super) ns: String,
    /// The name of the Cluster.
    pub(super) name: String,
}

impl Leftovers {
    /// Waits until no object on the hub needs the site any more, and removes the rest.
    pub(super) async fn clear(self) {
        let hub = Cluster::connect(&self.hub).await;
        let cluster = reference(&self.name);
        let found = hub.get(&cluster).await.unwrap_or_default();
        // Agents end with their tests.
        let is_lost = self.site.is_none() || found["spec"]["connection"] == "Pull";
        let namespace = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            })
        };
        let ns = namespace(&self.ns);
        let sets = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ClusterObjectSet",
        });
        let label = format!("{LABEL_TEST}={}", self.ns);
        let start = Instant::now();
        let is_used = async || {
            let found = hub.get(&ns).await;
            found.is_some_and(|it| {
                let metadata = &it["metadata"];
                metadata["labels"][LABEL_TEST] != EMPTIED
                    || metadata["deletionTimestamp"].is_string()
            })
        };
        while is_used().await || !hub.list(&sets, &label).await.is_empty() {
            if start.elapsed() > TIMEOUT {
                eprintln!("the namespace {} does not go", self.ns);
                break;
            }
            if is_lost {
                self.give_up(&hub).await;
            }
            sleep(INTERVAL * 10).await;
        }
        let mirrors = namespace(&mirrors(&self.name));
        for object in [cluster, secret_reference(&self.name), mirrors] {
            hub.delete(&object, "Background").await;
        }
        if let Some(site) = self.site {
            site.forget(&self.ns).await;
        }
    }

    /// Abandons the phases of the Cluster, even if objects are left in it.
    async fn give_up(&self, hub: &Cluster) {
        let class = format!("package-operator.run/phase-class=cluster.{}", self.name);
        let abandon = json!({ "metadata": { "annotations": { "baton.run/abandon": "true" } } });
        for kind in ["ObjectSetPhase", "ClusterObjectSetPhase"] {
            let mut phase = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": kind,
            });
            for found in hub.list(&phase, &class).await {
                if found["metadata"]["annotations"]["baton.run/abandon"].is_null() {
                    phase["metadata"] = json!({
                        "name": found["metadata"]["name"],
                        "namespace": found["metadata"]["namespace"],
                    });
                    // The phase may be gone by now.
                    let _ = hub.merge(&phase, &abandon).await;
                }
            }
            phase["metadata"].take();
        }
    }
}

/// Clears the objects of earlier processes on a hub that was preserved, once per hub. The sites of
/// those processes are gone, so their phases are abandoned.
pub(super) async fn give_up_on_others(hub: &Cluster, run: &str) {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if !DONE.lock().unwrap().insert(hub.kubeconfig().to_owned()) {
        return;
    }
    for cluster in hub.list(&reference(""), LABEL_RUN).await {
        let metadata = &cluster["metadata"];
        if metadata["labels"][LABEL_RUN] == run {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let left = Leftovers {
            site: None,
            hub: hub.kubeconfig().to_owned(),
            ns: text(&metadata["labels"][LABEL_TEST]),
            name: text(&metadata["name"]),
        };
        network().spawn(left.clear());
    }
}
