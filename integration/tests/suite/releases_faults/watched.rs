//! Invariants of a whole run: they are checked in every state, not only when a test polls.

use std::collections::BTreeMap;

use baton_integration::application::{TestApplication, condition};
use baton_integration::prelude::*;

use super::APP;

/// Recordings of an application's objects in its clusters.
pub(crate) struct Watched {
    clusters: Vec<RecordedCluster>,
}

struct RecordedCluster {
    cluster: String,
    pods: Recording,
    services: Recording,
    slices: Recording,
}

impl Watched {
    /// Starts to record an application that has a complete Release.
    pub(crate) async fn start(app: &TestApplication<'_>) -> Self {
        let mut places = Vec::new();
        for app_cluster in &app.clusters {
            let follow = async |api: &str, kind: &str, labels: &str| {
                let like = app.ns.reference(&object(api, kind, "any"));
                Recording::start(&app_cluster.cluster, &like, labels).await
            };
            places.push(RecordedCluster {
                cluster: app_cluster.joined.name().to_owned(),
                pods: follow("v1", "Pod", &format!("shipper-app={APP}")).await,
                services: follow("v1", "Service", "").await,
                slices: follow("discovery.k8s.io/v1", "EndpointSlice", "").await,
            });
        }
        Self { clusters: places }
    }

    /// Fails unless at every moment so far, in each cluster, at least this number of pods was
    /// ready, at least one of them was served, and every Service existed with one controller.
    pub(crate) async fn assert(&self, pods: usize) {
        for app_cluster in &self.clusters {
            let text = &app_cluster.cluster;
            each_state(app_cluster.pods.so_far().await, |state, trace| {
                let ready = state.values().filter(|pod| is_ready(pod)).count();
                assert!(ready >= pods, "{text}: {ready} of {pods} pods: {trace:#?}");
            });
            each_state(app_cluster.slices.so_far().await, |state, trace| {
                let served = state.values().map(served).sum::<usize>();
                assert!(served > 0, "{text}: no release gets traffic: {trace:#?}");
            });
            let services = app_cluster.services.so_far().await;
            let lost = services.count(Change::Deleted);
            assert_eq!(lost, 0, "{text}: a Service was deleted");
            let later = services.events.iter().map(|event| &event.object);
            for service in services.start.values().chain(later) {
                let controllers = controllers(service);
                assert_eq!(controllers, 1, "{text}: {service:#}");
            }
        }
    }
}

impl Watched {
    /// Fails unless at every moment so far, in each cluster, at least this number of pods were
    /// ready endpoints of a Service.
    pub(crate) async fn assert_served(&self, wanted: usize) {
        for app_cluster in &self.clusters {
            let text = &app_cluster.cluster;
            each_state(app_cluster.slices.so_far().await, |state, trace| {
                let served = state.values().map(served).sum::<usize>();
                assert!(
                    served >= wanted,
                    "{text}: {served} of {wanted} pods are served: {trace:#?}"
                );
            });
        }
    }
}

/// Checks the objects at the start and after each event. The check also gets the last events.
fn each_state(recorded: Recorded, check: impl Fn(&BTreeMap<String, Value>, &[String])) {
    let mut state = recorded.start;
    let mut trace = Vec::new();
    check(&state, &trace);
    for event in recorded.events {
        let metadata = &event.object["metadata"];
        let name = metadata["name"].as_str().unwrap().to_owned();
        let ready = is_ready(&event.object);
        if trace.len() > 12 {
            trace.remove(0);
        }
        let served = served(&event.object);
        trace.push(format!(
            "{:?} {name} ready: {ready}, addresses: {served}",
            event.change
        ));
        if event.change == Change::Deleted {
            state.remove(&name);
        } else {
            state.insert(name, event.object);
        }
        check(&state, &trace);
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready") == "True"
}

/// Returns the number of ready endpoints of a slice.
fn served(slice: &Value) -> usize {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|it| it["conditions"]["ready"] == true);
    ready.count()
}

/// Returns the number of an object's controllers, in its own cluster and in another one.
fn controllers(object: &Value) -> usize {
    let annotation = annotation(object, "package-operator.run/owners");
    let remote: Vec<Value> = serde_json::from_str(annotation).unwrap_or_default();
    let all = owners(object).iter().chain(&remote);
    all.filter(|owner| owner["controller"] == true).count()
}
