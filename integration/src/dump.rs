//! The output that explains a failed test.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cluster::{Cluster, is_namespaced};
use crate::program::Log;

/// Number of lines of the manager's log that are printed.
const LOG_LINES: usize = 80;

/// Returns all that explains a failure in a namespace: deployments, revisions, managed objects,
/// events, and the log of the manager.
pub async fn of_namespace(cluster: &Cluster, namespace: &str, log: &Log) -> String {
    let mut text = ended_of(cluster);
    for kind in [
        "ObjectDeployment",
        "ClusterObjectDeployment",
        "ObjectSet",
        "ClusterObjectSet",
    ] {
        for found in cluster
            .list(&like("package-operator.run/v1alpha1", kind, namespace), "")
            .await
        {
            if is_namespaced(kind) || is_of(&found, namespace) {
                section(&mut text, kind, &found);
            }
        }
    }
    text.push_str(&objects_of(cluster, namespace).await);
    let _ = writeln!(text, "--- events");
    for event in cluster.list(&like("v1", "Event", namespace), "").await {
        let line = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{about}: {}: {}", line("reason"), line("message"));
    }
    let _ = writeln!(
        text,
        "--- log of the manager\n{}",
        log.about(namespace, LOG_LINES)
    );
    text
}

/// Returns the servers of the cluster's bed that have ended. Without them much fails that has
/// nothing to do with the manager.
#[must_use]
pub fn ended_of(cluster: &Cluster) -> String {
    let mut text = String::new();
    for ended in baton_hack::bed::ended(cluster.kubeconfig()) {
        let _ = writeln!(text, "--- {ended}");
    }
    text
}

/// Returns the objects in a namespace, of the kinds that most tests use.
pub async fn objects_of(cluster: &Cluster, namespace: &str) -> String {
    let mut text = String::new();
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("apps/v1", "Deployment"),
    ] {
        for object in cluster.list(&like(api_version, kind, namespace), "").await {
            if object["metadata"]["name"] != "kube-root-ca.crt" {
                section(&mut text, kind, &object);
            }
        }
    }
    text
}

fn section(text: &mut String, title: &str, object: &Value) {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for entry in metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            // The managers and their operations stay. The lists of fields are dropped, because they
            // would bury everything else.
            if let Some(entry) = entry.as_object_mut() {
                entry.retain(|key, _| {
                    ["manager", "operation", "subresource"].contains(&key.as_str())
                });
            }
        }
    }
    let yaml = serde_saphyr::to_string(&object).unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let _ = writeln!(text, "--- {title} {name}\n{yaml}");
}

fn like(api_version: &str, kind: &str, namespace: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "namespace": namespace } })
}

fn is_of(set: &Value, namespace: &str) -> bool {
    set["metadata"]["name"]
        .as_str()
        .is_some_and(|name| name.starts_with(namespace))
}
