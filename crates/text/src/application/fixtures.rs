//! An Application in the middle of a rollout, for tests.
#![allow(dead_code, reason = "the tests of two crates use them, each some")]

use baton_view::{
    applications::{observed::Observed, target::AppTarget},
    lists::{List, Lists},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The present time of the tests.
pub const NOW: Timestamp = Timestamp::constant(1_767_229_200, 0);

const API: &str = "shipper.booking.com/v1alpha1";
const THEN: &str = "2026-01-01T00:00:00Z";

pub fn environment(version: &str, replicas: i64) -> Value {
    let step = |name: &str, incumbent: i64, contender: i64| {
        json!({
            "name": name,
            "capacity": { "incumbent": incumbent, "contender": contender },
            "traffic": { "incumbent": incumbent, "contender": contender },
        })
    };
    json!({
        "chart": { "name": "nginx", "version": version, "repoUrl": "https://charts.example.com" },
        "values": { "replicaCount": replicas },
        "clusterRequirements": { "regions": [{ "name": "eu", "replicas": 2 }] },
        "strategy": { "steps": [step("staging", 100, 1), step("50/50", 50, 50), step("full on", 0, 100)] },
    })
}

pub fn application(environment: &Value) -> Value {
    json!({
        "apiVersion": API, "kind": "Application",
        "metadata": {
            "name": "shop", "namespace": "ns", "uid": "u-app", "resourceVersion": "7",
            "annotations": {
                "shipper.booking.com/app.chart.name": "nginx",
                "shipper.booking.com/app.chart.version.raw": "~1",
                "shipper.booking.com/app.chart.version.resolved": "1.1.0",
                "shipper.booking.com/app.highestObservedGeneration": "1",
            },
        },
        "spec": { "revisionHistoryLimit": 20, "template": environment },
        "status": {
            "history": ["shop-old-0", "shop-new-0"],
            "conditions": [condition(
                "RollingOut", "True", "", "Transitioning from \"shop-old-0\" to \"shop-new-0\"",
            )],
        },
    })
}

pub fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": THEN,
    })
}

/// A Release with the name `shop-<id>-0`.
pub fn release(
    id: &str,
    generation: i64,
    target_step: i64,
    environment: &Value,
    status: &Value,
) -> Value {
    json!({
        "apiVersion": API, "kind": "Release",
        "metadata": {
            "name": format!("shop-{id}-0"), "namespace": "ns", "uid": format!("u-{id}"),
            "creationTimestamp": THEN,
            "labels": { "shipper-app": "shop", "shipper-release": format!("shop-{id}-0") },
            "annotations": {
                "shipper.booking.com/release.generation": generation.to_string(),
                "shipper.booking.com/release.clusters": "north,south",
            },
        },
        "spec": { "targetStep": target_step, "environment": environment },
        "status": status,
    })
}

pub fn complete() -> Value {
    json!({
        "achievedStep": { "step": 2, "name": "full on" },
        "conditions": [condition("Complete", "True", "", "")],
        "strategy": { "conditions": [strategy("ContenderAchievedInstallation", true, 2, "")] },
    })
}

pub fn strategy(type_: &str, holds: bool, step: i64, message: &str) -> Value {
    json!({
        "type": type_, "status": if holds { "True" } else { "False" }, "step": step,
        "reason": if holds { "" } else { "ClustersNotReady" }, "message": message,
        "lastTransitionTime": THEN,
    })
}

/// A status that reports a step as achieved.
pub fn at_step(step: i64, name: &str) -> Value {
    let types = [
        "ContenderAchievedCapacity",
        "ContenderAchievedInstallation",
        "ContenderAchievedTraffic",
        "IncumbentAchievedCapacity",
        "IncumbentAchievedTraffic",
    ];
    json!({
        "achievedStep": { "step": step, "name": name },
        "conditions": [condition("Scheduled", "True", "", "")],
        "strategy": { "conditions": types.map(|type_| strategy(type_, true, step, "")) },
    })
}

/// A target cluster: name, wanted percentage of pods, number of ready pods of 6, wanted and
/// achieved weight.
type Cluster<'a> = (&'a str, i64, i64, i64, i64);

/// The targets of a Release.
pub fn targets(id: &str, clusters: &[Cluster]) -> Vec<Value> {
    let metadata = json!({
        "name": format!("shop-{id}-0"), "namespace": "ns", "generation": 1,
        "labels": { "shipper-app": "shop", "shipper-release": format!("shop-{id}-0") },
    });
    let each =
        |make: &dyn Fn(&Cluster) -> Value| -> Vec<Value> { clusters.iter().map(make).collect() };
    let ready = json!([
        condition("Operational", "True", "", ""),
        condition("Ready", "True", "", "")
    ]);
    let capacity = |it: &Cluster| {
        let wanted = (6 * it.1 + 99) / 100;
        let conditions = if it.2 >= wanted {
            ready.clone()
        } else {
            let message = "1 out of 3: PodInitializing";
            json!([condition("Ready", "False", "InProgress", message)])
        };
        json!({
            "name": it.0, "availableReplicas": it.2, "achievedPercent": (it.2 * 100 + 5) / 6,
            "conditions": conditions,
        })
    };
    vec![
        json!({
            "apiVersion": API, "kind": "InstallationTarget", "metadata": metadata,
            "spec": { "clusters": each(&|it| it.0.into()), "canOverride": false },
            "status": { "clusters": each(&|it| json!({ "name": it.0, "conditions": ready })) },
        }),
        json!({
            "apiVersion": API, "kind": "CapacityTarget", "metadata": metadata,
            "spec": { "clusters": each(&|it| json!({
                "name": it.0, "percent": it.1, "totalReplicaCount": 6,
            })) },
            "status": { "observedGeneration": 1, "clusters": each(&capacity) },
        }),
        json!({
            "apiVersion": API, "kind": "TrafficTarget", "metadata": metadata,
            "spec": { "clusters": each(&|it| json!({ "name": it.0, "weight": it.3 })) },
            "status": { "observedGeneration": 1, "clusters": each(&|it| json!({
                "name": it.0, "achievedTraffic": it.4, "conditions": ready,
            })) },
        }),
    ]
}

/// A rollout whose first step is achieved, and whose second step lacks pods in one cluster.
pub fn mid_rollout() -> Vec<Value> {
    let (old, new) = (environment("1.0.0", 6), environment("1.1.0", 6));
    let mut status = at_step(0, "staging");
    let message = "release \"shop-new-0\" hasn't achieved capacity in clusters: north: InProgress";
    let conditions = status["strategy"]["conditions"].as_array_mut().unwrap();
    conditions[0] = strategy("ContenderAchievedCapacity", false, 1, message);
    conditions[1]["step"] = 1.into();
    let mut objects = vec![
        application(&new),
        release("old", 0, 2, &old, &complete()),
        release("new", 1, 1, &new, &status),
    ];
    objects.extend(targets(
        "old",
        &[("north", 100, 6, 100, 100), ("south", 100, 6, 100, 100)],
    ));
    objects.extend(targets(
        "new",
        &[("north", 50, 2, 0, 0), ("south", 50, 3, 0, 0)],
    ));
    let south = objects.len() - 2;
    objects[south]["status"]["clusters"][0]["achievedPercent"] = 40.into();
    objects[south]["status"]["clusters"][1]["achievedPercent"] = 60.into();
    objects
}

/// The observed state of the Application `shop` with these objects.
pub fn observed(objects: &[Value]) -> Observed {
    named(objects, &AppTarget::application("shop"))
}

/// The observed state of the target that a user names, with these objects.
pub fn named(objects: &[Value], target: &AppTarget) -> Observed {
    let of = |kind: &str| -> List {
        let found = objects.iter().filter(|object| object["kind"] == kind);
        found.cloned().collect()
    };
    let (installation, capacity) = (of("InstallationTarget"), of("CapacityTarget"));
    let targets = [&installation, &capacity, &of("TrafficTarget")];
    let (application, releases) = (of("Application"), of("Release"));
    let (lists, key) = (Lists::default(), ("ns", "shop"));
    Observed::new(&lists, target, key, application.first(), &releases, targets).unwrap()
}
