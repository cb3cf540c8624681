//! Writes in clusters: numbers of pods, labels of pods, and selectors of Services. All other writes
//! are made by revisions.

use std::{collections::BTreeMap, fmt::Display};

use baton_apis::constants::shipper::{LABEL_RELEASE, LABEL_TRAFFIC_STATUS};
use baton_engine::{
    Gvk, ObjectKey,
    operations::{add, test},
};
use baton_kubernetes::{
    answer::is_failed_test,
    path,
    wire::{self, MediaType, call, failure},
};
use baton_releases::traffic::{label, selector::Selector};
use http::{Method, Request, StatusCode, header};
use k8s_openapi::api::{
    autoscaling::v1::Scale,
    core::v1::{Pod, Service},
};
use kube::{Client, api::ObjectMeta, client::Body};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    cluster::AppCluster,
    objects::{Scaled, deployments},
};

/// The field manager of these writes. It differs from the manager of revisions, which revert
/// changes of the fields that they own.
const FIELD_MANAGER: &str = "baton-releases";

/// The error of a request in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The object differs from the one that the decision is based on, or is deleted; its event has
    /// not arrived yet.
    #[error("the object has changed meanwhile")]
    Changed,
    /// The server refused the request or failed, or there was no answer.
    #[error("{0}")]
    Failed(String),
}

impl RequestError {
    fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// True if a kind has the number of pods in `spec.replicas` and reports `observedGeneration`. Any
/// other kind is scaled by its subresource.
pub(crate) fn is_built_in(kind: &Gvk) -> bool {
    matches!(kind.group.as_str(), "apps" | "")
}

impl AppCluster {
    /// Scales a workload of a built-in kind if its spec is unchanged. Returns the workload after the
    /// write.
    pub(crate) async fn scale(
        &self,
        kind: &Gvk,
        workload: &Scaled,
        replicas: i32,
    ) -> Result<Scaled, RequestError> {
        let path = self.path(kind, &workload.metadata).await?;
        let body = scale_patch(&workload.metadata, replicas);
        write(&self.client(), &path, MediaType::JsonPatch, &body).await
    }

    /// Reads the scale subresource of a workload of any other kind.
    pub(crate) async fn read_scale(
        &self,
        kind: &Gvk,
        workload: &Scaled,
    ) -> Result<Scale, RequestError> {
        let path = self.path(kind, &workload.metadata).await?;
        let request = wire::get(&format!("{path}/scale"), "application/json");
        send(
            &self.client(),
            request.map_err(RequestError::failed)?,
            false,
        )
        .await
    }

    /// Scales a workload of any other kind if its scale is unchanged.
    pub(crate) async fn write_scale(
        &self,
        kind: &Gvk,
        (workload, scale): (&Scaled, &Scale),
        replicas: i32,
    ) -> Result<Scale, RequestError> {
        let path = self.path(kind, &workload.metadata).await?;
        let body = json!({
            "metadata": {"resourceVersion": scale.metadata.resource_version},
            "spec": {"replicas": replicas},
        });
        write(
            &self.client(),
            &format!("{path}/scale"),
            MediaType::MergePatch,
            &body,
        )
        .await
    }

    /// Adds a pod to the traffic or removes it, by its label. Returns the pod after the write;
    /// `None` if no write is needed.
    pub(crate) async fn set_traffic(
        &self,
        pod: &Pod,
        enable: bool,
    ) -> Result<Option<Pod>, RequestError> {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let Some(body) = label_patch(&pod.metadata, &labels, enable) else {
            return Ok(None);
        };
        let path = object("/api/v1", "pods", &pod.metadata)?;
        write(&self.client(), &path, MediaType::JsonPatch, &body)
            .await
            .map(Some)
    }

    /// Sets the selector of a Service if the Service is unchanged. Returns the Service after the
    /// write.
    pub(crate) async fn set_selector(
        &self,
        service: &Service,
        selector: &Selector,
    ) -> Result<Service, RequestError> {
        let keys: BTreeMap<_, _> = selector.keys().into_iter().collect();
        let body = json!({
            "metadata": precondition(&service.metadata),
            "spec": {"selector": keys},
        });
        let path = object("/api/v1", "services", &service.metadata)?;
        write(&self.client(), &path, MediaType::MergePatch, &body).await
    }

    async fn path(&self, kind: &Gvk, meta: &ObjectMeta) -> Result<String, RequestError> {
        if *kind == deployments() {
            return object("/apis/apps/v1", "deployments", meta);
        }
        let key = ObjectKey {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            ..ObjectKey::default()
        };
        let resource = self
            .target
            .resolve(kind)
            .await
            .map_err(RequestError::failed)?;
        // The watch reports that the kind is gone.
        let resource = resource.ok_or(RequestError::Changed)?;
        resource.path_of(&key).map_err(RequestError::failed)
    }
}

/// The precondition that an object is unchanged.
fn precondition(meta: &ObjectMeta) -> Value {
    json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
}

/// The patch of a workload's number of pods. The controller of a new workload writes its status
/// several times, so the precondition is not its version but its uid, its Release, and its generation:
/// each change of the spec increases the generation, and so does a deletion.
fn scale_patch(meta: &ObjectMeta, replicas: i32) -> Value {
    let label = |labels: &BTreeMap<_, _>| labels.get(LABEL_RELEASE).cloned();
    let release = meta.labels.as_ref().and_then(label);
    json!([
        test(&["metadata", "uid"], meta.uid.clone()),
        test(&["metadata", "labels", LABEL_RELEASE], release),
        test(&["metadata", "generation"], meta.generation),
        add(&["spec", "replicas"], replicas),
    ])
}

/// The patch of a pod's traffic label and deletion cost. The status of a pod changes often, so the
/// precondition is not its version but its uid and the label.
fn label_patch(
    meta: &ObjectMeta,
    labels: &BTreeMap<String, String>,
    enable: bool,
) -> Option<Value> {
    let operation = label::patch(labels, enable)?;
    let mut patch = vec![test(&["metadata", "uid"], meta.uid.clone())];
    let found = labels.get(LABEL_TRAFFIC_STATUS);
    patch.extend(found.map(|value| test(&label::LABEL, value.clone())));
    patch.push(operation);
    patch.extend(label::cost_patch(meta, enable));
    Some(json!(patch))
}

/// The path of an object of a kind that every cluster has.
fn object(group_version: &str, plural: &str, meta: &ObjectMeta) -> Result<String, RequestError> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let collection = path::within(group_version, namespace, plural);
    let path = collection
        .and_then(|collection| path::object(&collection, meta.name.as_deref().unwrap_or_default()));
    path.map_err(RequestError::failed)
}

async fn write<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    content: MediaType,
    body: &Value,
) -> Result<T, RequestError> {
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("{path}?fieldManager={FIELD_MANAGER}"))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, content.as_str())
        .body(Body::from(body.to_string().into_bytes()));
    let request = request.map_err(RequestError::failed)?;
    send(client, request, content == MediaType::JsonPatch).await
}

/// Sends a request. `has_tests` is true for a JSON patch, which may contain tests.
async fn send<T: DeserializeOwned>(
    client: &Client,
    request: Request<Body>,
    has_tests: bool,
) -> Result<T, RequestError> {
    let reply = call(client, request).await.map_err(RequestError::failed)?;
    if !reply.status.is_success() {
        return Err(refusal(reply.status, &reply.body, has_tests));
    }
    serde_json::from_slice(&reply.body)
        .map_err(|error| RequestError::Failed(format!("unreadable answer: {error}")))
}

/// The error for a refused request.
fn refusal(code: StatusCode, body: &[u8], has_tests: bool) -> RequestError {
    let status = failure(code, body);
    match code {
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => RequestError::Changed,
        _ if has_tests && is_failed_test(code.as_u16(), &status) => RequestError::Changed,
        _ => RequestError::Failed(status.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> ObjectMeta {
        ObjectMeta {
            uid: Some("u".to_owned()),
            annotations: Some(BTreeMap::new()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_label_patch_tests_the_uid_and_the_previous_value() {
        let uid = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
        let path = "/metadata/labels/shipper-traffic-status";
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(
            label_patch(&meta(), &labels, true),
            Some(json!([uid, {"op": "add", "path": path, "value": "enabled"}]))
        );
        let labels = BTreeMap::from([("shipper-traffic-status".to_owned(), "enabled".to_owned())]);
        assert_eq!(
            label_patch(&meta(), &labels, false),
            Some(json!([
                uid,
                {"op": "test", "path": path, "value": "enabled"},
                {"op": "replace", "path": path, "value": "disabled"},
                {
                    "op": "add", "value": "-1",
                    "path": "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost",
                },
            ]))
        );
        assert_eq!(label_patch(&meta(), &labels, true), None);
    }

    #[test]
    fn a_scale_patch_tests_the_uid_the_release_and_the_generation() {
        let meta = ObjectMeta {
            generation: Some(3),
            resource_version: Some("7".to_owned()),
            labels: Some(BTreeMap::from([(
                "shipper-release".to_owned(),
                "r".to_owned(),
            )])),
            ..meta()
        };
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/labels/shipper-release", "value": "r"},
            {"op": "test", "path": "/metadata/generation", "value": 3},
            {"op": "add", "path": "/spec/replicas", "value": 2},
        ]);
        assert_eq!(scale_patch(&meta, 2), expected);
    }

    #[test]
    fn a_failed_json_patch_test_means_that_the_object_changed() {
        let body = |details: Value| {
            let status = json!({
                "kind": "Status", "status": "Failure", "reason": "Invalid", "message": "m", "details": details,
                "code": 422,
            });
            status.to_string().into_bytes()
        };
        let rule =
            json!({"causes": [{"reason": "FieldValueInvalid", "message": "x", "field": "spec"}]});
        let invalid = StatusCode::UNPROCESSABLE_ENTITY;
        let failed = RequestError::Failed("m".to_owned());
        for (code, details, has_tests, expected) in [
            (invalid, json!({}), true, RequestError::Changed),
            (invalid, json!({}), false, failed.clone()),
            (invalid, rule, true, failed.clone()),
            (
                StatusCode::CONFLICT,
                json!({}),
                false,
                RequestError::Changed,
            ),
            (
                StatusCode::NOT_FOUND,
                json!({}),
                false,
                RequestError::Changed,
            ),
            (StatusCode::FORBIDDEN, json!({}), true, failed),
        ] {
            assert_eq!(refusal(code, &body(details), has_tests), expected, "{code}");
        }
    }
}
