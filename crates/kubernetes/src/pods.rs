//! Pods of a workload, for the words about why it does not come up. They are not watched: there may be very many, and
//! only those of workloads that fail are asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::{path, target::Target, wire};

/// How many pods of a workload are looked at.
const MOST: usize = 50;

impl Target {
    /// Some of the pods in a namespace that the `spec.selector` of a workload selects, as the server has them now: one
    /// request. None when they cannot be read: they are to explain something else, and are not worth words of their
    /// own.
    pub async fn pods(&self, namespace: &str, selector: &Value) -> Vec<Value> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<Value>,
        }
        let Some(path) = pods_path(namespace, selector) else {
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

/// Where the pods are listed that a selector selects; nowhere if it is malformed, or selects every pod there is.
#[must_use]
pub fn pods_path(namespace: &str, selector: &Value) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    let selector = Selector::try_from(selector).ok()?.to_string();
    let collection = path::within("/api/v1", namespace, "pods").ok()?;
    let selector = (!selector.is_empty()).then(|| wire::escape(&selector))?;
    Some(format!(
        "{collection}?labelSelector={selector}&limit={MOST}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_pods_of_the_workload_are_asked_for() {
        let path = pods_path("shop", &json!({ "matchLabels": { "app": "web" } })).unwrap();
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
            assert_eq!(pods_path("shop", &selector), None, "{selector}");
        }
        assert_eq!(
            pods_path("a/b", &json!({ "matchLabels": { "app": "web" } })),
            None
        );
    }
}
