//! The objects of an Application as Shipper leaves them, made without Shipper: Baton rolls the
//! Application out, its manager ends, and the marks of Shipper replace those of Baton.

use serde_json::{Map, Value, json};

use crate::application::{TestApplication, name};
use crate::cluster::Cluster;
use crate::manifest::{Entry, object};

/// The field manager of Shipper.
const MANAGER: &str = "shipper";
/// The field managers of Baton in the clusters of Releases.
const OURS: [&str; 2] = ["package-operator", "baton-releases"];
/// Kinds in the chart of the tests.
const INSTALLED: [(&str, &str); 2] = [("apps/v1", "Deployment"), ("v1", "Service")];
const OWN_API: &str = "package-operator.run/v1alpha1";

impl TestApplication<'_> {
    /// Replaces Baton by Shipper: the clusters and the hub are in the state of a hub that Shipper
    /// has run. No manager may run.
    ///
    /// Each Release that exists has installed the shared objects, the newest one last.
    pub async fn left_by_shipper(&self) {
        let releases = self.releases().await;
        for app_cluster in &self.clusters {
            let cluster = &app_cluster.cluster;
            let mut anchors = Vec::new();
            for release in &releases {
                anchors.push(self.anchor(cluster, release).await);
            }
            for (api, kind) in INSTALLED {
                let like = self.ns.reference(&object(api, kind, "any"));
                for mut installed in cluster.list(&like, "shipper-owned-by").await {
                    installed["apiVersion"] = api.into();
                    installed["kind"] = kind.into();
                    install(cluster, installed, &anchors).await;
                }
            }
        }
        let hub = self.ns.cluster();
        for release in &releases {
            let without = json!({ "metadata": { "finalizers": null } });
            hub.merge(release, &without).await.unwrap();
            let target = self
                .ns
                .reference(&Self::kind("InstallationTarget", name(release)));
            let without = json!({ "metadata": { "annotations": { "baton.run/content": null } } });
            hub.merge(&target, &without).await.unwrap();
        }
        for kind in ["ObjectSetPhase", "ObjectSet", "ObjectSlice"] {
            let like = self.ns.reference(&object(OWN_API, kind, "any"));
            for mut own in hub.list(&like, "").await {
                own["apiVersion"] = OWN_API.into();
                own["kind"] = kind.into();
                let without = json!({ "metadata": { "finalizers": null } });
                hub.merge(&own, &without).await.unwrap();
                hub.delete(&own, "Background").await;
            }
        }
    }

    /// Deletes the anchors in all clusters, and waits until garbage collection has deleted the
    /// objects without another owner.
    pub async fn collect_anchors(&self) {
        for release in self.releases().await {
            for app_cluster in &self.clusters {
                let cluster = &app_cluster.cluster;
                let anchor = self.ns.reference(&anchor_of(&release));
                let anchor = cluster.get(&anchor).await.unwrap();
                // An object that is certainly collected, after all others.
                let mut last = anchor.clone();
                last["metadata"] = json!({
                    "name": format!("{}-last", name(&release)), "namespace": self.ns.name(),
                    "ownerReferences": [reference(&anchor)],
                });
                cluster.create(&last).await.unwrap();
                assert!(cluster.delete(&anchor, "Background").await);
                let collected = async || cluster.get(&last).await.is_none();
                self.ns.eventually("garbage collection", collected).await;
            }
        }
    }

    /// Creates the anchor of a Release, and returns its owner reference.
    async fn anchor(&self, cluster: &Cluster, release: &Value) -> Value {
        let target = self
            .ns
            .reference(&Self::kind("InstallationTarget", name(release)));
        let target = self.ns.cluster().get(&target).await.unwrap();
        let mut anchor = self.ns.reference(&anchor_of(release));
        anchor["metadata"]["labels"] = target["metadata"]["labels"].clone();
        anchor["data"] = json!({ "InstallationTargetUID": target["metadata"]["uid"] });
        let anchor = cluster.create(&anchor).await.unwrap();
        reference(&anchor)
    }
}

fn reference(anchor: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name(anchor), "uid": anchor["metadata"]["uid"],
    })
}

fn anchor_of(release: &Value) -> Entry {
    object("v1", "ConfigMap", &format!("{}-anchor", name(release)))
}

/// Writes an object as Shipper has written it: a workload has the anchor of its Release, a Service
/// those of all Releases.
async fn install(cluster: &Cluster, mut installed: Value, anchors: &[Value]) {
    let release = installed["metadata"]["labels"]["shipper-owned-by"].clone();
    let own = format!("{}-anchor", release.as_str().unwrap());
    let is_shared = installed["kind"] == "Service";
    let owners = anchors
        .iter()
        .filter(|anchor| is_shared || anchor["name"] == own.as_str());
    let metadata = installed["metadata"].as_object_mut().unwrap();
    metadata.insert("ownerReferences".to_owned(), owners.cloned().collect());
    metadata["labels"]
        .as_object_mut()
        .unwrap()
        .remove("package-operator.run/cache");
    let annotations = metadata["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| {
        !key.starts_with("package-operator.run/") && !key.starts_with("baton.run/")
    });
    let entries = metadata["managedFields"].as_array_mut().unwrap();
    let ours = entries.extract_if(.., |entry| {
        OURS.iter().any(|ours| entry["manager"] == *ours)
    });
    let mut fields = Map::new();
    let mut entry = json!({});
    for ours in ours {
        unite(&mut fields, ours["fieldsV1"].as_object().unwrap());
        entry = ours;
    }
    entry["manager"] = MANAGER.into();
    entry["operation"] = "Update".into();
    entry["fieldsV1"] = fields.into();
    entry.as_object_mut().unwrap().remove("subresource");
    entries.push(entry);
    cluster.update_as(&installed, MANAGER).await.unwrap();
}

fn unite(fields: &mut Map<String, Value>, others: &Map<String, Value>) {
    for (key, other) in others {
        let field = fields.entry(key).or_insert_with(|| json!({}));
        if let (Some(field), Some(other)) = (field.as_object_mut(), other.as_object()) {
            unite(field, other);
        }
    }
}
