//! Pods of a workload, read to explain why the workload does not become available. They are not
//! watched: there may be very many, and only the pods of failing workloads are needed.

use baton_apis::url;
use baton_engine::redact::parse_error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    path,
    target::Target,
    wire::{self, METADATA_LIST, WireError, has_items},
};

/// Number of pods of a workload that are read.
pub const MAX_PODS: usize = 50;

impl Target {
    /// Reads at most [`MAX_PODS`] of the pods that the `spec.selector` of a workload selects in a
    /// namespace, by one request. The result is empty if the pods cannot be read. Pods are only read
    /// to explain a failure of the workload, so an error is not reported.
    pub async fn pods(&self, namespace: &str, selector: &Value) -> Vec<Value> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<Value>,
        }
        let Some(path) = pods_path(namespace, selector, MAX_PODS) else {
            return Vec::new();
        };
        let Ok(request) = wire::get(&path, "application/json") else {
            return Vec::new();
        };
        let _permit = self.0.permits.acquire(namespace).await;
        let Ok(reply) = wire::call(&self.0.client, request).await else {
            return Vec::new();
        };
        let list = serde_json::from_slice::<List>(&reply.body);
        list.map_or_else(|_| Vec::new(), |list| list.items)
    }
}

/// It is unknown if pods run.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The selector is malformed, or selects all pods.
    #[error("its selector is not valid")]
    Selector,
    /// The request got no response.
    #[error("its pods cannot be listed: {0}")]
    Request(#[from] WireError),
    /// The server refuses the request.
    #[error("its pods cannot be listed: {0}")]
    Refused(String),
    /// The response is no list.
    #[error("its pods cannot be listed: {}", parse_error(.0))]
    Answer(#[from] serde_json::Error),
}

impl Target {
    /// Reports if pods that the `spec.selector` of a workload selects in a namespace have neither
    /// succeeded nor failed; terminating pods count. One request, for the metadata of one pod.
    ///
    /// # Errors
    /// If that is unknown.
    pub async fn runs_pods(&self, namespace: &str, selector: &Value) -> Result<bool, PodsError> {
        let path = pods_path(namespace, selector, 1).ok_or(PodsError::Selector)?;
        let running = url::escape("status.phase!=Succeeded,status.phase!=Failed");
        let request = wire::get(&format!("{path}&fieldSelector={running}"), METADATA_LIST)?;
        let _permit = self.0.permits.acquire(namespace).await;
        let reply = wire::call(&self.0.client, request).await?;
        if !reply.status.is_success() {
            let status = wire::failure(reply.status, &reply.body);
            return Err(PodsError::Refused(status.message));
        }
        Ok(has_items(&reply.body)?)
    }
}

/// Path that lists at most `most` of the pods that a selector selects; `None` if the selector is
/// malformed, or selects all pods.
pub fn pods_path(namespace: &str, selector: &Value, most: usize) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    let selector = Selector::try_from(selector).ok()?.to_string();
    let collection = path::within("/api/v1", namespace, "pods").ok()?;
    let selector = (!selector.is_empty()).then(|| url::escape(&selector))?;
    Some(format!(
        "{collection}?labelSelector={selector}&limit={most}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_pods_of_the_workload_are_asked_for() {
        let path = pods_path("shop", &json!({ "matchLabels": { "app": "web" } }), 50).unwrap();
        assert_eq!(
            path,
            "/api/v1/namespaces/shop/pods?labelSelector=app%3Dweb&limit=50"
        );
        for selector in [
            json!({}),
            json!(null),
            json!("app=web"),
            json!({ "matchExpressions": 1 }),
        ] {
            assert_eq!(pods_path("shop", &selector, 50), None, "{selector}");
        }
        assert_eq!(
            pods_path("a/b", &json!({ "matchLabels": { "app": "web" } }), 50),
            None
        );
    }
}
