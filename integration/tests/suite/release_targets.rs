//! Capacity and traffic of Releases, by targets that the test creates. The target cluster is the
//! test's own cluster under another name, because it has nodes.

use std::collections::BTreeSet;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site, join_hub};

use crate::kinds::definition;

const API_VERSION: &str = "shipper.booking.com/v1alpha1";

/// Returns an object of a Release of the application `web`.
fn of_release(api_version: &str, kind: &str, release: &str) -> Entry {
    object(api_version, kind, release)
        .label("shipper-app", "web")
        .label("shipper-release", release)
}

/// Returns a workload of a Release, without pods.
fn workload(kind: &str, release: &str, image: &str) -> Entry {
    let labels = json!({ "shipper-app": "web", "shipper-release": release, "kind": kind });
    of_release("apps/v1", kind, release).with(
        "/spec",
        json!({
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{ "name": "app", "image": image }],
                },
            },
        }),
    )
}

fn deployment(release: &str) -> Entry {
    workload("Deployment", release, "good")
}

fn service() -> Entry {
    object("v1", "Service", "web")
        .label("shipper-app", "web")
        .label("shipper-lb", "production")
        .with(
            "/spec",
            json!({
                "selector": { "shipper-app": "web", "shipper-traffic-status": "enabled" },
                "ports": [{ "port": 80 }],
            }),
        )
}

fn capacity(release: &str, cluster: &str, percent: i32, total: i32) -> Entry {
    let cluster = json!({ "name": cluster, "percent": percent, "totalReplicaCount": total });
    of_release(API_VERSION, "CapacityTarget", release)
        .with("/spec", json!({ "clusters": [cluster] }))
}

fn traffic(release: &str, cluster: &str, weight: u32) -> Entry {
    of_release(API_VERSION, "TrafficTarget", release).with("/spec", weights(&[(cluster, weight)]))
}

fn weights(clusters: &[(&str, u32)]) -> Value {
    let cluster = |(name, weight): &(&str, u32)| json!({ "name": name, "weight": weight });
    json!({ "clusters": clusters.iter().map(cluster).collect::<Vec<_>>() })
}

/// Returns a condition as `Status/Reason message`.
fn condition(conditions: &Value, type_: &str) -> String {
    let mut all = conditions.as_array().into_iter().flatten();
    let found = all.find(|found| found["type"] == type_);
    let found = found.cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let said = format!("{}/{} {}", text("status"), text("reason"), text("message"));
    said.trim_end_matches(' ').trim_end_matches('/').to_owned()
}

/// Returns a condition of the first cluster of a target.
fn in_cluster(target: &Value, type_: &str) -> String {
    condition(&target["status"]["clusters"][0]["conditions"], type_)
}

/// True if a target is ready for its current spec.
fn is_ready(target: &Value) -> bool {
    let status = &target["status"];
    status["observedGeneration"] == target["metadata"]["generation"]
        && condition(&status["conditions"], "Ready") == "True"
}

async fn becomes_ready(ns: &TestNamespace, target: &Entry) -> Value {
    ns.object_becomes(target, "ready", is_ready).await
}

/// Waits until a target is unchanged for longer than the delay of debounced status writes.
async fn settles(ns: &TestNamespace, target: &Entry) {
    let version = async || ns.live(target).await["metadata"]["resourceVersion"].clone();
    ns.eventually("nothing to be written any more", async || {
        let before = version().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        version().await == before
    })
    .await;
}

/// Changes the spec of a target, and waits until the target is ready with it.
async fn change(ns: &TestNamespace, target: &Entry, spec: Value) -> Value {
    ns.merge(target, &json!({ "spec": spec })).await;
    becomes_ready(ns, target).await
}

/// Creates a Release with pods.
async fn release(ns: &TestNamespace, cluster: &str, name: &str, pods: i32) {
    ns.create(&deployment(name)).await;
    let capacity = capacity(name, cluster, 100, pods);
    ns.create(&capacity).await;
    becomes_ready(ns, &capacity).await;
}

/// Returns the pods of a Release that are not being deleted.
async fn pods(ns: &TestNamespace, release: &str) -> Vec<Value> {
    let like = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": ns.name() } });
    let labels = format!("shipper-app=web,shipper-release={release}");
    let pods = ns.cluster().list(&like, &labels).await;
    let lives = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
    pods.into_iter().filter(lives).collect()
}

fn names(pods: &[Value]) -> BTreeSet<String> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    pods.iter().map(name).collect()
}

/// Returns the number of pods of a Release that have the label for traffic.
async fn enabled(ns: &TestNamespace, release: &str) -> usize {
    let pods = pods(ns, release).await;
    let is_enabled =
        |pod: &&Value| pod["metadata"]["labels"]["shipper-traffic-status"] == "enabled";
    pods.iter().filter(is_enabled).count()
}

/// Returns the names of the pods that the Service sends traffic to.
async fn served(ns: &TestNamespace) -> BTreeSet<String> {
    let like = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "namespace": ns.name() },
    });
    let slices = ns
        .cluster()
        .list(&like, "kubernetes.io/service-name=web")
        .await;
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    ready
        .map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the selector of the Service.
async fn selector(ns: &TestNamespace) -> Value {
    ns.live(&service()).await["spec"]["selector"].clone()
}

fn by_label() -> Value {
    json!({ "shipper-app": "web", "shipper-traffic-status": "enabled" })
}

fn by_release(release: &str) -> Value {
    json!({ "shipper-app": "web", "shipper-release": release })
}

async fn set_up() -> (TestNamespace, Joined) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = join_hub(&ns, &site).await;
    (ns, joined)
}

/// The capacity target scales the workload to its percentage, and again after another client has
/// scaled it.
#[tokio::test]
async fn a_deployment_has_its_share_of_pods() {
    let (ns, joined) = set_up().await;
    let target = capacity("web-1", joined.name(), 50, 10);
    ns.create(&deployment("web-1")).await;
    ns.create(&target).await;
    let ready = becomes_ready(&ns, &target).await;
    let status = &ready["status"]["clusters"][0];
    assert_eq!(
        (
            &status["availableReplicas"],
            &status["achievedPercent"],
            &status["status"]
        ),
        (&json!(5), &json!(50), &json!("Synced"))
    );
    assert_eq!(status["reports"][0]["owner"]["name"], "web-1");
    assert_eq!(
        condition(&ready["status"]["conditions"], "Operational"),
        "True"
    );
    assert_eq!(ns.live(&deployment("web-1")).await["spec"]["replicas"], 5);

    ns.merge(&deployment("web-1"), &json!({ "spec": { "replicas": 7 } }))
        .await;
    ns.object_becomes(&deployment("web-1"), "scaled back", |live| {
        live["spec"]["replicas"] == 5
            && live["status"]["observedGeneration"] == live["metadata"]["generation"]
    })
    .await;
    settles(&ns, &target).await;
    becomes_ready(&ns, &target).await;
    for (percent, pods) in [(100, 10), (1, 1), (0, 0)] {
        let spec = json!({ "clusters": [
            { "name": joined.name(), "percent": percent, "totalReplicaCount": 10 },
        ]});
        change(&ns, &target, spec).await;
        assert_eq!(
            ns.live(&deployment("web-1")).await["spec"]["replicas"],
            pods
        );
    }
}

#[tokio::test]
async fn a_cluster_that_was_cut_off_is_updated_when_it_is_back() {
    let (ns, joined) = set_up().await;
    let target = capacity("web-1", joined.name(), 50, 4);
    ns.create(&deployment("web-1")).await;
    ns.create(&target).await;
    becomes_ready(&ns, &target).await;
    let address = joined.read().await.unwrap()["spec"]["apiMaster"].clone();
    joined
        .change_spec(&json!({ "apiMaster": "https://127.0.0.1:9" }))
        .await;
    let said = format!("False/ServerError cluster \"{}\" ", joined.name());
    let is_cut_off = |live: &Value| in_cluster(live, "Operational").starts_with(&said);
    let live = ns.object_becomes(&target, "cut off", is_cut_off).await;
    assert_eq!(in_cluster(&live, "Ready"), "Unknown");
    let spec = json!({ "clusters": [
        { "name": joined.name(), "percent": 100, "totalReplicaCount": 4 },
    ]});
    ns.merge(&target, &json!({ "spec": spec })).await;
    ns.merge(&deployment("web-1"), &json!({ "spec": { "replicas": 1 } }))
        .await;
    joined.change_spec(&json!({ "apiMaster": address })).await;
    let ready = becomes_ready(&ns, &target).await;
    assert_eq!(ready["status"]["clusters"][0]["availableReplicas"], 4);
}

/// The `Ready` condition gives the reason for which the target waits, and pods that fail are listed
/// as sad pods.
#[tokio::test]
async fn a_capacity_target_reports_why_it_waits() {
    let (ns, joined) = set_up().await;
    let target = capacity("web-1", joined.name(), 100, 2);
    ns.create(&target).await;
    let waits = |reason: String| {
        let (ns, target) = (&ns, &target);
        async move {
            let said = reason.clone();
            ns.object_becomes(target, &reason, |live| in_cluster(live, "Ready") == said)
                .await
        }
    };
    let selector = "shipper-app=web,shipper-release=web-1";
    let missing =
        format!("expected 1 apps/v1, Kind=Deployment for selector \"{selector}\", got 0 instead");
    waits(format!("False/MissingDeployment {missing}")).await;

    ns.create(&workload("Deployment", "web-1", "broken")).await;
    let sad = "2/2: 2x\"app\" containers with [ImagePullBackOff]";
    let live = waits(format!("False/PodsNotReady {sad}")).await;
    assert_eq!(
        live["status"]["clusters"][0]["sadPods"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    settles(&ns, &target).await;
    assert_eq!(
        condition(&live["status"]["conditions"], "Ready"),
        format!(
            "False/ClustersNotReady {}: PodsNotReady {sad}",
            joined.name()
        )
    );

    ns.delete(&deployment("web-1")).await;
    waits(format!("False/MissingDeployment {missing}")).await;
    let quota =
        object("v1", "ResourceQuota", "none").with("/spec", json!({ "hard": { "pods": "0" } }));
    ns.create(&quota).await;
    ns.object_becomes(&quota, "in force", |live| {
        live["status"]["hard"]["pods"] == "0"
    })
    .await;
    ns.create(&deployment("web-1")).await;
    let is_stuck = |live: &Value| {
        in_cluster(live, "Ready").starts_with("False/WrongPodCount pods \"web-1-")
            && in_cluster(live, "Ready").contains("exceeded quota")
    };
    ns.object_becomes(&target, "stuck", is_stuck).await;

    let elsewhere =
        json!({ "clusters": [{ "name": "nowhere", "percent": 1, "totalReplicaCount": 1 }] });
    ns.merge(&target, &json!({ "spec": elsewhere })).await;
    let unknown =
        "cluster \"nowhere\" unknown; please check if cluster exists in management cluster";
    let is_unknown =
        |live: &Value| in_cluster(live, "Operational") == format!("False/ServerError {unknown}");
    let live = ns
        .object_becomes(&target, "without a cluster", is_unknown)
        .await;
    assert_eq!(in_cluster(&live, "Ready"), "Unknown");
}

/// Workloads of several kinds share the pods in the proportions of the chart.
#[tokio::test]
async fn several_workloads_share_the_pods() {
    let (ns, joined) = set_up().await;
    let kinds = [("Deployment", "4"), ("StatefulSet", "2")];
    for (kind, replicas) in kinds {
        let entry = workload(kind, "web-1", "good")
            .annotation("baton.run/scaling", "steps")
            .annotation("baton.run/replicas", replicas);
        ns.create(&entry).await;
    }
    let target = capacity("web-1", joined.name(), 50, 6).annotation(
        "baton.run/workloads",
        "apps/v1/Deployment,apps/v1/StatefulSet",
    );
    ns.create(&target).await;
    let ready = becomes_ready(&ns, &target).await;
    assert_eq!(ready["status"]["clusters"][0]["availableReplicas"], 3);
    for ((kind, _), pods) in kinds.into_iter().zip([2, 1]) {
        assert_eq!(
            ns.live(&workload(kind, "web-1", "good")).await["spec"]["replicas"],
            pods
        );
    }
    assert_eq!(pods(&ns, "web-1").await.len(), 3);
}

/// Any kind with a scale subresource can be a workload. Its pods are found by the selector in its
/// scale.
#[tokio::test]
async fn any_kind_that_can_be_scaled_is_a_workload() {
    let (ns, joined) = set_up().await;
    let (crd, api_version) = definition(&ns);
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let scale = json!({
        "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".spec.pods",
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "subresources": { "scale": scale },
    });
    let target = capacity("web-1", joined.name(), 50, 4)
        .annotation("baton.run/workloads", &format!("{api_version}/Thing"));
    ns.create(&target).await;
    let said = "False/ClientError kind Thing not found on the Kubernetes cluster";
    ns.object_becomes(&target, said, |live| in_cluster(live, "Ready") == said)
        .await;

    ns.create_elsewhere(&crd.with("/spec/versions", json!([version])))
        .await;
    let thing = of_release(&api_version, "Thing", "web-1").with(
        "/spec",
        json!({ "count": 0, "pods": "shipper-release=web-1,role=thing" }),
    );
    ns.eventually("the kind to be served", async || {
        ns.cluster().create(&ns.reference(&thing)).await.is_ok()
    })
    .await;
    ns.object_becomes(&thing, "scaled", |live| live["spec"]["count"] == 2)
        .await;
    for (name, role) in [("a", "thing"), ("b", "thing"), ("c", "other")] {
        let labels = json!({ "shipper-app": "web", "shipper-release": "web-1", "role": role });
        let pod = object("v1", "Pod", name).with("/metadata/labels", labels);
        let container = json!({ "name": "app", "image": "good" });
        ns.create(&pod.with("/spec", json!({ "containers": [container] })))
            .await;
    }
    let ready = becomes_ready(&ns, &target).await;
    assert_eq!(ready["status"]["clusters"][0]["availableReplicas"], 2);
    let spec = json!({ "clusters": [
        { "name": joined.name(), "percent": 0, "totalReplicaCount": 4 },
    ]});
    ns.merge(&target, &json!({ "spec": spec })).await;
    ns.object_becomes(&thing, "scaled down", |live| live["spec"]["count"] == 0)
        .await;
}

/// Traffic moves to the next Release, and the selector of the Service follows.
#[tokio::test]
async fn traffic_moves_from_one_release_to_the_next() {
    let (ns, joined) = set_up().await;
    let cluster = joined.name();
    ns.create(&service()).await;
    release(&ns, cluster, "old", 4).await;
    let old = traffic("old", cluster, 100);
    ns.create(&old).await;
    let live = becomes_ready(&ns, &old).await;
    assert_eq!(live["status"]["clusters"][0]["achievedTraffic"], 100);
    assert_eq!(enabled(&ns, "old").await, 4);
    ns.object_becomes(&service(), "that of the one Release", |live| {
        live["spec"]["selector"] == by_release("old")
    })
    .await;

    release(&ns, cluster, "new", 4).await;
    let new = traffic("new", cluster, 0);
    ns.create(&new).await;
    becomes_ready(&ns, &new).await;
    assert_eq!(enabled(&ns, "new").await, 0);

    // Both Releases have traffic.
    let live = change(&ns, &new, weights(&[(cluster, 100)])).await;
    assert_eq!(live["status"]["clusters"][0]["achievedTraffic"], 100);
    becomes_ready(&ns, &old).await;
    assert_eq!(
        (enabled(&ns, "old").await, enabled(&ns, "new").await),
        (4, 4)
    );
    assert_eq!(selector(&ns).await, by_label());

    let live = change(&ns, &old, weights(&[(cluster, 0)])).await;
    assert_eq!(live["status"]["clusters"][0]["achievedTraffic"], 0);
    becomes_ready(&ns, &new).await;
    assert_eq!(
        (enabled(&ns, "old").await, enabled(&ns, "new").await),
        (0, 4)
    );
    let all = names(&pods(&ns, "new").await);
    ns.eventually("the new Release to have the Service", async || {
        selector(&ns).await == by_release("new") && served(&ns).await == all
    })
    .await;
}

/// The `Ready` condition reports a missing Service, and the number of pods that are not ready.
#[tokio::test]
async fn a_traffic_target_reports_missing_pods() {
    let (ns, joined) = set_up().await;
    let cluster = joined.name();
    release(&ns, cluster, "web-1", 2).await;
    let target = traffic("web-1", cluster, 10);
    ns.create(&target).await;
    let selector = "shipper-app=web,shipper-lb=production";
    let missing =
        format!("expected 1 /v1, Kind=Service for selector \"{selector}\", got 0 instead");
    ns.object_becomes(&target, "without a Service", |live| {
        in_cluster(live, "Ready") == format!("False/MissingService {missing}")
    })
    .await;
    ns.create(&service()).await;
    becomes_ready(&ns, &target).await;
    let labels = json!({ "shipper-app": "web", "shipper-release": "web-1" });
    let third = object("v1", "Pod", "third")
        .with("/metadata/labels", labels)
        .with(
            "/spec",
            json!({ "containers": [{ "name": "app", "image": "good" }] }),
        );
    ns.create(&third).await;
    ns.eventually("a third pod to be served", async || {
        served(&ns).await.len() == 3
    })
    .await;
    becomes_ready(&ns, &target).await;
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let reference = ns.reference(&third);
    ns.cluster()
        .merge_status(&reference, &unready)
        .await
        .unwrap();
    let said = "False/PodsNotReady 1/3 pods designated to receive traffic are not ready";
    let live = ns
        .object_becomes(&target, said, |live| in_cluster(live, "Ready") == said)
        .await;
    assert_eq!(live["status"]["clusters"][0]["achievedTraffic"], 7);

    let second = traffic("web-1", cluster, 10).with("/metadata/name", "another");
    ns.create(&second).await;
    let said = format!(
        "False/InternalError multiple TrafficTargets for the same release \"{}/web-1\": [another web-1]",
        ns.name()
    );
    for target in [&target, &second] {
        ns.object_becomes(target, &said, |live| {
            condition(&live["status"]["conditions"], "Operational") == said
        })
        .await;
    }
    ns.delete(&second).await;
    ns.object_becomes(&target, "right again", |live| {
        condition(&live["status"]["conditions"], "Operational") == "True"
    })
    .await;
}

/// Pods that are created while no manager runs are served by the Service, because its selector
/// names the Release.
#[tokio::test]
async fn pods_that_are_replaced_while_the_manager_is_down_are_served() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = join_hub(&ns, &site).await;
    ns.create(&service()).await;
    release(&ns, joined.name(), "web-1", 3).await;
    let target = traffic("web-1", joined.name(), 100);
    ns.create(&target).await;
    becomes_ready(&ns, &target).await;
    ns.object_becomes(&service(), "that of the one Release", |live| {
        live["spec"]["selector"] == by_release("web-1")
    })
    .await;

    bed.take_manager().kill();
    let old = names(&pods(&ns, "web-1").await);
    for name in &old {
        ns.delete(&object("v1", "Pod", name)).await;
    }
    ns.eventually("the new pods to be served", async || {
        let new = names(&pods(&ns, "web-1").await);
        new.len() == 3 && new.is_disjoint(&old) && served(&ns).await == new
    })
    .await;
    assert_eq!(enabled(&ns, "web-1").await, 0, "no manager labels them");

    bed.start_manager();
    ns.eventually("the new pods to be labelled", async || {
        enabled(&ns, "web-1").await == 3
    })
    .await;
    becomes_ready(&ns, &target).await;
    assert_eq!(selector(&ns).await, by_release("web-1"));
}
