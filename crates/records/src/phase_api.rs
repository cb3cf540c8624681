//! Requests about phase objects.

use baton_apis::constants::{ANNOTATION_PHASE_CLASS, FINALIZER_CACHED};
use baton_engine::operations::add;
use serde_json::json;

use crate::{
    api::{Api, ApiError},
    orphaned,
    phase::{PhaseKey, PhaseRecord},
};

impl Api {
    /// Prepares a phase object for delivery by a class: adds our finalizer, and notes the class and
    /// the entry that shows how the object is deleted (see `orphaned.rs`). Returns the new record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is no longer the one that was read.
    pub async fn set_up_phase(
        &self,
        phase: &PhaseRecord,
        class: &str,
    ) -> Result<PhaseRecord, ApiError> {
        let mut finalizers = phase.finalizers.clone();
        if !phase.has_finalizer(FINALIZER_CACHED) {
            finalizers.push(FINALIZER_CACHED.to_owned());
        }
        let note = if phase.annotations.is_empty() {
            let annotations = json!({ ANNOTATION_PHASE_CLASS: class });
            add(&["metadata", "annotations"], annotations)
        } else {
            add(&["metadata", "annotations", ANNOTATION_PHASE_CLASS], class)
        };
        let operations = vec![
            add(&["metadata", "finalizers"], finalizers.clone()),
            note,
            add(&["metadata", "managedFields", "-"], orphaned::entry()),
        ];
        let mut phase = self.patch_by(phase, operations).await?;
        phase.finalizers = finalizers;
        let annotations = &mut phase.annotations;
        annotations.insert(ANNOTATION_PHASE_CLASS.to_owned(), class.to_owned());
        Ok(phase)
    }

    /// Pauses a phase object or ends its pause. Returns the new record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is no longer the one that was read.
    pub async fn pause_phase(
        &self,
        phase: &PhaseRecord,
        paused: bool,
    ) -> Result<PhaseRecord, ApiError> {
        let body = json!({ "metadata": {}, "spec": { "paused": paused } });
        self.patch_whole(phase, body).await
    }

    /// Sets an annotation of a phase object, and pauses the phase or ends its pause. Returns the
    /// new record.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is no longer the one that was read.
    pub async fn annotate_phase(
        &self,
        phase: &PhaseRecord,
        (annotation, value): (&str, &str),
        paused: bool,
    ) -> Result<PhaseRecord, ApiError> {
        let metadata = json!({ "annotations": { annotation: value } });
        let body = json!({ "metadata": metadata, "spec": { "paused": paused } });
        self.patch_whole(phase, body).await
    }

    /// Deletes a phase object in the state that was read. The object exists until its finalizers
    /// are removed.
    ///
    /// # Errors
    /// [`ApiError::Changed`] if the object is in another state by now, or gone.
    pub async fn delete_phase(
        &self,
        key: &PhaseKey,
        uid: &str,
        resource_version: u64,
    ) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": uid, "resourceVersion": resource_version.to_string() },
        });
        self.delete_at(&key.path()?, &options).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use baton_apis::constants::LABEL_PHASE_CLASS;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;
    use serde_json::Value;
    use tower::service_fn;

    use super::*;
    use crate::{phase::PhaseKind, record::Record, revision::RevisionKind};

    /// An API whose requests are recorded, and answered with a version.
    fn recorded() -> (Api, Arc<Mutex<Vec<Value>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let sink = requests.clone();
        let service = service_fn(move |request: Request<Body>| {
            let sink = sink.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri().path());
                let content = request.headers()["content-type"]
                    .to_str()
                    .unwrap()
                    .to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                sink.lock().unwrap().push(json!([line, content, body]));
                let answer = json!({ "metadata": { "name": "web", "resourceVersion": "8", "generation": 1 } });
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        (Api::new(kube::Client::new(service, "default")), requests)
    }

    fn phase(annotations: &Value) -> PhaseRecord {
        let object = json!({"metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "finalizers": ["x"],
            "labels": {LABEL_PHASE_CLASS: "cluster.edge"}, "annotations": annotations,
        }});
        Record::read(PhaseKind(RevisionKind::ObjectSet), &object.to_string()).unwrap()
    }

    const PATH: &str = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectsetphases/web";

    #[tokio::test]
    async fn a_phase_is_set_up_by_one_patch_of_the_state_that_was_read() {
        let add = |path, value| json!({ "op": "add", "path": path, "value": value });
        let all = json!({ ANNOTATION_PHASE_CLASS: "cluster.edge" });
        let one = "/metadata/annotations/baton.run~1phase-class";
        for (annotations, note) in [
            (json!({}), add("/metadata/annotations", all)),
            (json!({"k": "v"}), add(one, json!("cluster.edge"))),
        ] {
            let (api, requests) = recorded();
            let phase = phase(&annotations);
            let after = api.set_up_phase(&phase, "cluster.edge").await.unwrap();
            assert_eq!(after.resource_version, 8);
            assert_eq!(after.finalizers, ["x", FINALIZER_CACHED]);
            assert_eq!(after.pinned_class(), Some("cluster.edge"));
            let sent = requests.lock().unwrap().clone();
            let operations = json!([
                {"op": "add", "path": "/metadata/finalizers", "value": ["x", FINALIZER_CACHED]},
                note,
                {"op": "add", "path": "/metadata/managedFields/-", "value": orphaned::entry()},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "replace", "path": "/metadata/uid", "value": "u"},
            ]);
            let expected = json!([
                format!("PATCH {PATH}"),
                "application/json-patch+json",
                operations
            ]);
            assert_eq!(sent, [expected]);
        }
    }

    #[tokio::test]
    async fn a_phase_is_deleted_in_the_state_that_was_read() {
        let (api, requests) = recorded();
        let phase = phase(&json!({}));
        api.delete_phase(&phase.key, &phase.uid, phase.resource_version)
            .await
            .unwrap();
        let sent = requests.lock().unwrap().clone();
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "uid": "u", "resourceVersion": "7" },
        });
        let expected = json!([format!("DELETE {PATH}"), "application/json", options]);
        assert_eq!(sent, [expected]);
    }
}
